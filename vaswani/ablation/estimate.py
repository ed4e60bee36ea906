"""How long a row takes, without compiling anything."""

import math
import time
from collections.abc import Sequence

from vaswani.paper import costs
from vaswani.schema import Config

MODEL_SPEED = 0.35
"""The share of a plain matrix product's speed that training reaches, roughly; until there is a run to go by."""
STARTUP_SECONDS = 20.0
"""What a run takes besides: starting, compiling where the cache does not help, translating a small set."""


def seconds(config: Config, vocab_size: int, speed: float, done: int = 0, spent: float = 0.0) -> float:
    """What is left of a run, at `speed` operations a second, with `done` updates made in `spent` seconds."""
    left = max(config.train.steps - done, 0) * _update_flops(config, vocab_size) / speed
    bound = 60 * config.train.max_minutes or math.inf
    return STARTUP_SECONDS + min(left, max(bound - spent, 0.0))


def measured_speed(runs: Sequence[tuple[Config, int, float]], vocab_size: int) -> float | None:
    """Operations a second over runs so far: (configuration, updates, seconds) each. Validation counts as time."""
    total = sum(updates * _update_flops(config, vocab_size) for config, updates, _ in runs)
    took = sum(s for *_, s in runs)
    return total / took if took > 0 and total > 0 else None


def _update_flops(config: Config, vocab_size: int) -> float:
    """Every token of an update spends on the scores of its whole row."""
    return costs.update_flops(config.model, vocab_size, config.train.tokens_per_update, config.train.row_length)


def guessed_speed() -> float:
    """The same for a machine that has trained nothing yet, from a matrix product."""
    import jax
    import jax.numpy as jnp

    n = 1024
    a = jnp.ones((n, n))
    product = jax.jit(lambda a: a @ a).lower(a).compile()
    jax.block_until_ready(product(a))
    started = time.perf_counter()
    repeats = 5
    for _ in range(repeats):
        jax.block_until_ready(product(a))
    return MODEL_SPEED * repeats * 2 * n**3 / (time.perf_counter() - started)
