"""The one schema of every setting. The defaults are the paper's base model on WMT14 English-German.

A configuration is a TOML file that says only what differs from these defaults, or from the file it `extends`.
`configs/base.toml` lists every key with its default; a test holds the two equal.
"""

import dataclasses
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from vaswani.errors import UserError, alike, did_you_mean

_SCHEMA = ConfigDict(extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)
MOST_EXTENDED = 20  # files that extend one another; more are a mistake

Positive = Annotated[int, Field(gt=0)]
NonNegative = Annotated[int, Field(ge=0)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]


@dataclass(frozen=True)
class ToyConfig:
    """The embedded corpus (`data.corpus = "toy"`), made by `vaswani/data/toy/grammar.py`."""

    __pydantic_config__ = _SCHEMA

    train_pairs: Positive = 20_000
    """Training pairs to make."""
    test_pairs: Positive = 500
    """Pairs in each of the validation set and the two test sets."""
    difficulty: Annotated[int, Field(ge=1, le=3)] = 1
    """1 to 3: how many words and clauses a sentence may have; a sweep needs a corpus that is not saturated."""
    seed: NonNegative = 1706
    """The same seed makes the same corpus."""


@dataclass(frozen=True)
class DataConfig:
    """Which text, how it is cleaned, and the joint byte-pair encoding (section 5.1)."""

    __pydantic_config__ = _SCHEMA

    name: str = "wmt14_en_de"
    """The prepared corpus lives in prepared/NAME and is shared by every run on it."""
    corpus: str = "wmt/wmt14"
    """A data set of the Hugging Face hub, or "toy" for the embedded corpus."""
    subset: str = "de-en"
    """The hub data set's own configuration name ("" where it has none)."""
    splits: dict[str, str] = field(default_factory=lambda: {"newstest2013": "validation", "newstest2014": "test"})
    """Set name -> the hub's split, where the two differ."""
    dir: str = ""
    """Read {set}.{language}[.gz], or {set}.parquet|json|jsonl|csv, from this directory instead of the hub."""
    source: str = "en"
    """Source language."""
    target: str = "de"
    """Target language."""
    train: str = "train"
    """The set trained on; the only one that is cleaned."""
    valid: str = "newstest2013"
    """The set that decides: early stopping, the best checkpoint, all tuning."""
    tests: tuple[str, ...] = ("newstest2014",)
    """The sets translated and scored at the end."""
    limit: NonNegative = 0
    """Train on a seeded random sample of this many pairs (0: all)."""
    max_tokens: Positive = 256
    """Training pairs with more tokens than this on either side, end symbol counted, are dropped (as T2T did)."""
    max_length_ratio: Annotated[float, Field(ge=0.0)] = 4.0
    """Training pairs whose longer side has more than this many times the other's characters are dropped (0: keep)."""
    deduplicate: bool = True
    """Keep only the first of equal training pairs."""
    vocab_size: Annotated[int, Field(gt=260, le=1_000_000)] = 37_000
    """Pieces of the joint byte-pair encoding, special symbols and 256 byte pieces counted."""
    tokenizer: str = ""
    """Use this SentencePiece model, a run's tokenizer.model, instead of learning one (to fine-tune that run)."""
    toy: ToyConfig = field(default_factory=ToyConfig)
    """The embedded corpus; only read where corpus is "toy"."""


@dataclass(frozen=True)
class ModelConfig:
    """Figure 1, with the symbols of Table 3."""

    __pydantic_config__ = _SCHEMA

    N: Positive = 6
    """Layers of the encoder, and of the decoder."""
    d_model: Annotated[int, Field(gt=0, multiple_of=2)] = 512
    """Width of every sub-layer's output and of the embedding (even: sines and cosines come in pairs)."""
    d_ff: Positive = 2048
    """Inner width of the feed-forward network."""
    h: Positive = 8
    """Attention heads."""
    d_k: Positive = 64
    """Width of a head's queries and keys; free, not always d_model / h (Table 3, rows A and B)."""
    d_v: Positive = 64
    """Width of a head's values; free."""
    P_drop: Probability = 0.1
    """Dropout on each sub-layer's output and on the embeddings plus positions (section 5.4)."""
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    """Positional encoding (section 3.5); "learned" is Table 3, row E."""
    max_positions: Positive = 1024
    """Rows of each learned position table; a longer source is truncated with a warning."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the matrix products; parameters, softmax, LayerNorm and loss stay float32."""


