"""The product's model, loss, gradients and greedy search equal the independent float64 reference.

Logits, of size 1, agree to 1e-5; what float32 loses is about 1e-6.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests import reference
from vaswani import model as transformer
from vaswani.data.packing import Batch
from vaswani.data.tokenizer import BEGIN, END, PAD, UNKNOWN
from vaswani.decoding.beam_search import beam_search
from vaswani.decoding.incremental import decode_step, init_cache, reorder_cache
from vaswani.schema import ModelConfig
from vaswani.training.train_step import batch_loss

V = 11
SINUSOIDS = ModelConfig(N=2, d_model=8, d_ff=16, h=2, d_k=3, d_v=5)  # d_k ≠ d_v ≠ d_model / h
LEARNED_POSITIONS = dataclasses.replace(SINUSOIDS, positions="learned", max_positions=12)

# (source, target), each with its end symbol, of unequal lengths on both sides.
PAIRS = [
    ([5, 9, 4, 2], [6, 4, 10, 8, 7, 2]),
    ([7, 7, 3, 10, 6, 8, 2], [4, 9, 2]),
    ([10, 2], [5, 5, 3, 7, 9, 6, 2]),
    ([2], [2]),
    ([4, 8, 6, 5, 2], [10, 4, 4, 6, 2]),
    ([6, 6, 4, 9, 8, 3, 10, 5, 7, 2], [8, 3, 4, 10, 9, 5, 7, 6, 4, 9, 10, 2]),
]
# Which pairs stand in which row; the last pair fills one alone, without padding, and some rows are all padding.
PADDED = [[0], [1], [], [2], [3], [4], [5]]
PACKED = [[1, 3, 2], [], [0, 4], [5], [], [], []]
ROW = (10, 12)  # length of the source rows, and of the target rows


def test_add_and_norm_of_small_values():
    """Variances of the size of LayerNorm's ε: with another ε, or one outside the root, this would differ."""
    rng = np.random.default_rng(5)
    x, sublayer_output = rng.normal(0, 1e-3, (2, 3, 8)).astype(np.float32)
    theirs = reference.layer_norm((x + sublayer_output).astype(np.float64), {"scale": np.ones(8), "bias": np.zeros(8)})
    ours = transformer.AddNorm(SINUSOIDS, nnx.Rngs(0))(jnp.asarray(x), jnp.asarray(sublayer_output))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("config", [SINUSOIDS, LEARNED_POSITIONS], ids=["sinusoids", "learned"])
def test_logits(config):
    graphdef, params = make(config)

    @jax.jit
    def all_logits(params, b):
        model = nnx.merge(graphdef, params)
        memory = model.encode(b.source, b.source_segments, b.source_positions)
        return model.logits(
            model.decode(b.target_input, b.target_segments, b.target_positions, memory, b.source_segments)
        )

    theirs = [reference_logits(reference.of_the_product(params), pair, config.h) for pair in range(len(PAIRS))]
    for rows in (PADDED, PACKED):
        batch = make_batch(rows)
        logits = np.asarray(all_logits(params, batch))
        assert np.isfinite(logits).all()
        for row, pairs in enumerate(rows):
            for segment, pair in enumerate(pairs, start=1):
                ours = logits[row][np.asarray(batch.target_segments)[row] == segment]
                np.testing.assert_allclose(ours, theirs[pair], rtol=0, atol=1e-5)


