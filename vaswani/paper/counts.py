"""Operations, parameters and bytes of the model's own code. JAX traces the code and does not run it."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from vaswani.decoding.incremental import init_cache
from vaswani.model import DecoderLayer, EncoderLayer, MultiHeadAttention, Positions, Transformer, attention, build
from vaswani.schema import ModelConfig


def flops(function: Any, *arguments: Any) -> float:
    """The floating-point operations of a function, as XLA counts them before it optimises.

    Args:
        function: is traced.
        arguments: arrays, or pytrees of `jax.ShapeDtypeStruct`.
    """
    analysis: Any = jax.jit(function).lower(*arguments).cost_analysis()
    return float(analysis["flops"])


def _shape(*axes: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(axes, dtype)


# --- operations ---


def attention_flops(n: int, d: int, h: int = 8) -> float:
    """Operations of the attention function for n tokens and h heads of width d/h: 4·n²·d and the softmax."""
    x = _shape(n, h, d // h)
    return flops(lambda Q, K, V: attention(Q, K, V)[0], x, x, x)


def multi_head_flops(n: int, h: int, d: int = 512) -> float:
    """Operations of multi-head self-attention for n tokens, projections included, with d_k = d_v = d/h."""
    config = ModelConfig(d_model=d, h=h, d_k=d // h, d_v=d // h)
    graphdef, params = jax.eval_shape(lambda: nnx.split(MultiHeadAttention(config, nnx.Rngs(0))))
    x, mask = _shape(1, n, d), _shape(1, n, n, dtype=jnp.bool_)
    return flops(lambda params, x, mask: nnx.merge(graphdef, params)(x, x, mask), params, x, mask)


def forward_flops(config: ModelConfig, vocab_size: int, n: int) -> float:
    """Operations of a forward pass, projection included, over a source and a target of n tokens each."""
    graphdef, params = jax.eval_shape(lambda: build(config, vocab_size))
    ids = _shape(1, n, dtype=jnp.int32)

    def forward(params: Any, source: Any, target: Any, ones: Any, positions: Any) -> Any:
        model: Transformer = nnx.merge(graphdef, params)
        memory = model.encode(source, ones, positions)
        return model.logits(model.decode(target, ones, positions, memory, ones))

    return flops(forward, params, ids, ids, ids, ids)


# --- parameters ---


def module_parameters(module: type, config: ModelConfig) -> int:
    """Parameters of one part of the model, as `EncoderLayer`."""
    _, params = jax.eval_shape(lambda: nnx.split(module(config, nnx.Rngs(0))))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))


def parameters_without_embedding(config: ModelConfig) -> int:
    """Parameters of the model without its one matrix [vocabulary, d_model], by parts: faster than the whole."""
    layer = sum(module_parameters(part, config) for part in (EncoderLayer, DecoderLayer))
    return config.N * layer + 2 * module_parameters(Positions, config)


def block_parameters(d_model: int, h: int, d_ff: int) -> int:
    """Parameters of one encoder layer with d_k = d_v = d_model/h."""
    d = d_model // h
    return module_parameters(EncoderLayer, ModelConfig(d_model=d_model, h=h, d_ff=d_ff, d_k=d, d_v=d))


# --- memory ---


def score_matrix_bytes(n: int, h: int, bytes_each: int) -> int:
    """Bytes of the attention weights of h heads, for n queries and n keys."""
    x = _shape(n, h, 64)
    _, weights = jax.eval_shape(attention, x, x, x)
    return math.prod(weights.shape) * bytes_each


def cache_bytes_per_token(layers: int, h: int, d_head: int) -> int:
    """Bytes that one more target token adds to the decoder's cache in bfloat16, with h heads of width d_head."""
    config = ModelConfig(N=1, h=h, d_k=d_head, d_v=d_head, d_model=64, d_ff=64, dtype="bfloat16")

    def cache() -> Any:
        memory, segments = jnp.zeros((1, 1, 64), jnp.bfloat16), jnp.ones((1, 1), jnp.int32)
        return init_cache(Transformer(config, 1, nnx.Rngs(0)), memory, segments, beam=1, max_length=1)

    layer = jax.eval_shape(cache).layers[0]
    return layers * sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in (layer.keys, layer.values))
