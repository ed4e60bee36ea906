"""What attention costs: Table 1 as formulas, the counts behind Tables 2 and 3, and the memory of scores and caches."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from vaswani.decoding.incremental import init_cache
from vaswani.model import (
    DecoderLayer,
    EncoderLayer,
    MultiHeadAttention,
    Positions,
    Transformer,
    attention,
    build,
)
from vaswani.paper.tables import TABLE_3, Recipe, Variation
from vaswani.schema import ModelConfig

P100_FLOPS = 9.5e12
"""What the paper takes a P100 to sustain in single precision (footnote 5)."""
GPUS = 8
VOCABULARY = 37_000
"""Section 5.1: "about 37000"."""


def layer_operations(n: int, d: int, k: int, r: int) -> dict[str, int]:
    """Table 1, complexity per layer: n tokens of width d, kernel width k, neighbourhood r. Keys as in `TABLE_1`."""
    return {
        "Self-Attention": n * n * d,
        "Recurrent": n * d * d,
        "Convolutional": k * n * d * d,
        "Self-Attention (restricted)": r * n * d,
    }


def maximum_path_length(n: int, k: int, r: int) -> dict[str, int]:
    """Table 1, last column, in layers or steps; the convolutions dilated."""
    stack, reach = 0, 1
    while reach < n:  # an integer logarithm, rounded up
        stack, reach = stack + 1, reach * k
    return {"Self-Attention": 1, "Recurrent": n, "Convolutional": stack, "Self-Attention (restricted)": -(-n // r)}


# --- counted on our own code, which is traced and not run ---


def flops(function: Any, *shapes: Any) -> float:
    """The floating-point operations of a function, as XLA counts them before it optimises."""
    analysis: Any = jax.jit(function).lower(*shapes).cost_analysis()
    return float(analysis["flops"])


def shape(*axes: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(axes, dtype)


def attention_flops(n: int, d: int, h: int = 8) -> float:
    """Of the attention function alone for n tokens, h heads together d wide; 4·n²·d and the softmax."""
    x = shape(n, h, d // h)
    return flops(lambda Q, K, V: attention(Q, K, V)[0], x, x, x)


def multi_head_flops(n: int, h: int, d: int = 512) -> float:
    """Of multi-head self-attention, projections included, with d_k = d_v = d / h."""
    config = ModelConfig(d_model=d, h=h, d_k=d // h, d_v=d // h)
    graphdef, params = jax.eval_shape(lambda: nnx.split(MultiHeadAttention(config, nnx.Rngs(0))))
    x, mask = shape(1, n, d), shape(1, n, n, dtype=jnp.bool_)
    return flops(lambda params, x, mask: nnx.merge(graphdef, params)(x, x, mask), params, x, mask)


def forward_flops(config: ModelConfig, vocab_size: int, n: int) -> float:
    """Of one pair of sentences of n tokens each, through encoder, decoder and the projection to the vocabulary."""
    graphdef, params = jax.eval_shape(lambda: build(config, vocab_size))
    ids = shape(1, n, dtype=jnp.int32)

    def forward(params: Any, source: Any, target: Any, ones: Any, positions: Any) -> Any:
        model: Transformer = nnx.merge(graphdef, params)
        memory = model.encode(source, ones, positions)
        return model.logits(model.decode(target, ones, positions, memory, ones))

    return flops(forward, params, ids, ids, ids, ids)


def forward_flops_formula(config: ModelConfig, vocab_size: int, n: int) -> float:
    """The same by hand: two a parameter and token in every matrix product, and 4·n² a unit of width in an attention.

    Half of the parameters that are not embedding see the source's n tokens, or the target's; the embedding, as
    projection, the target's.
    """
    attentions = 3 * config.N * 2 * n * n * config.h * (config.d_k + config.d_v)
    return 2 * n * parameters(config, vocab_size) + attentions


def update_flops(config: ModelConfig, vocab_size: int, tokens: int, n: int) -> float:
    """Of an update of so many tokens a side: forward, and twice that backward; sentences of n tokens on either side."""
    return 3 * tokens / n * forward_flops_formula(config, vocab_size, n)


def training_flops(config: ModelConfig, vocab_size: int, recipe: Recipe, n: int = 30) -> float:
    """What the updates of a recipe compute."""
    return recipe.steps * update_flops(config, vocab_size, recipe.tokens_per_update, n)


def rated_flops(seconds: float) -> float:
    """What eight P100 could compute in that time, which is how Table 2 counts."""
    return seconds * GPUS * P100_FLOPS


def training_seconds(recipe: Recipe) -> float:
    return recipe.steps * recipe.seconds_per_step


# --- parameters ---


def module_parameters(module: type, config: ModelConfig) -> int:
    """Of one part of the model, as `EncoderLayer`."""
    _, params = jax.eval_shape(lambda: nnx.split(module(config, nnx.Rngs(0))))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))


def block_parameters(d_model: int, h: int, d_ff: int) -> int:
    """One encoder layer with d_k = d_v = d_model / h."""
    d = d_model // h
    return module_parameters(EncoderLayer, ModelConfig(d_model=d_model, h=h, d_ff=d_ff, d_k=d, d_v=d))


def variation_config(variation: Variation) -> ModelConfig:
    """The model of a row of Table 3."""
    names = {f.name for f in dataclasses.fields(ModelConfig)}
    base, row = (dataclasses.asdict(v) for v in (TABLE_3[0], variation))
    return ModelConfig(**{name: base[name] if row[name] is None else row[name] for name in names & set(row)})


def parameters(config: ModelConfig, vocab_size: int) -> int:
    """Of the whole model, by hand, so that JAX is not started: it would take the memory of a GPU that is others'.

    >>> parameters(ModelConfig(), 37_000)
    63045632
    """
    d = config.d_model
    attention = 2 * d * config.h * (config.d_k + config.d_v)  # W_Q and W_K, W_V and W_O
    feed_forward = 2 * d * config.d_ff + config.d_ff + d
    norm = 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    positions = 2 * config.max_positions * d if config.positions == "learned" else 0
    return vocab_size * d + config.N * (encoder_layer + decoder_layer) + positions


def parameters_without_embedding(config: ModelConfig) -> int:
    """All but the one matrix of V·d_model, of the model itself, by parts: a sixth of the time of making all of it."""
    layer = sum(module_parameters(part, config) for part in (EncoderLayer, DecoderLayer))
    return config.N * layer + 2 * module_parameters(Positions, config)


def fitting_vocabulary(millions: int, without_embedding: int, d_model: int) -> tuple[int, int]:
    """The smallest and largest V for which without_embedding + V·d_model rounds to `millions`."""
    low, high = (((millions + half) * 1_000_000 - without_embedding) / d_model for half in (-0.5, 0.5))
    return math.ceil(low), math.ceil(high) - 1


# --- memory ---


def score_matrix_bytes(n: int, h: int, bytes_each: int) -> int:
    """Of the weights of all heads, for n queries and n keys."""
    x = shape(n, h, 64)
    _, weights = jax.eval_shape(attention, x, x, x)
    return math.prod(weights.shape) * bytes_each


def cache_bytes_per_token(layers: int, h: int, d_head: int) -> int:
    """What one more target token adds to the cache of decoding, in a type of 16 bits."""
    config = ModelConfig(N=1, h=h, d_k=d_head, d_v=d_head, d_model=64, d_ff=64, dtype="bfloat16")

    def cache() -> Any:
        memory, segments = jnp.zeros((1, 1, 64), jnp.bfloat16), jnp.ones((1, 1), jnp.int32)
        return init_cache(Transformer(config, 1, nnx.Rngs(0)), memory, segments, beam=1, max_length=1)

    layer = jax.eval_shape(cache).layers[0]
    return layers * sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in (layer.keys, layer.values))
