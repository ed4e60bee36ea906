"""Reads configurations: TOML files and settings given as text. The schema checks them, and what is wrong is named.

A configuration is a TOML file that holds only what differs from the defaults, or from the file it `extends`.
"""

import dataclasses
import importlib.metadata
import json
import os
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

from pydantic import TypeAdapter, ValidationError

from vaswani.errors import UserError, closest, did_you_mean
from vaswani.schema import MAY_DIFFER, PATHS, Config

MOST_EXTENDED = 20  # files that extend one another; more are a mistake
FIRST_LINE = re.compile(r"# vaswani .+ wrote this file, crc32 ([0-9a-f]{8})\. Delete this line after an edit\.\n")


def load(path: str | Path) -> Config:
    """Reads a TOML configuration, following `extends`. Paths in a file are relative to that file.

    Raises:
        UserError: no such file, not TOML, an unknown key (the nearest is named), a value of the wrong type or range.
    """
    return from_dict(_read_extended(Path(path)), where=str(path))


def load_stored(path: str | Path) -> Config:
    """Reads what `to_toml` wrote: the config.toml of a run, the base.toml of a sweep.

    The file may be of another version of vaswani: a setting that this version added takes its default.

    Raises:
        UserError: as `load`; also if the file is damaged.
    """
    path = Path(path)
    text = _read_text(path)
    first_line = FIRST_LINE.match(text)
    if first_line and int(first_line[1], 16) != crc32(text[first_line.end() :].encode()):
        raise UserError(f"{path}: is damaged, or was edited; after an edit delete its first line, which has a checksum")
    # Version 0.1.0 wrote no such line, and stored paths relative to the working directory.
    values = _parse(text, path, relative_to=path.parent if first_line else Path())
    if not values:
        raise UserError(f"{path}: is empty; put the file back as it was written")
    return from_dict(values, where=str(path))


def to_toml(config: Config) -> str:
    """Every setting, as `load` and `load_stored` read them back."""
    import tomli_w  # only writing a run's config.toml needs it

    try:
        version = importlib.metadata.version("vaswani")
    except importlib.metadata.PackageNotFoundError:  # run from its source, not installed
        version = "(unknown version)"
    text = tomli_w.dumps(to_dict(config))
    checksum = f"{crc32(text.encode()):08x}"
    return f"# vaswani {version} wrote this file, crc32 {checksum}. Delete this line after an edit.\n{text}"


def from_dict(values: dict[str, Any], where: str) -> Config:
    """Checks nested plain values against the schema. `where` names their origin in messages."""
    try:
        config = _schema().validate_python(values)
    except ValidationError as error:
        raise UserError(f"{where}: {_explain(error)}") from None
    settings = flatten(config)
    for key, value in _given(values, config).items():
        _check_kind(key, value, settings[key], where)
    for key in PATHS:
        if "\0" in settings[key]:
            raise UserError(f"{where}: {key} = {settings[key]!r}: cannot be a path")
    _check_together(config, where)
    return config


def override(config: Config, settings: dict[str, str], where: str = "command line") -> Config:
    """`config` with settings given as text: {"model.d_model": "256", "data.tests": "newstest2013,newstest2014"}.

    Paths are relative to the working directory.

    Raises:
        UserError: as `from_dict`.
    """
    values, current = to_dict(config), flatten(config)
    for key, text in settings.items():
        table, _, name = key.rpartition(".")
        inner = values
        for part in table.split("."):
            inner = inner[part]
        value = _from_text(text, current[key], f"{where}: {key}")
        inner[name] = _absolute(value, Path()) if key in PATHS else value
    return from_dict(values, where)


def refused_differences(before: Config, now: Config, started_again: Literal["run", "sweep"]) -> str:
    """The settings that differ and must not, or "".

    >>> from dataclasses import replace
    >>> from vaswani.schema import TrainConfig
    >>> refused_differences(Config(), Config(train=TrainConfig(steps=5, warmup=50)), "run")
    'train.warmup = 4000 before, 50 now'
    """
    changed = differences(before, now).items()
    free = MAY_DIFFER[started_again]
    return "; ".join(f"{key} = {old!r} before, {new!r} now" for key, (old, new) in changed if key not in free)


def essential_settings(config: Config) -> dict[str, Any]:
    """The settings that a run keeps when it goes on, as a checkpoint stores them: {"model.d_model": 512, …}."""
    flat = flatten(config)
    return json.loads(json.dumps({key: value for key, value in flat.items() if key not in MAY_DIFFER["run"]}))


def other_settings(stored: dict[str, Any], config: Config) -> str:
    """Where `config` differs from the essential settings that a checkpoint stored, or "".

    A setting that only another version has is not compared.
    """
    now = essential_settings(config)
    pairs = ((key, old, now[key]) for key, old in stored.items() if key in now)
    return "; ".join(f"{key} = {old!r} before, {new!r} now" for key, old, new in pairs if new != old)


def differences(old: Any, new: Any) -> dict[str, tuple[Any, Any]]:
    """Every setting whose value differs: {"train.warmup": (old, new)}."""
    after = flatten(new)
    return {key: (value, after[key]) for key, value in flatten(old).items() if after[key] != value}


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


