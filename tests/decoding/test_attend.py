"""The weights are those that the model's outputs come from, and an alignment is read off them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from vaswani.decoding.attend import align, attend
from vaswani.model import build
from vaswani.schema import ModelConfig

CONFIG = ModelConfig(N=2, d_model=16, d_ff=32, h=2, d_k=6, d_v=10)
SOURCE, TARGET = jnp.array([[4, 5, 6, 7, 2]]), jnp.array([[1, 8, 9, 10]])


@pytest.fixture(scope="module")
def attended():
    """hidden, maps: of `attend`. plain: hidden by the model itself. x: the encoder's output computed from the maps."""
    graphdef, _ = jax.eval_shape(lambda: build(CONFIG, 15))

    @jax.jit
    def both(params):
        model = nnx.merge(graphdef, params)
        hidden, maps = attend(model, SOURCE, TARGET)
        ones = jnp.ones((1, 5), jnp.int32)
        memory = model.encode(SOURCE, ones, jnp.arange(5)[None])
        plain = model.decode(TARGET, ones[:, :4], jnp.arange(4)[None], memory, ones)

        x = model.embed(SOURCE, model.source_positions(jnp.arange(5)[None], 5))
        for layer, weights in zip(model.encoder, maps.encoder, strict=True):
            _, V = layer.self_attention.keys_values(x)
            heads = jnp.einsum("bhqk,bkhd->bqhd", weights, V)
            x = layer.self_attention_norm(x, layer.self_attention.output(heads))
            x = layer.feed_forward_norm(x, layer.feed_forward(x))
        return hidden, maps, plain, x, memory

    return both(jax.jit(lambda: build(CONFIG, 15)[1])())


def test_attend_gives_the_output_of_the_model(attended):
    hidden, _, plain, _, _ = attended
    np.testing.assert_allclose(hidden, plain, rtol=1e-6, atol=1e-6)


def test_the_weights_are_those_that_made_the_output(attended):
    _, _, _, from_maps, memory = attended
    np.testing.assert_allclose(from_maps, memory, rtol=1e-5, atol=1e-5)


def test_shapes_sums_and_the_causal_mask(attended):
    maps = attended[1]
    assert maps.encoder.shape == (2, 1, 2, 5, 5)
    assert maps.decoder.shape == (2, 1, 2, 4, 4)
    assert maps.cross.shape == (2, 1, 2, 4, 5)
    for weights in maps:
        np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-5)
    assert np.all(np.asarray(maps.decoder)[..., *np.triu_indices(4, 1)] == 0)


@pytest.fixture
def model(random_model):
    graphdef, params = random_model(CONFIG, 15)
    return nnx.merge(graphdef, jax.tree.map(jnp.asarray, params))


def test_padding_changes_no_weight(model):
    padded = attend(model, jnp.pad(SOURCE, ((0, 0), (0, 3))), jnp.pad(TARGET, ((0, 0), (0, 2))))[1]
    plain = attend(model, SOURCE, TARGET)[1]
    for name, S, T in (("encoder", 5, 5), ("decoder", 4, 4), ("cross", 5, 4)):
        weights, longer = getattr(plain, name), getattr(padded, name)
        np.testing.assert_allclose(longer[..., :T, :S], weights, rtol=1e-5, atol=1e-6)
        assert np.all(np.asarray(longer)[..., :T, S:] == 0)


def test_an_alignment_is_the_largest_weight_of_the_last_layer(model):
    """Two sources of unequal length, two outputs each; by hand from the weights of each pair alone."""
    sources = [[4, 5, 6, 7, 8, 2], [9, 10, 2]]
    outputs = [[[11, 12, 13, 2], [5, 2]], [[6, 7, 8, 9], [14, 4, 2]]]  # one was cut at its limit
    source = jnp.array([ids + [0] * (6 - len(ids)) for ids in sources])
    tokens = jnp.array([[ids + [0] * (4 - len(ids)) for ids in pair] for pair in outputs])
    found = np.asarray(jax.jit(lambda *batch: align([model], *batch))(source, tokens))
    for b, ids in enumerate(sources):
        for k, output in enumerate(outputs[b]):
            _, maps = attend(model, jnp.array([ids]), jnp.array([[1, *output[:-1]]]))
            weights = np.asarray(maps.cross)[-1, 0].mean(axis=0)  # [T, S]
            expected = weights[:, :-1].argmax(axis=1)  # without the end symbol
            assert found[b, k, : len(output)].tolist() == expected.tolist()
    assert len(set(found.ravel().tolist())) > 2
