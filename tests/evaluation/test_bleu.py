"""Every convention against hand-worked values, and what must not happen silently."""

import json
import math
import re

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from vaswani.errors import UserError
from vaswani.evaluation import bleu


def by_name(hypotheses, references, language="de", resamples=20, seed=1):
    return {s.name: s for s in bleu.score(hypotheses, [references], language, resamples, seed)}


HYPOTHESES = ["Der Hund läuft schnell über die grüne Wiese.", "Zwei Männer spielen im Park.", "Ein rotes Auto."]
REFERENCES = [
    "Der Hund rennt schnell über die grüne Wiese.",
    "Zwei Männer spielen Schach im Park.",
    "Ein rotes Auto steht da.",
]


def test_the_standard_scores_are_sacrebleus():
    scores = by_name(HYPOTHESES, REFERENCES)
    assert list(scores) == ["sacreBLEU", "paper BLEU", "lower-cased BLEU", "chrF"]
    assert scores["sacreBLEU"].value == pytest.approx(BLEU().corpus_score(HYPOTHESES, [REFERENCES]).score)
    assert scores["chrF"].value == pytest.approx(CHRF().corpus_score(HYPOTHESES, [REFERENCES]).score)
    value, signature, note = bleu.corpus_bleu(HYPOTHESES, REFERENCES, "de")
    assert note == ""
    assert value == pytest.approx(scores["sacreBLEU"].value)
    assert re.sub(r"\|bs:\d+\|seed:\d+", "", scores["sacreBLEU"].signature) == signature
    assert all(0 <= s.low < s.value < s.high < 100 for s in scores.values())


def test_bleu_worked_by_hand():
    # 7 and 8 tokens with the full stop; only the n-grams across the missing word do not match.
    expected = 100 * math.exp(1 - 8 / 7) * (7 / 7 * 5 / 6 * 3 / 5 * 1 / 4) ** 0.25
    hypothesis, reference = ["Zwei Männer spielen heute im Park."], ["Zwei Männer spielen heute Schach im Park."]
    scores = by_name(hypothesis, reference)
    assert scores["sacreBLEU"].value == pytest.approx(expected)
    assert scores["paper BLEU"].value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("tokens", "split"),
    [
        ("a-b-c", "a ##AT##-##AT## b-c"),
        ("rich-text format", "rich ##AT##-##AT## text format"),
        ("ab-cd-ef", "ab ##AT##-##AT## cd ##AT##-##AT## ef"),
        ("a - b -c d-", "a - b -c d-"),
        ("", ""),
    ],
)
def test_compound_split(tokens, split):
    assert bleu.split_compounds(tokens) == split


def test_the_papers_convention_on_text():
    hypothesis, reference = bleu.paper_convention("de")
    assert reference("Ein Open-Source-Projekt, z.B. „dieses“.") == (
        "Ein Open ##AT##-##AT## Source ##AT##-##AT## Projekt , z.B. &quot; dieses &quot; ."
    )
    assert hypothesis("„Ja“, sagte er…") == "&quot; Ja &quot; , sagte er ..."
    assert reference("„Ja“, sagte er…") == "&quot; Ja &quot; , sagte er …"  # punctuation stays in the reference


def test_quotes_and_apostrophes_cost_nothing_in_other_languages():
    plain, french = ['"L\'eau" est là, dit-il.'], ["«\u00a0L’eau\u00a0» est là, dit-il."]
    assert bleu.paper_convention("fr")[1](french[0]) == "&quot; L&apos; eau &quot; est là , dit-il ."
    for hypotheses, references in ((plain, french), (french, plain), (french, french)):
        assert by_name(hypotheses, references, "fr")["paper BLEU"].value == pytest.approx(100)


def test_quotes_cost_nothing_but_other_punctuation_does_in_the_papers_convention():
    plain = ['Er sagte "gut so" und ging dann weg.'] * 2
    assert by_name(["Er sagte „gut so“ und ging dann weg."] * 2, plain)["paper BLEU"].value == pytest.approx(100)
    assert by_name(plain, ["Er sagte „gut so” und ging dann weg."] * 2)["paper BLEU"].value == pytest.approx(100)
    assert by_name(["Und dann ging er weg…"], ["Und dann ging er weg…"])["paper BLEU"].value < 100


def test_compounds_count_in_parts_for_german_only():
    hypothesis, reference = ["die große Open-Source Software läuft"], ["die große Open-Data Software läuft"]
    split = by_name(hypothesis, reference, "de")["paper BLEU"].value
    assert (
        split > by_name(hypothesis, reference, "nl")["paper BLEU"].value == 0
    )  # whole: no common 4-gram, no smoothing


def test_case_counts_except_in_the_lower_cased_score():
    scores = by_name(["ein HUND läuft durch den park."], ["Ein Hund läuft durch den Park."])
    assert scores["lower-cased BLEU"].value == pytest.approx(100)
    assert scores["paper BLEU"].value < scores["sacreBLEU"].value + 1e-9 < 60


def test_multi30ks_tokenised_text():
    assert bleu.lowercase_convention("de")("Zwei „Männer“ – im Park.") == "zwei &quot; männer &quot; - im park ."


