"""Reads configurations: TOML files and settings given as text, checked against the schema; names what is wrong.

A configuration is a TOML file that says only what differs from the defaults, or from the file it `extends`.
"""

import dataclasses
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from vaswani.errors import UserError, alike, did_you_mean
from vaswani.schema import Config

MOST_EXTENDED = 20  # files that extend one another; more are a mistake


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
