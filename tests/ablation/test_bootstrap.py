"""The bootstrap over seeds and sentences against cases worked by hand."""

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from vaswani.ablation.bootstrap import differences

METRIC = BLEU()


def counts(*lines: tuple[int, int]) -> np.ndarray:
    """Lines of which `correct` of 10 n-grams match, for each n, and whose length is the reference's: BLEU is the share.

    sacreBLEU's order: system length, reference length, matches of n = 1 to 4, n-grams of n = 1 to 4.
    """
    return np.array([[10, 10, *[correct] * 4, *[total] * 4] for correct, total in lines], dtype=np.float64)


def test_seeds_alone():
    """All lines alike: drawing sentences moves nothing. Base 50 and 60, row 40 and 44 BLEU.

    Mean of two drawn seeds: base 50, 55, 60 and row 40, 42, 44, with chances 1/4, 1/2, 1/4. Each pair of ends has
    1/16, more than the 2.5% that are left out at either end: the interval reaches from 40 - 60 to 44 - 50.
    """
    base, row = ([counts(*[(c, 100)] * 5) for c in seeds] for seeds in ((50, 60), (40, 44)))
    delta = differences(METRIC, base, {"A1": row}, resamples=4000)["A1"]
    assert (delta.value, delta.low, delta.high) == pytest.approx((-13.0, -20.0, -6.0))


def test_sentences_alone():
    """One seed each, two lines: base 50 and 50, row 40 and 80.

    The drawn set is the first line twice (1/4), both (1/2) or the second twice (1/4): Δ is -10, 10 or 30. Both runs
    are scored on the same drawn lines; the base does not move here, and moves with the row in the second case.
    """
    base, row = [counts((50, 100), (50, 100))], [counts((40, 100), (80, 100))]
    delta = differences(METRIC, base, {"A1": row}, resamples=4000)["A1"]
    assert (delta.value, delta.low, delta.high) == pytest.approx((10.0, -10.0, 30.0))
    together = differences(METRIC, [counts((20, 100), (60, 100))], {"A1": [counts((30, 100), (70, 100))]})["A1"]
    assert (together.low, together.high) == pytest.approx((10.0, 10.0))


def test_corpus_bleu_is_recomputed_and_not_averaged():
    """A line of 10 n-grams and one of 90: both drawn, Δ is that of the sums, 0.1·80 + 0.9·40 - 50 = -6."""
    base, row = [counts((5, 10), (45, 90))], [counts((8, 10), (36, 90))]
    delta = differences(METRIC, base, {"A1": row}, resamples=2000)["A1"]
    assert (delta.value, delta.low, delta.high) == pytest.approx((-6.0, -10.0, 30.0))


def test_a_row_does_not_depend_on_its_neighbours():
    rng = np.random.default_rng(0)
    runs = [counts(*[(int(c), 100) for c in rng.integers(20, 80, 30)]) for _ in range(6)]
    alone = differences(METRIC, runs[:2], {"B1": runs[2:4]}, resamples=200)
    beside = differences(METRIC, runs[:2], {"A1": runs[4:], "B1": runs[2:4]}, resamples=200)
    assert alone["B1"] == beside["B1"] != beside["A1"]


def test_one_line_has_no_interval():
    delta = differences(METRIC, [counts((50, 100))], {"A1": [counts((40, 100))] * 2}, resamples=100)["A1"]
    assert (delta.value, delta.low, delta.high) == (pytest.approx(-10.0), None, None)