def test_loss_and_gradients():
    """The smoothed loss's gradient at random entries of every array of the parameters, against finite differences."""
    graphdef, params = make(LEARNED_POSITIONS)

    def loss(params, batch):
        sums = batch_loss(graphdef, params, batch, 0.1, None)
        return sums.loss, sums

    gradient = jax.jit(jax.grad(loss, has_aux=True))
    packed, sums = gradient(params, make_batch(PACKED))
    padded, padded_sums = gradient(params, make_batch(PADDED))

    exact = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    names = reference.of_the_product(exact)
    nll = sum(
        reference.negative_log_likelihood(reference_logits(names, i, 2), target) for i, (_, target) in enumerate(PAIRS)
    )
    for ours in (sums, padded_sums):
        np.testing.assert_allclose(ours.loss, reference_loss(exact, 2), rtol=1e-6)
        np.testing.assert_allclose(ours.nll, nll, rtol=1e-6)
        assert (ours.source_tokens, ours.target_tokens) == (29, 34)

    rng = np.random.default_rng(1706)
    checked = 0
    arrays = zip(jax.tree.leaves_with_path(exact), jax.tree.leaves(packed), jax.tree.leaves(padded), strict=True)
    for (path, array), in_packed, in_padded in arrays:
        for _ in range(5 if array.shape == (V, 8) else 1):
            index = tuple(rng.integers(array.shape))
            value, losses = array[index], []
            for step in (1e-5, -1e-5):
                array[index] = value + step
                losses.append(reference_loss(exact, 2))
            array[index] = value
            slope = (losses[0] - losses[1]) / 2e-5
            name = f"{jax.tree_util.keystr(path)}{index}"
            np.testing.assert_allclose([in_packed[index], in_padded[index]], slope, rtol=1e-5, atol=2e-5, err_msg=name)
            checked += 1
    assert checked >= 60


@pytest.mark.parametrize("config", [SINUSOIDS, LEARNED_POSITIONS], ids=["sinusoids", "learned"])
def test_greedy_search(config):
    """All sources in one batch, cached, in a compiled loop, against the whole decoder anew for each token."""
    graphdef, params = make(config)
    limits = np.array([6, 3, 0, 8, 1, 5, 8])  # the third row is empty

    @jax.jit
    def search(params, batch):
        model = nnx.merge(graphdef, params)

        def step(tokens, position, cache):
            hidden, cache = decode_step(model, tokens, position, cache)
            return model.logits(hidden), cache

        memory = model.encode(batch.source, batch.source_segments, batch.source_positions)
        cache = init_cache(model, memory, batch.source_segments, beam=1, max_length=8)
        options = {"beam": 1, "alpha": 0.6, "max_length": 8}
        return beam_search(step, reorder_cache, cache, jnp.asarray(limits), **options)

    found = jax.tree.map(lambda x: np.asarray(x)[:, 0], search(params, make_batch(PADDED)))
    theirs = reference.of_the_product(params)
    for row, pair in [(0, 0), (1, 1), (3, 2), (4, 3), (5, 4), (6, 5)]:
        never = (PAD, BEGIN, UNKNOWN)
        tokens, log_prob = reference.greedy(theirs, PAIRS[pair][0], 2, BEGIN, END, limits[row], never)
        assert found.tokens[row, : found.lengths[row]].tolist() == tokens
        assert found.log_probs[row] == pytest.approx(log_prob, abs=1e-5)
        score = log_prob / reference.length_penalty(len(tokens), 0.6)
        assert found.scores[row] == pytest.approx(score, abs=1e-5)


def make(config):
    """A model whose every array is random: at their initial values biases and LayerNorms would go untested."""
    graphdef, params = transformer.build(config, V, seed=3)
    rng = np.random.default_rng(3)
    return graphdef, jax.tree.map(lambda x: x + rng.normal(0, 0.3, x.shape).astype(np.float32), params)


def make_batch(rows):
    """One micro-batch, [rows, length]: the pairs of each row one after the other, then padding."""
    sides = []
    for side, length in enumerate(ROW):
        ids, inputs, segments, positions = np.full((4, len(rows), length), PAD, np.int32)
        for row, pairs in enumerate(rows):
            start = 0
            for segment, pair in enumerate(pairs, start=1):
                sentence = PAIRS[pair][side]
                stretch = (row, slice(start, start + len(sentence)))
                ids[stretch], inputs[stretch] = sentence, [BEGIN, *sentence[:-1]]
                segments[stretch], positions[stretch] = segment, range(len(sentence))
                start += len(sentence)
        sides.append([ids, inputs, segments, positions])
    (source, _, *source_where), (target_output, target_input, *target_where) = sides
    return Batch(*map(jnp.asarray, (source, *source_where, target_input, target_output, *target_where)))


def reference_logits(params, pair, h):
    source, target = PAIRS[pair]
    return reference.logits(params, source, [BEGIN, *target[:-1]], h)


def reference_loss(params, h):
    """Smoothed with 0.1, summed over all pairs; takes the product's parameters."""
    names = reference.of_the_product(params)
    return sum(
        reference.smoothed_loss(reference_logits(names, i, h), target, 0.1) for i, (_, target) in enumerate(PAIRS)
    )
