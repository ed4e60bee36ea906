"""Bootstrap resampling of test sets (Koehn 2004), with sacreBLEU's metrics and random choices.

A score of n lines is computed again for test sets of n lines that are drawn from them with replacement. The spread says
how far the score would move with other lines of the same kind. It says nothing about another seed of training.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from vaswani.evaluation.metrics import Counts, Metric, check_lines, score_of

RESAMPLES = 1000
SEED = 12345  # sacreBLEU's own default, so that its command line reports the same intervals


@dataclass(frozen=True)
class Estimate:
    """A value of a whole set with the 95% interval of its resampled values; None where nothing can be resampled."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class PairedScore:
    """A system's score, and how likely a difference from the baseline at least this large is by chance."""

    system: str
    signature: str
    """sacreBLEU's, of metric and test."""
    estimate: Estimate
    p_value: float | None
    """None for the baseline itself, and for a set of one line."""


def estimate(value: float, resampled: Sequence[float] | np.ndarray) -> Estimate:
    """A value with the interval that leaves out 2.5% of the resampled values at either end."""
    scores, tail = np.sort(resampled), len(resampled) // 40
    return Estimate(float(value), float(scores[tail]), float(scores[-1 - tail]))


def bootstrap(metric: Metric, counts: Counts, resamples: int = RESAMPLES, seed: int = SEED) -> Estimate:
    """Scores a set and resamples it.

    Args:
        metric: the metric that the counts are of; its signature then names the resampling too.
        counts: `line_counts` of the set.
        resamples: test sets to draw.
        seed: of the drawing.

    Returns:
        The score of the set itself, with the interval that leaves out 2.5% of the resampled scores at either end. One
        line has no interval: every drawn set is that line.
    """
    value, lines = score_of(metric, counts), len(counts)
    if lines == 1:
        return Estimate(value, None, None)
    metric.n_bootstrap, metric.seed = resamples, str(seed)
    # One drawn set at a time: sacreBLEU's array [resamples, lines, counts] takes gigabytes for a large set.
    rng = np.random.default_rng(seed)
    drawn = (np.bincount(rng.choice(lines, size=lines), minlength=lines) for _ in range(resamples))
    return estimate(value, [score_of(metric, counts, times) for times in drawn])


def paired_bootstrap(
    metric: BLEU, systems: dict[str, list[str]], references: list[str], resamples: int = RESAMPLES
) -> list[PairedScore]:
    """Tests each system against the first by sacreBLEU's paired bootstrap: both on the same resampled lines.

    Args:
        metric: what to compare by.
        systems: name -> translations; the first is the baseline.
        references: one a line.
        resamples: test sets to draw.

    Returns:
        One score a system, in the order given. An interval is the mean of the resampled scores ± half the width of
        their 95% interval.

    Raises:
        UserError: a system has another number of lines than the references.
    """
    for name, hypotheses in systems.items():
        check_lines(hypotheses, [references], name)
    test = PairedTest(list(systems.items()), {"metric": metric}, [references], test_type="bs", n_samples=resamples)
    signatures, columns = test()
    (signature,) = signatures.values()
    results: list[Any] = next(column for name, column in columns.items() if name != "System")
    tested = len(references) > 1  # drawn from one line, every set is the same

    def paired_score(name: str, result: Any) -> PairedScore:
        low, high = (result.mean - result.ci, result.mean + result.ci) if tested else (None, None)
        p_value = float(result.p_value) if tested and result.p_value is not None else None
        return PairedScore(name, str(signature), Estimate(float(result.score), low, high), p_value)

    return [paired_score(name, result) for name, result in zip(systems, results, strict=True)]
