"""How sure a difference between two rows is: one bootstrap over seeds and sentences.

A row's score moves with the seed of its training and with the sentences of the set. Both are drawn anew, with
replacement: the seeds of the row and of the base each by themselves (they are separate trainings), the sentences once
for all runs (they all translated the same). A run's BLEU on the drawn sentences is corpus BLEU again, from the sums of
the sentences' statistics. Of k seeds the bootstrap sees a spread that is too small by the factor √((k - 1) / k), and of
one seed none; so with few seeds an interval is rather too narrow.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from vaswani.evaluation import significance
from vaswani.evaluation.significance import RESAMPLES, SEED, Estimate

_METRIC = BLEU()

Statistics = np.ndarray
"""Of one run: [lines, counts], the sums of which sacreBLEU makes a score of."""


# Cased BLEU by sacreBLEU with its default (13a) tokenisation.
statistics = partial(significance.statistics, _METRIC)
bleu = partial(significance.score_of, _METRIC)


def differences(
    base: Sequence[Statistics],
    rows: Mapping[str, Sequence[Statistics]],
    resamples: int = RESAMPLES,
) -> dict[str, Estimate]:
    """BLEU of each row less that of the base, means over seeds, with 95% intervals.

    Args:
        base, rows: the runs, one array a seed, all of the same lines; at least one each.
        resamples: how often seeds and sentences are drawn.

    A row's interval does not depend on which other rows there are.
    """
    for_lines, for_base, for_rows = (np.random.default_rng(s) for s in np.random.SeedSequence(SEED).spawn(3))
    lines = len(base[0])
    groups = {"": base, **rows}
    scores = {name: np.empty((resamples, len(runs))) for name, runs in groups.items()}
    for i in range(resamples):
        times = np.bincount(for_lines.integers(lines, size=lines), minlength=lines).astype(np.float64)
        for name, runs in groups.items():
            scores[name][i] = [bleu(run, times) for run in runs]

    def over_drawn_seeds(name: str, rng: np.random.Generator) -> np.ndarray:
        runs = len(groups[name])
        return np.take_along_axis(scores[name], rng.integers(runs, size=(resamples, runs)), axis=1).mean(1)

    base_mean, base_drawn = np.mean([bleu(run) for run in base]), over_drawn_seeds("", for_base)
    found = {}
    state = for_rows.bit_generator.state
    for name, runs in rows.items():
        for_rows.bit_generator.state = state  # the same draws for every row
        value = float(np.mean([bleu(run) for run in runs]) - base_mean)
        found[name] = significance.estimate(value, over_drawn_seeds(name, for_rows) - base_drawn)
    return found
