"""A run as a CTranslate2 model, which stores any table of positions: our parameters go in as they are."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vaswani.data.tokenizer import BEGIN, END, UNKNOWN
from vaswani.errors import UserError
from vaswani.export.marian import check_marian_can_hold
from vaswani.model import LAYER_NORM_EPSILON, sinusoids
from vaswani.schema import Config


def write_ctranslate2(
    folder: Path, config: Config, tokenizer_model: Path, pieces: Sequence[str], params: Any, type: str
) -> None:
    """Fills an empty folder, which `ctranslate2.Translator` loads; `tokenizer.model` lies beside it.

    Args:
        tokenizer_model: the run's SentencePiece model.
        pieces: its pieces, by id.
        params: the run's parameters, nested dict of float32 arrays.
        type: of the stored matrices, "float32", "float16" or "int8".
    """
    specification(config, params, pieces, type).save(str(folder))
    shutil.copyfile(tokenizer_model, folder / "tokenizer.model")


def specification(config: Config, params: Mapping[str, Any], pieces: Sequence[str], type: str = "float32") -> Any:
    """A `ctranslate2.specs.TransformerSpec` that holds our parameters."""
    try:
        from ctranslate2.specs import TransformerSpec  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise UserError("--to ctranslate2 needs the package ctranslate2: pip install 'vaswani[export]'") from None

    check_marian_can_hold(config.model)
    spec = TransformerSpec.from_config(config.model.N, config.model.h, pre_norm=False)
    table = np.array(params["embedding"]["table"])  # copies throughout: they are quantised in place
    length = config.decode.max_source_length + config.decode.max_extra_tokens
    positions = np.array(sinusoids(length, config.model.d_model))
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = spec.decoder.projection.weight = table
    spec.encoder.position_encodings.encodings = spec.decoder.position_encodings.encodings = positions
    for stack in ("encoder", "decoder"):
        for i in range(config.model.N):
            _fill_layer(getattr(spec, stack).layer[i], params[stack][i])
    spec.register_source_vocabulary(list(pieces))
    spec.register_target_vocabulary(list(pieces))
    settings = spec.config
    settings.bos_token, settings.eos_token, settings.unk_token = pieces[BEGIN], pieces[END], pieces[UNKNOWN]
    settings.decoder_start_token, settings.add_source_eos = pieces[BEGIN], True
    settings.layer_norm_epsilon = LAYER_NORM_EPSILON
    spec.validate()
    spec.optimize(quantization=type)
    return spec


def _fill_layer(theirs: Any, layer: Mapping[str, Any]) -> None:
    linear = theirs.self_attention.linear
    linear[0].weight = _kernel(layer, "self_attention", "W_Q", "W_K", "W_V")
    linear[1].weight = _kernel(layer, "self_attention", "W_O")
    _fill_norm(theirs.self_attention.layer_norm, layer, "self_attention")
    if "cross_attention" in layer:
        linear = theirs.attention.linear
        linear[0].weight = _kernel(layer, "cross_attention", "W_Q")
        linear[1].weight = _kernel(layer, "cross_attention", "W_K", "W_V")
        linear[2].weight = _kernel(layer, "cross_attention", "W_O")
        _fill_norm(theirs.attention.layer_norm, layer, "cross_attention")
    for matrix, linear in (("W_1", theirs.ffn.linear_0), ("W_2", theirs.ffn.linear_1)):
        linear.weight = _kernel(layer, "feed_forward", matrix)
        linear.bias = np.array(layer["feed_forward"][matrix]["bias"])
    _fill_norm(theirs.ffn.layer_norm, layer, "feed_forward")


def _fill_norm(theirs: Any, layer: Mapping[str, Any], part: str) -> None:
    norm = layer[f"{part}_norm"]["norm"]
    theirs.gamma, theirs.beta = np.array(norm["scale"]), np.array(norm["bias"])


def _kernel(layer: Mapping[str, Any], part: str, *matrices: str) -> np.ndarray:
    """One or several matrices as CTranslate2 multiplies them: [out, in], one below the other."""
    return np.concatenate([np.asarray(layer[part][matrix]["kernel"]).T for matrix in matrices])
