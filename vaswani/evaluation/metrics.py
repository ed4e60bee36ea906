"""sacreBLEU's metrics as functions of sums over lines, so that a resampled set is scored without reading it again.

BLEU and chrF of a set depend only on sums of counts. sacreBLEU gives BLEU's counts with each score; chrF's are counted
here from its n-grams, by Popović (2015), and a test compares the scores with sacreBLEU's own.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.helpers import extract_all_char_ngrams

from vaswani.errors import UserError

Metric = BLEU | CHRF
References = Sequence[Sequence[str]]
"""References[k][i] is the k-th reference of line i."""
Counts = np.ndarray
"""[lines, counts]; the score of a set is a function of the sums over its lines."""

# sacreBLEU's tokeniser for languages whose words 13a does not separate.
_TOKENISERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
_TWO_LETTERS = {"deu": "de", "zho": "zh", "cmn": "zh", "jpn": "ja", "kor": "ko"}


def language_of(target: str) -> str:
    """The two-letter language of `data.target`, where its scoring depends on the language.

    >>> language_of("zh-CN"), language_of("jpn_Jpan"), language_of("fr")
    ('zh', 'ja', 'fr')
    """
    code = target.replace("_", "-").partition("-")[0].lower()
    return _TWO_LETTERS.get(code, code)


def tokeniser_of(target: str) -> str:
    """sacreBLEU's name for the tokeniser of a target language.

    >>> tokeniser_of("de"), tokeniser_of("ja")
    ('13a', 'ja-mecab')
    """
    return _TOKENISERS.get(language_of(target), BLEU.TOKENIZER_DEFAULT)


def bleu_metric(target: str, tokenise: bool = True, **settings: Any) -> BLEU:
    """BLEU for a target language; cased, with sacreBLEU's smoothing, unless `settings` say otherwise.

    Args:
        target: `data.target`, which chooses the tokeniser.
        tokenise: False for text that is tokenised already.
        settings: of sacreBLEU's BLEU.

    Raises:
        UserError: the tokeniser is not installed; the message says what to install.
    """
    try:
        return BLEU(tokenize=tokeniser_of(target) if tokenise else "none", force=True, **settings)
    except RuntimeError as error:  # sacreBLEU's, which names its extra
        raise UserError(f"data.target = {target!r}: {error}") from error


def check_lines(hypotheses: Sequence[str], references: References, where: str = "") -> None:
    """Refuses empty sets, and sides of unequal length, which sacreBLEU would cut silently to the shorter one.

    Raises:
        UserError: with both numbers of lines, after `where`.
    """
    prefix = f"{where}: " if where else ""
    for lines in references:
        if len(hypotheses) != len(lines):
            raise UserError(
                f"{prefix}{len(hypotheses)} translations for {len(lines)} references; line i of one must match "
                "line i of the other"
            )
    if not hypotheses:
        raise UserError(f"{prefix}no lines to score")


def line_counts(metric: Metric, hypotheses: Sequence[str], references: References) -> Counts:
    """What each line adds to the score of a set.

    Raises:
        UserError: unequal numbers of lines, or none.
    """
    check_lines(hypotheses, references)
    of_line = _bleu_counts if isinstance(metric, BLEU) else _chrf_counts
    lines = zip(hypotheses, zip(*references, strict=True), strict=True)
    metric.corpus_score(hypotheses[:1], [each[:1] for each in references])  # now its signature has their number
    return np.array([of_line(metric, ours, theirs) for ours, theirs in lines], dtype=np.float64)  # type: ignore


def score_of(metric: Metric, counts: Counts, times: np.ndarray | None = None) -> float:
    """The score of a set in which each line occurs `times` times, by default once. 0 to 100."""
    sums = (counts.sum(0) if times is None else times @ counts).tolist()
    return _bleu(metric, sums) if isinstance(metric, BLEU) else _chrf(metric, sums)


def bleu_note(counts: Counts) -> str:
    """Why a BLEU of these counts is 0 whatever the translations are; empty where it is not so."""
    has_four_grams = counts[:, -1].any()
    return "" if has_four_grams else "no translation has four words: BLEU has no 4-grams and is 0; see chrF"


def _bleu_counts(metric: BLEU, hypothesis: str, references: Sequence[str]) -> list[int]:
    """Lengths of the translation and of the reference, n-grams that match and n-grams, for n = 1 to 4."""
    score = metric.corpus_score([hypothesis], [[reference] for reference in references])
    return [score.sys_len, score.ref_len, *score.counts, *score.totals]


def _bleu(metric: BLEU, sums: list[float]) -> float:
    n = metric.max_ngram_order
    return BLEU.compute_bleu(
        correct=sums[2 : 2 + n], total=sums[2 + n :], sys_len=int(sums[0]), ref_len=int(sums[1]),  # type: ignore
        smooth_method=metric.smooth_method, smooth_value=metric.smooth_value,
        effective_order=metric.effective_order, max_ngram_order=n,
    ).score  # fmt: skip


def _chrf_counts(metric: CHRF, hypothesis: str, references: Sequence[str]) -> list[int]:
    """For n = 1 to 6: n-grams of the translation, of the reference, and of both. Of several references the best."""
    ours = extract_all_char_ngrams(hypothesis, metric.char_order)
    candidates = []
    for reference in references:
        counts = []
        for mine, theirs in zip(ours, extract_all_char_ngrams(reference, metric.char_order), strict=True):
            both = sum(min(count, theirs[gram]) for gram, count in mine.items() if gram in theirs)
            # As in sacreBLEU, n-grams of a translation whose reference has none do not count.
            counts += [mine.total() if theirs else 0, theirs.total(), both]
        candidates.append(counts)
    return max(candidates, key=lambda counts: _chrf(metric, counts))


def _chrf(metric: CHRF, sums: Sequence[float]) -> float:
    """The F-score of mean precision and mean recall; recall weighs β times as much."""
    orders = [sums[i : i + 3] for i in range(0, len(sums), 3)]
    used = [order for order in orders if order[0] > 0 and order[1] > 0]
    if not used:
        return 0.0
    precision = sum(both / ours for ours, _, both in used) / len(used)
    recall = sum(both / theirs for _, theirs, both in used) / len(used)
    if precision + recall == 0:
        return 0.0
    weight = metric.beta**2
    return 100 * ((1 + weight) * precision * recall / (weight * precision + recall))
