"""The paper's learning rate, by its golden values, and Adam's first steps by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from vaswani.schema import ModelConfig, TrainConfig
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


def test_adams_constants_are_the_papers():
    """After gradients 1 and 0: m = 0.09 and v = 0.0196, bias-corrected by 0.19 and 0.0396; and 1e-9 beside ε."""
    optimizer, params = make_optimizer(ModelConfig(), TrainConfig()), {"w": jnp.array([1.0, 1.0])}
    rate, state = 512**-0.5 * 4000**-1.5, optimizer.init(params)
    first, state = optimizer.update({"w": jnp.array([1.0, 1e-9])}, state, params)
    second, _ = optimizer.update({"w": jnp.array([0.0, 0.0])}, state, params)
    np.testing.assert_allclose(first["w"], [-rate, -rate / 2], rtol=1e-4)
    np.testing.assert_allclose(second["w"][0], -2 * rate * (0.09 / 0.19) / (0.0196 / 0.0396) ** 0.5, rtol=1e-4)
