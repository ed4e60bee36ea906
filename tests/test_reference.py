"""The reference against values worked by hand or known from the paper, before anything is compared with it."""

import math

import numpy as np
import pytest

from tests import reference


def test_attention_worked_by_hand():
    Q = np.array([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]])
    K = np.array([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]])
    V = np.array([[1, 0, 0, 1], [0, 1, 0, 2], [0, 0, 1, 3]])
    weights, output = reference.attention(Q, K, V)
    np.testing.assert_allclose(weights, [[0.506, 0.186, 0.307], [0.090, 0.665, 0.245], [1 / 3] * 3], atol=5e-4)
    np.testing.assert_allclose(output[:, 3], [1.801, 2.155, 2.000], atol=5e-4)


def test_causal_attention_worked_by_hand():
    Q = K = np.array([[1, 0], [0, 1], [1, 1]])
    weights, output = reference.attention(Q, K, np.array([[1, 0], [0, 2], [3, 1]]), causal=True)
    np.testing.assert_allclose(weights, [[1, 0, 0], [0.330, 0.670, 0], [0.248, 0.248, 0.503]], atol=5e-4)
    np.testing.assert_allclose(output, [[1, 0], [0.330, 1.340], [1.759, 1.000]], atol=6e-4)


def test_unscaled_attention_of_the_identity():
    weights, output = reference.attention(np.eye(3), np.eye(3), np.arange(1, 10).reshape(3, 3), scaled=False)
    np.testing.assert_allclose(weights[0], [0.5761, 0.2119, 0.2119], atol=5e-5)
    assert output[0, 0] == pytest.approx(2.907, abs=5e-4)


def test_heads_take_their_own_columns():
    """Two heads that each copy half of the model's dimensions are two attentions side by side; d_k ≠ d_v."""
    rng = np.random.default_rng(0)
    x, A = rng.normal(size=(4, 6)), rng.normal(size=(2, 6, 2))
    p = {"W_Q": np.hstack(A), "W_K": np.hstack(A), "W_V": np.eye(6), "W_O": np.eye(6)}
    heads = [reference.attention(x @ A[i], x @ A[i], x[:, 3 * i : 3 * i + 3])[1] for i in range(2)]
    np.testing.assert_allclose(reference.multi_head_attention(x, x, p, 2), np.hstack(heads))


def test_layer_norm_by_hand():
    p = {"scale": np.array([1.0, 2.0]), "bias": np.array([0.0, 1.0])}
    np.testing.assert_allclose(reference.layer_norm(np.array([1.0, 3.0]), p), [-1, 3], rtol=1e-6)
    # A variance of ε itself: the root is of 2ε.
    np.testing.assert_allclose(reference.layer_norm(np.array([-1e-3, 1e-3]), p), [-(0.5**0.5), 1 + 2**0.5])


def test_sinusoids_golden():
    PE = reference.sinusoids(4, 512)
    np.testing.assert_allclose(PE[3, [0, 1, 510, 511]], [0.141120, -0.989992, 0.000311, 1.0], atol=5e-7)


def test_learning_rate_golden():
    base = [reference.learning_rate(step, 512, 4000) for step in (1, 4000, 16000)]
    np.testing.assert_allclose(base, [1.746928e-7, 6.987712e-4, 3.493856e-4], rtol=2e-7)
    assert reference.learning_rate(4000, 1024, 4000) == pytest.approx(4.941059e-4, rel=2e-7)


def test_length_penalty_golden():
    assert -3 / reference.length_penalty(5, 0.6) == pytest.approx(-2.20807, abs=5e-6)


def test_losses_by_hand():
    """V = 5, ε 0.1, form (1 − ε)·onehot + ε/V: the target gets 0.92, the others 0.02; p = (1, ¼, ¼, ¼, ¼)/2."""
    logits = np.log([[4.0, 1, 1, 1, 1], [4, 1, 1, 1, 1]])
    assert reference.smoothed_loss(logits[:1], [0], 0.1) == pytest.approx(1.16 * math.log(2))
    assert reference.smoothed_loss(logits, [0, 1], 0.1) == pytest.approx((1.16 + 2.96) * math.log(2))
    assert reference.negative_log_likelihood(logits, [0, 1]) == pytest.approx(4 * math.log(2))


def test_without_positions_order_is_unseen():
    """Permuting a source permutes the encoder's outputs, if nothing says what stands where (section 3.5)."""
    rng = np.random.default_rng(1)
    params = random_parameters(rng, V=9, N=2, d_model=4, d_ff=8, h=2, d_k=3, d_v=5)
    order = [2, 0, 3, 1]
    source = np.array([5, 3, 8, 4])
    seen = reference.encode(params, source, 2)[order] - reference.encode(params, source[order], 2)
    assert np.abs(seen).max() > 1e-3
    params["source_positions"] = np.zeros((4, 4))
    unseen = reference.encode(params, source, 2)[order] - reference.encode(params, source[order], 2)
    assert np.abs(unseen).max() < 1e-12


def test_greedy_takes_the_likeliest_at_every_step():
    params = random_parameters(np.random.default_rng(2), V=9, N=1, d_model=4, d_ff=8, h=2, d_k=3, d_v=5)
    source, never = [4, 7, 2], (0, 1, 3)
    output, log_prob = reference.greedy(params, source, 2, begin=1, end=2, limit=6, never=never)
    log_p = reference.log_softmax(reference.logits(params, source, [1, *output[:-1]], 2))
    assert log_prob == pytest.approx(sum(log_p[range(len(output)), output]))
    log_p[:, never] = -np.inf
    assert output == log_p.argmax(axis=1).tolist()
    assert len(output) == 6 or output[-1] == 2


def random_parameters(rng, V, N, d_model, d_ff, h, d_k, d_v):
    """Every array random, LayerNorm's too, under the reference's names."""

    def attention():
        shapes = {"W_Q": (d_model, h * d_k), "W_K": (d_model, h * d_k), "W_V": (d_model, h * d_v)}
        return {name: rng.normal(size=shape) for name, shape in (shapes | {"W_O": (h * d_v, d_model)}).items()}

    def layer(attentions):
        ffn = {"W_1": (d_model, d_ff), "b_1": d_ff, "W_2": (d_ff, d_model), "b_2": d_model}
        norms = [{"scale": rng.normal(1, 0.1, d_model), "bias": rng.normal(size=d_model)} for _ in (*attentions, "ffn")]
        return {name: attention() for name in attentions} | {
            "ffn": {name: rng.normal(size=shape) for name, shape in ffn.items()},
            "norms": norms,
        }

    return {
        "embedding": rng.normal(size=(V, d_model)),
        "encoder": [layer(["self"]) for _ in range(N)],
        "decoder": [layer(["self", "cross"]) for _ in range(N)],
    }
