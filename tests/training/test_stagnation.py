"""A training that learns nothing but the frequency of words is told apart from one that learns slowly."""

import math
from types import SimpleNamespace

import numpy as np

from vaswani.schema import TrainConfig
from vaswani.training.stagnation import StagnationWatch, entropy


def test_entropy_of_known_distributions():
    assert entropy(np.full(9, 3, np.uint16)) == 0
    assert math.isclose(entropy(np.arange(500, dtype=np.uint16)), math.log(500))
    assert math.isclose(entropy(np.array([7, 7, 7, 2])), -0.75 * math.log(0.75) - 0.25 * math.log(0.25))


def watch(warmup: int) -> StagnationWatch:
    """Over a target of 100 words, all equally frequent: 4.61 nats."""
    return StagnationWatch(SimpleNamespace(target_ids=np.tile(np.arange(100), 30)), TrainConfig(warmup=warmup))


def test_it_speaks_once_and_not_before_the_warm_up_is_over():
    stuck = watch(warmup=1)
    assert [bool(stuck.advice(step, 4.7)) for step in (100, 499, 500, 600, 700)] == [False, False, True, False, False]
    assert not watch(warmup=4000).advice(3999, 9.0)
    advice = watch(warmup=4000).advice(4000, 9.0)
    assert "step 4,000: 9.00 nats a token is no better than guessing by word frequency (4.61)" in advice
    assert "train.warmup" in advice and "train.lr_scale" in advice


def test_it_leaves_a_training_alone_that_learns():
    """The losses of the tiny model after each 100 updates, as measured, learning and stuck; its entropy is 4.77."""
    losses = [5.99, 4.57, 3.96, 3.48, 3.26, 3.12]
    target = SimpleNamespace(target_ids=np.arange(118))
    learning = StagnationWatch(target, TrainConfig(warmup=400))
    assert math.isclose(learning.guessing, 4.77, abs_tol=0.01)
    assert not any(learning.advice(100 * (i + 1), nll) for i, nll in enumerate(losses))
    stuck = StagnationWatch(target, TrainConfig(warmup=1))
    said = [bool(stuck.advice(100 * (i + 1), nll)) for i, nll in enumerate([5.16, 4.86, 4.85, 4.85, 4.85, 4.84])]
    assert said == [False, False, False, False, True, False]