@dataclass(frozen=True)
class TrainConfig:
    """Section 5: batches, optimiser, regularisation, and what is watched and kept on the way."""

    __pydantic_config__ = _SCHEMA

    steps: Positive = 100_000
    """Updates of the parameters."""
    max_minutes: Annotated[float, Field(ge=0.0)] = 0.0
    """Stop after this many minutes of training, all starts together, compiling not counted (0: no bound)."""
    tokens_per_update: Positive = 25_000
    """Source tokens, and target tokens, of one update, on any number of devices (section 5.1)."""
    row_length: Positive = 256
    """Length of a packed row; several pairs share it, none longer fits."""
    max_tokens_per_device: Positive = 8192
    """Tokens a side that one device computes at once; an update of more is accumulated from micro-batches."""
    warmup: Positive = 4000
    """Updates until the learning rate's peak (equation 3)."""
    lr_scale: Annotated[float, Field(gt=0.0)] = 1.0
    """Multiplies equation 3."""
    beta_1: Probability = 0.9
    """Adam's decay of the mean gradient."""
    beta_2: Probability = 0.98
    """Adam's decay of the mean squared gradient."""
    epsilon: Annotated[float, Field(gt=0.0)] = 1e-9
    """Adam's epsilon."""
    label_smoothing: Probability = 0.1
    """epsilon_ls: the share of probability spread over the whole vocabulary (section 5.4)."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1706
    """Parameters, order of the data and dropout follow from it."""
    log_every: Positive = 100
    """Updates between log lines."""
    valid_every: Positive = 2000
    """Updates between validations: unsmoothed perplexity, BLEU by beam search, sample translations."""
    valid_lines: NonNegative = 500
    """First lines of the validation set that are translated for the validation BLEU (0: none); perplexity takes all."""
    checkpoint_every: NonNegative = 0
    """Updates between checkpoints (0: by time only)."""
    checkpoint_minutes: Annotated[float, Field(ge=0.0)] = 10.0
    """Minutes between checkpoints, the paper's interval (0: by updates only)."""
    keep_last: Positive = 5
    """Checkpoints kept, beside the best."""
    average_last: Positive = 5
    """Checkpoints that averaging takes (section 6.1: 5 for base, 20 for big)."""
    patience: NonNegative = 0
    """Stop after this many validations in a row without a better perplexity (0: never)."""


@dataclass(frozen=True)
class DecodeConfig:
    """Beam search (section 6.1)."""

    __pydantic_config__ = _SCHEMA

    beam: Annotated[int, Field(gt=0, le=10_000)] = 4
    """Hypotheses kept alive; 1 is greedy."""
    alpha: Annotated[float, Field(ge=0.0)] = 0.6
    """Exponent of the length penalty ((5 + length) / 6)^alpha."""
    max_extra_tokens: Annotated[int, Field(ge=0, le=100_000)] = 50
    """An output has at most the source's tokens plus this many, its end symbol counted."""
    max_source_length: Annotated[int, Field(gt=1, le=100_000)] = 1024
    """Source tokens; a longer line is truncated with a warning."""
    batch_tokens: Annotated[int, Field(gt=0, le=10_000_000)] = 2048
    """Source tokens, padding counted, that are searched together."""


@dataclass(frozen=True)
class Config:
    """Everything a run depends on."""

    __pydantic_config__ = _SCHEMA

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)


# What a resumed run may change: budgets, intervals and logging, where its text is read, and how it is decoded.
FREE_ON_RESUME = {
    "data.dir", "data.tests",
    "train.steps", "train.max_minutes", "train.log_every", "train.valid_every", "train.valid_lines",
    "train.checkpoint_every", "train.checkpoint_minutes", "train.keep_last", "train.average_last", "train.patience",
    "decode.beam", "decode.alpha", "decode.max_extra_tokens", "decode.max_source_length", "decode.batch_tokens",
}  # fmt: skip


