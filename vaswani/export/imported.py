"""A Hugging Face Marian folder becomes a run, which translates, is scored and is fine-tuned as any other."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from vaswani import config as config_module
from vaswani.console import say
from vaswani.data.tokenizer import Tokenizer
from vaswani.errors import UserError
from vaswani.export.marian import LENGTH_PENALTY, attention_biases, check_marian_can_hold, from_marian, matches
from vaswani.export.pieces import MarianSpecials, joint_tokenizer
from vaswani.files import atomic_path, read_failure, read_json
from vaswani.model import build
from vaswani.runs import checkpoints
from vaswani.runs.directory import RunDirectory
from vaswani.schema import Config, DataConfig, DecodeConfig, ModelConfig

EMBEDDING = "model.shared.weight"
SAME_AS_EMBEDDING = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")


def import_marian(folder: Path, run: RunDirectory) -> None:
    """Makes a run of a Marian model. Its parameters lie in RUN/averaged; there is no checkpoint to train on from.

    Args:
        folder: config.json, model.safetensors, vocab.json, source.spm and target.spm; generation_config.json and
            tokenizer_config.json are read where they are.
        run: a run that does not exist yet.

    Raises:
        UserError: the folder is not such a model, our model cannot be it (the first difference is named), or the run
            exists already.
    """
    if run.exists():
        raise UserError(f"{run.path}: exists already; choose another directory with --run")
    settings, vocabulary = _read(folder, "config.json"), _read(folder, "vocab.json")
    of_tokenizer = _read(folder, "tokenizer_config.json", optional=True)
    _check_settings(settings, folder)
    config = _config(folder, settings, of_tokenizer, run)
    check_marian_can_hold(config.model)
    weights = _weights(folder, config.model, len(vocabulary))
    specials = MarianSpecials(
        settings["pad_token_id"],
        settings["decoder_start_token_id"],
        settings["eos_token_id"],
        vocabulary.get(of_tokenizer.get("unk_token", "<unk>"), -1),
    )
    model, rows = joint_tokenizer(_sentencepiece_model(folder), vocabulary, specials, str(folder))
    tokenizer = Tokenizer(model, name=f"{folder}/source.spm, renumbered")
    params = from_marian({**weights, EMBEDDING: weights[EMBEDDING][rows]}, config.model)
    with run.lock():
        with atomic_path(run.tokenizer_path) as temporary:
            temporary.write_bytes(model)
        checkpoints.save_params(run.averaged, params, {"steps": [0], "tokenizer": tokenizer.checksum})
        run.create(config)  # last, since it makes the directory a run


def _read(folder: Path, name: str, optional: bool = False) -> dict[str, Any]:
    values = read_json(folder / name)
    if values is None and optional:
        return {}
    if not isinstance(values, dict):
        raise UserError(f"{folder}: is no Marian model of Hugging Face: its {name} is missing, or no table")
    return values


def _check_settings(settings: Mapping[str, Any], folder: Path) -> None:
    """Refuses what the paper's model does otherwise."""
    wanted = {
        "model_type": "marian",
        "activation_function": "relu",
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "decoder_layers": settings.get("encoder_layers"),
        "decoder_attention_heads": settings.get("encoder_attention_heads"),
        "decoder_ffn_dim": settings.get("encoder_ffn_dim"),
    }
    defaults = {"share_encoder_decoder_embeddings": True, "tie_word_embeddings": True}
    for key, value in wanted.items():
        if (existing := settings.get(key, defaults.get(key))) != value:
            raise UserError(f"{folder}/config.json: {key} = {existing!r}; a model of the paper has {value!r}")
    for key in ("pad_token_id", "decoder_start_token_id", "eos_token_id", "d_model", "encoder_attention_heads"):
        if not isinstance(settings.get(key), int):
            raise UserError(f"{folder}/config.json: {key} = {settings.get(key)!r}: should be a number")


