"""The fused, chunked loss against values worked by hand and against the plain formula."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vaswani.training import loss
from vaswani.training.loss import smoothed_cross_entropy


def plain_loss(hidden, embedding, targets, epsilon):
    logits = hidden @ embedding.T
    log_p = jax.nn.log_softmax(logits)
    V = embedding.shape[0]
    q = (1 - epsilon) * jax.nn.one_hot(targets, V) + epsilon / V
    return jnp.sum(-jnp.sum(q * log_p, axis=-1) * (targets > 0))


def test_by_hand_for_five_tokens():
    """Form (1 - ε)·onehot + ε/V: with V = 5 and ε = 0.1 the target gets 0.92, each other 0.02."""
    P = np.array([0.1, 0.2, 0.3, 0.25, 0.15])
    logits = np.log(P) + 3.0  # any shift of the logits is the same distribution
    embedding = jnp.asarray(logits[:, None], jnp.float32)  # d_model 1, hidden state 1: E·1 = logits
    result = smoothed_cross_entropy(jnp.ones((1, 1)), embedding, jnp.array([2]), 0.1)
    expected = -(0.92 * np.log(0.3) + 0.02 * (np.log(0.1) + np.log(0.2) + np.log(0.25) + np.log(0.15)))
    np.testing.assert_allclose(expected, 1.2516, atol=1e-4)
    np.testing.assert_allclose(result.smoothed, expected, rtol=1e-5)
    np.testing.assert_allclose(result.nll, -np.log(0.3), rtol=1e-5)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("n", [5, 16, 37])  # less than a chunk, two chunks, chunks and a rest
def test_equals_plain_formula_value_and_gradients(monkeypatch, n, epsilon):
    monkeypatch.setattr(loss, "CHUNK", 8)
    keys = jax.random.split(jax.random.key(0), 3)
    hidden, embedding = jax.random.normal(keys[0], (n, 6)), jax.random.normal(keys[1], (11, 6))
    targets = jax.random.randint(keys[2], (n,), 0, 11).at[2].set(0)  # padding

    def ours(hidden, embedding):
        return 3.0 * smoothed_cross_entropy(hidden, embedding, targets, epsilon).smoothed

    value, grads = jax.value_and_grad(ours, argnums=(0, 1))(hidden, embedding)
    reference = lambda h, e: 3.0 * plain_loss(h, e, targets, epsilon)  # noqa: E731
    expected, expected_grads = jax.value_and_grad(reference, argnums=(0, 1))(hidden, embedding)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    for got, want in zip(grads, expected_grads, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5, rtol=1e-5)


def test_padding_does_not_count():
    hidden, embedding = jax.random.normal(jax.random.key(0), (4, 6)), jax.random.normal(jax.random.key(1), (11, 6))
    targets = jnp.array([3, 10, 7, 1])
    alone = smoothed_cross_entropy(hidden, embedding, targets, 0.1)
    padded = smoothed_cross_entropy(
        jnp.pad(hidden, ((0, 9), (0, 0)), constant_values=5.0), embedding, jnp.pad(targets, (0, 9)), 0.1
    )
    np.testing.assert_allclose(alone, padded, rtol=1e-6)


def test_only_padding_gives_zero_loss_and_gradients():
    embedding = jax.random.normal(jax.random.key(1), (11, 6))
    value, grads = jax.value_and_grad(
        lambda h, e: smoothed_cross_entropy(h, e, jnp.zeros(4, jnp.int32), 0.1).smoothed, argnums=(0, 1)
    )(jnp.ones((4, 6)), embedding)
    assert value == 0 and all(float(abs(g).max()) == 0 for g in grads)


def test_the_reported_likelihood_is_unsmoothed_and_carries_no_gradient():
    hidden, embedding = jax.random.normal(jax.random.key(0), (4, 6)), jax.random.normal(jax.random.key(1), (11, 6))
    targets = jnp.array([3, 10, 7, 1])
    nll = [smoothed_cross_entropy(hidden, embedding, targets, epsilon).nll for epsilon in (0.0, 0.1, 0.3)]
    np.testing.assert_allclose(nll, nll[0], rtol=1e-6)
    gradient = jax.grad(lambda h: smoothed_cross_entropy(h, embedding, targets, 0.1).nll)(hidden)
    assert not gradient.any()
