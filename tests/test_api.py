"""What Python programs use: names without JAX, a translator for runs, runs as data, the examples of docs/python.md."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

import vaswani
from vaswani import Translator, UserError, load_run
from vaswani.decoding.translator import load_translator
from vaswani.runs.directory import RunDirectory

ROOT = Path(__file__).parents[1]
LINES = ["The dog sees a cat.", " ", "A child sleeps.", "Two women buy seven books."]


@pytest.fixture
def run(trained, monkeypatch):
    """runs/toy in the working directory."""
    monkeypatch.chdir(trained.path)
    Path("runs/tiny").rename("runs/toy")
    return RunDirectory("runs/toy")


def test_a_name_is_loaded_when_it_is_used():
    program = (
        "import sys, vaswani\n"
        "assert 'jax' not in sys.modules and set(vaswani.__all__) <= set(dir(vaswani))\n"
        "from vaswani import Translator, load_run, Transformer\n"
        "assert 'jax' in sys.modules and Translator.__module__ == 'vaswani.api'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError, match="module 'vaswani' has no attribute 'Translater'"):
        _ = vaswani.Translater


def test_a_translator_returns_what_the_search_does(run):
    translations = Translator("runs/toy", checkpoint="last", alpha=1.0).translate(LINES, n_best=2, align=True)
    decode = dataclasses.replace(run.load_config().decode, alpha=1.0)
    inner, _ = load_translator(run, "last", decode)
    assert [list(t.hypotheses) for t in translations] == list(inner.translate(LINES, 2, aligned=True))
    for line, t in zip(LINES, translations, strict=True):
        best = t.hypotheses[0]
        assert (t.source, t.text, t.score) == (line, best.text, best.score)
        assert (t.tokens, t.alignment) == (best.tokens, best.alignment)
        assert "".join(t.source_tokens).replace("▁", " ").strip() == line.strip()
        assert "".join(t.tokens).replace("▁", " ").strip() == t.text
        assert [j for _, j in t.alignment] == list(range(len(t.tokens)))
        assert all(0 <= i < len(t.source_tokens) for i, _ in t.alignment)
    assert translations[1].text == "" and translations[1].alignment == ()


def test_a_stream_is_read_as_it_is_needed(run, monkeypatch):
    monkeypatch.setattr("vaswani.api.WINDOW", 2)
    read = []

    def lines():
        for line in LINES:
            read.append(line)
            yield line

    translator = Translator("runs/toy")
    stream = translator.translate_iter(lines())
    first = next(stream)
    assert len(read) == 2
    assert [first, *stream] == translator.translate(LINES)


def test_what_is_wrong_is_one_line(run):
    translator = Translator("runs/toy")
    with pytest.raises(TypeError, match="give a list of strings"):
        translator.translate("A dog.")
    with pytest.raises(UserError, match=r"n-best = 9: must be from 1 to the beam, decode\.beam = 2"):
        translator.translate_iter(["A dog."], n_best=9)  # at once, not when the result is read
    with pytest.raises(UserError, match=r"unknown key 'decode\.beem' \(did you mean decode\.beam\?\)"):
        Translator("runs/toy", beem=4)
    with pytest.raises(UserError, match=r"no run directory at runs/tox \(did you mean runs/toy\?\)"):
        load_run("runs/tox")
    with pytest.raises(TypeError, match="one run directory or more"):
        Translator()


def test_the_tables_of_a_run(trained, run):
    import pandas

    trained.vaswani("evaluate", "runs/toy")
    result = load_run("runs/toy")
    metrics, scores = pandas.DataFrame(result.metrics), pandas.DataFrame(result.scores)
    assert metrics[metrics.kind == "train"].step.tolist() == [2, 4, 6, 8, 10, 12]
    assert metrics[metrics.kind == "valid"].perplexity.gt(1).all()
    assert scores.set.tolist() == ["test"] * 4 and scores.name[0] == "sacreBLEU"
    assert scores.signature[0].startswith("nrefs:1|")


def test_the_examples_of_the_page(run):
    text = (ROOT / "docs/python.md").read_text("utf-8")
    examples = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(examples) >= 7
    names: dict[str, object] = {}
    for example in examples:  # as one program, for later ones use what earlier ones made
        exec(compile(example, "docs/python.md", "exec"), names)
    assert names["logits"].shape == (2, 3, 100)
    assert len(Path("out.txt").read_text("utf-8").split("\n")) == 3
