"""Intervals equal sacreBLEU's own; the paired test tells a real difference from none."""

import random

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from vaswani.errors import UserError
from vaswani.evaluation.metrics import line_counts
from vaswani.evaluation.significance import Estimate, bootstrap, paired_bootstrap

WORDS = ["der", "die", "das", "Hund", "Katze", "läuft", "sieht", "einen", "roten", "alten", "Ball", "im", "Park", "."]


def corpus(lines: int, damage: float, seed: int) -> tuple[list[str], list[str]]:
    """References, and copies of them in which a share of the words is replaced."""
    rng = random.Random(seed)
    references = [[rng.choice(WORDS) for _ in range(rng.randint(6, 14))] for _ in range(lines)]
    hypotheses = [[rng.choice(WORDS) if rng.random() < damage else word for word in line] for line in references]
    return [" ".join(line) for line in hypotheses], [" ".join(line) for line in references]


@pytest.mark.parametrize("metric_type", [BLEU, CHRF])
def test_the_interval_is_sacrebleus(metric_type):
    hypotheses, references = corpus(60, 0.3, seed=1)
    metric = metric_type()
    ours = bootstrap(metric, line_counts(metric, hypotheses, [references]), resamples=200)
    theirs = metric_type().corpus_score(hypotheses, [references], n_bootstrap=200)
    assert ours.value == pytest.approx(theirs.score)
    assert (ours.high - ours.low) / 2 == pytest.approx(theirs._ci, abs=1e-4)
    assert ours.low < ours.value < ours.high


def test_the_interval_narrows_with_more_lines_and_follows_its_seed():
    metric = BLEU()
    sets = [corpus(n, 0.3, seed=2) for n in (40, 640)]
    few_counts, many_counts = (line_counts(metric, hypotheses, [references]) for hypotheses, references in sets)
    few, many = (bootstrap(metric, counts, resamples=100) for counts in (few_counts, many_counts))
    assert (many.high - many.low) < 0.5 * (few.high - few.low)
    assert bootstrap(metric, few_counts, 100) == few
    assert bootstrap(metric, few_counts, 100, seed=1) != few


def test_one_line_has_neither_interval_nor_test():
    metric = BLEU()
    line = "der alte Hund sieht den Ball"
    assert bootstrap(metric, line_counts(metric, [line], [[line]])) == Estimate(pytest.approx(100), None, None)
    scores = paired_bootstrap(metric, {"a": ["der Ball"], "b": [line]}, [line], resamples=50)
    assert [(s.estimate.low, s.estimate.high, s.p_value) for s in scores] == [(None,) * 3] * 2
    assert scores[1].estimate.value == pytest.approx(100)


def test_paired_bootstrap():
    worse, references = corpus(100, 0.5, seed=3)
    better, _ = corpus(100, 0.2, seed=3)
    same = list(worse)
    same[0] = references[0]
    baseline, improved, equal = paired_bootstrap(
        BLEU(), {"worse": worse, "better": better, "same": same}, references, resamples=200
    )
    assert baseline.system == "worse" and baseline.p_value is None
    assert improved.estimate.value == pytest.approx(BLEU().corpus_score(better, [references]).score)
    assert improved.estimate.low > baseline.estimate.high
    assert improved.p_value is not None and improved.p_value < 0.01
    assert equal.p_value is not None and equal.p_value > 0.05


def test_a_system_with_missing_lines_is_named():
    hypotheses, references = corpus(5, 0.2, seed=4)
    with pytest.raises(UserError, match="short: 4 translations for 5 references"):
        paired_bootstrap(BLEU(), {"full": hypotheses, "short": hypotheses[:4]}, references)
