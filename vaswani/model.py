"""The Transformer of "Attention Is All You Need" (Figure 1), in the paper's order.

Letters in shapes:
    B  rows of a batch     S, T  source and target length     d  d_model     V  vocabulary
    h  heads               d_k, d_v  width of one head's keys and of its values
`config.dtype` is the type of the matrix products and of the residual stream. Parameters, softmax and LayerNorm are
float32.

A row may hold several sentence pairs. Each token has a segment id: 0 for padding, else the number of its pair, 1, 2, ….
In all three attentions a token sees only tokens of its own segment. So a pair gives the same result in a shared row as
in a row of its own.

Initial values (the paper gives none; tensor2tensor's `transformer_base_v1` has these):
    W_Q, W_K, W_V, W_O, W_1, W_2     Glorot uniform, for the whole matrix with all heads side by side
    b_1, b_2                         0
    embedding, learned positions     normal, standard deviation d_model^-0.5
    LayerNorm                        scale 1, bias 0
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array
from jaxtyping import Bool, Float, Int, Key

from vaswani.kernels import product, random_bits
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
        Q, K, V: queries, keys and values, one slice per head.
        mask: True where a query may see a key. Where it is False, the weight is exactly 0. A query that
            sees no key at all is the exception.

    Returns:
        the output, and the weights (float32; each row sums to 1).
    """
    scores = jnp.einsum("...qhd,...khd->...hqk", Q, K, preferred_element_type=jnp.float32) / np.sqrt(Q.shape[-1])
    if mask is not None:
        # The smallest finite number. With -inf, a query that sees no key (padding) and its gradient would be NaN.
        scores = jnp.where(mask[..., None, :, :], scores, jnp.finfo(scores.dtype).min)
    weights = jax.nn.softmax(scores, axis=-1)  # [..., h, q, k]
    return jnp.einsum("...hqk,...khd->...qhd", weights.astype(V.dtype), V), weights


class Linear(nnx.Module):
    """xW, or xW + b."""

    def __init__(self, d_in: int, d_out: int, config: ModelConfig, rngs: nnx.Rngs, bias: bool = False):
        self.dtype = config.dtype
        self.kernel = nnx.Param(glorot_uniform(rngs.params(), (d_in, d_out)))
        self.bias = nnx.Param(jnp.zeros(d_out)) if bias else None

    def __call__(self, x: Float[Array, "*n d_in"]) -> Float[Array, "*n d_out"]:
        y = product(x.astype(self.dtype), self.kernel[...].astype(self.dtype))
        return y if self.bias is None else y + self.bias[...].astype(self.dtype)


class MultiHeadAttention(nnx.Module):
    """Section 3.2.2: Concat(head_1, …, head_h) W_O with head_i = Attention(QW_Qⁱ, KW_Kⁱ, VW_Vⁱ). No biases."""

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
        d_model, h, d_k, d_v = config.d_model, config.h, config.d_k, config.d_v
        self.h, self.d_k, self.d_v = h, d_k, d_v
        self.W_Q = Linear(d_model, h * d_k, config, rngs)
        self.W_K = Linear(d_model, h * d_k, config, rngs)
        self.W_V = Linear(d_model, h * d_v, config, rngs)
        self.W_O = Linear(h * d_v, d_model, config, rngs)

    def __call__(
        self, x: Float[Array, "B q d"], memory: Float[Array, "B k d"], mask: Bool[Array, "B q k"]
    ) -> Float[Array, "B q d"]:
        """Queries come from `x`, keys and values from `memory`. In self-attention both are the same."""
        return self.output(attention(self.queries(x), *self.keys_values(memory), mask)[0])

    def queries(self, x: Float[Array, "*n d"]) -> Float[Array, "*n h d_k"]:
        return self.W_Q(x).reshape(*x.shape[:-1], self.h, self.d_k)

    def keys_values(self, x: Float[Array, "*n d"]) -> tuple[Float[Array, "*n h d_k"], Float[Array, "*n h d_v"]]:
        keys, values = self.W_K(x), self.W_V(x)
        return keys.reshape(*x.shape[:-1], self.h, self.d_k), values.reshape(*x.shape[:-1], self.h, self.d_v)

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
    """LayerNorm(x + Dropout(Sublayer(x))) (sections 3.1 and 5.4), called post-norm."""

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


