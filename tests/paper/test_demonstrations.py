"""The experiments confirm the paper's arguments on the model's own parts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from vaswani.model import attention
from vaswani.paper import demonstrations
from vaswani.paper.demonstrations import SMALL, one_head, small_model


def test_the_past_does_reach_later_outputs():
    graphdef, params = small_model()
    ones, positions = jnp.ones((2, 10), jnp.int32), jnp.tile(jnp.arange(10), (2, 1))
    targets = jnp.stack([jnp.arange(14, 24), jnp.arange(14, 24).at[4].set(30)])

    @jax.jit
    def decode(params):
        model = nnx.merge(graphdef, params)
        memory = model.encode(jnp.tile(jnp.arange(4, 14), (2, 1)), ones, positions)
        return model.decode(targets, ones, positions, memory, ones)

    difference = np.abs(np.diff(decode(params), axis=0)[0]).max(axis=-1)
    assert np.all(difference[:4] == 0) and np.all(difference[4:] > 1e-3)


def test_depth_needs_add_and_norm():
    residual, add_and_norm = demonstrations.depth_gradient_norms(80)
    assert residual > 1e4
    assert 0.1 < add_and_norm < 2


def test_an_unscaled_softmax_lets_no_gradient_through_at_large_d_k():
    rng = np.random.default_rng(demonstrations.SEED)
    queries, keys = jnp.asarray(rng.standard_normal((2, 64, 512)), jnp.float32)
    direction = jnp.asarray(rng.standard_normal(512), jnp.float32)

    @jax.jit
    def gradient_norm(scale):
        def output(Q):
            return attention(Q[:, None], keys[:8, None], keys[:8, None])[0][:, 0] @ direction

        # Relative to the size of the argument, so that the factor itself does not count.
        _, pull_back = jax.vjp(output, queries * scale)
        return jnp.linalg.norm(pull_back(jnp.ones(64))[0], axis=-1)

    unscaled, scaled = (np.median(gradient_norm(scale)) for scale in (np.sqrt(512), 1.0))
    assert unscaled < 1e-2 * scaled


def test_jacobian_of_the_softmax():
    scores = jnp.array([0.3, -1.0, 2.0])
    expected = jax.jacobian(jax.nn.softmax)(scores)
    actual = demonstrations.softmax_jacobian(np.asarray(jax.nn.softmax(scores))[None])[0]
    np.testing.assert_allclose(actual, expected, atol=1e-7)


@pytest.mark.parametrize("scaled", [True, False])
def test_masked_weights_are_exactly_zero_and_rows_sum_to_one(scaled):
    Q, K, V = np.random.default_rng(0).normal(0, 3, (3, 9, SMALL.d_k))
    weights, output = one_head(Q, K, V, scaled=scaled, causal=True)
    assert np.all(weights[np.triu_indices(9, 1)] == 0)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(output, weights @ V, atol=1e-5)


def test_wavelengths_grow_geometrically():
    waves = demonstrations.wavelengths(64) / (2 * np.pi)
    np.testing.assert_allclose(waves, 10000 ** (np.arange(0, 64, 2) / 64), rtol=1e-6)


def test_slices_draw_the_numbers_of_a_whole():
    q, k = np.random.default_rng(3).standard_normal((2, 25_000, 4))
    variance = demonstrations.dot_product_variance(np.random.default_rng(3), 4, 25_000)
    assert variance == pytest.approx(np.sum(q * k, axis=1).var(), rel=1e-12)


def test_smoothed_targets():
    np.testing.assert_allclose(demonstrations.smoothed_target(5, 0.1), [0.02, 0.02, 0.02, 0.02, 0.92], atol=1e-6)
    loss, nll = demonstrations.smoothed_loss([[0.2] * 5, [0.1, 0.1, 0.1, 0.1, 0.6]], 0.1)
    assert loss == pytest.approx([np.log(5), -0.92 * np.log(0.6) - 0.08 * np.log(0.1)], rel=1e-5)
    assert nll == pytest.approx([np.log(5), -np.log(0.6)], rel=1e-5)
