"""Checkpoints: save, load, keep, fall back, average. Orbax stays inside this file.

A checkpoint is a directory that is there complete or not at all:

    300/arrays/          the state's arrays, written by Orbax
    300/manifest.json    its name; meta; name, type and shape of every array; size and CRC-32 of every file

Orbax notices a truncated array only while loading it, in hundreds of lines, and a changed one not at all. The manifest
finds both before Orbax is asked, and tells a broken checkpoint from one of another model; either is said in one line.
The state may be any pytree of arrays; its parameters are the entry called `params`.
"""

import json
import logging
import os
import re
import shutil
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np
from orbax.checkpoint import v1 as ocp

from vaswani.console import say
from vaswani.errors import UserError, WorkFailed
from vaswani.files import flush, read_failure, write_failure
from vaswani.runs.directory import RunDirectory

# Orbax logs whole tracebacks of errors that it raises as well.
logging.getLogger("absl").setLevel(logging.CRITICAL)

_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class BrokenCheckpoint(WorkFailed):
    """A checkpoint's files are not what was written: incomplete, truncated or changed."""


def save(directory: Path, step: int, state: Any, meta: dict[str, Any]) -> None:
    """Writes `directory/step`, complete or not at all; one that is there already is replaced.

    Args:
        directory: the run's checkpoints.
        step: updates done.
        state: pytree of jax or numpy arrays.
        meta: what else must be known later, as JSON. To resume: the data's position, the progress. To choose one:
            "best_step", "on_schedule" (see `regular`). To translate: "tokenizer", its checksum.

    Raises:
        WorkFailed: the disk is full or cannot be written; nothing half-written remains, earlier checkpoints stay.
    """
    _write(directory / str(step), state, meta)


def load(directory: Path, step: int, like: Any) -> tuple[Any, dict[str, Any]]:
    """Reads `directory/step` back, bit for bit.

    Args:
        directory: the run's checkpoints.
        step: one of `steps(directory)`.
        like: pytree of arrays or `jax.ShapeDtypeStruct`: the structure, types, shapes and shardings wanted. Without a
            sharding, arrays go to the first device; numpy arrays come back as numpy arrays.

    Returns:
        The state and its meta.

    Raises:
        BrokenCheckpoint: the files are not what was written.
        UserError: the checkpoint is of another model; the first array that differs is named with both shapes.
    """
    path = directory / str(step)
    manifest = _verify(path)
    _check_same_arrays(path, manifest["arrays"], _describe(like))
    return ocp.load(_arrays(path), _placed(like)), manifest["meta"]


def load_newest(directory: Path, like: Any, warn: Callable[[str], None]) -> tuple[int, Any, dict[str, Any]] | None:
    """The newest checkpoint that is whole; those newer than it are moved aside as `STEP.broken`.

    Args:
        directory: the run's checkpoints; may be missing.
        like: as for `load`.
        warn: is given one line for each checkpoint moved aside.

    Returns:
        Step, state and meta; None where there is no whole checkpoint.
    """
    numbered = _numbered(directory)
    while numbered:
        step = numbered.pop()
        try:
            return step, *load(directory, step, like)
        except BrokenCheckpoint as error:
            aside = _move_aside(directory / str(step))
            then = "falling back to the checkpoint before it" if numbered else "and no other is there"
            warn(f"{error}; moved to {aside.name}, {then}")
    return None


def steps(directory: Path) -> list[int]:
    """The steps saved in `directory`, ascending: 9, 10, 100."""
    return [step for step in _numbered(directory) if (directory / str(step) / "manifest.json").is_file()]


def regular(directory: Path) -> list[int]:
    """The steps that were saved on schedule, and the newest, ascending.

    What a stop or a good validation saved beside them does not count, nor does a start from nothing: the last k of
    these are the same whether or not a run was stopped on its way.
    """
    saved = [step for step in steps(directory) if step]
    return [step for step in saved if step == saved[-1] or _on_schedule(directory / str(step))]


def _on_schedule(path: Path) -> bool:
    try:
        return read_meta(path).get("on_schedule", True)
    except BrokenCheckpoint:  # whoever reads it will say so
        return True


def prune(directory: Path, keep_last: int, best: int | None) -> None:
    """Keeps the newest, the last `keep_last` of the `regular` ones and the `best`; what a killed save left goes too."""
    saved = steps(directory)
    for step in {*saved[:-1]} - {*regular(directory)[-max(keep_last, 1) :], best}:
        _replace(directory / str(step), None)
    for leftover in [*directory.glob("*.new"), *directory.glob("*.old")]:
        _remove(leftover)