def load(path: str | Path, complete: bool = False) -> Config:
    """Reads a TOML configuration, following `extends` (a path relative to the file that names it).

    Args:
        complete: every key must be there, as in a run's config.toml, where a missing one was lost.

    Raises:
        UserError: no such file, not TOML, an unknown key (the nearest is named), a value of the wrong type or range.
    """
    values = _read_toml(Path(path))
    config = from_dict(values, where=str(path))
    missing = [key for key in flatten(config) if key not in _given(values, config)] if complete else []
    if missing:
        named = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if missing[3:] else "")
        raise UserError(f"{path}: has no {named}, though a run's configuration holds every key; put them back")
    return config


def from_dict(values: dict[str, Any], where: str) -> Config:
    """Checks nested plain values against the schema. `where` names their origin in messages."""
    try:
        config = _schema().validate_python(values)
    except ValidationError as error:
        raise UserError(f"{where}: {_explain(error)}") from None
    flat = flatten(config)
    for key, value in _given(values, config).items():
        if isinstance(value, bool) and not isinstance(flat[key], bool):  # pydantic would take true for 1
            raise UserError(f"{where}: {key} = {str(value).lower()}: should be a number")
    _check_together(config, where)
    return config


def override(config: Config, settings: dict[str, str], where: str = "command line") -> Config:
    """`config` with settings given as text: {"model.d_model": "256", "data.tests": "newstest2013,newstest2014"}.

    Raises:
        UserError: as `from_dict`.
    """
    values, flat = to_dict(config), flatten(config)
    for key, text in settings.items():
        table, _, name = key.rpartition(".")
        inner = values
        for part in table.split("."):
            inner = inner[part]
        inner[name] = _from_text(text, flat[key], f"{where}: {key}")
    return from_dict(values, where)


def _from_text(text: str, current: Any, where: str) -> Any:
    """Text as a value of the kind that the setting has; the schema judges it afterwards."""
    if isinstance(current, tuple):
        return tuple(part for part in text.split(",") if part)
    if isinstance(current, dict):
        pairs = [part.partition("=") for part in text.split(",") if part]
        if bad := [pair for pair in pairs if not all(pair)]:
            raise UserError(f"{where} = {text!r}: {''.join(bad[0])!r} is not KEY=VALUE")
        return {key: value for key, _, value in pairs}
    return text  # pydantic reads numbers and booleans from text


@cache
def descriptions() -> dict[str, str]:
    """{"model.d_model": "Width of …"}: the docstring of every setting, for `--help` and `configs/base.toml`."""
    definitions = _schema().json_schema()["$defs"]

    def walk(cls: Any, prefix: str) -> dict[str, str]:
        found = {}
        for f in dataclasses.fields(cls):
            if dataclasses.is_dataclass(f.type):
                found |= walk(f.type, f"{prefix}{f.name}.")
            else:
                found[prefix + f.name] = definitions[cls.__name__]["properties"][f.name]["description"]
        return found

    return walk(Config, "")


@cache
def _schema() -> TypeAdapter[Config]:
    return TypeAdapter(Config)  # building it takes a tenth of a second


def to_dict(config: Any) -> dict[str, Any]:
    """Nested plain values, the inverse of `from_dict`."""
    return dataclasses.asdict(config)


def flatten(config: Any) -> dict[str, Any]:
    """{"model.d_model": 512, …}.

    >>> flatten(Config())["model.d_model"]
    512
    """
    flat = {}
    for f in dataclasses.fields(config):
        value = getattr(config, f.name)
        if dataclasses.is_dataclass(value):
            flat.update({f"{f.name}.{key}": v for key, v in flatten(value).items()})
        else:
            flat[f.name] = value
    return flat


