import numpy as np
import pytest

from vaswani.training.train_step import StepMetrics, Sums
from vaswani.training.window import Window


def test_a_long_windows_tokens_do_not_overflow():
    window = Window()
    for _ in range(3):
        window.add(StepMetrics(Sums(np.float32(2.0**31), np.float32(0), *[np.int32(2**30)] * 2), np.float32(1), True))
    summary = window.summary()
    assert summary["target_tokens_per_update"] == summary["source_tokens_per_update"] == 2**30
    assert summary["loss"] == pytest.approx(2.0) and summary["target_tokens_per_s"] > 0