def average(directory: Path, steps: Sequence[int]) -> dict[str, Any]:
    """The mean of the parameters of several checkpoints (section 6.1), with one checkpoint in memory at a time.

    Args:
        directory: the run's checkpoints.
        steps: which; at least one.

    Returns:
        Nested dicts (keys are strings) of float32 numpy arrays. The sums are float64, in which k equal float32 numbers
        add up exactly: the mean of equal checkpoints is that checkpoint, bit for bit.
    """
    total = None
    for step in steps:
        path = directory / str(step)
        try:
            _verify(path)
        except BrokenCheckpoint as error:
            raise BrokenCheckpoint(f"{error}; remove {path} to average those that are left") from None
        tree = _saved_tree(path)
        # An array that is never touched takes no memory: it only says that numpy is wanted.
        params = _load_entry(path, tree, jax.tree.map(lambda saved: np.empty(saved.shape, saved.dtype), tree["params"]))
        if total is None:
            total = jax.tree.map(lambda array: array.astype(np.float64), params)
        else:
            jax.tree.map(lambda mean, array: np.add(mean, array, out=mean), total, params)
    if total is None:
        raise UserError(f"{directory}: no checkpoints to average")
    return jax.tree.map(lambda array: (array / len(steps)).astype(np.float32), total)


def save_params(path: Path, params: Any, meta: dict[str, Any]) -> None:
    """Writes parameters alone, as `averaged/` holds them; complete or not at all, replacing what was there."""
    _write(path, {"params": params}, meta)


def load_params(path: Path, like: Any) -> tuple[Any, dict[str, Any]]:
    """Reads the parameters alone, from `averaged/` or a whole checkpoint. Arguments and errors as for `load`."""
    manifest = _verify(path)
    saved = {
        name.removeprefix("params/"): array for name, array in manifest["arrays"].items() if name.startswith("params/")
    }
    _check_same_arrays(path, saved, _describe(like))
    return _load_entry(path, _saved_tree(path), _placed(like)), manifest["meta"]


def read_meta(path: Path) -> dict[str, Any]:
    """The meta of the checkpoint at `path`, without looking at its arrays."""
    return _read_manifest(path)["meta"]


def load_chosen_params(run: RunDirectory, which: str, like: Any) -> tuple[Any, dict[str, Any], str]:
    """The parameters that a command was asked to use.

    Args:
        run: an existing run.
        which: "auto" (averaged if there, else last), "averaged", "last", "best" or a step.
        like: parameters of the model, as for `load`.

    Returns:
        Parameters, meta, and a label for people ("averaged", "step 300").

    Raises:
        UserError: there is no such checkpoint (those that exist are named), or it is of another model.
        BrokenCheckpoint: its files are not what was written.
    """
    if which == "auto":
        which = "averaged" if has_averaged(run) else "last"
    if which == "averaged":
        if not has_averaged(run):
            raise UserError(f"{run.path}: no averaged parameters; `vaswani average {run.path}` makes them")
        params, meta = load_params(run.averaged, like)
        if (newest := max(steps(run.checkpoints), default=0)) > max(meta["steps"]):
            say(
                f"{run.averaged}: the mean of checkpoints up to step {max(meta['steps']):,}, and there is one of step "
                f"{newest:,}; `vaswani average {run.path}` renews it, --checkpoint last takes the newest"
            )
        return params, meta, "averaged"
    step = _find_step(run, which)
    return *load_params(run.checkpoints / str(step), like), f"step {step}"


def has_averaged(run: RunDirectory) -> bool:
    """Whether `vaswani average` has made the mean, whole."""
    return (run.averaged / "manifest.json").is_file()


def _find_step(run: RunDirectory, which: str) -> int:
    saved = steps(run.checkpoints)
    if not saved:
        raise UserError(f"{run.path}: no checkpoints yet; `vaswani train` makes them")
    choices = f"choose averaged, best, last or a step of {', '.join(map(str, saved))}"
    if which == "last":
        return saved[-1]
    if which == "best":
        best = read_meta(run.checkpoints / str(saved[-1])).get("best_step")
        if best is None:
            raise UserError(f"{run.path}: no validation has chosen a best checkpoint yet; {choices}")
        which = str(best)
    if which not in map(str, saved):
        raise UserError(f"{run.path}: no checkpoint {which!r}; {choices}")
    return int(which)


def _write(path: Path, state: Any, meta: dict[str, Any]) -> None:
    new = path.with_name(path.name + ".new")
    try:
        _remove(new)  # of a save that was killed
        new.mkdir(parents=True)
        ocp.save(_arrays(new), state)
        files = {f: _fingerprint(new / f) for f in _files(new)}
        manifest = {"name": path.name, "meta": meta, "arrays": _describe(state), "files": files}
        text = json.dumps({"crc32": _checksum(manifest), **manifest}, indent=1, ensure_ascii=False)
        (new / "manifest.json").write_text(text, encoding="utf-8")
        for file in _files(new):
            flush(new / file)
        _replace(path, new)
        flush(path.parent)
    except (OSError, ValueError) as error:
        # Orbax's own writer reports the system's errors inside a ValueError.
        code = re.search(r"os_error_code='(\d+)'", str(error))
        if code:
            error = OSError(int(code[1]), os.strerror(int(code[1])))
        raise write_failure(path, error) if isinstance(error, OSError) else error from None
    finally:
        for _ in range(20):  # Orbax's other writers may still be at work after one has failed
            with suppress(OSError):
                _remove(new)
                break
            time.sleep(0.1)


