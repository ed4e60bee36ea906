"""Beam search with a length penalty (section 6.1), as in tensor2tensor, compiled as one program.

Letters in shapes: B sentences, K alive hypotheses (the beam), n finished hypotheses that are kept, C candidates,
V vocabulary, T the largest number of tokens of an output.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import Bool, Float, Int

from vaswani.data.tokenizer import BEGIN, END, PAD, UNKNOWN
from vaswani.errors import UserError

Cache = TypeVar("Cache")
NEVER_GENERATED = (PAD, BEGIN, UNKNOWN)
BLOCK = 128  # vocabulary entries in a block; see `best_extensions`


class Hypotheses(NamedTuple):
    """Outputs for B sentences, the best first. A score of -inf marks an empty place."""

    tokens: Int[Array, "B n T"]
    """With the end symbol; PAD after it."""
    lengths: Int[Array, "B n"]
    """|Y| in tokens, the end symbol counted."""
    scores: Float[Array, "B n"]
    """log P(Y|X) / lp(Y)."""
    log_probs: Float[Array, "B n"]
    """log P(Y|X), natural logarithm."""


class Rows(NamedTuple):
    """The state of the search for each of B sentences."""

    limits: Int[Array, " B"]
    """The largest number of tokens of the output."""
    alive_tokens: Int[Array, "B K T+1"]
    """Hypotheses without an end symbol so far. Their first token is BEGIN."""
    alive_log_probs: Float[Array, "B K"]
    """In descending order; -inf marks an empty place."""
    finished: Hypotheses
    """The best hypotheses with an end symbol. Their first token is BEGIN too."""
    done: Bool[Array, " B"]
    """True for a sentence whose search has ended: its state no longer changes."""


class SearchState(NamedTuple):
    """The state of the whole search between two steps."""

    position: Int[Array, ""]
    """The number of tokens generated so far, the same for all sentences."""
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

    The search for a sentence ends at its limit. It ends earlier if no alive hypothesis can still enter the list of
    finished ones: even the best score that it could reach at the limit is not above the worst score in the list. A
    hypothesis that has no end symbol at the limit ranks below every finished one. `beam=1` is greedy search: it always
    takes the most probable token.

    Args:
        step: (newest token of each hypothesis, its position, cache) -> (logits of the next token, cache).
        reorder: (cache, parents, length) -> cache in which hypothesis k continues hypothesis `parents[:, k]`. All
            hypotheses have `length` tokens.
        cache: the cache of empty hypotheses, for B sentences with K hypotheses each: arrays [B, …].
        limits: the largest number of tokens of each output, end symbol counted; 0 means no search.
        beam: K, alive hypotheses of a sentence; it may be larger than the vocabulary.
        alpha: exponent of the length penalty, ≥ 0.
        n_best: outputs of a sentence, at most `beam`.
        max_length: T, static, at least the largest of `limits`.
        halve: continue with half the rows as soon as at most half of the sentences are left. Most outputs are much
            shorter than the longest one, so this saves time. It needs a second loop, which must be compiled too.

    Raises:
        UserError: n_best is larger than the beam.
    """
    check_n_best(n_best, beam)
    batch = limits.shape[0]
    limits = jnp.minimum(limits, max_length)

    def run(state: SearchState, few: int) -> SearchState:
        """Steps until at most `few` sentences are left."""
        advance = partial(_advance, step=step, reorder=reorder, alpha=alpha)
        return lax.while_loop(lambda s: jnp.sum(~s.rows.done) > few, advance, state)

    state = SearchState(jnp.int32(0), _start(limits, beam, n_best, max_length), cache)
    if halve:
        state = run(state, few=batch // 2)
        kept, rest = _without_half(state)
        end = jax.tree.map(lambda x, of_rest: x.at[kept].set(of_rest), state.rows, run(rest, few=0).rows)
    else:
        end = run(state, few=0).rows
    return _outputs(end, alpha)


def _start(limits: Int[Array, " B"], beam: int, n_best: int, max_length: int) -> Rows:
    """Empty hypotheses."""
    batch = limits.shape[0]
    nothing = jnp.full((batch, n_best), -jnp.inf)
    no_tokens = jnp.full((batch, n_best, max_length + 1), PAD)
    return Rows(
        limits=limits,
        alive_tokens=jnp.full((batch, beam, max_length + 1), PAD).at[:, :, 0].set(BEGIN),
        # The beam starts with one empty hypothesis. From K equal ones it would get K copies of each extension.
        alive_log_probs=jnp.full((batch, beam), -jnp.inf).at[:, 0].set(0.0),
        finished=Hypotheses(no_tokens, jnp.zeros_like(nothing, jnp.int32), nothing, nothing),
        done=limits <= 0,
    )


def _advance(state: SearchState, step: Callable[..., Any], reorder: Callable[..., Any], alpha: float) -> SearchState:
    """One step of the search: every alive hypothesis gets one more token."""
    position, rows, cache = state
    beam, n_best = rows.alive_log_probs.shape[1], rows.finished.scores.shape[1]
    # Each of K hypotheses has one extension that ends it. So at most K of 2K candidates end; K others fill the beam.
    # Greedy search takes one candidate. With two it would continue after the most probable token was the end symbol.
    n_candidates = 2 * beam if beam > 1 else 1

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

    # The best score that is still reachable: a log-probability (≤ 0) can only fall, and its divisor, the length
    # penalty, is largest at the limit.
    reachable = alive_log_probs[:, 0] / length_penalty(rows.limits, alpha)
    done = rows.done | (length >= rows.limits) | (finished.scores[:, -1] >= reachable)
    new = Rows(rows.limits, pick(candidates, chosen), alive_log_probs, finished, done)
    new = jax.tree.map(lambda x, y: jnp.where(rows.done.reshape(-1, *(1,) * (x.ndim - 1)), x, y), rows, new)
    # A beam of one needs no reordering.
    return SearchState(length, new, cache if beam == 1 else reorder(cache, pick(parents, chosen), length))


def _without_half(state: SearchState) -> tuple[Int[Array, " half"], SearchState]:
    """Takes half of the rows, with all rows that are not done. Returns their indices and their state."""
    kept = jnp.argsort(state.rows.done)[: len(state.rows.done) // 2]
    rows, cache = jax.tree.map(lambda x: x[kept], (state.rows, state.cache))
    return kept, SearchState(state.position, rows, cache)


def _outputs(end: Rows, alpha: float) -> Hypotheses:
    """The finished hypotheses. Empty places go to the hypotheses that were alive at the limit."""
    n_best = end.finished.scores.shape[1]
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
    """Raises UserError if n_best is larger than the beam."""
    if not 1 <= n_best <= beam:
        raise UserError(f"n-best = {n_best}: must be from 1 to the beam, decode.beam = {beam}; widen the beam for more")


def best_extensions(
    logits: Float[Array, "B K V"], alive_log_probs: Float[Array, "B K"], n: int
) -> tuple[Float[Array, "B n"], Int[Array, "B n"], Int[Array, "B n"]]:
    """The `n` most probable extensions of each sentence's hypotheses by one token, in descending order.

    The n best extensions lie in the n blocks of the vocabulary with the highest maxima. So only those blocks are
    sorted, and the log-probabilities of all K·V extensions are never stored. With V = 8000, B = 50 and K = 4 this takes
    a quarter of the time of `top_k` over all of them, on two CPU cores.

    Returns:
        log-probabilities of the extended hypotheses, the hypotheses they extend, and the tokens that extend them.
    """
    B, K, V = logits.shape
    # The softmax is over all tokens, also those that are never generated. So the probabilities are the model's.
    base = alive_log_probs - jax.nn.logsumexp(logits, axis=-1)
    logits = jnp.where(jnp.isin(jnp.arange(V), jnp.asarray(NEVER_GENERATED)), -jnp.inf, logits)

    n_blocks = -(-V // BLOCK)
    window, padding = (1, 1, BLOCK), ((0, 0), (0, 0), (0, n_blocks * BLOCK - V))
    maxima = lax.reduce_window(logits, -jnp.inf, lax.max, window, window, padding) + base[:, :, None]
    _, blocks = lax.top_k(maxima.reshape(B, -1), min(n, K * n_blocks))
    blocks = jnp.sort(blocks)  # so that the first of equal extensions wins, as in `top_k` over all

    parents, tokens = blocks[:, :, None] // n_blocks, blocks[:, :, None] % n_blocks * BLOCK + jnp.arange(BLOCK)
    inside = logits[jnp.arange(B)[:, None, None], parents, jnp.minimum(tokens, V - 1)]  # [B, blocks, BLOCK]
    log_probs = jnp.where(tokens < V, inside + pick(base, parents[:, :, 0])[:, :, None], -jnp.inf)
    best, index = lax.top_k(log_probs.reshape(B, -1), n)
    return best, pick(parents[:, :, 0], index // BLOCK), pick(jnp.minimum(tokens, V - 1).reshape(B, -1), index)


def pick(x: Array, index: Int[Array, "B m"]) -> Array:
    """x[b, index[b, j], …] for each sentence b: [B, m, …]."""
    return jnp.take_along_axis(x, index.reshape(*index.shape, *(1,) * (x.ndim - 2)), axis=1)
