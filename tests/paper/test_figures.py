"""Every figure is drawn, and what is measured is what the formulas say."""

import numpy as np
import pytest
from matplotlib.image import imread

from vaswani.paper import attention_cost
from vaswani.paper import figures as paper_figures


def test_all_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(attention_cost, "PREFILL", (16, 32))
    monkeypatch.setattr(attention_cost, "CACHED", (16, 32))
    paths = paper_figures.write_figures(tmp_path / "new" / "figures")
    assert sorted(path.name for path in paths) == sorted(p.name for p in (tmp_path / "new" / "figures").iterdir())
    for path in paths:
        pixels = imread(path)[..., :3]
        height, width, _ = pixels.shape
        assert height > 500 and width > 1000
        assert np.mean(pixels.min(axis=-1) < 0.9) > 0.02, path  # something is on it


def test_measured_memory_grows_as_the_formulas_say():
    small, large = (attention_cost.measure(n, n, repetitions=2) for n in (64, 256))
    assert large.bytes / small.bytes == pytest.approx(16, rel=0.4)
    assert large.bytes >= 4 * attention_cost.H * 256**2
    step = attention_cost.measure(512, 1, repetitions=4)
    assert step.bytes == 4 * 2 * 512 * attention_cost.H * attention_cost.D_K
    assert 0 < step.seconds[0] <= step.seconds[1] <= step.seconds[2]