def test_signatures_name_the_convention():
    scores = by_name(HYPOTHESES, REFERENCES, resamples=50, seed=7)
    assert scores["sacreBLEU"].signature.startswith("nrefs:1|bs:50|seed:7|case:mixed|eff:no|tok:13a|smooth:exp|")
    assert "|pre:quotes+hyp-punct+sacremoses[" in scores["paper BLEU"].signature
    assert "+compounds|" in scores["paper BLEU"].signature
    assert "|pre:norm-punct+sacremoses[" in by_name(HYPOTHESES, REFERENCES, "fr")["paper BLEU"].signature
    assert "case:mixed" in scores["paper BLEU"].signature and "case:lc" in scores["lower-cased BLEU"].signature
    assert "|pre:lower+norm-punct+sacremoses[" in scores["lower-cased BLEU"].signature
    assert all("version:" in s.signature for s in scores.values())
    assert "„ “ ”" in scores["paper BLEU"].description


def test_unequal_or_no_lines_are_refused():
    with pytest.raises(UserError, match="2 translations for 3 references"):
        bleu.score(HYPOTHESES[:2], [REFERENCES], "de")
    with pytest.raises(UserError, match="2 translations for 3 references"):
        bleu.corpus_bleu(HYPOTHESES[:2], REFERENCES, "de")
    with pytest.raises(UserError, match="no lines"):
        bleu.score([], [[]], "de")


def test_empty_lines_are_scored_not_dropped():
    full = by_name(HYPOTHESES, HYPOTHESES)
    without_one = by_name([*HYPOTHESES[:2], ""], HYPOTHESES)
    no_reference = by_name(HYPOTHESES, [*HYPOTHESES[:2], ""])
    for name in full:
        assert full[name].value == pytest.approx(100)
        assert 0 < without_one[name].value < 100, name
        if name != "chrF":  # sacreBLEU's counts no n-grams where the reference has none
            assert 0 < no_reference[name].value < 100, name
    assert all(s.value == s.low == s.high == 0 for s in by_name(["", ""], HYPOTHESES[:2]).values())


def test_json_and_table():
    scores = bleu.score(HYPOTHESES, [REFERENCES], "de", resamples=20)
    sets = {"test": bleu.SetEvaluation(scores, 3, "averaged", {"beam": 4, "alpha": 0.6}, 1)}
    written = json.loads(json.dumps(bleu.to_json(sets)))
    assert written["sets"]["test"]["scores"][0]["name"] == "sacreBLEU"
    assert written["sets"]["test"]["lines"] == 3
    assert bleu.from_json(written) == sets

    lines = bleu.format_table(sets).split("\n")
    assert lines[0] == "test: 3 lines, checkpoint averaged, beam 4, alpha 0.6, 1 source lines truncated"
    assert len({line.index("[") for line in lines[1:5]}) == 1  # aligned
    assert f"{scores[0].value:.2f}" in lines[1] and scores[0].signature in lines[1]


def test_two_word_lines_are_noted_and_not_just_zero():
    lines = ["guten Tag", "gute Nacht"]
    scores = bleu.score(lines, [lines], "de", resamples=10)
    assert [score.value for score in scores] == [0, 0, 0, pytest.approx(100)]
    note = "no translation has four words: BLEU has no 4-grams and is 0; see chrF"
    assert [score.note for score in scores] == [note, note, note, ""]
    sets = {"test": bleu.SetEvaluation(scores, 2, "averaged", {}, 0)}
    assert f"\n  sacreBLEU, paper BLEU, lower-cased BLEU: {note}\n" in bleu.format_table(sets)
    assert bleu.corpus_bleu(lines, lines, "de").note == note
    assert bleu.from_json(json.loads(json.dumps(bleu.to_json(sets)))) == sets


def test_one_line_has_no_interval():
    scores = bleu.score(HYPOTHESES[:1], [REFERENCES[:1]], "de")
    assert all(score.low is None and score.high is None and "|bs:" not in score.signature for score in scores)
    sets = {"test": bleu.SetEvaluation(scores, 1, "averaged", {}, 0)}
    table = bleu.format_table(sets)
    assert "test: 1 line, averaged\n" in table and "[ " not in table and "interval" not in table
    assert bleu.from_json(json.loads(json.dumps(bleu.to_json(sets)))) == sets


def test_an_evaluation_of_an_earlier_version_has_no_notes():
    scores = bleu.score(HYPOTHESES, [REFERENCES], "de", resamples=10)
    values = bleu.to_json({"test": bleu.SetEvaluation(scores, 3, "averaged", {}, 0)})
    values = json.loads(json.dumps(values))
    for score in values["sets"]["test"]["scores"]:
        del score["note"]
    assert bleu.from_json(values)["test"].scores == scores


def test_several_references_count_in_every_convention():
    """Each line is right by one of two references, and by one alone not."""
    lines = ["Er sagte nein und ging dann weg.", "Zwei Männer spielen heute im Park."]
    first, second = [lines[0], "Zwei Frauen lesen."], ["Sie sagte ja.", lines[1]]
    both = bleu.score(lines, [first, second], "de", resamples=10)
    assert [score.value for score in both] == pytest.approx([100] * 4)
    assert all(score.signature.startswith("nrefs:2|") for score in both)
    for references in (first, second):
        assert all(score.value < 90 for score in bleu.score(lines, [references], "de", resamples=10))


def test_chinese_is_tokenised_in_every_convention():
    """Nearly right: one character of 16 differs, in each line the last but one."""
    hypotheses, references = ["我今天去了学校看我的老朋友们。"] * 2, ["我今天去了学校看我的老朋友啊。"] * 2
    scores = bleu.score(hypotheses, [references], "zh", resamples=10)
    assert all(score.value > 75 for score in scores)
    assert all("|tok:zh|" in score.signature for score in scores[:3])
    assert "tokenised by zh" in scores[1].description and "|pre:norm-punct+" in scores[1].signature
    assert bleu.corpus_bleu(hypotheses, references, "zh").value == scores[0].value
