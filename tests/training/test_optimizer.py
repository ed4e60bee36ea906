"""The paper's learning rate, by its golden values, and Adam's first steps by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from vaswani.config import ModelConfig, TrainConfig
from vaswani.training.optimizer import learning_rate, make_optimizer


@pytest.mark.parametrize(
    ("step", "d_model", "expected"),
    [(1, 512, 1.746928e-7), (4000, 512, 6.987712e-4), (16000, 512, 3.493856e-4), (4000, 1024, 4.941059e-4)],
)
def test_golden_values(step, d_model, expected):
    np.testing.assert_allclose(learning_rate(step, d_model, 4000), expected, rtol=1e-6)


def test_rises_strictly_to_the_end_of_warmup_and_falls_after():
    rates = np.asarray(learning_rate(np.arange(1, 9001), 512, 4000))
    assert rates[0] > 0 and (np.diff(rates[:4000]) > 0).all() and (np.diff(rates[4000:]) < 0).all()


def test_the_first_update_already_has_the_rate_of_step_one():
    """With a constant gradient g, Adam's bias-corrected update is -lr · g / (|g| + ε)."""
    optimizer = make_optimizer(ModelConfig(), TrainConfig(lr_scale=2.0))
    params = {"w": jnp.array([1.0])}
    state = optimizer.init(params)
    for step in (1, 2, 3):
        updates, state = optimizer.update({"w": jnp.array([0.25])}, state, params)
        expected = -2 * 512**-0.5 * step * 4000**-1.5
        np.testing.assert_allclose(updates["w"], expected, rtol=1e-5)
