"""Operations that are written for speed. Some of them have different code for CPUs and for accelerators.

The model (`model.py`) and incremental decoding call them. `jax.lax.platform_dependent` chooses the code for the
platform that the program will run on. The program may be compiled on another platform.

Letters in shapes: B sentences, K hypotheses of a beam, T positions of the cache, h heads.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int, Key, Shaped, UInt32


@jax.custom_vjp
def product(x: Float[Array, "*n d_in"], W: Float[Array, "d_in d_out"]) -> Float[Array, "*n d_out"]:
    """xW, with a gradient that XLA computes faster on a CPU.

    Let ∂ be the gradient of the output. For the gradient of W, JAX computes the transpose of ∂ᵀ·x. This function
    computes xᵀ·∂. The barrier makes XLA compute ∂ once for both gradients. Without it XLA computes ∂ twice, the second
    time transposed. An update takes a tenth less time.
    """
    return jnp.einsum("...i,ij->...j", x, W)


def _product_forward(x: Array, W: Array) -> tuple[Array, tuple[Array, Array]]:
    return product(x, W), (x, W)


def _product_backward(residuals: tuple[Array, Array], d_y: Array) -> tuple[Array, Array]:
    x, W = residuals
    d_y = jax.lax.optimization_barrier(d_y)
    rows, d_rows = x.reshape(-1, x.shape[-1]), d_y.reshape(-1, d_y.shape[-1])
    return jnp.einsum("...j,ij->...i", d_y, W), jnp.einsum("ni,nj->ij", rows, d_rows)


product.defvjp(_product_forward, _product_backward)


def random_bits(key: Key[Array, ""], shape: tuple[int, ...]) -> UInt32[Array, "..."]:
    """Uniform 32-bit numbers. Each is a hash of the element's index and the key: two rounds of MurmurHash3's finaliser.

    XLA computes these few multiplications where the numbers are used. `jax.random.bits` would write its numbers to
    memory and read them again, in the forward and in the backward pass. On a CPU that is a sixth of an update's time.
    """
    first, second = jax.random.key_data(key)
    index = jnp.arange(np.prod(shape), dtype=jnp.uint32).reshape(shape)
    return mix(mix(index * jnp.uint32(0x9E3779B9) + first) ^ second)


def mix(x: UInt32[Array, "*n"]) -> UInt32[Array, "*n"]:
    """A bijection of 32-bit numbers. A change of one input bit changes about half of the output bits."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def cached_attention(
    Q: Float[Array, "B K h d_k"], K: Float[Array, "B T K h d_k"], V: Float[Array, "B T K h d_v"], length: Int[Array, ""]
) -> Float[Array, "B K h d_v"]:
    """Equation 1 for one query of each hypothesis, over the first `length` positions of its cache.

    The rest of the cache is empty. On a CPU a loop goes through the filled positions and does not read the rest. On an
    accelerator one pass of a loop costs more than reading the whole cache, so the whole cache is read at once.
    """
    return jax.lax.platform_dependent(
        Q, K, V, length, cpu=_attention_position_by_position, default=_attention_over_all_positions
    )


def _attention_over_all_positions(Q: Array, K: Array, V: Array, length: Array) -> Array:
    scores = jnp.einsum("bkhd,btkhd->bkht", Q, K, preferred_element_type=jnp.float32) / np.sqrt(Q.shape[-1])
    scores = jnp.where(jnp.arange(K.shape[1]) < length, scores, jnp.finfo(scores.dtype).min)
    weights = jax.nn.softmax(scores, axis=-1)
    return jnp.einsum("bkht,btkhd->bkhd", weights.astype(V.dtype), V)


def _attention_position_by_position(Q: Array, K: Array, V: Array, length: Array) -> Array:
    """A loop that keeps the softmax's maximum and sum so far (Milakov and Gimelshein 2018)."""
    Q = Q.astype(jnp.float32)  # 16-bit products are summed in 32 bits, as in `model.attention`

    def add_position(t: Array, so_far: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        maximum, total, output = so_far
        key, value = (jax.lax.dynamic_index_in_dim(x, t, axis=1, keepdims=False) for x in (K, V))
        score = jnp.sum(Q * key, axis=-1) / np.sqrt(Q.shape[-1])  # [B, K, h]
        new_maximum = jnp.maximum(maximum, score)
        rescale, weight = jnp.exp(maximum - new_maximum), jnp.exp(score - new_maximum)
        return new_maximum, total * rescale + weight, output * rescale[..., None] + weight[..., None] * value

    zero = jnp.zeros(Q.shape[:-1], jnp.float32)
    start = zero - jnp.inf, zero, jnp.zeros((*Q.shape[:-1], V.shape[-1]), jnp.float32)
    _, total, output = jax.lax.fori_loop(0, length, add_position, start)
    return (output / total[..., None]).astype(V.dtype)


def reorder_hypotheses(
    x: Shaped[Array, "B T K h d"], parents: Int[Array, "B K"], length: Int[Array, ""]
) -> Shaped[Array, "B T K h d"]:
    """x[b, t, parents[b, k]] for each hypothesis k and each of the first `length` positions t.

    As in `cached_attention`, a CPU moves only the filled positions, and an accelerator moves all of them at once.
    """
    return jax.lax.platform_dependent(
        x, parents, length, cpu=_reorder_position_by_position, default=_reorder_all_positions
    )


def _reorder_all_positions(x: Array, parents: Array, length: Array | None = None) -> Array:
    return jnp.take_along_axis(x, parents[:, None, :, None, None], axis=2)


def _reorder_position_by_position(x: Array, parents: Array, length: Array) -> Array:
    def reorder_position(t: Array, x: Array) -> Array:
        position = jax.lax.dynamic_slice_in_dim(x, t, 1, axis=1)
        return jax.lax.dynamic_update_slice_in_dim(x, _reorder_all_positions(position, parents), t, axis=1)

    return jax.lax.fori_loop(0, length, reorder_position, x)
