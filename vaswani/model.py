"""The Transformer of "Attention Is All You Need" (Figure 1), whole, in the paper's order.

Shapes are written with the letters
    B  batch (sentences, or packed rows)     S, T  source and target length     V  vocabulary
    h  heads     d_k, d_v  widths of a head's keys and values     K  hypotheses of a beam
Parameters, softmax and LayerNorm are float32; `dtype` is the type of the matrix products and of the residual stream.

A row may hold several sentence pairs. Segment ids say which: 0 is padding, 1, 2, … the pairs. A token sees only
tokens of its own segment, in all three attentions, so a packed pair gives what it would give alone.

Every initial value (the paper is silent; tensor2tensor's `transformer_base_v1` decides):
    W_Q, W_K, W_V, W_O, W_1, W_2     Glorot uniform over the matrix as the paper writes it, all heads side by side
    b_1, b_2                         0
    embedding, learned positions     normal, standard deviation d_model^-0.5
    LayerNorm                        scale 1, bias 0
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array
from jaxtyping import Bool, Float, Int, Key, UInt32

from vaswani.schema import ModelConfig

glorot_uniform = nnx.initializers.glorot_uniform()
LAYER_NORM_EPSILON = 1e-6


def attention(
    Q: Float[Array, "*batch q h d_k"],
    K: Float[Array, "*batch k h d_k"],
    V: Float[Array, "*batch k h d_v"],
    mask: Bool[Array, "*batch q k"] | None = None,
) -> tuple[Float[Array, "*batch q h d_v"], Float[Array, "*batch h q k"]]:
    """Scaled dot-product attention (section 3.2.1, equation 1): softmax(QKᵀ/√d_k)V.

    Args:
        Q, K, V: queries, keys and values, one slice a head.
        mask: True where a query may see a key; the weight is exactly 0 elsewhere, as long as it sees any.

    Returns:
        the output, and the weights (float32, each row sums to 1).
    """
    scores = jnp.einsum("...qhd,...khd->...hqk", Q, K, preferred_element_type=jnp.float32) / np.sqrt(Q.shape[-1])
    if mask is not None:
        # The smallest finite number, not -inf: a query that may see nothing (padding) stays finite, gradients too.
        scores = jnp.where(mask[..., None, :, :], scores, jnp.finfo(scores.dtype).min)
    weights = jax.nn.softmax(scores, axis=-1)  # [..., h, q, k]
    return jnp.einsum("...hqk,...khd->...qhd", weights.astype(V.dtype), V), weights


def attention_so_far(
    Q: Float[Array, "B K h d_k"], K: Float[Array, "B T K h d_k"], V: Float[Array, "B T K h d_v"], length: Int[Array, ""]
) -> Float[Array, "B K h d_v"]:
    """Equation 1 for one query of each hypothesis, over the first `length` positions of its cache.

    On a CPU, position after position, with the softmax's maximum and sum so far (Milakov and Gimelshein 2018), so that
    the rest of the cache, mostly empty, is not read. A pass of a loop costs an accelerator more than reading it all.
    """
    if jax.default_backend() != "cpu":
        seen = jnp.broadcast_to(jnp.arange(K.shape[1]) < length, (*Q.shape[:2], 1, K.shape[1]))
        return attention(Q[:, :, None], K.swapaxes(1, 2), V.swapaxes(1, 2), seen)[0][:, :, 0]

    Q = Q.astype(jnp.float32)  # products of 16-bit numbers are summed in 32 bits, as in `attention`

    def see(t: Array, so_far: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        maximum, total, output = so_far
        key, value = (jax.lax.dynamic_index_in_dim(x, t, axis=1, keepdims=False) for x in (K, V))
        score = jnp.sum(Q * key, axis=-1) / np.sqrt(Q.shape[-1])  # [B, K, h]
        new_maximum = jnp.maximum(maximum, score)
        rescale, weight = jnp.exp(maximum - new_maximum), jnp.exp(score - new_maximum)
        return new_maximum, total * rescale + weight, output * rescale[..., None] + weight[..., None] * value

    nothing = jnp.zeros(Q.shape[:-1], jnp.float32)
    start = nothing - jnp.inf, nothing, jnp.zeros((*Q.shape[:-1], V.shape[-1]), jnp.float32)
    _, total, output = jax.lax.fori_loop(0, length, see, start)
    return (output / total[..., None]).astype(V.dtype)


class Linear(nnx.Module):
    """xW, or xW + b."""

    def __init__(self, d_in: int, d_out: int, config: ModelConfig, rngs: nnx.Rngs, bias: bool = False):
        self.dtype = config.dtype
        self.kernel = nnx.Param(glorot_uniform(rngs.params(), (d_in, d_out)))
        self.bias = nnx.Param(jnp.zeros(d_out)) if bias else None

    def __call__(self, x: Float[Array, "*n d_in"]) -> Float[Array, "*n d_out"]:
        y = product(x.astype(self.dtype), self.kernel[...].astype(self.dtype))
        return y if self.bias is None else y + self.bias[...].astype(self.dtype)


@jax.custom_vjp
def product(x: Float[Array, "*n d_in"], W: Float[Array, "d_in d_out"]) -> Float[Array, "*n d_out"]:
    """xW, whose derivative with respect to W is computed as xᵀ·∂: JAX's own rule takes the transpose of ∂ᵀ·x.

    The barrier has ∂ computed once for both derivatives; XLA would compute it anew, transposed and slowly, for the
    second. On a CPU an update takes a tenth less.
    """
    return jnp.einsum("...i,ij->...j", x, W)


def _product_backward(saved, d_y):
    x, W = saved
    d_y = jax.lax.optimization_barrier(d_y)
    rows, d_rows = x.reshape(-1, x.shape[-1]), d_y.reshape(-1, d_y.shape[-1])
    return jnp.einsum("...j,ij->...i", d_y, W), jnp.einsum("ni,nj->ij", rows, d_rows)


product.defvjp(lambda x, W: (product(x, W), (x, W)), _product_backward)


class MultiHeadAttention(nnx.Module):
    """Section 3.2.2: Concat(head_1, …, head_h) W_O with head_i = Attention(QW_Qⁱ, KW_Kⁱ, VW_Vⁱ). No biases."""

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
        d_model, h, d_k, d_v = config.d_model, config.h, config.d_k, config.d_v
        self.heads = (h, d_k, d_v)
        self.W_Q = Linear(d_model, h * d_k, config, rngs)
        self.W_K = Linear(d_model, h * d_k, config, rngs)
        self.W_V = Linear(d_model, h * d_v, config, rngs)
        self.W_O = Linear(h * d_v, d_model, config, rngs)

    def __call__(
        self, x: Float[Array, "B q d"], memory: Float[Array, "B k d"], mask: Bool[Array, "B q k"]
    ) -> Float[Array, "B q d"]:
        """`x` asks, `memory` (itself, for self-attention) answers."""
        return self.output(attention(self.queries(x), *self.keys_values(memory), mask)[0])

    def queries(self, x: Float[Array, "*n d"]) -> Float[Array, "*n h d_k"]:
        h, d_k, _ = self.heads
        return self.W_Q(x).reshape(*x.shape[:-1], h, d_k)

    def keys_values(self, x: Float[Array, "*n d"]) -> tuple[Float[Array, "*n h d_k"], Float[Array, "*n h d_v"]]:
        h, d_k, d_v = self.heads
        return self.W_K(x).reshape(*x.shape[:-1], h, d_k), self.W_V(x).reshape(*x.shape[:-1], h, d_v)

    def output(self, heads: Float[Array, "*n h d_v"]) -> Float[Array, "*n d"]:
        return self.W_O(heads.reshape(*heads.shape[:-2], -1))


class FeedForward(nnx.Module):
    """Section 3.3, equation 2: max(0, xW_1 + b_1)W_2 + b_2."""

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
        self.W_1 = Linear(config.d_model, config.d_ff, config, rngs, bias=True)
        self.W_2 = Linear(config.d_ff, config.d_model, config, rngs, bias=True)

    def __call__(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        return self.W_2(nnx.relu(self.W_1(x)))


class AddNorm(nnx.Module):
    """LayerNorm(x + Dropout(Sublayer(x))) (sections 3.1 and 5.4): the norm comes after the sum."""

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
        self.P_drop, self.dtype = config.P_drop, config.dtype
        self.norm = nnx.LayerNorm(
            config.d_model, epsilon=LAYER_NORM_EPSILON, dtype=jnp.float32, use_fast_variance=False, rngs=rngs
        )

    def __call__(
        self, x: Float[Array, "*n d"], sublayer_output: Float[Array, "*n d"], key: Key[Array, ""] | None = None
    ) -> Float[Array, "*n d"]:
        return self.norm(x + dropout(sublayer_output, self.P_drop, key)).astype(self.dtype)


class EncoderLayer(nnx.Module):
    """Figure 1, left."""

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
        self.self_attention = MultiHeadAttention(config, rngs)
        self.self_attention_norm = AddNorm(config, rngs)
        self.feed_forward = FeedForward(config, rngs)
        self.feed_forward_norm = AddNorm(config, rngs)

    def __call__(
        self, x: Float[Array, "B S d"], mask: Bool[Array, "B S S"], key: Key[Array, ""] | None
    ) -> Float[Array, "B S d"]:
        key_1, key_2 = split_key(key, 2)
        x = self.self_attention_norm(x, self.self_attention(x, x, mask), key_1)
        return self.feed_forward_norm(x, self.feed_forward(x), key_2)


class DecoderLayer(nnx.Module):
    """Figure 1, right."""

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
        self.self_attention = MultiHeadAttention(config, rngs)
        self.self_attention_norm = AddNorm(config, rngs)
        self.cross_attention = MultiHeadAttention(config, rngs)
        self.cross_attention_norm = AddNorm(config, rngs)
        self.feed_forward = FeedForward(config, rngs)
        self.feed_forward_norm = AddNorm(config, rngs)

    def __call__(
        self,
        x: Float[Array, "B T d"],
        memory: Float[Array, "B S d"],
        self_mask: Bool[Array, "B T T"],
        cross_mask: Bool[Array, "B T S"],
        key: Key[Array, ""] | None,
    ) -> Float[Array, "B T d"]:
        key_1, key_2, key_3 = split_key(key, 3)
        x = self.self_attention_norm(x, self.self_attention(x, x, self_mask), key_1)
        x = self.cross_attention_norm(x, self.cross_attention(x, memory, cross_mask), key_2)
        return self.feed_forward_norm(x, self.feed_forward(x), key_3)

    def step(
        self, x: Float[Array, "B K d"], position: Int[Array, ""], cache: "LayerCache", source_mask: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B K d"], "LayerCache"]:
        """The same layer for one new position of K hypotheses a sentence, the earlier ones' keys and values cached."""
        keys, values = self.self_attention.keys_values(x)  # [B, K, h, d]
        cache = cache._replace(
            keys=jax.lax.dynamic_update_index_in_dim(cache.keys, keys, position, axis=1),
            values=jax.lax.dynamic_update_index_in_dim(cache.values, values, position, axis=1),
        )
        heads = attention_so_far(self.self_attention.queries(x), cache.keys, cache.values, position + 1)
        x = self.self_attention_norm(x, self.self_attention.output(heads))
        # The hypotheses of a sentence stand where a target's positions stand, so the source is never copied for each.
        cross_mask = jnp.broadcast_to(source_mask[:, None], (*x.shape[:2], source_mask.shape[-1]))
        keys, values = cache.cross_keys.swapaxes(-3, -2), cache.cross_values.swapaxes(-3, -2)
        heads, _ = attention(self.cross_attention.queries(x), keys, values, cross_mask)
        x = self.cross_attention_norm(x, self.cross_attention.output(heads))
        return self.feed_forward_norm(x, self.feed_forward(x)), cache


