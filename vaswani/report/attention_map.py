"""Attention maps of a trained model, as the paper's Figures 3 to 5: for each layer and head, who looks at whom.

The model keeps no weights and pays nothing for these maps. Here its own layers are run once more, and asked for the
weights between them.
"""

import json
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import Array
from jaxtyping import Bool, Float, Int

from vaswani.data.tokenizer import BEGIN, END, Tokenizer
from vaswani.decoding.translator import load_translator
from vaswani.errors import UserError
from vaswani.files import write_text
from vaswani.model import MultiHeadAttention, Transformer, attention
from vaswani.report.page import write_report
from vaswani.report.png import caption, drawing
from vaswani.runs.directory import RunDirectory
from vaswani.schema import DecodeConfig

LONGEST = 64
"""Tokens on either side; the words of more could not be read."""


class AttentionMaps(NamedTuple):
    """Weights of every layer and head, each row summing to 1."""

    encoder: Float[Array, "N h S S"]
    decoder: Float[Array, "N h T T"]
    cross: Float[Array, "N h T S"]


CAPTIONS = {
    "encoder": "Encoder self-attention. Row: a source token. Column: the source tokens it looks at.",
    "decoder": "Decoder self-attention. Row: the token being written. Column: the tokens before it, where it looks.",
    "cross": "Encoder-decoder attention. Row: the token being written. Column: the source tokens it looks at.",
}
LIMITS = (
    "A map shows where a head looks, not why the model writes what it writes: what a token has become by this layer is "
    "a mixture of its whole sentence, and quite different weights can lead to the same output."
)


def attend(
    model: Transformer, source: Int[Array, " S"], target_input: Int[Array, " T"]
) -> tuple[Float[Array, "T d"], AttentionMaps]:
    """Runs the model on one sentence pair.

    Args:
        source: token ids with the end symbol.
        target_input: the begin symbol, then the target without its end symbol.

    Returns:
        what `Transformer.decode` returns, and the weights on the way to it.
    """
    S, T = len(source), len(target_input)
    everything, past = jnp.ones((1, S, S), bool), jnp.tri(T, dtype=bool)[None]
    cross_mask = jnp.ones((1, T, S), bool)
    encoder, decoder, cross = [], [], []

    x = model.embed(source[None], model.source_positions(jnp.arange(S)[None], S))
    for layer in model.encoder:
        encoder.append(_weights(layer.self_attention, x, x, everything))
        x = layer(x, everything, None)
    memory = x

    x = model.embed(target_input[None], model.target_positions(jnp.arange(T)[None], T))
    for layer in model.decoder:
        decoder.append(_weights(layer.self_attention, x, x, past))
        asking = layer.self_attention_norm(x, layer.self_attention(x, x, past))
        cross.append(_weights(layer.cross_attention, asking, memory, cross_mask))
        x = layer(x, memory, past, cross_mask, None)
    return x[0], AttentionMaps(*(jnp.stack(weights) for weights in (encoder, decoder, cross)))


def _weights(
    module: MultiHeadAttention, x: Float[Array, "1 q d"], memory: Float[Array, "1 k d"], mask: Bool[Array, "1 q k"]
) -> Float[Array, "h q k"]:
    return attention(module.queries(x), *module.keys_values(memory), mask)[1][0]


def write_attention(
    run: RunDirectory, text: str, target: str | None, checkpoint: str, decode: DecodeConfig
) -> tuple[str, list[Path]]:
    """Writes RUN/attention: a PNG for each kind of attention, and maps.json, which report.html then shows.

    Args:
        text: a source sentence.
        target: its translation; None for the one that beam search finds.
        checkpoint, decode: as in `load_translator`.

    Returns:
        the translation, and the files written.

    Raises:
        UserError: a text is blank or too long, or there is no such checkpoint.
    """
    translator, label = load_translator(run, checkpoint, decode)
    tokenizer = translator.tokenizer
    source = [*_encode(tokenizer, text, "text"), END]
    if target is None:
        (found,) = translator.translate([text])
        target, output = found[0].text, list(found[0].tokens)[:LONGEST]
    else:
        output = [*_encode(tokenizer, target, "target"), END]
    target_input = [BEGIN, *output[:-1]]

    run_model = jax.jit(lambda params, *ids: attend(nnx.merge(translator.graphdef, params), *ids)[1])
    maps = jax.device_get(run_model(translator.params, jnp.array(source), jnp.array(target_input)))

    source_pieces, input_pieces, output_pieces = map(tokenizer.pieces, (source, target_input, output))
    words = {
        "encoder": (source_pieces, source_pieces),
        "decoder": (output_pieces, input_pieces),
        "cross": (output_pieces, source_pieces),
    }
    paths = []
    for kind, weights in maps._asdict().items():
        paths.append(run.attention / f"{kind}.png")
        draw_maps(paths[-1], weights, *words[kind], f"{CAPTIONS[kind]} Checkpoint: {label}.\n{LIMITS}")
    values = {
        "text": text,
        "target": target,
        "checkpoint": label,
        "limits": LIMITS,
        "kinds": [
            {
                "name": kind,
                "caption": CAPTIONS[kind],
                "rows": words[kind][0],
                "columns": words[kind][1],
                "permille": np.round(weights * 1000).astype(int).tolist(),  # [N][h][rows][columns]
            }
            for kind, weights in maps._asdict().items()
        ],
    }
    write_text(run.attention / "maps.json", json.dumps(values, ensure_ascii=False))
    return target, [*paths, run.attention / "maps.json", write_report(run)]


def _encode(tokenizer: Tokenizer, text: str, name: str) -> list[int]:
    ids = tokenizer.encode(text)
    if not text.strip() or not ids:
        raise UserError(f"the {name} is blank; a map needs words")
    if len(ids) >= LONGEST:
        raise UserError(f"the {name} has {len(ids)} tokens; a map that can be read has at most {LONGEST - 1}")
    return ids


def draw_maps(path: Path, weights: np.ndarray, rows: list[str], columns: list[str], words: str) -> None:
    """One panel a layer (downwards) and head (to the right).

    Args:
        weights: [N, h, rows, columns].
        rows, columns: the tokens.
        words: below the panels.
    """
    N, h = weights.shape[:2]
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
