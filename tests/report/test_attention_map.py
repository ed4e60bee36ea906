"""The maps hold the weights that give the model's outputs, and the page shows them."""

import json
import re

import numpy as np
import pytest
from matplotlib.image import imread

from vaswani import cli
from vaswani.errors import UserError
from vaswani.report.attention_map import LONGEST, draw_maps, write_attention
from vaswani.report.png import drawable
from vaswani.runs.directory import RunDirectory
from vaswani.schema import DecodeConfig


def test_a_run_that_cannot_be_written_to(trained, monkeypatch, capsys):
    monkeypatch.chdir(trained.path)
    run = RunDirectory("runs/tiny")
    run.attention.write_text("a file")  # in place of the directory
    before = sorted(run.path.rglob("*"))
    command = ["attention", "runs/tiny", "A dog.", "--target", "Ein Hund."]
    assert cli.run(command) == 1
    message = "runs/tiny/attention/encoder.png: cannot be written: "
    error = capsys.readouterr().err
    assert message in error and "; `vaswani attention runs/tiny TEXT --out DIR` writes elsewhere\n" in error
    assert cli.run([*command, "--out", "other"]) == 0
    names = "attention/encoder.png attention/decoder.png attention/cross.png attention/maps.json report.html".split()
    assert capsys.readouterr().out.split() == [f"other/{name}" for name in names]
    assert '"attention-maps">{' in (trained.path / "other/report.html").read_text(encoding="utf-8")
    assert sorted(run.path.rglob("*")) == before


def test_labels_that_the_font_cannot_draw_and_math(tmp_path):
    """Warnings are errors here: Matplotlib warns where a glyph is missing."""
    labels = ["犬", "🙂", "$x^2$", "\x1b[2J", "\u202e", "$_{"]
    draw_maps(tmp_path / "maps.png", np.full((1, 1, 6, 6), 0.5), labels, labels, "A caption: $y_{ 犬")
    assert imread(tmp_path / "maps.png").shape[0] > 100
    assert drawable("a犬\x1b") == "a\\u72ac\\x1b"


def test_command(trained, monkeypatch, capsys):
    monkeypatch.chdir(trained.path)
    assert cli.run(["attention", "runs/tiny", "A dog <b>sees</b> </script> $x$.", "--decode.beam", "1"]) == 0
    run = RunDirectory("runs/tiny")
    assert capsys.readouterr().out.split() == [
        *(f"runs/tiny/attention/{name}" for name in ("encoder.png", "decoder.png", "cross.png", "maps.json")),
        "runs/tiny/report.html",
    ]
    values = json.loads((run.attention / "maps.json").read_text(encoding="utf-8"))
    encoder, decoder, cross = values["kinds"]
    assert encoder["rows"] == encoder["columns"] == cross["columns"] and encoder["rows"][-1] == "</s>"
    assert decoder["columns"] == ["<s>", *decoder["rows"][:-1]] and cross["rows"] == decoder["rows"]
    assert np.array(cross["permille"]).shape == (1, 2, len(cross["rows"]), len(cross["columns"]))

    page = run.report_path.read_text(encoding="utf-8")
    embedded = re.search(r'<script type="application/json" id="attention-maps">(.*?)</script>', page, re.DOTALL)
    assert embedded and json.loads(embedded[1]) == values
    assert "A dog &lt;b&gt;sees&lt;/b&gt; &lt;/script&gt;" in page
    assert "http" not in page and "does not explain the output" in page

    given = write_attention(run, "A dog.", "Ein Hund.", "last", DecodeConfig())
    assert given[0] == "Ein Hund."
    values = json.loads((run.attention / "maps.json").read_text(encoding="utf-8"))
    assert "".join(values["kinds"][2]["rows"]).replace("▁", " ").strip() == "Ein Hund.</s>"

    for text, target, message in (
        (" ", None, "the text is blank"),
        ("dog", " ", "the target is blank"),
        ("dog " * LONGEST, None, "a map that can be read has at most 63"),
    ):
        with pytest.raises(UserError, match=message):
            write_attention(run, text, target, "last", DecodeConfig())
