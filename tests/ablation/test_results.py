"""What the table says of given results: verdicts, blanks, notes; and comparing runs."""

import csv
import io
import json
from dataclasses import replace

import pytest

from vaswani.ablation import layout
from vaswani.ablation.results import RowResult, SeedResult, Table, verdict
from vaswani.ablation.rows import rows
from vaswani.evaluation.significance import Estimate
from vaswani.schema import Config


def fake_table() -> Table:
    base, *others = rows(Config(), ["A1", "C1", "E"])
    numbers = {
        "base": ((4.9, 5.0), (25.0, 26.0), None),
        "A1": ((5.2, 5.4), (24.0, 24.4), Estimate(-1.3, -2.0, -0.4)),
        "C1": ((6.0,), (23.0,), Estimate(-2.5, -3.0, -1.9)),
        "E": ((4.9, 4.9), (25.4, 25.8), Estimate(0.1, -0.5, 0.6)),
    }
    made = []
    for row in (base, *others):
        perplexities, bleus, delta = numbers[row.name]
        results = tuple(
            SeedResult(f"{row.name}-seed{k}", 1706 + k, 100_000, p, b, 60.0)
            for k, (p, b) in enumerate(zip(perplexities, bleus, strict=True))
        )
        spread = (0.07, 0.71) if len(results) == 2 else (None, None)
        paper_delta = None if row.name == "base" else round(row.paper.bleu - 25.8, 2)
        made.append(
            RowResult(
                row.name, row.settings, {k: v for k, v in row.settings.items() if v != base.settings[k]}, 63_045_632,
                results, {"C1-seed1": "step 300 of 100,000"} if row.name == "C1" else {},
                (sum(perplexities) / len(results), spread[0]), (sum(bleus) / len(results), spread[1]), delta,
                row.paper, paper_delta, verdict(delta, paper_delta), "", "",
            )
        )  # fmt: skip
    return Table("base-table3", "newstest2013", 3000, "13a", {"beam": 4, "alpha": 0.6}, 2, 1000, tuple(made))


@pytest.mark.parametrize(
    ("interval", "paper", "expected"),
    [
        ((-1.0, -0.2), -0.9, "agrees"), ((0.2, 1.0), 0.4, "agrees"), ((0.2, 1.0), -0.4, "opposite"),
        ((-0.5, 0.1), -0.9, "cannot tell"), ((-0.5, 0.1), 0.0, "cannot tell"),
        ((-0.5, -0.1), 0.0, "differs: the paper sees none"), ((-0.5, -0.1), None, "worse"),
    ],
)  # fmt: skip
def test_verdicts(interval, paper, expected):
    assert verdict(Estimate(sum(interval) / 2, *interval), paper) == expected


def test_without_an_interval_nothing_can_be_told():
    assert verdict(Estimate(-3.0, None, None), -0.9) == "cannot tell"


def test_text_is_the_papers_table_with_ours_beside():
    lines = layout.to_text(fake_table()).split("\n")
    table = {
        line.split()[0]: line.split() for line in lines if line[:1].isalpha() and "|" not in line and ":" not in line
    }
    assert table["base"] == (
        "base 6 512 2048 8 64 64 0.1 0.1 100K sines 4.95 ± 0.07 25.50 ± 0.71 63M 4.92 25.8 65M".split()
    )
    assert table["A1"] == "A1 1 512 512 5.30 ± 0.07 24.20 ± 0.71 63M −1.30 [−2.00, −0.40] 5.29 24.9 −0.9 agrees".split()
    assert table["C1"] == "C1 2 6.00 23.00 63M −2.50 [−3.00, −1.90] 6.11 23.7 36M −2.1 agrees".split()
    assert table["E"][-2:] == ["cannot", "tell"]
    assert "C1: 1 of 2 seeds (C1-seed1: step 300 of 100,000)." in lines
    widths = {len(line) for line in lines if line.startswith(("base", "A1"))}
    assert max(widths) < 170


def test_csv_is_unrounded_and_markdown_has_every_cell():
    table = fake_table()
    values = {row["row"]: row for row in csv.DictReader(io.StringIO(layout.to_csv(table)))}
    assert values["A1"]["delta_low"] == "-2.0" and values["A1"]["h"] == "1" and values["base"]["delta_bleu"] == ""
    lines = [line for line in layout.to_markdown(table).split("\n") if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1 and len(lines) == 2 + 4


def test_a_set_of_one_line_and_bleu_without_4_grams(tmp_path):
    table = fake_table()
    delta = Estimate(-1.3, None, None)
    rows = [replace(row, delta=delta, verdict="cannot tell") if row.row == "A1" else row for row in table.rows]
    table = replace(table, rows=tuple(rows), bleu_notes={"E-seed0": "no translation has four words"})
    text = layout.to_text(table)
    (line,) = (line.split() for line in text.split("\n") if line.startswith("A1 "))
    assert line[line.index("−1.30") + 1 :] == "5.29 24.9 −0.9 cannot tell".split()
    assert text.endswith("\nE-seed0: no translation has four words.")
    layout.write(table, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"table3.{suffix}" for suffix in ("json", "md", "csv", "png")}
    written = json.loads((tmp_path / "table3.json").read_text())
    assert written["bleu_notes"] == {"E-seed0": "no translation has four words"}
    assert written["rows"][1]["delta"] == {"value": -1.3, "low": None, "high": None}
