"""How large a row is and how long it takes, without making or compiling anything."""

import math
import time
from collections.abc import Sequence

from vaswani.config import Config, ModelConfig

MODEL_SPEED = 0.35
"""The share of a plain matrix product's speed that training reaches, roughly; until there is a run to go by."""


def parameters(model: ModelConfig, vocab_size: int) -> int:
    """Of the whole model, counted by hand; the test holds it to the model itself.

    >>> parameters(ModelConfig(), 37_000)
    63045632
    """
    d = model.d_model
    attention = 2 * d * model.h * (model.d_k + model.d_v)  # W_Q and W_K, W_V and W_O
    feed_forward = 2 * d * model.d_ff + model.d_ff + d
    norm = 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    positions = 2 * model.max_positions * d if model.positions == "learned" else 0
    return vocab_size * d + model.N * (encoder_layer + decoder_layer) + positions


def flops_per_update(config: Config, vocab_size: int) -> float:
    """Floating-point operations of an update, forward and twice that backward.

    Two an element of every matrix and token: the encoder's see the source's tokens, the decoder's the target's, and the
    embedding, as projection, the target's; and what every token spends on the scores of its row, in three attentions.
    """
    model, train = config.model, config.train
    matrices = parameters(model, vocab_size)
    scores = 3 * model.N * train.row_length * model.h * (model.d_k + model.d_v)
    return 6.0 * train.tokens_per_update * (matrices + scores)


STARTUP_SECONDS = 20.0
"""What a run takes besides: starting, compiling where the cache does not help, translating a small set."""


def seconds(config: Config, vocab_size: int, speed: float, done: int = 0) -> float:
    """What is left of a run, at `speed` operations a second, with `done` updates made."""
    left = max(config.train.steps - done, 0) * flops_per_update(config, vocab_size) / speed
    bound = 60 * config.train.max_minutes or math.inf
    return STARTUP_SECONDS + min(left, bound)


def measured_speed(runs: Sequence[tuple[Config, int, float]], vocab_size: int) -> float | None:
    """Operations a second over runs so far: (configuration, updates, seconds) each. Validation counts as time."""
    total = sum(updates * flops_per_update(config, vocab_size) for config, updates, _ in runs)
    took = sum(s for *_, s in runs)
    return total / took if took > 0 and total > 0 else None


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
