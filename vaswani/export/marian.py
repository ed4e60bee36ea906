"""A run as a Hugging Face `MarianMTModel`: the names, layout and scale of its parameters, and the whole folder.

Two things are converted, both without rounding, so that `from_marian` gives the same parameters back bit for bit:

Positions. Marian keeps the sines of a position in the first half of the model dimension and the cosines in the second;
ours take turns (section 3.5). The frequencies are the same, so the model dimension of every weight is permuted.

The epsilon of LayerNorm. Marian's is 1e-5, which no setting changes; ours is 1e-6. LayerNorm of 4x with epsilon 1e-5 is
LayerNorm of x with epsilon 1e-5 / 16 = 6.25e-7. So everything between the first LayerNorm of a stack and its last one
is scaled by 4: what writes there is multiplied, what reads there divided. The first LayerNorm itself keeps 1e-5, since
the positions added before it cannot be scaled.

Marian's attention has biases, the paper's has none: zeros are written.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vaswani.data.tokenizer import BEGIN, END, PAD, UNKNOWN
from vaswani.errors import UserError
from vaswani.schema import Config, DecodeConfig, ModelConfig

STREAM_SCALE = 4.0  # a power of two: nothing is rounded

# ((5 + n) / 6)^α rises with the length n as n^p does for p = α·n / (5 + n). For an output of 20 tokens that is 0.8·α.
LENGTH_PENALTY = 0.8

ATTENTIONS = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
NORMS = {
    "self_attention": "self_attn_layer_norm",
    "cross_attention": "encoder_attn_layer_norm",
    "feed_forward": "final_layer_norm",
}


class Match(NamedTuple):
    """One array of ours and what Marian has in its place."""

    ours: tuple[str | int, ...]
    """Its keys in the nested dict of parameters."""
    theirs: str
    axis: int | None
    """The axis of our array that is the model dimension; None where there is none."""
    factor: float = 1.0
    """Theirs is ours times this."""

    @property
    def transposed(self) -> bool:
        """PyTorch stores a matrix as [out, in]."""
        return self.ours[-1] == "kernel"

    def find(self, params: Any) -> Any:
        """Our array, in the nested dict of parameters."""
        for key in self.ours:
            params = params[key]
        return params


def check_marian_can_hold(config: ModelConfig) -> None:
    """Raises UserError for a model that no MarianMTModel could be."""
    wanted = config.d_model / config.h
    if config.d_k != wanted or config.d_v != wanted:
        raise UserError(
            f"model.d_k = {config.d_k} and model.d_v = {config.d_v}: the other format has heads of d_model / h = "
            f"{wanted:g} only, for keys and for values"
        )
    if config.positions != "sinusoidal":
        raise UserError(f"model.positions = {config.positions!r}: the other format has sinusoidal positions only")


def matches(N: int) -> Iterator[Match]:
    """Every parameter of a model of N + N layers."""
    yield Match(("embedding", "table"), "model.shared.weight", 1)
    for stack in ("encoder", "decoder"):
        parts = ["self_attention", "cross_attention", "feed_forward"]
        if stack == "encoder":
            parts.remove("cross_attention")
        for i in range(N):
            for part in parts:
                read = 1.0 if (i, part) == (0, parts[0]) else STREAM_SCALE
                written = 1.0 if (i, part) == (N - 1, parts[-1]) else STREAM_SCALE
                for match in _sublayer(part, read, written):
                    name = f"model.{stack}.layers.{i}.{match.theirs}"
                    yield match._replace(ours=(stack, i, *match.ours), theirs=name)


def _sublayer(part: str, read: float, written: float) -> Iterator[Match]:
    """One sub-layer and its norm.

    Args:
        read: the scale of what it reads, and of what its result is added to.
        written: the scale of what its norm writes.
    """
    if part == "feed_forward":
        yield Match((part, "W_1", "kernel"), "fc1.weight", 0, 1 / read)
        yield Match((part, "W_1", "bias"), "fc1.bias", None)
        yield Match((part, "W_2", "kernel"), "fc2.weight", 1, read)
        yield Match((part, "W_2", "bias"), "fc2.bias", 0, read)
    else:
        of_memory = 1.0 if part == "cross_attention" else 1 / read  # what the last norm of the encoder writes
        for matrix, name, axis, factor in (
            ("W_Q", "q_proj", 0, 1 / read),
            ("W_K", "k_proj", 0, of_memory),
            ("W_V", "v_proj", 0, of_memory),
            ("W_O", "out_proj", 1, read),
        ):
            yield Match((part, matrix, "kernel"), f"{ATTENTIONS[part]}.{name}.weight", axis, factor)
    for ours, theirs in (("scale", "weight"), ("bias", "bias")):
        yield Match((f"{part}_norm", "norm", ours), f"{NORMS[part]}.{theirs}", 0, written)


def attention_biases(N: int) -> Iterator[str]:
    """The names of the biases that Marian's attentions have and the paper's do not."""
    for match in matches(N):
        if "_proj." in match.theirs:
            yield match.theirs.removesuffix("weight") + "bias"


def halves(d_model: int) -> np.ndarray:
    """Where Marian's dimensions stand in ours: the sines, then the cosines.

    >>> halves(6).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    return np.arange(d_model).reshape(-1, 2).T.ravel()