class Embedding(nnx.Module):
    """The one matrix shared by source, target and the projection before the softmax (section 3.4)."""

    def __init__(self, config: ModelConfig, vocab_size: int, rngs: nnx.Rngs):
        self.d_model, self.dtype = config.d_model, config.dtype
        self.table = normal_table(vocab_size, config, rngs)

    def __call__(self, ids: Int[Array, "*n"]) -> Float[Array, "*n d"]:
        return self.table[ids] * np.sqrt(self.d_model)

    def logits(self, x: Float[Array, "*n d"]) -> Float[Array, "*n V"]:
        """Float32, without bias."""
        table = self.table[...].astype(self.dtype)
        return jnp.einsum("...d,vd->...v", x.astype(self.dtype), table, preferred_element_type=jnp.float32)


class Positions(nnx.Module):
    """What is added to an embedding to tell where it stands (section 3.5)."""

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
        self.d_model = config.d_model
        self.learned = normal_table(config.max_positions, config, rngs) if config.positions == "learned" else None

    def __call__(self, positions: Int[Array, "*n"], length: int) -> Float[Array, "*n d"]:
        """Encodings of `positions`, all of them < `length`."""
        table = sinusoids(length, self.d_model) if self.learned is None else self.learned[...]
        return table[positions]


def sinusoids(length: int, d_model: int) -> Float[Array, "length d_model"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(the same) (section 3.5), interleaved.

    >>> [round(float(x), 4) for x in sinusoids(4, 512)[3, :2]]
    [0.1411, -0.99]
    """
    # Computed in float64 outside the program: float32 angles are off by 1e-4 at position 1000.
    angle = np.arange(length)[:, None] / 10_000 ** (np.arange(0, d_model, 2) / d_model)
    table = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, d_model)
    return jnp.asarray(table, jnp.float32)


class LayerCache(NamedTuple):
    """What one decoder layer remembers of a search: T positions of K hypotheses for each of B sources.

    A step writes, reads and moves its own positions one by one, so a position's keys lie together. The source's heads
    stand before positions, as the products of attention need them: no step transposes them.
    """

    keys: Float[Array, "B T K h d_k"]
    values: Float[Array, "B T K h d_v"]
    cross_keys: Float[Array, "B h S d_k"]
    cross_values: Float[Array, "B h S d_v"]


class Cache(NamedTuple):
    """The state of incremental decoding, passed in and out of `Transformer.decode_step`."""

    layers: tuple[LayerCache, ...]
    source_mask: Bool[Array, "B S"]


class Transformer(nnx.Module):
    """Figure 1. Holds no random state: a dropout key is an argument, and without one there is no dropout."""

    def __init__(self, config: ModelConfig, vocab_size: int, rngs: nnx.Rngs):
        self.config = config
        self.embedding = Embedding(config, vocab_size, rngs)
        self.source_positions = Positions(config, rngs)
        self.target_positions = Positions(config, rngs)  # a table of its own, where learned
        self.encoder = nnx.List([EncoderLayer(config, rngs) for _ in range(config.N)])
        self.decoder = nnx.List([DecoderLayer(config, rngs) for _ in range(config.N)])

    def encode(
        self,
        source: Int[Array, "B S"],
        segments: Int[Array, "B S"],
        positions: Int[Array, "B S"],
        dropout_key: Key[Array, ""] | None = None,
    ) -> Float[Array, "B S d"]:
        """Args:
            source: token ids, each sentence with its end symbol.
            segments: 0 for padding, else the number of the pair within the row.
            positions: from 0, restarting with each segment.
            dropout_key: None for no dropout.

        Returns:
            the encoder's output ("memory"), d_model wide.
        """
        keys = split_key(dropout_key, self.config.N + 1)
        x = self.embed(source, self.source_positions(positions, source.shape[1]), keys[0])
        mask = same_segment(segments, segments)
        for layer, key in zip(self.encoder, keys[1:], strict=True):
            x = layer(x, mask, key)
        return x

    def decode(
        self,
        target_input: Int[Array, "B T"],
        segments: Int[Array, "B T"],
        positions: Int[Array, "B T"],
        memory: Float[Array, "B S d"],
        source_segments: Int[Array, "B S"],
        dropout_key: Key[Array, ""] | None = None,
    ) -> Float[Array, "B T d"]:
        """Teacher-forced decoding of whole targets at once.

        Args:
            target_input: the begin symbol, then the target without its end symbol (section 3.1: shifted right).
            segments, positions: as in `encode`.
            memory: what `encode` returned for the row's sources, whose segments are `source_segments`.

        Returns:
            the decoder's output; `logits` makes the scores of the next token of it.
        """
        keys = split_key(dropout_key, self.config.N + 1)
        x = self.embed(target_input, self.target_positions(positions, target_input.shape[1]), keys[0])
        self_mask = same_segment(segments, segments) & jnp.tri(target_input.shape[1], dtype=bool)
        cross_mask = same_segment(segments, source_segments)
        for layer, key in zip(self.decoder, keys[1:], strict=True):
            x = layer(x, memory, self_mask, cross_mask, key)
        return x

    def logits(self, x: Float[Array, "*n d"]) -> Float[Array, "*n V"]:
        """Unnormalised log-probabilities of the next token, float32."""
        return self.embedding.logits(x)

    def embed(
        self, ids: Int[Array, "*n"], positions: Float[Array, "*n d"], key: Key[Array, ""] | None = None
    ) -> Float[Array, "*n d"]:
        return dropout(self.embedding(ids) + positions, self.config.P_drop, key).astype(self.config.dtype)

    def init_cache(
        self, memory: Float[Array, "B S d"], source_segments: Int[Array, "B S"], beam: int, max_length: int
    ) -> Cache:
        """An empty cache for `beam` hypotheses a source, of at most `max_length` tokens."""
        h, d_k, d_v = self.config.h, self.config.d_k, self.config.d_v
        shape = (memory.shape[0], max_length, beam, h)

        def empty(layer: DecoderLayer) -> LayerCache:
            cross = (x.swapaxes(-3, -2) for x in layer.cross_attention.keys_values(memory))
            return LayerCache(jnp.zeros((*shape, d_k), memory.dtype), jnp.zeros((*shape, d_v), memory.dtype), *cross)

        return Cache(tuple(empty(layer) for layer in self.decoder), source_segments > 0)

    def decode_step(
        self, tokens: Int[Array, "B K"], position: Int[Array, ""], cache: Cache
    ) -> tuple[Float[Array, "B K d"], Cache]:
        """The decoder's output at `position`, given the token that stands there and the cache of those before it."""
        length = cache.layers[0].keys.shape[1]
        x = self.embed(tokens, self.target_positions(jnp.broadcast_to(position, tokens.shape), length))
        layers = []
        for layer, layer_cache in zip(self.decoder, cache.layers, strict=True):
            x, layer_cache = layer.step(x, position, layer_cache, cache.source_mask)
            layers.append(layer_cache)
        return x, cache._replace(layers=tuple(layers))


def reorder_cache(cache: Cache, parents: Int[Array, "B K"], length: Int[Array, ""]) -> Cache:
    """Hypothesis k of a sentence, of `length` positions so far, goes on from what was its hypothesis `parents[k]`."""

    def pick_all(x: Array) -> Array:
        return jnp.take_along_axis(x, parents[:, None, :, None, None], axis=2)

    def pick_position(t: Array, x: Array) -> Array:
        one = jax.lax.dynamic_slice_in_dim(x, t, 1, axis=1)
        return jax.lax.dynamic_update_slice_in_dim(x, pick_all(one), t, axis=1)

    def pick(x: Array) -> Array:
        # As in `attention_so_far`: only what is filled, or all at once.
        return jax.lax.fori_loop(0, length, pick_position, x) if jax.default_backend() == "cpu" else pick_all(x)

    return cache._replace(
        layers=tuple(layer._replace(keys=pick(layer.keys), values=pick(layer.values)) for layer in cache.layers)
    )


def build(config: ModelConfig, vocab_size: int, seed: int = 0) -> tuple[nnx.GraphDef, dict[str, Any]]:
    """The model as a pure function's two halves.

    Returns:
        graphdef: what is fixed; `nnx.merge(graphdef, params)` is the model again, inside a jitted function.
        params: nested dict of float32 arrays.
    """
    graphdef, state = nnx.split(Transformer(config, vocab_size, nnx.Rngs(seed)))
    return graphdef, nnx.to_pure_dict(state)


def same_segment(queries: Int[Array, "B q"], keys: Int[Array, "B k"]) -> Bool[Array, "B q k"]:
    """A token sees its own sentence pair. (Padding sees padding, which no real token ever looks at.)"""
    return queries[:, :, None] == keys[:, None, :]


def dropout(x: Float[Array, "*n"], rate: float, key: Key[Array, ""] | None) -> Float[Array, "*n"]:
    """Zeroes each element with probability `rate` and scales the others by 1 / (1 - rate); no key, no dropout."""
    if key is None or rate == 0.0:
        return x
    keep = random_bits(key, x.shape) >= np.uint32(rate * 2**32)
    return jnp.where(keep, x / (1.0 - rate), 0).astype(x.dtype)


def random_bits(key: Key[Array, ""], shape: tuple[int, ...]) -> UInt32[Array, "..."]:
    """Uniform 32-bit numbers: each element's index, twice mixed with the key by MurmurHash3's finaliser.

    `jax.random.bits` would do, but writes its numbers to memory and reads them again, in both passes: a sixth of an
    update on a CPU. These few multiplications are computed where they are used.
    """
    first, second = jax.random.key_data(key)
    index = jnp.arange(np.prod(shape), dtype=jnp.uint32).reshape(shape)
    return mix(mix(index * jnp.uint32(0x9E3779B9) + first) ^ second)


def mix(x: UInt32[Array, "*n"]) -> UInt32[Array, "*n"]:
    """A bijection in which every bit of the input changes half of the output's bits."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def split_key(key: Key[Array, ""] | None, n: int) -> list[Any]:
    return [None] * n if key is None else list(jax.random.split(key, n))


def normal_table(rows: int, config: ModelConfig, rngs: nnx.Rngs) -> nnx.Param:
    return nnx.Param(jax.random.normal(rngs.params(), (rows, config.d_model)) * config.d_model**-0.5)