class Embedding(nnx.Module):
    """One matrix for source tokens, target tokens and the projection before the softmax (section 3.4)."""

    def __init__(self, config: ModelConfig, vocab_size: int, rngs: nnx.Rngs):
        self.d_model, self.dtype = config.d_model, config.dtype
        self.table = normal_table(vocab_size, config, rngs)

    def __call__(self, ids: Int[Array, "*n"]) -> Float[Array, "*n d"]:
        return self.table[ids] * np.sqrt(self.d_model)

    def logits(self, x: Float[Array, "*n d"]) -> Float[Array, "*n V"]:
        """The projection: float32, without a bias."""
        table = self.table[...].astype(self.dtype)
        return jnp.einsum("...d,vd->...v", x.astype(self.dtype), table, preferred_element_type=jnp.float32)


class Positions(nnx.Module):
    """The positional encoding that is added to an embedding (section 3.5)."""

    def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
        self.d_model = config.d_model
        self.learned = normal_table(config.max_positions, config, rngs) if config.positions == "learned" else None

    def __call__(self, positions: Int[Array, "*n"], length: int) -> Float[Array, "*n d"]:
        """The encodings of `positions`. Every position is less than `length`."""
        table = sinusoids(length, self.d_model) if self.learned is None else self.learned[...]
        return table[positions]


def sinusoids(length: int, d_model: int) -> Float[Array, "length d_model"]:
    """The positional encoding of section 3.5. Sines and cosines alternate along the last axis.

    PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(pos / 10000^(2i / d_model)).

    >>> [round(float(x), 4) for x in sinusoids(4, 512)[3, :2]]
    [0.1411, -0.99]
    """
    # numpy computes the angles in float64, before the program is compiled. In float32 the angles at position 1000 would
    # be wrong by 1e-4.
    angle = np.arange(length)[:, None] / 10_000 ** (np.arange(0, d_model, 2) / d_model)
    table = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, d_model)
    return jnp.asarray(table, jnp.float32)


