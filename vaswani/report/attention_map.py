"""Attention maps of a trained model, as in the paper's Figures 3 to 5: the weights of each layer and head."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array

from vaswani.console import visible
from vaswani.data.tokenizer import BEGIN, END, Tokenizer
from vaswani.decoding.attend import AttentionMaps, attend
from vaswani.decoding.translator import Translator, load_translator
from vaswani.errors import UserError
from vaswani.files import advise, write_text
from vaswani.report.page import maps_path, write_report
from vaswani.report.png import caption, drawable, drawing
from vaswani.runs.directory import RunDirectory
from vaswani.schema import DecodeConfig

LONGEST = 64
"""Tokens on each side. With more, the labels of a map are too small to read."""


CAPTIONS = {
    "encoder": "Encoder self-attention. Row: a source token. Column: the source tokens that it attends to.",
    "decoder": "Decoder self-attention. Row: the token being written. Column: the earlier tokens, which it attends to.",
    "cross": "Encoder-decoder attention. Row: the token being written. Column: the source tokens that it attends to.",
}
LIMITS = (
    "A map shows which tokens a head attends to. It does not explain the output: in each layer a token already "
    "contains information from its whole sentence, and quite different weights can give the same output."
)


def write_attention(
    run: RunDirectory,
    text: str,
    target: str | None,
    checkpoint: str,
    decode: DecodeConfig,
    out: Path | None = None,
) -> tuple[str, list[Path]]:
    """Writes a PNG for each kind of attention, their values as maps.json, and a report.html that shows the maps.

    Args:
        run: a trained run.
        text: a source sentence.
        target: its translation; None for the model's own.
        checkpoint, decode: as in `load_translator`.
        out: the directory for attention/ and report.html; by default the run.

    Returns:
        The translation, and the files written.

    Raises:
        UserError: a text is blank or too long, or the checkpoint does not exist.
        WorkFailed: a file cannot be written.
    """
    translator, label = load_translator(run, checkpoint, decode)
    source, output, target = _encode_pair(translator, text, target)
    target_input = [BEGIN, *output[:-1]]
    maps = _compute_maps(translator, source, target_input)
    source_tokens, input_tokens, output_tokens = (
        [visible(token) for token in translator.tokenizer.pieces(ids)] for ids in (source, target_input, output)
    )
    labels = {
        "encoder": (source_tokens, source_tokens),
        "decoder": (output_tokens, input_tokens),
        "cross": (output_tokens, source_tokens),
    }
    values = {"text": text, "target": target, "checkpoint": label, "limits": LIMITS, "kinds": _to_json(maps, labels)}
    out = out or run.path
    json_path = maps_path(out)
    pictures = [json_path.with_name(f"{kind}.png") for kind in maps]
    with advise(f"`vaswani attention {run.path} TEXT --out DIR` writes elsewhere"):
        for path, kind in zip(pictures, maps, strict=True):
            draw_maps(path, maps[kind], *labels[kind], f"{CAPTIONS[kind]} Checkpoint: {label}.\n{LIMITS}")
        write_text(json_path, json.dumps(values, ensure_ascii=False))
    return target, [*pictures, json_path, write_report(run, out / run.report_path.name, json_path)]


def _encode_pair(translator: Translator, text: str, target: str | None) -> tuple[list[int], list[int], str]:
    """(source ids, target ids, target). Both sides have the end symbol, unless the model's own target is too long."""
    tokenizer = translator.tokenizer
    source = [*_encode(tokenizer, text, "text"), END]
    if target is not None:
        return source, [*_encode(tokenizer, target, "target"), END], target
    (hypotheses,) = translator.translate([text])
    return source, list(hypotheses[0].ids)[:LONGEST], hypotheses[0].text


def _encode(tokenizer: Tokenizer, text: str, name: str) -> list[int]:
    ids = tokenizer.encode(text)
    if not text.strip() or not ids:
        raise UserError(f"the {name} is blank; a map needs words")
    if len(ids) >= LONGEST:
        raise UserError(f"the {name} has {len(ids)} tokens; a map that can be read has at most {LONGEST - 1}")
    return ids


def _compute_maps(translator: Translator, source: list[int], target_input: list[int]) -> dict[str, np.ndarray]:
    """{"encoder": [N, h, S, S], "decoder": …, "cross": …}."""

    @jax.jit
    def compute(params: dict[str, Any], source: Array, target_input: Array) -> AttentionMaps:
        return attend(nnx.merge(translator.graphdef, params), source, target_input)[1]

    maps = jax.device_get(compute(translator.params, jnp.array([source]), jnp.array([target_input])))
    return {kind: weights[:, 0] for kind, weights in maps._asdict().items()}


def _to_json(maps: dict[str, np.ndarray], labels: dict[str, tuple[list[str], list[str]]]) -> list[dict[str, Any]]:
    return [
        {
            "name": kind,
            "caption": CAPTIONS[kind],
            "rows": labels[kind][0],
            "columns": labels[kind][1],
            "permille": np.round(weights * 1000).astype(int).tolist(),  # [N][h][rows][columns]
        }
        for kind, weights in maps.items()
    ]


def draw_maps(path: Path, weights: np.ndarray, rows: list[str], columns: list[str], words: str) -> None:
    """Draws one panel for each layer (from top to bottom) and head (from left to right).

    Args:
        path: a PNG file.
        weights: [N, h, rows, columns], 0 to 1.
        rows, columns: the tokens.
        words: the caption.
    """
    N, h = weights.shape[:2]
    rows, columns = ([drawable(token) for token in tokens] for tokens in (rows, columns))
    width, height = (max(1.3, 0.15 * len(tokens)) for tokens in (columns, rows))
    total = (h * (width + 0.15) + 1.2, N * (height + 0.35) + 1.6)
    with drawing(path, *total, dpi=min(150, int(8000 / max(total)))) as figure:
        panels = figure.subplots(N, h, squeeze=False, sharex=True, sharey=True)
        for (i, j), axes in np.ndenumerate(panels):
            axes.imshow(weights[i, j], cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
            axes.set_title(f"layer {i + 1}, head {j + 1}", fontsize=8, fontweight="normal")
            axes.grid(False)
            axes.spines[:].set_visible(True)
            axes.tick_params(length=0)
            axes.set_xticks(range(len(columns)), columns, rotation=90, fontsize=7, parse_math=False)
            axes.set_yticks(range(len(rows)), rows, fontsize=7, parse_math=False)
        caption(figure, words)
