"""Two runs compared on the same set."""

from dataclasses import replace

import pytest

from vaswani.errors import UserError
from vaswani.evaluation.compare import compare, format_comparison
from vaswani.runs.directory import RunDirectory
from vaswani.runs.translations import write_translations
from vaswani.schema import Config


def test_compare_tests_runs_against_the_first(tmp_path):
    runs = [RunDirectory(tmp_path / name) for name in ("first", "better", "third")]
    references = [f"der Hund {i} sieht die Katze im Park ." for i in range(30)]
    for run, wrong in zip(runs, (20, 2, 20), strict=True):
        run.create(Config())
        lines = ["eine Katze" if i < wrong else line for i, line in enumerate(references)]
        write_translations(run, "newstest2014", references, references, lines)
    values = compare(runs, None)
    base, better, same = values["runs"]
    assert values["set"] == "newstest2014" and values["lines"] == 30 and base["p_value"] is None
    assert better["delta"] > 20 and better["p_value"] < 0.01 and same["delta"] == 0.0
    assert "the baseline" in format_comparison(values) and f"p = {better['p_value']:.4f}" in format_comparison(values)
    with pytest.raises(UserError, match="no translation of 'valid'"):
        compare(runs, "valid")
    with pytest.raises(UserError, match="name two different runs"):
        compare([runs[0], runs[0]], None)
    (runs[1].translations / "newstest2014.reference.txt").write_text("anders\n" * 30)
    with pytest.raises(UserError, match="other references"):
        compare(runs, None)


def compared(tmp_path, target: str, hypotheses: list[list[str]], references: list[str]) -> dict:
    runs = [RunDirectory(tmp_path / name) for name in ("first", "second")]
    for run, lines in zip(runs, hypotheses, strict=True):
        run.create(replace(Config(), data=replace(Config().data, target=target)))
        write_translations(run, "newstest2014", references, references, lines)
    return compare(runs, None)


def test_chinese_is_compared_by_character(tmp_path):
    references = ["我今天去了学校看我的老朋友啊。"] * 5
    values = compared(tmp_path, "zh", [["我今天去了学校看我的老朋友们。"] * 5, references], references)
    assert [run["bleu"] > 75 for run in values["runs"]] == [True, True] and "|tok:zh|" in values["signature"]
    assert "sacreBLEU (zh, cased)" in format_comparison(values)


def test_what_cannot_be_told_is_said(tmp_path):
    one = compared(tmp_path / "one", "de", [["das ist der Hund"], ["das ist der alte Hund"]], ["das ist der alte Hund"])
    assert one["runs"][1]["p_value"] is None and one["runs"][1]["low"] is None
    text = format_comparison(one)
    assert "[" not in text and "p =" not in text and "One line cannot be resampled" in text
    two = compared(tmp_path / "two", "de", [["guten Tag"] * 2, ["gute Nacht"] * 2], ["guten Tag"] * 2)
    assert f"first: {two['runs'][0]['note']}" in format_comparison(two) and "no 4-grams" in two["runs"][0]["note"]
