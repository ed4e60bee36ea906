"""Bootstrap resampling of test sets (Koehn 2004), with sacreBLEU's metrics and random choices.

A score of n lines is recomputed on test sets of n lines drawn from them with replacement. The spread says how far the
score would move with other lines of the same kind; it says nothing about another seed of training.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from vaswani.errors import UserError

RESAMPLES = 1000
SEED = 12345  # sacreBLEU's own default, so that its command line reports the same intervals


@dataclass(frozen=True)
class Estimate:
    """A score of a whole set with the 95% interval of its resampled scores."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class PairedScore:
    """A system's score, and how likely a difference from the baseline at least this large is by chance."""

    system: str
    signature: str
    """sacreBLEU's, of metric and test."""
    estimate: Estimate
    p_value: float | None
    """None for the baseline itself."""


def check_counts(hypotheses: Sequence[str], references: Sequence[str], where: str = "") -> None:
    """Refuses sides of unequal length, which sacreBLEU would cut silently to the shorter, and empty ones.

    Raises:
        UserError: naming both counts, after `where`.
    """
    prefix = f"{where}: " if where else ""
    if len(hypotheses) != len(references):
        raise UserError(
            f"{prefix}{len(hypotheses)} translations for {len(references)} references; line i of one must match "
            "line i of the other"
        )
    if not references:
        raise UserError(f"{prefix}no lines to score")


def statistics(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """What a metric of sacreBLEU needs to know of each line, [lines, counts]: a corpus score is a function of the sums.

    Raises:
        UserError: unequal counts of lines, or none.
    """
    check_counts(hypotheses, references)
    return np.asarray(metric._extract_corpus_statistics(hypotheses, [references]), dtype=np.float64)


def score_of(metric: Metric, counts: np.ndarray, times: np.ndarray | None = None) -> float:
    """The score of a set in which each line stands `times` times, by default once."""
    sums = counts.sum(0) if times is None else times @ counts
    return float(metric._compute_score_from_stats(sums.tolist()).score)


def estimate(value: float, resampled: Sequence[float] | np.ndarray) -> Estimate:
    """A value with the interval that leaves out a fortieth of the resampled ones at either end."""
    scores, tail = np.sort(resampled), len(resampled) // 40
    return Estimate(float(value), float(scores[tail]), float(scores[-1 - tail]))


def bootstrap(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[str], resamples: int = RESAMPLES, seed: int = SEED
) -> Estimate:
    """Scores a set and resamples it.

    Args:
        metric: a metric of sacreBLEU; its signature then names the resampling too.
        hypotheses: one line a segment, empty ones included.
        references: as many.
        resamples: test sets to draw.
        seed: of the drawing.

    Returns:
        The score of the set itself and the interval that leaves out a fortieth of the resampled scores at either end.
    """
    # sacreBLEU's own way makes a [resamples, lines, counts] array, gigabytes for a large set.
    counts = statistics(metric, hypotheses, references)
    metric.n_bootstrap, metric.seed = resamples, str(seed)

    lines = len(counts)
    rng = np.random.default_rng(seed)
    drawn = (np.bincount(rng.choice(lines, size=lines), minlength=lines) for _ in range(resamples))
    return estimate(score_of(metric, counts), [score_of(metric, counts, times) for times in drawn])


def paired_bootstrap(
    systems: dict[str, list[str]], references: list[str], resamples: int = RESAMPLES
) -> list[PairedScore]:
    """Tests each system against the first by sacreBLEU's paired bootstrap: both on the same resampled lines.

    Args:
        systems: name -> translations; the first is the baseline.
        references: one a line.
        resamples: test sets to draw.

    Returns:
        One score a system, in the order given; intervals are the resampled mean ± half of sacreBLEU's interval.

    Raises:
        UserError: a system has another number of lines than the references.
    """
    for name, hypotheses in systems.items():
        check_counts(hypotheses, references, name)
    test = PairedTest(list(systems.items()), {"metric": BLEU()}, [references], test_type="bs", n_samples=resamples)
    signatures, columns = test()
    (signature,) = signatures.values()
    results: list[Any] = next(column for name, column in columns.items() if name != "System")
    return [
        PairedScore(
            name,
            str(signature),
            Estimate(float(r.score), float(r.mean - r.ci), float(r.mean + r.ci)),
            None if r.p_value is None else float(r.p_value),
        )
        for name, r in zip(systems, results, strict=True)
    ]
