"""Every line of `vaswani paper` agrees with the paper, or says why not."""

import io
import json
from contextlib import redirect_stdout

import pytest

from vaswani import cli
from vaswani.errors import WorkFailed
from vaswani.paper import recompute as paper_check
from vaswani.paper.checks import Check, below, derived, format_checks, numbers, only, require_reasons


@pytest.fixture(scope="module")
def table():
    out = io.StringIO()
    with redirect_stdout(out):
        assert cli.run(["paper", "--json"]) == 0
    return [Check(**line) for line in json.loads(out.getvalue())]


def test_all_lines_agree_but_those_whose_reason_is_known(table):
    differ = [check for check in table if check.agrees is False]
    assert all(check.why for check in differ)
    millions = "Table 3, millions of parameters, V = 37,000"
    assert [check.what for check in differ if check.where != millions] == [
        "longest wavelength / 2π", "hours of base: 100,000 steps of 0.4 s", "base: 100,000 steps of 0.4 s",
    ]  # fmt: skip
    # The printed counts follow from another vocabulary than "about 37000", the same one for all but big.
    rows = [check.what for check in differ if check.where == millions]
    assert rows == [*"base B1 B2 C1 C2 C3 C4 C5 C6 C7 big".split(), "vocabulary that all of these fit"]
    assert differ[-1].ours == "41,004 to 41,208, and 35,368 to 36,344 for big"
    assert sum(check.agrees is True for check in table) >= 91
    assert (
        format_checks(table)
        .split("\n")[-1]
        .endswith(
            "15 differ (a reason is given for each): 2 because 0.4 s a step is rounded, "
            '11 because the vocabulary is larger than "about 37000".'
        )
    )


def test_every_section_and_table_is_there(table):
    places = " ".join(check.where for check in table)
    for section in ("3.1", "3.2.1", "3.2.2", "3.2.3", "3.3", "3.5", "5.2", "5.3", "5.4", "6.1", "6.2"):
        assert f"Section {section}" in places
    for place in ("equation 1", "footnote 4", "Table 1", "Section 4, memory", "equation 3", "Table 2", "Table 3"):
        assert place in places
    expected = " ".join(check.expected for check in table)
    for value in ("507.38", "7.12e-05", "6.987712e-04", "-2.20807", "8,416", "176,283,648", "34,359,738,368", "30.5"):
        assert value in expected


def test_numbers_agree_if_they_round_to_the_digits_expected():
    assert numbers("", "", "3.3e+18", 3.28e18).agrees
    differs = numbers("", "", "3.3e+18", 3.04e18, why="because")
    assert (differs.agrees, differs.ours, differs.why) == (False, "3.04e+18", "because")
    assert derived("", "", "0.506 0.186", [0.50649, 0.18551]).agrees
    assert not derived("", "", "0.506 0.186", [0.50651, 0.18551]).agrees
    assert numbers("", "", "1,048,576", 1048576).agrees and not numbers("", "", "1,048,576", 1048577).agrees
    assert not below("", "", 2e-5, 1e-5).agrees
    with pytest.raises(ValueError):
        numbers("", "", "1 2", [1, 2, 3])


def test_table_for_the_terminal():
    differs = numbers("Section 9", "c", "12", 11.1, why="It is rounded.")
    lines = format_checks([numbers("Section 8", "a", "64", 64), only("Section 8", "b", "5"), differs]).split("\n")
    assert [line.split() for line in lines if line] == [
        ["the", "paper", "expected", "ours"], ["Section", "8"], ["✓", "a", "64", "64"], ["·", "b", "5"],
        ["Section", "9"], ["≠", "c", "12", "11.1"], ["It", "is", "rounded."],
        "Values in parentheses are not printed in the paper. They were derived from it.".split(),
        "1 agree, 1 differ (a reason is given for each).".split(),
    ]  # fmt: skip
    require_reasons([differs])


def test_a_disagreement_without_a_reason_is_a_failure(monkeypatch, capsys):
    wrong = numbers("Section 9", "c", "12", 11.1)
    with pytest.raises(WorkFailed, match="Section 9: c"):
        require_reasons([wrong])
    monkeypatch.setattr(paper_check, "check_paper", lambda: iter([wrong]))
    assert cli.run(["paper"]) == 1
    assert "≠ c" in capsys.readouterr().out
