"""Beam search with a length penalty (section 6.1), as tensor2tensor does it, without a step back to Python.

Letters in shapes: B sentences, K hypotheses of the beam, n kept finished hypotheses, C candidates, V vocabulary,
T the most tokens an output can have.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import Bool, Float, Int

from vaswani.data.tokenizer import BEGIN, END, PAD, UNKNOWN
from vaswani.errors import UserError

Cache = TypeVar("Cache")
NEVER_GENERATED = (PAD, BEGIN, UNKNOWN)
BLOCK = 128  # vocabulary entries that are looked at together; see `best_extensions`


class Hypotheses(NamedTuple):
    """Outputs for B sentences, the best first. A score of -inf marks a place that no hypothesis took."""

    tokens: Int[Array, "B n T"]
    """The end symbol included; PAD after it."""
    lengths: Int[Array, "B n"]
    """|Y| in tokens, the end symbol counted."""
    scores: Float[Array, "B n"]
    """log P(Y|X) / lp(Y)."""
    log_probs: Float[Array, "B n"]
    """log P(Y|X), natural logarithm."""


class Rows(NamedTuple):
    """What the search knows of each of B sentences."""

    limits: Int[Array, " B"]
    """Most tokens of the output."""
    alive_tokens: Int[Array, "B K T+1"]
    """Hypotheses that go on, BEGIN first."""
    alive_log_probs: Float[Array, "B K"]
    """In descending order; -inf where there is no hypothesis."""
    finished: Hypotheses
    """The best that ended, with BEGIN still in front of their tokens."""
    done: Bool[Array, " B"]
    """Sentences whose search is over; nothing of theirs changes any more."""


class SearchState(NamedTuple):
    """What one step of the search hands to the next."""

    position: Int[Array, ""]
    """Tokens generated so far, the same for all sentences."""
    rows: Rows
    cache: Any


def length_penalty(length: Int[Array, "*n"] | int, alpha: float) -> Float[Array, "*n"]:
    """lp(Y) = ((5 + |Y|) / 6)^α, where |Y| counts the end symbol (Wu et al. 2016, equation 14; β = 0).

    >>> round(float(-3 / length_penalty(5, alpha=0.6)), 5)
    -2.20807
    """
    return ((5.0 + jnp.asarray(length, jnp.float32)) / 6.0) ** alpha


def beam_search(
    step: Callable[[Int[Array, "B K"], Int[Array, ""], Cache], tuple[Float[Array, "B K V"], Cache]],
    reorder: Callable[[Cache, Int[Array, "B K"], Int[Array, ""]], Cache],
    cache: Cache,
    limits: Int[Array, " B"],
    *,
    beam: int,
    alpha: float,
    n_best: int = 1,
    max_length: int,
    halve: bool = False,
) -> Hypotheses:
    """Finds, for each sentence, the outputs Y with the highest log P(Y|X) / lp(Y).

    A sentence is done as soon as its worst kept finished score (n_best = 1: its best) is at least what its best alive
    hypothesis could still reach at the limit, or at its limit. A hypothesis cut off there, without end symbol, ranks
    below every finished one. `beam=1` is greedy search: the likeliest token each time, until that is the end symbol.

    Args:
        step: (the newest token of each hypothesis, its position, cache) -> (logits of the next token, cache).
        reorder: (cache, parents, length) -> cache whose hypothesis k goes on from what was hypothesis `parents[:, k]`;
            all are `length` tokens long.
        cache: the state of an empty hypothesis, for B sentences of K hypotheses each: arrays [B, …].
        limits: most tokens of each sentence's output, end symbol counted; 0 for a sentence that is not to be searched.
        beam: K, hypotheses kept alive a sentence; may exceed the vocabulary.
        alpha: exponent of the length penalty, ≥ 0.
        n_best: outputs returned a sentence, at most `beam`.
        max_length: T, static, at least the largest of `limits`.
        halve: once no more than half of the sentences go on, the others leave, and it goes on with half as many.
            Most outputs are much shorter than the longest, so there is less to compute; but two loops to compile.

    Raises:
        UserError: n_best exceeds beam.
    """
    check_n_best(n_best, beam)
    batch = limits.shape[0]
    limits = jnp.minimum(limits, max_length)
    # At most half of these end (each hypothesis can end in one way only), so a whole beam goes on. Greedy search must
    # not take a second candidate: it would go on where the likeliest output has ended.
    n_candidates = 2 * beam if beam > 1 else 1

    def advance(state: SearchState) -> SearchState:
        position, rows, cache = state
        newest = lax.dynamic_index_in_dim(rows.alive_tokens, position, axis=2, keepdims=False)
        logits, cache = step(newest, position, cache)
        length = position + 1
        log_probs, parents, tokens = best_extensions(logits, rows.alive_log_probs, n_candidates)  # [B, C]
        candidates = pick(rows.alive_tokens, parents).at[:, :, length].set(tokens)  # [B, C, T+1]
        ended = tokens == END

        alive_log_probs, chosen = lax.top_k(jnp.where(ended, -jnp.inf, log_probs), beam)
        scores = jnp.where(ended, log_probs, -jnp.inf) / length_penalty(length, alpha)
        newly_finished = Hypotheses(candidates, jnp.full_like(tokens, length), scores, log_probs)
        both = jax.tree.map(lambda *x: jnp.concatenate(x, axis=1), rows.finished, newly_finished)
        finished = jax.tree.map(lambda x: pick(x, lax.top_k(both.scores, n_best)[1]), both)

        # Log-probabilities only fall, and are divided by most at the longest length.
        reachable = alive_log_probs[:, 0] / length_penalty(rows.limits, alpha)
        done = rows.done | (length >= rows.limits) | (finished.scores[:, -1] >= reachable)
        new = Rows(rows.limits, pick(candidates, chosen), alive_log_probs, finished, done)
        new = jax.tree.map(lambda o, n: jnp.where(rows.done.reshape(-1, *(1,) * (o.ndim - 1)), o, n), rows, new)
        # A beam of one is in order, and copying its cache would cost as much as any other's.
        return SearchState(length, new, cache if beam == 1 else reorder(cache, pick(parents, chosen), length))

    def run(state: SearchState, few: int) -> SearchState:
        """Until no more than `few` sentences go on."""
        return lax.while_loop(lambda s: jnp.sum(~s.rows.done) > few, advance, state)

    def without_half(state: SearchState) -> tuple[Array, SearchState]:
        """Which rows go on, with others of those that are done to make up half of them; and the state of these."""
        going_on = jnp.argsort(state.rows.done)[: batch // 2]
        rows, cache = jax.tree.map(lambda x: x[going_on], (state.rows, state.cache))
        return going_on, SearchState(state.position, rows, cache)

    nothing = jnp.full((batch, n_best), -jnp.inf)
    no_tokens = jnp.full((batch, n_best, max_length + 1), PAD)
    start = Rows(
        limits=limits,
        alive_tokens=jnp.full((batch, beam, max_length + 1), PAD).at[:, :, 0].set(BEGIN),
        # One empty hypothesis: K equal ones would fill the beam with copies.
        alive_log_probs=jnp.full((batch, beam), -jnp.inf).at[:, 0].set(0.0),
        finished=Hypotheses(no_tokens, jnp.zeros_like(nothing, jnp.int32), nothing, nothing),
        done=limits <= 0,
    )
    state = SearchState(jnp.int32(0), start, cache)
    if halve:
        state = run(state, few=batch // 2)
        going_on, rest = without_half(state)
        end = jax.tree.map(lambda x, of_rest: x.at[going_on].set(of_rest), state.rows, run(rest, few=0).rows)
    else:
        end = run(state, few=0).rows

    # Places that no finished hypothesis took go to those that were alive at the limit.
    alive = Hypotheses(
        end.alive_tokens,
        jnp.broadcast_to(end.limits[:, None], end.alive_log_probs.shape),
        end.alive_log_probs / length_penalty(end.limits, alpha)[:, None],
        end.alive_log_probs,
    )
    place, n_finished = jnp.arange(n_best), (end.finished.scores > -jnp.inf).sum(axis=1, keepdims=True)
    index = jnp.where(place < n_finished, place, n_best + place - n_finished)
    best = jax.tree.map(lambda f, a: pick(jnp.concatenate([f, a], axis=1), index), end.finished, alive)
    return best._replace(tokens=best.tokens[:, :, 1:])


def check_n_best(n_best: int, beam: int) -> None:
    """Raises UserError where more outputs are asked for than the beam holds."""
    if not 1 <= n_best <= beam:
        raise UserError(f"n-best = {n_best}: must be from 1 to the beam, decode.beam = {beam}; widen the beam for more")


def best_extensions(
    logits: Float[Array, "B K V"], alive_log_probs: Float[Array, "B K"], n: int
) -> tuple[Float[Array, "B n"], Int[Array, "B n"], Int[Array, "B n"]]:
    """The `n` likeliest one-token extensions of each sentence's hypotheses, in descending order.

    The log-probabilities of all K·V extensions are never written out, and no top-k runs over them: the n best lie in
    the n blocks of vocabulary with the highest maxima, so only those blocks are sorted. At V = 8000, B = 50, K = 4 on
    two CPU cores this takes a quarter of the time of a `top_k` over all.

    Returns:
        log-probabilities of the extended hypotheses, the hypotheses they extend, and the tokens that extend them.
    """
    B, K, V = logits.shape
    # The model's own probabilities: what is never generated keeps its share of them.
    base = alive_log_probs - jax.nn.logsumexp(logits, axis=-1)
    logits = jnp.where(jnp.isin(jnp.arange(V), jnp.asarray(NEVER_GENERATED)), -jnp.inf, logits)

    n_blocks = -(-V // BLOCK)
    window, padding = (1, 1, BLOCK), ((0, 0), (0, 0), (0, n_blocks * BLOCK - V))
    maxima = lax.reduce_window(logits, -jnp.inf, lax.max, window, window, padding) + base[:, :, None]
    _, blocks = lax.top_k(maxima.reshape(B, -1), min(n, K * n_blocks))
    blocks = jnp.sort(blocks)  # so that of equals the first wins, as in a top-k over all

    parents, tokens = blocks[:, :, None] // n_blocks, blocks[:, :, None] % n_blocks * BLOCK + jnp.arange(BLOCK)
    inside = logits[jnp.arange(B)[:, None, None], parents, jnp.minimum(tokens, V - 1)]  # [B, blocks, BLOCK]
    log_probs = jnp.where(tokens < V, inside + pick(base, parents[:, :, 0])[:, :, None], -jnp.inf)
    best, index = lax.top_k(log_probs.reshape(B, -1), n)
    return best, pick(parents[:, :, 0], index // BLOCK), pick(jnp.minimum(tokens, V - 1).reshape(B, -1), index)


def pick(x: Array, index: Int[Array, "B m"]) -> Array:
    """x[b, index[b, j], …] for each sentence b: [B, m, …]."""
    return jnp.take_along_axis(x, index.reshape(*index.shape, *(1,) * (x.ndim - 2)), axis=1)