def to_marian(params: Mapping[str, Any], config: ModelConfig) -> dict[str, np.ndarray]:
    """Our parameters, a nested dict of float32 arrays, under Marian's names, in its layout and scale."""
    order, weights = halves(config.d_model), {}
    for match in matches(config.N):
        array = np.asarray(match.find(params))
        array = array * np.asarray(match.factor, array.dtype)
        if match.axis is not None:
            array = np.take(array, order, axis=match.axis)
        weights[match.theirs] = np.ascontiguousarray(array.T if match.transposed else array)
    zeros = {name: np.zeros(config.d_model, np.float32) for name in attention_biases(config.N)}
    vocab_size = len(weights["model.shared.weight"])
    return {**weights, **zeros, "final_logits_bias": np.zeros((1, vocab_size), np.float32)}


def from_marian(weights: Mapping[str, np.ndarray], config: ModelConfig) -> dict[str, Any]:
    """The inverse of `to_marian`.

    Raises:
        KeyError: a weight is missing.
    """
    order, params = np.argsort(halves(config.d_model)), {}
    for match in matches(config.N):
        array = weights[match.theirs].T if match.transposed else weights[match.theirs]
        if match.axis is not None:
            array = np.take(array, order, axis=match.axis)
        inner = params
        for key in match.ours[:-1]:
            inner = inner.setdefault(key, {})
        inner[match.ours[-1]] = np.ascontiguousarray(array / np.asarray(match.factor, array.dtype))
    return params


def write_marian(folder: Path, config: Config, tokenizer_model: Path, pieces: Sequence[str], params: Any) -> None:
    """Fills an empty folder, which `AutoModelForSeq2SeqLM` and `AutoTokenizer` load.

    Args:
        tokenizer_model: the run's SentencePiece model.
        pieces: its pieces, by id.
        params: the run's parameters, nested dict of float32 arrays.
    """
    try:
        from safetensors.numpy import save  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise UserError("--to marian needs the package safetensors: pip install 'vaswani[export]'") from None

    check_marian_can_hold(config.model)
    weights = save(to_marian(params, config.model), metadata={"format": "pt"})
    (folder / "model.safetensors").write_bytes(weights)
    for name, values in {
        "config.json": model_settings(config, len(pieces)),
        "generation_config.json": generation_settings(config.decode),
        "tokenizer_config.json": tokenizer_settings(config, pieces),
        "vocab.json": {piece: i for i, piece in enumerate(pieces)},
    }.items():
        (folder / name).write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for name in ("source.spm", "target.spm"):
        shutil.copyfile(tokenizer_model, folder / name)


def model_settings(config: Config, vocab_size: int) -> dict[str, Any]:
    """config.json."""
    model = config.model
    stacks = {
        f"{stack}_{name}": value
        for stack in ("encoder", "decoder")
        for name, value in (("layers", model.N), ("attention_heads", model.h), ("ffn_dim", model.d_ff))
    }
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": vocab_size,
        "d_model": model.d_model,
        **stacks,
        "activation_function": "relu",
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "static_position_embeddings": True,
        "max_position_embeddings": config.decode.max_source_length + config.decode.max_extra_tokens,
        "dropout": model.P_drop,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "pad_token_id": PAD,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
        "decoder_start_token_id": BEGIN,
        "forced_eos_token_id": None,
        "dtype": "float32",
    }


def generation_settings(decode: DecodeConfig) -> dict[str, Any]:
    """generation_config.json: the search that comes nearest to ours."""
    return {
        "num_beams": decode.beam,
        "length_penalty": round(LENGTH_PENALTY * decode.alpha, 6),
        "early_stopping": False,
        "max_length": decode.max_source_length + decode.max_extra_tokens,
        "suppress_tokens": [PAD, BEGIN, UNKNOWN],
        "pad_token_id": PAD,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
        "decoder_start_token_id": BEGIN,
        "forced_eos_token_id": None,
    }


def tokenizer_settings(config: Config, pieces: Sequence[str]) -> dict[str, Any]:
    """tokenizer_config.json."""
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": config.data.source,
        "target_lang": config.data.target,
        "pad_token": pieces[PAD],
        "bos_token": pieces[BEGIN],  # or the symbol that decoding starts with would stand in the text
        "eos_token": pieces[END],
        "unk_token": pieces[UNKNOWN],
        "model_max_length": config.decode.max_source_length + config.decode.max_extra_tokens,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # "</s>" in a text is text
    }