def _verify(path: Path) -> dict[str, Any]:
    """The manifest of a checkpoint whose files are all as they were written."""
    manifest = _read_manifest(path)
    for file, (size, crc32) in manifest["files"].items():
        try:
            now = _fingerprint(path / file)
        except _ABSENT:
            raise BrokenCheckpoint(f"{path}: broken checkpoint: {file} is missing") from None
        except OSError as error:
            raise read_failure(path / file, error) from None
        if now[0] != size:
            raise BrokenCheckpoint(f"{path}: broken checkpoint: {file} has {now[0]} bytes of {size}")
        if now[1] != crc32:
            raise BrokenCheckpoint(f"{path}: broken checkpoint: the contents of {file} have changed")
    return manifest


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((path / "manifest.json").read_bytes())
        if manifest.pop("crc32") != _checksum(manifest):
            raise ValueError
    except _ABSENT:
        raise BrokenCheckpoint(f"{path}: broken checkpoint: manifest.json is missing") from None
    except OSError as error:
        raise read_failure(path / "manifest.json", error) from None
    except (ValueError, TypeError, AttributeError, KeyError):
        raise BrokenCheckpoint(f"{path}: broken checkpoint: manifest.json is damaged") from None
    if manifest["name"] != path.name:
        raise BrokenCheckpoint(f"{path}: broken checkpoint: it was saved as {manifest['name']}")
    return manifest


def _checksum(manifest: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(manifest).encode())


def _files(path: Path) -> list[str]:
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())


def _fingerprint(path: Path) -> list[int]:
    """Size in bytes and CRC-32."""
    crc32 = size = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            crc32, size = zlib.crc32(block, crc32), size + len(block)
    return [size, crc32]


def _describe(tree: Any) -> dict[str, list[Any]]:
    """{"params/embedding": ["float32", [37000, 512]], …}."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): [str(leaf.dtype), list(leaf.shape)]
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def _check_same_arrays(path: Path, saved: dict[str, list[Any]], wanted: dict[str, list[Any]]) -> None:
    for name in [*wanted, *saved]:
        if saved.get(name) != wanted.get(name):
            there, here = (_in_words(arrays.get(name)) for arrays in (saved, wanted))
            raise UserError(f"{path}: a checkpoint of another model: {name} is {there} there and {here} in this one")


def _in_words(array: list[Any] | None) -> str:
    return f"{array[0]} {array[1]}" if array else "absent"


def _placed(like: Any) -> Any:
    """`like` with a device wherever none is said; Orbax would take the one saved from, which may not exist here."""
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])

    def place(leaf: Any) -> Any:
        if isinstance(leaf, jax.ShapeDtypeStruct) and leaf.sharding is None:
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=device)
        return leaf

    return jax.tree.map(place, like)


def _arrays(path: Path) -> str:
    return str(path.absolute() / "arrays")  # Orbax refuses relative paths


def _saved_tree(path: Path) -> dict[str, Any]:
    """Nested dicts of what Orbax knows of each array: type and shape."""
    return ocp.metadata(_arrays(path)).metadata


def _load_entry(path: Path, tree: dict[str, Any], like: Any) -> Any:
    """Reads `params` alone: all else is left out by a placeholder."""
    rest = jax.tree.map(lambda _: ocp.PLACEHOLDER, tree)
    return ocp.load(_arrays(path), {**rest, "params": like})["params"]


def _numbered(directory: Path) -> list[int]:
    """Every directory that is named as a step, complete or not, in numeric order."""
    try:
        names = [p.name for p in directory.iterdir() if p.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise read_failure(directory, error) from None
    return sorted(int(name) for name in names if re.fullmatch("0|[1-9][0-9]*", name))


def _replace(path: Path, new: Path | None) -> None:
    """Puts `new`, or nothing, at `path`. What was there loses its name first: half-deleted, it would look complete."""
    old = path.with_name(path.name + ".old")
    _remove(old)
    if path.exists():
        path.rename(old)
    if new:
        new.rename(path)
    _remove(old)


def _remove(path: Path) -> None:
    """Deletes whatever is there, a plain file too."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _move_aside(path: Path) -> Path:
    aside = path.with_name(path.name + ".broken")
    _remove(aside)
    return path.rename(aside)
