"""Decoding one token at a time: the decoder of `model.py`, with the keys and values of earlier positions cached.

Letters in shapes: B sentences, K hypotheses of a beam, S source length, h heads,
T the largest number of tokens of an output.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from vaswani.kernels import cached_attention, reorder_hypotheses
from vaswani.model import DecoderLayer, Transformer, attention


class LayerCache(NamedTuple):
    """The keys and values of one decoder layer.

    A step writes, reads and reorders one target position after another, so the keys of one position lie together in
    memory. In the arrays of the source, heads come before positions. The matrix products need this order, so no step
    has to transpose the arrays.
    """

    keys: Float[Array, "B T K h d_k"]
    values: Float[Array, "B T K h d_v"]
    cross_keys: Float[Array, "B h S d_k"]
    cross_values: Float[Array, "B h S d_v"]


class Cache(NamedTuple):
    """The state of incremental decoding; `decode_step` takes it and returns the next one."""

    layers: tuple[LayerCache, ...]
    source_mask: Bool[Array, "B S"]
    """True where the source is not padding."""


def init_cache(
    model: Transformer, memory: Float[Array, "B S d"], source_segments: Int[Array, "B S"], beam: int, max_length: int
) -> Cache:
    """An empty cache for `beam` hypotheses per sentence, with at most `max_length` tokens each."""
    h, d_k, d_v = model.config.h, model.config.d_k, model.config.d_v
    shape = (memory.shape[0], max_length, beam, h)

    def empty(layer: DecoderLayer) -> LayerCache:
        cross = (x.swapaxes(-3, -2) for x in layer.cross_attention.keys_values(memory))
        return LayerCache(jnp.zeros((*shape, d_k), memory.dtype), jnp.zeros((*shape, d_v), memory.dtype), *cross)

    return Cache(tuple(empty(layer) for layer in model.decoder), source_segments > 0)


def decode_step(
    model: Transformer, tokens: Int[Array, "B K"], position: Int[Array, ""], cache: Cache
) -> tuple[Float[Array, "B K d"], Cache]:
    """One step of decoding, for every hypothesis at once.

    Args:
        tokens: the token at `position`, for each hypothesis.
        position: the same for all hypotheses, from 0.
        cache: the cache of all earlier positions.

    Returns:
        the decoder's output at `position`, as `Transformer.decode` gives it, and the cache with this position added.
    """
    length = cache.layers[0].keys.shape[1]
    x = model.embed(tokens, model.target_positions(jnp.broadcast_to(position, tokens.shape), length))
    layers = []
    for layer, layer_cache in zip(model.decoder, cache.layers, strict=True):
        x, layer_cache = _layer_step(layer, x, position, layer_cache, cache.source_mask)
        layers.append(layer_cache)
    return x, cache._replace(layers=tuple(layers))


def _layer_step(
    layer: DecoderLayer,
    x: Float[Array, "B K d"],
    position: Int[Array, ""],
    cache: LayerCache,
    source_mask: Bool[Array, "B S"],
) -> tuple[Float[Array, "B K d"], LayerCache]:
    """`DecoderLayer.__call__` for one new position."""
    keys, values = layer.self_attention.keys_values(x)  # [B, K, h, d]
    cache = cache._replace(
        keys=jax.lax.dynamic_update_index_in_dim(cache.keys, keys, position, axis=1),
        values=jax.lax.dynamic_update_index_in_dim(cache.values, values, position, axis=1),
    )
    heads = cached_attention(layer.self_attention.queries(x), cache.keys, cache.values, position + 1)
    x = layer.self_attention_norm(x, layer.self_attention.output(heads))
    # Here the axis of target positions holds the hypotheses. So the source is not copied for each hypothesis.
    cross_mask = jnp.broadcast_to(source_mask[:, None], (*x.shape[:2], source_mask.shape[-1]))
    keys, values = cache.cross_keys.swapaxes(-3, -2), cache.cross_values.swapaxes(-3, -2)
    heads, _ = attention(layer.cross_attention.queries(x), keys, values, cross_mask)
    x = layer.cross_attention_norm(x, layer.cross_attention.output(heads))
    return layer.feed_forward_norm(x, layer.feed_forward(x)), cache


def reorder_cache(cache: Cache, parents: Int[Array, "B K"], length: Int[Array, ""]) -> Cache:
    """Hypothesis k of each sentence gets the cache of hypothesis `parents[k]`. All have `length` positions."""

    def reorder(layer: LayerCache) -> LayerCache:
        return layer._replace(
            keys=reorder_hypotheses(layer.keys, parents, length),
            values=reorder_hypotheses(layer.values, parents, length),
        )

    return cache._replace(layers=tuple(reorder(layer) for layer in cache.layers))
