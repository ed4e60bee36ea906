"""Scores from sums over lines are sacreBLEU's; the tokeniser follows the target language."""

import random

import numpy as np
import pytest
import sacrebleu.tokenizers.tokenizer_ja_mecab as japanese
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from vaswani.errors import UserError
from vaswani.evaluation.metrics import bleu_metric, bleu_note, line_counts, score_of

HYPOTHESES = ["the cat sat on the mat .", "", "a dog ran in the park", "x", "Zwei Männer — „im“ Park.", "no"]
FIRST = ["the cat sat on a mat .", "it rains", "a dog ran in the park", "", "Zwei Männer im Park.", "abcdefgh"]
SECOND = ["a cat is on the mat .", "", "the dog was in the park", "x y", "Ein Mann – „im“ Park.", "no"]


@pytest.mark.parametrize("references", [[FIRST], [SECOND], [FIRST, SECOND], [SECOND, FIRST, HYPOTHESES]])
@pytest.mark.parametrize(
    "metric", [BLEU(), BLEU(lowercase=True, tokenize="none", smooth_method="none"), CHRF(), CHRF(char_order=3, beta=1)]
)
def test_scores_and_signatures_are_sacrebleus(metric, references):
    counts = line_counts(metric, HYPOTHESES, references)
    signature = str(metric.get_signature())
    assert score_of(metric, counts) == metric.corpus_score(HYPOTHESES, references).score
    assert signature == str(metric.get_signature()) and f"nrefs:{len(references)}|" in signature


@pytest.mark.parametrize("metric", [BLEU(), CHRF()])
def test_a_drawn_set_is_scored_as_if_it_were_written_out(metric):
    rng = random.Random(5)
    drawn = [rng.randrange(6) for _ in range(6)]
    times = np.bincount(drawn, minlength=6)
    hypotheses, references = ([lines[i] for i in drawn] for lines in (HYPOTHESES, FIRST))
    expected = metric.corpus_score(hypotheses, [references]).score
    assert score_of(metric, line_counts(metric, HYPOTHESES, [FIRST]), times) == pytest.approx(expected)


def test_chrf_worked_by_hand():
    """ "ab" and "abc": 2 of 2 and 1 of 1 n-grams match, of 3 and 2 in the reference; it alone has a trigram.

    Precision (1 + 1) / 2, recall (2/3 + 1/2) / 2 = 7/12; with β = 2, 5·(7/12) / (4 + 7/12) = 7/11.
    """
    metric = CHRF()
    assert score_of(metric, line_counts(metric, ["ab"], [["abc"]])) == pytest.approx(100 * 7 / 11)


@pytest.mark.parametrize("target", ["zh", "zh-CN", "zh_TW", "ZH", "zho_Hans"])
def test_chinese_is_tokenised_by_character(target):
    metric = bleu_metric(target)
    counts = line_counts(metric, ["我今天去了学校。"], [["我今天去了学校!"]])
    # 8 characters of which the last is wrong: 7/8, 6/7, 5/6 and 4/5 of the n-grams match.
    assert score_of(metric, counts) == pytest.approx(100 * (7 / 8 * 6 / 7 * 5 / 6 * 4 / 5) ** 0.25)
    assert "|tok:zh|" in str(metric.get_signature())
    assert "|tok:none|" in str(signature_of(bleu_metric(target, tokenise=False)))


def test_other_languages_keep_13a():
    assert "|tok:13a|" in str(signature_of(bleu_metric("de"))) and "|tok:13a|" in str(signature_of(bleu_metric("")))


def signature_of(metric):
    line_counts(metric, ["a"], [["a"]])
    return metric.get_signature()


def test_a_tokeniser_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(japanese, "MeCab", None)
    with pytest.raises(UserError, match=r"^data\.target = 'ja': .* pip install sacrebleu\[ja\]$"):
        bleu_metric("ja")


def test_japanese_and_korean_words():
    pytest.importorskip("MeCab"), pytest.importorskip("mecab_ko")
    for target, line in (("ja", "今日は学校に行きました。"), ("ko", "나는 오늘 학교에 갔습니다.")):
        metric = bleu_metric(target)
        assert score_of(metric, line_counts(metric, [line], [[line]])) == pytest.approx(100)
        assert f"|tok:{target}-mecab-" in str(metric.get_signature())


def test_bleu_without_four_grams_is_noted():
    metric = BLEU()
    assert "no 4-grams" in bleu_note(line_counts(metric, ["guten Tag"] * 9, [["guten Tag"] * 9]))
    assert bleu_note(line_counts(metric, ["guten Tag", "das ist so gut"], [["guten Tag", "nein"]])) == ""


def test_unequal_or_no_lines_are_refused():
    for references in ([FIRST[:5]], [FIRST, SECOND[:5]]):
        with pytest.raises(UserError, match="6 translations for 5 references"):
            line_counts(BLEU(), HYPOTHESES, references)
    with pytest.raises(UserError, match="no lines"):
        line_counts(BLEU(), [], [[]])
