"""Parameter counts of every paper row, by hand, by the formula, and of the model itself; and the time they take."""

from dataclasses import replace

import pytest

from tests.sizes import count_parameters
from vaswani.ablation import estimate
from vaswani.ablation.rows import GROUPS, rows
from vaswani.paper.costs import forward_flops_formula, parameters
from vaswani.schema import Config, ModelConfig

V = 37_000
# Without the embedding, worked from the paper's equations: no bias in attention, biases in the feed-forward network,
# scale and bias in each LayerNorm.
BASE = 44_101_632
WITHOUT_EMBEDDING = {
    "base": BASE, "A1": BASE, "A2": BASE, "A3": BASE, "A4": BASE, "B1": 37_023_744, "B2": 39_383_040,
    "C1": 14_700_544, "C2": 29_401_088, "C3": 58_802_176, "C4": 17_344_512, "C5": 125_927_424,
    "C6": 31_506_432, "C7": 69_292_032, "D1": BASE, "D2": BASE, "D3": BASE, "D4": BASE,
    "E": BASE + 2 * 1024 * 512, "big": 176_283_648,
}  # fmt: skip
PAPER_MILLIONS = {"base": 65, "B1": 58, "B2": 60, "C1": 36, "C2": 50, "C3": 80, "C4": 28, "C5": 168, "C6": 53, "C7": 90}


def test_every_row_of_the_paper():
    made = {row.name: row.config.model for row in rows(Config(), GROUPS)}
    for name, count in WITHOUT_EMBEDDING.items():
        assert parameters(made[name], V) == count + V * made[name].d_model, name
    assert made.keys() == WITHOUT_EMBEDDING.keys()
    for name, millions in PAPER_MILLIONS.items():  # its vocabulary was some 40,000 pieces, so within 3 million of ours
        assert abs(parameters(made[name], 40_700) / 1e6 - millions) < 3, name


@pytest.mark.parametrize(
    "model",
    [
        ModelConfig(N=1),
        ModelConfig(N=2, d_model=24, d_ff=40, h=3, d_k=5, d_v=7, positions="learned", max_positions=300),
    ],
)
def test_the_formula_is_the_model(model):
    assert parameters(model, 1234) == count_parameters(model, 1234)


def test_time_follows_the_speed_and_the_bound():
    config = Config()
    speed = estimate.measured_speed([(config, 10, 4.0)], V)
    assert speed == pytest.approx(2.5 * 25_000 / 256 * 3 * forward_flops_formula(ModelConfig(), V, n=256))
    left = estimate.seconds(config, V, speed, done=99_000) - estimate.STARTUP_SECONDS
    assert left == pytest.approx(400.0)
    bounded = replace(config, train=replace(config.train, max_minutes=2.0))
    assert estimate.seconds(bounded, V, speed) - estimate.STARTUP_SECONDS == 120.0
    assert estimate.seconds(bounded, V, speed, spent=90.0) - estimate.STARTUP_SECONDS == 30.0
    assert estimate.seconds(bounded, V, speed, spent=121.0) == estimate.STARTUP_SECONDS
    assert estimate.measured_speed([], V) is None
