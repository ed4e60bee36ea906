"""A translated set: what is written of it, line by line."""

from types import SimpleNamespace

from vaswani.decoding.translator import Hypothesis
from vaswani.evaluation.sets import evaluate_set
from vaswani.runs.directory import RunDirectory
from vaswani.runs.translations import read_translations
from vaswani.schema import Config


def test_a_cell_with_line_ends_is_one_line_of_the_files_and_scored_as_it_is(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.create(Config())
    sources, references = ["One\ntwo.", "Three\u2028four."], ["Eins\nzwei.", "Drei vier fünf sechs."]

    def translate(lines, on_warning):
        on_warning("line 2 was cut")
        return ([Hypothesis(text, 0.0, 0.0, 1)] for text in ("Eins zwei.", "Drei vier fünf sechs."))

    result = evaluate_set(run, Config(), "test", sources, references, SimpleNamespace(translate=translate), "last")
    assert (result.lines, result.truncated) == (2, 1)
    assert read_translations(run, "test") == (
        ["One two.", "Three\u2028four."],
        ["Eins zwei.", "Drei vier fünf sechs."],
        ["Eins zwei.", "Drei vier fünf sechs."],
    )
