"""Two runs compared on the same set."""

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
