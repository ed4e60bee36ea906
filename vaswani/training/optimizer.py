"""Adam and the paper's learning rate (section 5.3)."""

import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import ArrayLike

from vaswani.schema import ModelConfig, TrainConfig


def learning_rate(step: ArrayLike, d_model: int, warmup: int, scale: float = 1.0) -> Array:
    """Equation 3: d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), times `scale`.

    Args:
        step: the number of the update, from 1. So the rate of the first update is above 0.

    >>> f"{learning_rate(4000, 512, 4000):.6e}"
    '6.987712e-04'
    """
    step = jnp.asarray(step, jnp.float32)
    return scale * d_model**-0.5 * jnp.minimum(step**-0.5, step * warmup**-1.5)


def scheduled_rate(step: ArrayLike, model: ModelConfig, train: TrainConfig) -> Array:
    """The learning rate of an update (counted from 1) under these settings; the optimiser and the log use it."""
    return learning_rate(step, model.d_model, train.warmup, train.lr_scale)


def make_optimizer(model: ModelConfig, train: TrainConfig) -> optax.GradientTransformation:
    """Adam with β₁ 0.9, β₂ 0.98, ε 1e-9 by default; no clipping."""
    return optax.adam(
        # optax passes the number of updates made so far, from 0. The paper numbers the updates from 1.
        lambda updates_made: scheduled_rate(updates_made + 1, model, train),
        b1=train.beta_1,
        b2=train.beta_2,
        eps=train.epsilon,
    )