def _config(folder: Path, settings: Mapping[str, Any], of_tokenizer: Mapping[str, Any], run: RunDirectory) -> Config:
    """The run's configuration: the model's shape, and the search that comes nearest to its generation settings."""
    languages = of_tokenizer.get("source_lang"), of_tokenizer.get("target_lang")
    data = DataConfig(name=run.path.name, tokenizer=str(run.tokenizer_path))
    if all(languages):
        data = replace(data, source=languages[0], target=languages[1])
    else:
        say(
            f"{folder}: does not name its languages; {run.config_path} says {data.source} to {data.target}; "
            "change it there if that is wrong"
        )
    generation = {"num_beams": 1, "length_penalty": 1.0}  # where they are not given, and null means that too
    given = _read(folder, "generation_config.json", optional=True)
    generation |= {key: given[key] for key in generation if given.get(key) is not None}
    d_head = settings["d_model"] // settings["encoder_attention_heads"]
    values = config_module.to_dict(Config(data=data))
    values["model"] |= {
        "N": settings["encoder_layers"],
        "d_model": settings["d_model"],
        "d_ff": settings["encoder_ffn_dim"],
        "h": settings["encoder_attention_heads"],
        "d_k": d_head,
        "d_v": d_head,
        "P_drop": settings.get("dropout", ModelConfig.P_drop),
    }
    values["decode"] |= {
        "beam": generation["num_beams"],
        "alpha": round(generation["length_penalty"] / LENGTH_PENALTY, 6),
        "max_source_length": settings["max_position_embeddings"] - DecodeConfig.max_extra_tokens,
    }
    return config_module.from_dict(values, f"{folder}/config.json")


def _weights(folder: Path, config: ModelConfig, vocab_size: int) -> dict[str, np.ndarray]:
    """The weights as float32: all that our model needs, and none that it could not have."""
    try:
        from safetensors.numpy import load_file  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise UserError("reading a Marian model needs the package safetensors: pip install 'vaswani[export]'") from None

    path = folder / "model.safetensors"
    if not path.is_file():
        raise UserError(f"{folder}: has no model.safetensors; `save_pretrained` of a recent transformers writes one")
    try:
        weights = {name: array.astype(np.float32) for name, array in load_file(path).items()}
    except Exception as error:  # the library raises several kinds for a broken file
        raise UserError(f"{path}: cannot be read: {error}") from None
    for name in SAME_AS_EMBEDDING:  # which of the equal ones a file has depends on the version that wrote it
        if name in weights:
            weights.setdefault(EMBEDDING, weights[name])
    shapes = jax.eval_shape(lambda: build(config, vocab_size)[1])
    for match in matches(config.N):
        wanted = list(match.find(shapes).shape)[:: -1 if match.transposed else 1]
        if match.theirs not in weights:
            raise UserError(f"{path}: has no {match.theirs}")
        if (existing := list(weights[match.theirs].shape)) != wanted:
            raise UserError(f"{path}: {match.theirs} is {existing}, not {wanted}")
    _check_same_function(weights, config.N, path)
    return weights


def _check_same_function(weights: Mapping[str, np.ndarray], N: int, path: Path) -> None:
    """Refuses what our model could not compute: other embeddings, and biases that our attention lacks.

    A bias of the keys adds the same to all scores of a query, which the softmax takes away again: it is left out.
    """
    for name in SAME_AS_EMBEDDING:
        if name in weights and not np.array_equal(weights[name], weights[EMBEDDING]):
            raise UserError(f"{path}: {name} is not the shared embedding; a model of the paper has one for all (3.4)")
    biases = [name for name in attention_biases(N) if not name.endswith("k_proj.bias")]
    for name in (*biases, "final_logits_bias"):
        if np.any(weights.get(name, 0)):
            raise UserError(f"{path}: {name} is not zero; a model of the paper has no such bias (3.2.2, 3.4)")


def _sentencepiece_model(folder: Path) -> bytes:
    """The one SentencePiece model of both languages."""
    try:
        source, target = ((folder / name).read_bytes() for name in ("source.spm", "target.spm"))
    except OSError as error:
        raise read_failure(Path(error.filename), error) from None
    if source != target:
        raise UserError(
            f"{folder}: source.spm and target.spm differ; a run has one SentencePiece model for both languages"
        )
    return source