def _given(values: dict[str, Any], config: Any) -> dict[str, Any]:
    """What nested plain values say themselves, flat as in `flatten`; `config` is what they were read as."""
    flat = {}
    for f in dataclasses.fields(config):
        if f.name in values:
            value, read = values[f.name], getattr(config, f.name)
            if dataclasses.is_dataclass(read):
                flat.update({f"{f.name}.{key}": v for key, v in _given(value, read).items()})
            else:
                flat[f.name] = value
    return flat


def differences(old: Any, new: Any) -> dict[str, tuple[Any, Any]]:
    """Every setting whose value differs: {"train.warmup": (old, new)}."""
    after = flatten(new)
    return {key: (value, after[key]) for key, value in flatten(old).items() if after[key] != value}


def to_toml(config: Config) -> str:
    """Every value, as `load` reads it back."""
    import tomli_w  # only writing a run's config.toml needs it

    return tomli_w.dumps(to_dict(config))


def _read_toml(path: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    if path.resolve() in seen:
        raise UserError(f"{path}: extends itself, by way of {' -> '.join(p.name for p in seen)}")
    if len(seen) > MOST_EXTENDED:
        raise UserError(f"{seen[0]}: extends a file that extends another, more than {MOST_EXTENDED} deep")
    try:
        values = tomllib.loads(path.read_bytes().decode("utf-8-sig"))  # Windows' editors begin with a mark
    except FileNotFoundError:
        raise UserError(f"{path}: no such configuration file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a directory, not a configuration file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid TOML: {error}") from None
    except RecursionError:
        raise UserError(f"{path}: not valid TOML: nests too deeply") from None
    parent = values.pop("extends", None)
    if parent is None:
        return values
    if not isinstance(parent, str) or not parent or "\0" in parent:
        raise UserError(f"{path}: extends = {parent!r}: should be the path of another configuration file")
    return _merge(_read_toml(path.parent / parent, (*seen, path.resolve())), values)


def _merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        # `splits` is one value: a corpus that names its own splits does not inherit another's.
        both_tables = isinstance(value, dict) and isinstance(merged.get(key), dict) and key != "splits"
        merged[key] = _merge(merged[key], value) if both_tables else value
    return merged


def _explain(error: ValidationError) -> str:
    """The first problem as one line."""
    problem = error.errors()[0]
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"unknown key {key!r}{nearest(key)}"
    return f"{key} = {problem['input']!r}: {problem['msg'][0].lower()}{problem['msg'][1:]}"


def nearest(key: str) -> str:
    """A hint that names the setting most like `key`, or nothing."""
    known = [*flatten(Config()), "data", "model", "train", "decode"]
    match = [k for k in known if k.rsplit(".")[-1] == key.rsplit(".")[-1]][:1]  # the right name in the wrong table
    return did_you_mean(match or alike(key, known))


def _check_together(config: Config, where: str) -> None:
    """Settings that are each possible but not together."""
    data, train = config.data, config.train
    if train.row_length < data.max_tokens:
        raise UserError(
            f"{where}: train.row_length = {train.row_length} is less than data.max_tokens = {data.max_tokens}: "
            f"the longest pairs would fit no row; make row_length at least {data.max_tokens}, or max_tokens smaller"
        )
    for key in ("max_tokens_per_device", "tokens_per_update"):
        if (tokens := getattr(train, key)) < train.row_length:
            raise UserError(
                f"{where}: train.{key} = {tokens} is less than one row (train.row_length = {train.row_length})"
            )
    if train.keep_last < train.average_last:
        raise UserError(
            f"{where}: train.keep_last = {train.keep_last} checkpoints cannot feed "
            f"train.average_last = {train.average_last}; keep at least as many as are averaged"
        )
    if train.checkpoint_every == 0 and train.checkpoint_minutes == 0:
        raise UserError(
            f"{where}: train.checkpoint_every and train.checkpoint_minutes are both 0: nothing would be saved"
        )
    if data.source == data.target:
        raise UserError(f"{where}: data.source and data.target are both {data.source!r}")
    if config.model.positions == "learned" and config.model.max_positions < train.row_length:
        raise UserError(
            f"{where}: model.max_positions = {config.model.max_positions} learned positions are fewer than "
            f"train.row_length = {train.row_length}"
        )
