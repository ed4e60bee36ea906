"""What the paper's model must and must not do. (Its numbers: test_model_against_reference.)"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.sizes import count_parameters
from vaswani import model as transformer
from vaswani.decoding.incremental import decode_step, init_cache
from vaswani.kernels import random_bits
from vaswani.model import Transformer, build, dropout
from vaswani.schema import ModelConfig

TINY = ModelConfig(N=2, d_model=16, d_ff=32, h=2, d_k=6, d_v=10)
V = 13


@pytest.fixture(scope="module")
def model() -> Transformer:
    return nnx.merge(*build(TINY, V, seed=1))


def ids(*shape: int) -> jax.Array:
    return jax.random.randint(jax.random.key(7), shape, 3, V)


def segments_and_positions(lengths: list[int], padded: int = 0):
    """One row of the given pairs, then padding."""
    segments = [i + 1 for i, n in enumerate(lengths) for _ in range(n)] + [0] * padded
    positions = [p for n in lengths for p in range(n)] + [0] * padded
    return jnp.array([segments]), jnp.array([positions])


def logits(model, source, target, source_lengths, target_lengths, source_pad=0, target_pad=0):
    source_layout = segments_and_positions(source_lengths, source_pad)
    target_layout = segments_and_positions(target_lengths, target_pad)
    source = jnp.pad(source, ((0, 0), (0, source_pad)))
    target = jnp.pad(target, ((0, 0), (0, target_pad)))
    return compute_logits(*nnx.split(model), source, source_layout, target, target_layout)


@partial(jax.jit, static_argnums=0)
def compute_logits(graphdef, params, source, source_layout, target, target_layout):
    model = nnx.merge(graphdef, params)
    memory = model.encode(source, *source_layout)
    return model.logits(model.decode(target, *target_layout, memory, source_layout[0]))


def test_padding_columns_change_nothing(model):
    """OpenNMT-py#318: 9 instead of 24 BLEU."""
    source, target = ids(1, 5), ids(1, 4)
    plain = logits(model, source, target, [5], [4])
    padded = logits(model, source, target, [5], [4], source_pad=6, target_pad=3)
    np.testing.assert_allclose(padded[:, :4], plain, atol=2e-6)


def test_packed_pairs_do_not_see_each_other(model):
    source, target = ids(1, 9), ids(1, 8)
    packed = logits(model, source, target, [4, 5], [6, 2])
    first = logits(model, source[:, :4], target[:, :6], [4], [6])
    second = logits(model, source[:, 4:], target[:, 6:], [5], [2])
    np.testing.assert_allclose(packed, jnp.concatenate([first, second], axis=1), atol=2e-6)


@pytest.mark.parametrize("t", [0, 2, 4])
def test_no_token_is_seen_before_its_time(model, t):
    """What stands at position t moves nothing before t, and moves t."""
    source, target = ids(1, 5), ids(1, 6)
    before = logits(model, source, target, [5], [6])
    after = logits(model, source, target.at[0, t].set((target[0, t] + 1) % V), [5], [6])
    assert jnp.array_equal(before[:, :t], after[:, :t]) and not jnp.allclose(before[:, t], after[:, t])


def test_no_norm_stands_after_the_stacks(model):
    """The tree has a norm for each sub-layer, two and three a layer, and no other."""
    _, params = build(TINY, V)
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    assert sum("norm" in name and "scale" in name for name in names) == TINY.N * (2 + 3)
    assert set(params) == {"embedding", "encoder", "decoder"}
    segments, positions = segments_and_positions([5])
    memory = model.encode(ids(1, 5), segments, positions)
    for output in (memory, model.decode(ids(1, 5), segments, positions, memory, segments)):
        np.testing.assert_allclose(output.mean(-1), 0, atol=1e-5)
        np.testing.assert_allclose(output.var(-1), 1, atol=1e-3)


def test_initial_values_have_the_papers_matrices_bounds():
    """Glorot over [d_model, h·d_k] as the paper writes it: sqrt(6 / (512 + 512)) = 0.0765, however it is stored."""
    _, params = build(ModelConfig(N=1), 1000)
    attention = params["encoder"][0]["self_attention"]
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        largest = float(np.abs(attention[name]["kernel"]).max())
        assert 0.0764 < largest <= np.sqrt(6 / 1024)
    feed_forward = params["encoder"][0]["feed_forward"]
    assert 0.0483 < float(np.abs(feed_forward["W_1"]["kernel"]).max()) <= np.sqrt(6 / (512 + 2048))
    assert not np.any(feed_forward["W_1"]["bias"])
    assert float(params["embedding"]["table"].std()) == pytest.approx(512**-0.5, rel=0.01)
    learned = build(ModelConfig(N=1, positions="learned"), 10)[1]
    assert float(learned["source_positions"]["learned"].std()) == pytest.approx(512**-0.5, rel=0.01)
    assert not np.array_equal(learned["source_positions"]["learned"], learned["target_positions"]["learned"])


