"""The paper's arguments as small experiments on the model's own parts, for `vaswani paper` and its figures."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array

from vaswani.model import AddNorm, FeedForward, MultiHeadAttention, Transformer, attention, build, sinusoids
from vaswani.schema import ModelConfig
from vaswani.training.loss import Loss, smoothed_cross_entropy

SEED = 1706
SMALL = ModelConfig(N=2, d_model=64, d_ff=256, h=4, d_k=16, d_v=16)


@cache
def small_model() -> tuple[nnx.GraphDef, Any]:
    """(graphdef, params) of a freshly initialised model with a vocabulary of 40 tokens."""
    graphdef, _ = jax.eval_shape(lambda: build(SMALL, vocab_size=40))
    return graphdef, jax.jit(lambda: build(SMALL, vocab_size=40)[1])()


def one_head(Q: Any, K: Any, V: Any, *, scaled: bool = True, causal: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The model's attention function for one head.

    Args:
        Q, K: [queries, d_k] and [keys, d_k].
        V: [keys, d_v].
        scaled: False undoes the division by √d_k.
        causal: each query attends only to keys up to its own position.

    Returns:
        Weights [queries, keys] and output [queries, d_v].
    """
    Q, K, V = (jnp.asarray(x, jnp.float32)[:, None] for x in (Q, K, V))
    weights, output = _one_head(Q if scaled else Q * np.sqrt(Q.shape[-1]), K, V, causal)
    return np.asarray(weights), np.asarray(output)


@partial(jax.jit, static_argnums=3)
def _one_head(Q: Array, K: Array, V: Array, causal: bool) -> tuple[Array, Array]:
    mask = jnp.tri(Q.shape[0], dtype=bool) if causal else None
    output, weights = attention(Q, K, V, mask)
    return weights[0], output[:, 0]


# --- footnote 4: why the scores are divided by √d_k ---


@dataclass(frozen=True)
class Saturation:
    """Softmax over 8 keys. The elements of queries and keys are independent, with mean 0 and variance 1."""

    largest_weight: float
    """Mean over 2000 queries."""
    jacobian_norm: float
    """Median, over the queries, of the Frobenius norm of ∂weights/∂scores."""


def dot_product_variance(rng: np.random.Generator, d_k: int, pairs: int = 100_000) -> float:
    """The variance of q·k over random pairs. Footnote 4: it is d_k."""
    q = rng.standard_normal((pairs, d_k))
    # k is drawn in slices, which give the same numbers and need less memory.
    return float(np.concatenate([np.sum(part * rng.standard_normal(part.shape), axis=1) for part in _slices(q)]).var())


def _slices(x: np.ndarray, length: int = 10_000) -> Iterator[np.ndarray]:
    for start in range(0, len(x), length):
        yield x[start : start + length]


def saturation(rng: np.random.Generator, d_k: int) -> tuple[Saturation, Saturation]:
    """The saturation without and with the division by √d_k."""
    queries, keys = rng.standard_normal((2000, d_k)), rng.standard_normal((8, d_k))
    unscaled, scaled = (_saturation(one_head(queries, keys, keys, scaled=scaled)[0]) for scaled in (False, True))
    return unscaled, scaled


def _saturation(weights: np.ndarray) -> Saturation:
    norms = np.linalg.norm(softmax_jacobian(weights), axis=(1, 2))
    return Saturation(float(weights.max(axis=1).mean()), float(np.median(norms)))


def softmax_jacobian(p: np.ndarray) -> np.ndarray:
    """diag(p) - p pᵀ for each row of p: [n, keys] -> [n, keys, keys]."""
    p = np.asarray(p, np.float64)
    return p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])


# --- section 3.1: why Add & Norm ---


@cache
def depth_gradient_norms(layers: int) -> tuple[float, float]:
    """The norm of the gradient at the input of a stack of feed-forward layers. At the output the norm is 1.

    Returns:
        The norm with residual connections, x + FFN(x), and with Add & Norm, LayerNorm(x + FFN(x)).
    """

    def sub_layer(rngs: nnx.Rngs) -> nnx.List:
        return nnx.List([FeedForward(SMALL, rngs), AddNorm(SMALL, rngs)])

    graphdef, _ = nnx.split(sub_layer(nnx.Rngs(0)))
    keys = jax.random.split(jax.random.key(SEED), layers)
    stack = jax.jit(jax.vmap(lambda key: nnx.split(sub_layer(nnx.Rngs(key)))[1]))(keys)

    @jax.jit
    def gradient_norms(stack: Any) -> tuple[Array, Array]:
        x, downstream = jax.random.normal(jax.random.key(1), (2, 8, SMALL.d_model))

        def output(x: Array, norm: bool) -> Array:
            def layer(x: Array, params: Any) -> tuple[Array, None]:
                feed_forward, add_norm = nnx.merge(graphdef, params)
                y = feed_forward(x)
                return (add_norm(x, y) if norm else x + y), None

            return jnp.vdot(jax.lax.scan(layer, x, stack)[0], downstream / jnp.linalg.norm(downstream))

        plain, normed = (jnp.linalg.norm(jax.grad(output)(x, norm)) for norm in (False, True))
        return plain, normed

    plain, normed = gradient_norms(stack)
    return float(plain), float(normed)