class Transformer(nnx.Module):
    """Figure 1. It has no random state: the dropout key is an argument, and without a key there is no dropout."""

    def __init__(self, config: ModelConfig, vocab_size: int, rngs: nnx.Rngs):
        self.config = config
        self.embedding = Embedding(config, vocab_size, rngs)
        self.source_positions = Positions(config, rngs)
        self.target_positions = Positions(config, rngs)  # its own table if positions are learned
        self.encoder = nnx.List([EncoderLayer(config, rngs) for _ in range(config.N)])
        self.decoder = nnx.List([DecoderLayer(config, rngs) for _ in range(config.N)])

    def __call__(
        self, source: Int[Array, "B S"], target_input: Int[Array, "B T"], dropout_key: Key[Array, ""] | None = None
    ) -> Float[Array, "B T V"]:
        """The logits of each next token, for rows of one sentence pair. 0 is padding; other arguments as in `decode`.

        >>> config = ModelConfig(N=1, d_model=16, d_ff=32, h=2, d_k=8, d_v=8)
        >>> model = Transformer(config, vocab_size=100, rngs=nnx.Rngs(0))
        >>> model(jnp.array([[5, 6, 2]]), jnp.array([[1, 7]])).shape
        (1, 2, 100)
        """
        key_1, key_2 = split_key(dropout_key, 2)
        segments, positions = unpacked(source)
        memory = self.encode(source, segments, positions, key_1)
        return self.logits(self.decode(target_input, *unpacked(target_input), memory, segments, key_2))

    def encode(
        self,
        source: Int[Array, "B S"],
        segments: Int[Array, "B S"],
        positions: Int[Array, "B S"],
        dropout_key: Key[Array, ""] | None = None,
    ) -> Float[Array, "B S d"]:
        """The encoder.

        Args:
            source: token ids; each sentence ends with the end symbol.
            segments: 0 for padding, else the number of the pair in its row.
            positions: the position of each token in its sentence, from 0.
            dropout_key: None for no dropout.

        Returns:
            the encoder's output, which the decoder's cross-attention reads ("memory").
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
        """The decoder, for whole targets at once (teacher forcing).

        Args:
            target_input: the begin symbol, then the target without its end symbol (section 3.1, "shifted right").
            segments, positions: as in `encode`.
            memory, source_segments: the encoder's output, and the segments of its tokens.

        Returns:
            the decoder's output; `logits` turns it into scores.
        """
        keys = split_key(dropout_key, self.config.N + 1)
        x = self.embed(target_input, self.target_positions(positions, target_input.shape[1]), keys[0])
        self_mask = same_segment(segments, segments) & jnp.tri(target_input.shape[1], dtype=bool)
        cross_mask = same_segment(segments, source_segments)
        for layer, key in zip(self.decoder, keys[1:], strict=True):
            x = layer(x, memory, self_mask, cross_mask, key)
        return x

    def logits(self, x: Float[Array, "*n d"]) -> Float[Array, "*n V"]:
        """The scores of the next token before the softmax, float32."""
        return self.embedding.logits(x)

    def embed(
        self, ids: Int[Array, "*n"], positions: Float[Array, "*n d"], key: Key[Array, ""] | None = None
    ) -> Float[Array, "*n d"]:
        """Embeddings plus positional encodings, with dropout (section 5.4)."""
        return dropout(self.embedding(ids) + positions, self.config.P_drop, key).astype(self.config.dtype)


def build(config: ModelConfig, vocab_size: int, seed: int = 0) -> tuple[nnx.GraphDef, dict[str, Any]]:
    """A new model, split into its structure and its parameters.

    Returns:
        graphdef: the structure. Inside a jitted function `nnx.merge(graphdef, params)` makes the model again.
        params: the parameters, a nested dict of float32 arrays.
    """
    graphdef, state = nnx.split(Transformer(config, vocab_size, nnx.Rngs(seed)))
    return graphdef, nnx.to_pure_dict(state)


def unpacked(ids: Int[Array, "B L"]) -> tuple[Int[Array, "B L"], Int[Array, "B L"]]:
    """The segments and positions of rows that hold one sentence each; id 0 is padding."""
    return (ids > 0).astype(jnp.int32), jnp.broadcast_to(jnp.arange(ids.shape[1]), ids.shape)


def same_segment(queries: Int[Array, "B q"], keys: Int[Array, "B k"]) -> Bool[Array, "B q k"]:
    """True where query and key are of the same pair. (Padding sees padding, but no real token sees padding.)"""
    return queries[:, :, None] == keys[:, None, :]


def dropout(x: Float[Array, "*n"], rate: float, key: Key[Array, ""] | None) -> Float[Array, "*n"]:
    """Sets each element to 0 with probability `rate`; divides the others by 1 - `rate`. Without a key: `x`."""
    if key is None or rate == 0.0:
        return x
    keep = random_bits(key, x.shape) >= np.uint32(rate * 2**32)
    return jnp.where(keep, x / (1.0 - rate), 0).astype(x.dtype)


def split_key(key: Key[Array, ""] | None, n: int) -> list[Any]:
    """`n` keys derived from `key`. If `key` is None, a list of `n` Nones."""
    return [None] * n if key is None else list(jax.random.split(key, n))


def normal_table(rows: int, config: ModelConfig, rngs: nnx.Rngs) -> nnx.Param:
    """A table [rows, d_model] of normal values with standard deviation d_model^-0.5."""
    return nnx.Param(jax.random.normal(rngs.params(), (rows, config.d_model)) * config.d_model**-0.5)