@pytest.mark.parametrize(
    ("changes", "without_embedding"),
    [
        ({}, 44_101_632),
        ({"d_model": 1024, "d_ff": 4096, "h": 16}, 176_283_648),
    ],
)
def test_parameters_of_the_papers_models(changes, without_embedding):
    config = ModelConfig(**changes)
    assert count_parameters(config, 100) == without_embedding + 100 * config.d_model


def test_dropout_zeroes_its_share_and_keeps_the_mean():
    dropped = dropout(jnp.ones((400, 500)), 0.1, jax.random.key(0))
    assert set(np.unique(dropped).round(5)) == {0.0, np.float32(1 / 0.9).round(5)}
    assert float((dropped == 0).mean()) == pytest.approx(0.1, abs=0.003)
    assert jnp.array_equal(dropout(jnp.ones(5), 0.9, None), jnp.ones(5))


def test_dropout_takes_the_sublayers_output_before_it_is_added_and_the_sum_of_embedding_and_position(
    model, monkeypatch
):
    """With a dropout that leaves nothing, only the residual goes on."""
    layer, key = model.encoder[0], jax.random.key(0)
    x, y = jax.random.normal(key, (2, 1, 3, TINY.d_model))
    residual = layer.feed_forward_norm.norm(x)
    monkeypatch.setattr(transformer, "dropout", lambda x, rate, key: 0 * x)
    np.testing.assert_allclose(layer.feed_forward_norm(x, y, key), residual, atol=1e-6)
    assert not model.embed(ids(1, 3), model.source_positions(jnp.arange(3)[None], 3), key).any()


def test_random_bits_are_even_and_unlike_those_of_neighbouring_keys_and_places():
    keys = jax.random.split(jax.random.key(0), 8)
    bits = np.stack([random_bits(key, (1000, 64)) for key in keys])
    assert np.array_equal(bits[0], random_bits(keys[0], (1000, 64)))
    ones = np.unpackbits(bits.view(np.uint8), axis=-1).reshape(8, 1000, 2048)
    assert np.abs(ones.mean(axis=(0, 1)) - 0.5).max() < 0.03  # each of 8000 draws: 5 standard deviations
    counts = np.histogram(bits, bins=256, range=(0, 2**32))[0]
    assert 150 < ((counts - 2000) ** 2 / 2000).sum() < 370  # chi-squared, 255 degrees of freedom
    flat = (bits / 2**32 - 0.5).reshape(8, -1)
    for a, b in [(flat[0], flat[1]), (flat[0, 1:], flat[0, :-1]), (flat[0, 64:], flat[0, :-64])]:
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.02


def test_bfloat16_computes_what_float32_computes_roughly():
    import dataclasses

    graphdef, params = build(TINY, V, seed=1)
    low, low_params = build(dataclasses.replace(TINY, dtype="bfloat16"), V, seed=1)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(low_params)} == {"float32"}
    results = [logits(nnx.merge(definition, params), ids(1, 5), ids(1, 4), [5], [4]) for definition in (graphdef, low)]
    assert results[1].dtype == jnp.float32
    np.testing.assert_allclose(results[1], results[0], atol=0.1)
    assert not np.array_equal(results[1], results[0])

    # One target token after another, from a cache.
    model, target, (segments, positions) = nnx.merge(low, params), ids(1, 5), segments_and_positions([5])
    memory = model.encode(ids(1, 5), segments, positions)
    cache, steps = init_cache(model, memory, segments, beam=1, max_length=5), []
    for position in range(5):
        hidden, cache = decode_step(model, target[:, position : position + 1], jnp.int32(position), cache)
        steps.append(hidden)
    whole = model.decode(target, segments, positions, memory, segments)
    assert whole.dtype == hidden.dtype == jnp.bfloat16
    np.testing.assert_allclose(jnp.concatenate(steps, axis=1), whole, atol=0.1)