# --- section 3.2.2: many heads ---


@cache
def heads_summed_difference() -> float:
    """Largest difference between Concat(head_1, …, head_h)·W_O and Σ head_i·W_Oⁱ. W_Oⁱ: the i-th d_v rows of W_O."""
    config = ModelConfig()

    @jax.jit
    def difference() -> Array:
        module = MultiHeadAttention(config, nnx.Rngs(0))
        x = jax.random.normal(jax.random.key(SEED), (1, 10, config.d_model))
        heads, _ = attention(module.queries(x), *module.keys_values(x))  # [1, 10, h, d_v]
        W_O = module.W_O.kernel[...].reshape(config.h, config.d_v, config.d_model)
        summed = sum(heads[:, :, i] @ W_O[i] for i in range(config.h))
        return jnp.abs(module.output(heads) - summed).max()

    return float(difference())


# --- section 3.2.3: no leak from the future ---


@cache
def leak_from_the_future() -> tuple[float, float]:
    """The influence of target tokens 5, 6, … on the decoder's outputs at tokens 0 to 4.

    Returns:
        The largest change of the outputs if other tokens replace the later ones, and the largest gradient of the
        outputs with respect to the embeddings of the later tokens.
    """
    graphdef, params = small_model()
    tokens = jnp.arange(4, 34).reshape(3, 10)  # no token twice: each embedding belongs to one position
    source, target, other = tokens[:1], tokens[1:2], tokens[2:]
    positions, ones = jnp.arange(10)[None], jnp.ones((2, 10), jnp.int32)
    targets = jnp.concatenate([target, jnp.where(positions >= 5, other, target)])

    @jax.jit
    def leaks(params: Any) -> tuple[Array, Array]:
        def early_outputs(params: Any) -> Array:
            model = nnx.merge(graphdef, params)
            memory = model.encode(jnp.repeat(source, 2, axis=0), ones, positions * ones)
            return model.decode(targets, ones, positions * ones, memory, ones)[:, :5]

        outputs, pull_back = jax.vjp(early_outputs, params)
        (gradient,) = pull_back(jax.random.normal(jax.random.key(SEED), outputs.shape).at[1].set(0))
        return jnp.abs(outputs[0] - outputs[1]).max(), jnp.abs(gradient["embedding"]["table"][target[0, 5:]]).max()

    change, gradient = leaks(params)
    return float(change), float(gradient)


# --- section 3.5: order ---


@cache
def permutation_error(positions: bool) -> float:
    """Largest difference between the encoder's outputs for two swapped tokens and its swapped outputs.

    Args:
        positions: with the positional encoding.
    """
    graphdef, params = small_model()
    swapped = np.arange(10)
    swapped[[2, 7]] = swapped[[7, 2]]

    @jax.jit
    def encode(source: Array) -> Array:
        model: Transformer = nnx.merge(graphdef, params)
        x = model.embedding(source)
        if positions:
            x += model.source_positions(jnp.arange(10)[None], 10)
        for layer in model.encoder:
            x = layer(x, jnp.ones((1, 10, 10), bool), None)
        return x

    source = jnp.arange(4, 14)[None]
    return float(jnp.abs(encode(source)[:, swapped] - encode(source[:, swapped])).max())


def wavelengths(d_model: int) -> np.ndarray:
    """The wavelength of each pair of dimensions, in positions: from the angle between positions 0 and 1."""
    sine, cosine = np.asarray(sinusoids(2, d_model), np.float64)[1].reshape(-1, 2).T
    return 2 * np.pi / np.arctan2(sine, cosine)


def shift_error(k: int) -> float:
    """Largest difference between PE(pos + k) and M·PE(pos) over 1000 positions. M depends on k only."""
    length = 1000
    table = np.asarray(sinusoids(length + k, 512), np.float64).reshape(length + k, -1, 2)
    sine, cosine = table[k].T
    M = np.stack([np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)], axis=-2)  # [pairs, 2, 2]: rotations
    return float(np.abs(table[k:] - np.einsum("pij,npj->npi", M, table[:length])).max())


# --- section 5.4: label smoothing ---


def smoothed_target(V: int, epsilon: float) -> np.ndarray:
    """The target distribution of the loss [V], if token V - 1 is right: softmax(logits) - ∂loss/∂logits."""
    logits, targets = jnp.zeros((1, V)), jnp.array([V - 1])

    def smoothed(logits: Array) -> Array:
        loss: Loss = smoothed_cross_entropy(logits, jnp.eye(V), targets, epsilon)
        return loss.smoothed

    gradient = jax.grad(smoothed)(logits)
    return np.asarray(jax.nn.softmax(logits) - gradient)[0]


def smoothed_loss(probabilities: Any, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Loss [n] and -log P [n] in nats of predicted probabilities [n, V], if the last token is right."""
    logits = jnp.log(jnp.asarray(probabilities, jnp.float32))
    V = logits.shape[1]
    target = jnp.array([V - 1])
    loss = jax.vmap(lambda row: smoothed_cross_entropy(row[None], jnp.eye(V), target, epsilon))(logits)
    return np.asarray(loss.smoothed), np.asarray(loss.nll)
