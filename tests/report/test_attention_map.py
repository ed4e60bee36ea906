"""The maps hold the weights that give the model's outputs, and the page shows them."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from matplotlib.image import imread

from vaswani import cli
from vaswani.errors import UserError
from vaswani.model import build
from vaswani.report.attention_map import LONGEST, attend, draw_maps, write_attention
from vaswani.report.png import drawable
from vaswani.runs.directory import RunDirectory
from vaswani.schema import DecodeConfig, ModelConfig

CONFIG = ModelConfig(N=2, d_model=16, d_ff=32, h=2, d_k=6, d_v=10)
SOURCE, TARGET = jnp.array([4, 5, 6, 7, 2]), jnp.array([1, 8, 9, 10])


@pytest.fixture(scope="module")
def attended():
    """hidden, maps: of `attend`. plain: hidden by the model itself. x: the encoder's output computed from the maps."""
    graphdef, _ = jax.eval_shape(lambda: build(CONFIG, 15))

    @jax.jit
    def both(params):
        model = nnx.merge(graphdef, params)
        hidden, maps = attend(model, SOURCE, TARGET)
        ones = jnp.ones((1, 5), jnp.int32)
        memory = model.encode(SOURCE[None], ones, jnp.arange(5)[None])
        plain = model.decode(TARGET[None], ones[:, :4], jnp.arange(4)[None], memory, ones)[0]

        x = model.embed(SOURCE[None], model.source_positions(jnp.arange(5)[None], 5))
        for layer, weights in zip(model.encoder, maps.encoder, strict=True):
            _, V = layer.self_attention.keys_values(x)
            heads = jnp.einsum("hqk,bkhd->bqhd", weights, V)
            x = layer.self_attention_norm(x, layer.self_attention.output(heads))
            x = layer.feed_forward_norm(x, layer.feed_forward(x))
        return hidden, maps, plain, x, memory

    return both(jax.jit(lambda: build(CONFIG, 15)[1])())


def test_attend_gives_the_output_of_the_model(attended):
    hidden, _, plain, _, _ = attended
    np.testing.assert_allclose(hidden, plain, rtol=1e-6, atol=1e-6)


def test_the_weights_are_those_that_made_the_output(attended):
    _, _, _, from_maps, memory = attended
    np.testing.assert_allclose(from_maps, memory, rtol=1e-5, atol=1e-5)


def test_shapes_sums_and_the_causal_mask(attended):
    maps = attended[1]
    assert maps.encoder.shape == (2, 2, 5, 5)
    assert maps.decoder.shape == (2, 2, 4, 4)
    assert maps.cross.shape == (2, 2, 4, 5)
    for weights in maps:
        np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-5)
    assert np.all(np.asarray(maps.decoder)[..., *np.triu_indices(4, 1)] == 0)


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