@cache
def descriptions() -> dict[str, str]:
    """{"model.d_model": "Width of …"}: the docstring of every setting, for `--help` and `configs/base.toml`."""
    definitions = _schema().json_schema()["$defs"]

    def walk(cls: Any, prefix: str) -> dict[str, str]:
        texts = {}
        for f in dataclasses.fields(cls):
            if dataclasses.is_dataclass(f.type):
                texts |= walk(f.type, f"{prefix}{f.name}.")
            else:
                texts[prefix + f.name] = definitions[cls.__name__]["properties"][f.name]["description"]
        return texts

    return walk(Config, "")


@cache
def _schema() -> TypeAdapter[Config]:
    return TypeAdapter(Config)  # building it takes a tenth of a second


# --- files ---


def _read_extended(path: Path, extended_by: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The values of a file, over those of the files it extends."""
    if path.resolve() in extended_by:
        raise UserError(f"{path}: extends itself, by way of {' -> '.join(p.name for p in extended_by)}")
    if len(extended_by) > MOST_EXTENDED:
        raise UserError(f"{extended_by[0]}: extends a file that extends another, more than {MOST_EXTENDED} deep")
    values = _parse(_read_text(path), path, relative_to=path.parent)
    parent = values.pop("extends", None)
    if parent is None:
        return values
    if not isinstance(parent, str) or not parent or "\0" in parent:
        raise UserError(f"{path}: extends = {parent!r}: should be the path of another configuration file")
    return _merge(_read_extended(path.parent / parent, (*extended_by, path.resolve())), values)


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")  # editors of Windows write a byte order mark first
    except FileNotFoundError:
        raise UserError(f"{path}: no such configuration file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a directory, not a configuration file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not valid TOML: {error}") from None


def _parse(text: str, path: Path, relative_to: Path) -> dict[str, Any]:
    """The values that a file states itself, its paths made absolute."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML: {error}") from None
    except RecursionError:
        raise UserError(f"{path}: not valid TOML: nests too deeply") from None
    for key in PATHS:
        table, _, name = key.partition(".")
        if isinstance(inner := values.get(table), dict) and name in inner:
            inner[name] = _absolute(inner[name], relative_to)
    return values


def _absolute(path: Any, relative_to: Path) -> Any:
    """An absolute path with `~` replaced; what is no path stays as it is."""
    if not isinstance(path, str) or not path or "\0" in path:
        return path
    return os.path.abspath(relative_to / os.path.expanduser(path))


def _merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        # `splits` is one value: a corpus that names its own splits does not inherit another's.
        both_tables = isinstance(value, dict) and isinstance(merged.get(key), dict) and key != "splits"
        merged[key] = _merge(merged[key], value) if both_tables else value
    return merged


# --- values ---


def _given(values: dict[str, Any], config: Any) -> dict[str, Any]:
    """The settings that nested plain values state, flat as in `flatten`; `config` is what they were read as."""
    flat = {}
    for f in dataclasses.fields(config):
        if f.name in values:
            value, checked = values[f.name], getattr(config, f.name)
            if dataclasses.is_dataclass(checked):
                flat.update({f"{f.name}.{key}": v for key, v in _given(value, checked).items()})
            else:
                flat[f.name] = value
    return flat


def _from_text(text: str, current: Any, where: str) -> Any:
    """Text as a value of the kind that the setting has. Text of another kind stays text, and the schema refuses it."""
    if isinstance(current, tuple):
        return tuple(part for part in text.split(",") if part)
    if isinstance(current, dict):
        pairs = [part.partition("=") for part in text.split(",") if part]
        if bad := [pair for pair in pairs if not all(pair)]:
            raise UserError(f"{where} = {text!r}: {''.join(bad[0])!r} is not KEY=VALUE")
        return {key: value for key, _, value in pairs}
    if isinstance(current, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(current, int | float):
        for number in (int, float):
            try:
                return number(text)
            except ValueError:
                continue
    return text


def _check_kind(key: str, value: Any, checked: Any, where: str) -> None:
    """Refuses what pydantic would convert: "20" or true for a number, 1 or "yes" for true."""
    is_number = isinstance(checked, int | float) and not isinstance(checked, bool)
    if is_number and isinstance(value, bool | str):
        raise UserError(f"{where}: {key} = {_toml(value)}: should be a number")
    if isinstance(checked, bool) and not isinstance(value, bool):
        raise UserError(f"{where}: {key} = {_toml(value)}: should be true or false")


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _explain(error: ValidationError) -> str:
    """The first problem as one line."""
    problem = error.errors()[0]
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"unknown key {key!r}{_hint(key)}"
    return f"{key} = {problem['input']!r}: {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _hint(key: str) -> str:
    """The setting whose name is closest to `key`, as the end of a message."""
    known = [*flatten(Config()), "data", "model", "train", "decode"]
    in_another_table = [k for k in known if k.rsplit(".")[-1] == key.rsplit(".")[-1]]
    return did_you_mean(in_another_table or closest(key, known))


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
            f"{where}: train.average_last = {train.average_last} checkpoints are to be averaged, but only "
            f"train.keep_last = {train.keep_last} are kept; keep at least as many as are averaged"
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
