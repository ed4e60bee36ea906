"""The search against exhaustive enumeration, hand-worked models, and the real model without its cache."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax import lax

from vaswani import model as transformer
from vaswani.data.tokenizer import BEGIN, END, PAD, UNKNOWN
from vaswani.decoding.beam_search import NEVER_GENERATED, beam_search, best_extensions, length_penalty, pick
from vaswani.decoding.incremental import decode_step, init_cache, reorder_cache
from vaswani.errors import UserError
from vaswani.schema import ModelConfig

WORDS = (4, 5, 6)  # with END, four tokens that can be generated
V = 7


@partial(jax.jit, static_argnames=("beam", "alpha", "n_best"))
def jitted_table_search(tables, limits, **options):
    def step(tokens, position, history):
        history = jnp.where(position == 0, 0, history * 3 + tokens - WORDS[0])
        return tables[jnp.arange(len(limits))[:, None], position, history], history

    start = jnp.zeros((len(limits), options["beam"]), jnp.int32)

    def reorder(cache, parents, length):
        return pick(cache, parents)

    return beam_search(step, reorder, start, limits, max_length=tables.shape[1], **options)


def table_search(tables, limits, **options):
    """Searches a model that is a table of logits for each sentence and each history.

    Args:
        tables: [B, positions, 3^(positions - 1), V]; a history of words is its number in base 3.
        limits: [B].
    """
    return jax.device_get(jitted_table_search(np.asarray(tables), np.asarray(limits, np.int32), **options))


def chain_search(steps, limits, alpha, n_best=1):
    """Searches a model whose next-token probabilities depend on the position alone: [{token: probability}, …]."""
    logits = np.full((6, V), -np.inf, np.float32)
    for position, probabilities in enumerate(steps):
        for token, p in probabilities.items():
            logits[position, token] = np.log(p)
    tables = np.broadcast_to(logits[None, :, None], (4, 6, 3**5, V))
    return table_search(tables, limits + [0] * (4 - len(limits)), beam=3, n_best=n_best, alpha=alpha)


def exhaustive(table, limit, alpha):
    """Every finished output of at most `limit` tokens, the best first: [(score, log_prob, tokens)]."""
    log_p = np.asarray(jax.nn.log_softmax(table, axis=-1))
    found = []
    for words in itertools.chain(*(itertools.product(WORDS, repeat=n) for n in range(limit))):
        history, log_prob = 0, 0.0
        for position, token in enumerate((*words, END)):
            log_prob += log_p[position, history, token]
            history = history * 3 + token - WORDS[0]
        found.append((log_prob / ((5 + len(words) + 1) / 6) ** alpha, log_prob, (*words, END)))
    return sorted(found, reverse=True)


def random_tables(seed, sentences=6, positions=4, scale=2.0):
    shape = (sentences, positions, 3 ** (positions - 1), V)
    return scale * np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def outputs(found, sentence):
    return [
        tuple(tokens[:length].tolist())
        for tokens, length in zip(found.tokens[sentence], found.lengths[sentence], strict=True)
    ]


@pytest.mark.parametrize(("alpha", "n_best"), [(0.0, 1), (0.6, 1), (0.6, 12), (1.0, 1)])
def test_wide_beam_is_exhaustive(alpha, n_best):
    tables, limits = random_tables(seed=1), [4, 4, 4, 3, 2, 1]
    found = table_search(tables, limits, beam=40, alpha=alpha, n_best=n_best)
    for sentence, limit in enumerate(limits):
        best = exhaustive(tables[sentence], limit, alpha)[:n_best]
        n = len(best)  # with few tokens there are fewer outputs than 12
        assert outputs(found, sentence)[:n] == [tokens for _, _, tokens in best]
        np.testing.assert_allclose(found.scores[sentence, :n], [score for score, _, _ in best], rtol=1e-5)
        np.testing.assert_allclose(found.log_probs[sentence, :n], [log_prob for _, log_prob, _ in best], rtol=1e-5)


def test_golden_score():
    assert float(-3 / length_penalty(5, alpha=0.6)) == pytest.approx(-2.20807, abs=5e-6)
    p = np.exp(-3 / 5)  # what is left goes to a token that cannot be generated
    steps = [{4: p, UNKNOWN: 1 - p}] * 4 + [{END: p, UNKNOWN: 1 - p}]
    found = chain_search(steps, [5], alpha=0.6)
    assert outputs(found, 0)[0] == (4, 4, 4, 4, END)
    assert found.log_probs[0, 0] == pytest.approx(-3, abs=1e-5)
    assert found.scores[0, 0] == pytest.approx(-2.20807, abs=1e-5)


def test_longer_hypothesis_wins_under_alpha():
    steps = [{END: 0.5, 4: 0.45, 5: 0.05}, {5: 1.0}, {6: 1.0}, {END: 1.0}]
    assert outputs(chain_search(steps, [4], alpha=0.0), 0)[0] == (END,)
    assert outputs(chain_search(steps, [4], alpha=1.0), 0)[0] == (4, 5, 6, END)


def test_an_end_takes_no_place_in_the_beam():
    tables = np.full((4, 6, 3**5, V), -np.inf, np.float32)
    tables[..., [END, *WORDS]] = np.log(0.25)
    # All three words stay alive beside the end, also the least likely; it goes on with probability 1.
    tables[:, 0, 0, [END, *WORDS]] = np.log([0.3, 0.25, 0.24, 0.21])
    for position in range(1, 6):
        history = 2 * 3 ** (position - 1)  # 6, 4, 4, …
        tables[:, position, history] = -np.inf
        tables[:, position, history, 4 if position < 5 else END] = 0
    found = table_search(tables, [6, 5, 0, 0], beam=3, alpha=1.0, n_best=1)
    assert outputs(found, 0) == [(6, 4, 4, 4, 4, END)]
    assert found.scores[0, 0] == pytest.approx(np.log(0.21) / (11 / 6), rel=1e-5)
    assert outputs(found, 1) == [(END,)]


def test_without_end_the_best_alive_is_returned_at_the_sentences_own_limit():
    found = chain_search([{4: 0.7, 5: 0.3}] * 6, [1, 3, 6, 0], alpha=0.6, n_best=2)
    assert found.lengths[:3, 0].tolist() == [1, 3, 6]
    for sentence, limit in enumerate([1, 3, 6]):
        assert outputs(found, sentence)[0] == (4,) * limit
        assert found.scores[sentence, 0] == pytest.approx(limit * np.log(0.7) / ((5 + limit) / 6) ** 0.6, rel=1e-5)
        assert (found.tokens[sentence, 0, limit:] == PAD).all()
    assert (np.diff(found.scores[:3]) < 0).all() and np.isfinite(found.scores[:3]).all()


def test_end_may_be_the_last_token_the_limit_allows():
    steps = [{4: 1.0}, {4: 1.0}, {END: 0.1, 4: 0.9}, {END: 1.0}]
    found = chain_search(steps, [2, 3, 4], alpha=0.6)
    # One less and it is cut off; at the limit an end of probability 0.1 ranks above what has none.
    assert [outputs(found, sentence)[0] for sentence in range(3)] == [(4, 4), (4, 4, END), (4, 4, 4, END)]


def test_n_best_does_not_change_the_best():
    tables, limits = random_tables(seed=2, sentences=40, positions=6), [6] * 40
    best = table_search(tables, limits, beam=3, alpha=0.6)
    more = table_search(tables, limits, beam=3, alpha=0.6, n_best=3)
    np.testing.assert_array_equal(more.tokens[:, :1], best.tokens)
    np.testing.assert_array_equal(more.scores[:, :1], best.scores)


@pytest.mark.parametrize("n_best", [0, 5])
def test_n_best_beyond_the_beam_is_refused(n_best):
    with pytest.raises(UserError, match=f"n-best = {n_best}.*1 to the beam, decode.beam = 4"):
        table_search(random_tables(seed=0), [4] * 6, beam=4, alpha=0.6, n_best=n_best)


def test_greedy_takes_the_likeliest_token_until_it_is_end():
    tables = random_tables(seed=3, sentences=30, positions=6)
    found = table_search(tables, [6] * 30, beam=1, alpha=0.6)
    tables[..., NEVER_GENERATED] = -np.inf
    for sentence in range(30):
        expected, history = [], 0
        while len(expected) < 6 and expected[-1:] != [END]:
            expected.append(int(tables[sentence, len(expected), history].argmax()))
            history = history * 3 + expected[-1] - WORDS[0]
        assert outputs(found, sentence) == [tuple(expected)]


def test_pad_begin_and_unknown_are_never_generated():
    tables = random_tables(seed=4)
    tables[..., NEVER_GENERATED] += 10
    found = table_search(tables, [4] * 6, beam=4, alpha=0.6, n_best=4)
    assert not np.isin([t for s in range(6) for o in outputs(found, s) for t in o], [PAD, BEGIN, UNKNOWN]).any()


def test_sentences_that_are_done_do_not_change_and_are_not_waited_for():
    steps = []

    def step(tokens, position, cache):
        jax.debug.callback(lambda p: steps.append(int(p)), position)
        ends = jnp.arange(3)[:, None] < position  # sentence 0 ends at position 1, sentence 1 at 2, sentence 2 at 3
        logits = jnp.full((*tokens.shape, V), -20.0).at[..., 4].set(0.0)
        return logits.at[..., END].set(jnp.where(ends, 20.0, -20.0)), cache

    search = partial(beam_search, step, lambda cache, *_: cache, None, beam=2, alpha=0.6, max_length=30)
    found = jax.device_get(jax.jit(search)(np.array([30, 30, 0])))
    jax.effects_barrier()
    assert outputs(found, 0) == [(4, END)] and outputs(found, 1) == [(4, 4, END)] and found.lengths[2, 0] == 0
    assert steps == [0, 1, 2]


@pytest.mark.parametrize("vocabulary", [5, 300])
def test_best_extensions_equal_a_top_k_over_all(vocabulary):
    rng = np.random.default_rng(5)
    # Few distinct values, so that there are many equals, whose order must be that of a plain top-k.
    logits = np.round(2 * rng.standard_normal((5, 3, vocabulary))).astype(np.float32) / 2
    alive = np.round(rng.standard_normal((5, 3))).astype(np.float32)
    alive[:, 2] = -np.inf

    def by_one_top_k(logits, alive):
        everything = logits + (alive - jax.nn.logsumexp(logits, axis=-1))[..., None]
        log_probs, index = lax.top_k(everything.at[..., NEVER_GENERATED].set(-jnp.inf).reshape(5, -1), 6)
        return log_probs, index // vocabulary, index % vocabulary

    both = jax.jit(lambda *x: (best_extensions(*x, n=6), by_one_top_k(*x)))
    found, expected = jax.device_get(both(logits, alive))
    np.testing.assert_array_equal(found[0], expected[0])
    real = expected[0] > -np.inf
    assert real.sum() >= 20
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x[real], y[real])


CONFIG, VOCABULARY, T = ModelConfig(N=2, d_model=16, d_ff=32, h=2, d_k=8, d_v=6, P_drop=0.0), 15, 12
SOURCE = jnp.array([[5, 7, 9, 4, END], [6, 6, END, PAD, PAD], [14, 4, 11, END, PAD], [8, END, PAD, PAD, PAD]])


def model_search(graphdef, params, source, limits, *, cached=True, parents_seen=None, halve=False):
    """The real model's 4 best outputs; each step's parents are appended to `parents_seen`."""
    model = nnx.merge(graphdef, params)
    segments = (source != PAD).astype(jnp.int32)
    memory = model.encode(source, segments, jnp.broadcast_to(jnp.arange(source.shape[1]), source.shape))

    def cached_step(tokens, position, cache):
        hidden, cache = decode_step(model, tokens, position, cache)
        return model.logits(hidden), cache

    def uncached_step(tokens, position, history):
        """Decodes every hypothesis from its first token on, as a sentence of its own."""
        history = history.at[:, :, position].set(tokens)
        flat = history.reshape(-1, T)
        positions = jnp.broadcast_to(jnp.arange(T), flat.shape)
        repeated = (jnp.repeat(x, tokens.shape[1], axis=0) for x in (memory, segments))
        hidden = model.decode(flat, jnp.ones_like(flat), positions, *repeated)[:, position]
        return model.logits(hidden).reshape(*tokens.shape, -1), history

    def reorder(cache, parents, length):
        if parents_seen is not None:
            jax.debug.callback(lambda p: parents_seen.append(np.asarray(p)), parents)
        return reorder_cache(cache, parents, length) if cached else pick(cache, parents)

    step, cache = cached_step, init_cache(model, memory, segments, 4, T)
    if not cached:
        step, cache = uncached_step, jnp.zeros((len(source), 4, T), jnp.int32)
    return beam_search(step, reorder, cache, limits, beam=4, alpha=0.6, n_best=4, max_length=T, halve=halve)


def test_real_model(random_model):
    parents_seen, graphdef = [], random_model(CONFIG, VOCABULARY)[0]
    search = jax.jit(partial(model_search, graphdef, limits=jnp.full(4, T), parents_seen=parents_seen))
    uncached_search = jax.jit(partial(model_search, graphdef, limits=jnp.full(4, T), cached=False))
    for seed in range(2):
        params = random_model(CONFIG, VOCABULARY, seed)[1]

        # Cached decoding equals uncached decoding, hypotheses overtaking each other on the way.
        parents_seen.clear()
        found, expected = jax.device_get((search(params, SOURCE), uncached_search(params, SOURCE)))
        jax.effects_barrier()

        assert sum((parents[:, 0] != 0).sum() for parents in parents_seen[1:]) >= 4
        np.testing.assert_array_equal(found.tokens, expected.tokens)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)

        # A sentence's outputs are the same whatever stands beside it.
        assert len({str(outputs(found, sentence)) for sentence in range(4)}) == 4
        for rows in ([3, 1, 0, 2], [1, 1, 1, 0]):
            again = search(params, SOURCE[np.array(rows)])
            np.testing.assert_array_equal(again.tokens, found.tokens[np.array(rows)])
            np.testing.assert_allclose(again.scores, found.scores[np.array(rows)], rtol=1e-5)


def test_a_search_whose_first_half_has_left_is_the_same_search(random_model):
    graphdef, params = random_model(CONFIG, VOCABULARY)
    source = jnp.concatenate([SOURCE, SOURCE[1:2] + jnp.array([1, 2, 0, 0, 0])])
    searches = [jax.jit(partial(model_search, graphdef, halve=halve)) for halve in (True, False)]
    for limits in (
        [3, 6, 2, T, 1],  # two go on, as half of five
        [T, 1, 2, 2, 3],  # one does, beside another that is done
        [T] * 5,
        [2, 1, 3, 3, 2],  # three are done at the same time: nobody goes on
    ):
        halved, whole = (search(params, source, jnp.array(limits)) for search in searches)
        assert len({str(outputs(whole, sentence)) for sentence in range(5)}) == 5
        np.testing.assert_array_equal(halved.tokens, whole.tokens)
        np.testing.assert_array_equal(halved.lengths, whole.lengths)
        np.testing.assert_allclose(halved.scores, whole.scores, rtol=1e-5)


def test_an_accelerator_searches_the_same(random_model, monkeypatch):
    """There the cache is read and moved as a whole, with what is not filled yet masked."""
    graphdef, params = random_model(CONFIG, VOCABULARY)
    limits = jnp.array([T, 3, 6, T])
    found = jax.jit(partial(model_search, graphdef))(params, SOURCE, limits)
    monkeypatch.setattr(transformer.jax, "default_backend", lambda: "gpu")
    elsewhere = jax.jit(partial(model_search, graphdef))(params, SOURCE, limits)
    np.testing.assert_array_equal(elsewhere.tokens, found.tokens)
    np.testing.assert_allclose(elsewhere.scores, found.scores, rtol=1e-5)
