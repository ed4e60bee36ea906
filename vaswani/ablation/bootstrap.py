"""How sure a difference between two rows is: one bootstrap over seeds and sentences.

A row's score changes with the seed of its training and with the sentences of the set. Both are drawn with replacement.
The seeds of the row and of the base are drawn separately, for they are separate trainings; the sentences are drawn once
for all runs, for all translated the same ones. A run's BLEU on the drawn sentences is corpus BLEU again, from the sums
of the sentences' counts. From k seeds the bootstrap gets a spread that is too small by the factor √((k - 1) / k), and
from one seed none; so with few seeds an interval is too narrow.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from vaswani.evaluation import significance
from vaswani.evaluation.metrics import Counts, Metric, score_of
from vaswani.evaluation.significance import RESAMPLES, SEED, Estimate


def differences(
    metric: Metric, base: Sequence[Counts], rows: Mapping[str, Sequence[Counts]], resamples: int = RESAMPLES
) -> dict[str, Estimate]:
    """The score of each row less that of the base, means over seeds, with 95% intervals.

    Args:
        metric: what the counts are of.
        base, rows: the runs, one array a seed, all of the same lines; at least one each.
        resamples: how often seeds and sentences are drawn.

    Returns:
        One estimate a row, the same whichever other rows are given. A set of one line gives no interval.
    """
    for_lines, for_base, for_rows = (np.random.default_rng(s) for s in np.random.SeedSequence(SEED).spawn(3))
    lines = len(base[0])
    groups = {"": base, **rows}
    scores = {name: np.empty((resamples, len(runs))) for name, runs in groups.items()}
    for i in range(resamples):
        times = np.bincount(for_lines.integers(lines, size=lines), minlength=lines).astype(np.float64)
        for name, runs in groups.items():
            scores[name][i] = [score_of(metric, run, times) for run in runs]

    def over_drawn_seeds(name: str, rng: np.random.Generator) -> np.ndarray:
        runs = len(groups[name])
        return np.take_along_axis(scores[name], rng.integers(runs, size=(resamples, runs)), axis=1).mean(1)

    base_mean, base_drawn = np.mean([score_of(metric, run) for run in base]), over_drawn_seeds("", for_base)
    estimates = {}
    state = for_rows.bit_generator.state
    for name, runs in rows.items():
        for_rows.bit_generator.state = state  # the same draws for every row
        value = float(np.mean([score_of(metric, run) for run in runs]) - base_mean)
        drawn = over_drawn_seeds(name, for_rows) - base_drawn
        estimates[name] = significance.estimate(value, drawn) if lines > 1 else Estimate(value, None, None)
    return estimates
