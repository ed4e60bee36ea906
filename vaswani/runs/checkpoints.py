"""Checkpoints: save, load, choose, delete, average. Only this file imports Orbax.

A checkpoint is a directory that is complete or does not exist:

    300/arrays/          the arrays, written by Orbax
    300/manifest.json    what `integrity.py` checks them against, and the meta

The state may be any pytree of arrays; its entry `params` holds the parameters.
"""

import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np
from orbax.checkpoint import v1 as ocp

from vaswani.console import say
from vaswani.errors import UserError
from vaswani.files import flush, write_failure
from vaswani.runs.arrays import check_same_arrays, describe
from vaswani.runs.directory import RunDirectory
from vaswani.runs.integrity import (
    BrokenCheckpoint,
    files_of,
    has_averaged,
    numbered_steps,
    read_manifest,
    steps,
    verify,
    write_manifest,
)

# Orbax logs the tracebacks of errors that it also raises.
logging.getLogger("absl").setLevel(logging.CRITICAL)


def save(directory: Path, step: int, state: Any, meta: dict[str, Any]) -> None:
    """Writes `directory/step`, complete or not at all. It replaces an existing checkpoint of that step.

    Args:
        directory: the run's checkpoints.
        step: updates made.
        state: pytree of jax or numpy arrays.
        meta: other values as JSON. Resuming needs the position in the data and the progress; choosing a checkpoint
            needs "best_step" and "on_schedule" (see `regular`); translating needs "tokenizer", its checksum.

    Raises:
        WorkFailed: the disk is full or cannot be written. Earlier checkpoints stay, and nothing half-written remains.
    """
    _write(directory / str(step), state, meta)


def load(directory: Path, step: int, like: Any) -> tuple[Any, dict[str, Any]]:
    """Reads `directory/step`, bit for bit as it was saved.

    Args:
        directory: the run's checkpoints.
        step: one of `steps(directory)`.
        like: pytree of arrays or `jax.ShapeDtypeStruct` with the wanted structure, types, shapes and shardings. An
            array without a sharding is placed on the first device; for a numpy array a numpy array is returned.

    Returns:
        The state and its meta.

    Raises:
        BrokenCheckpoint: the files are not those that were written.
        UserError: the checkpoint is of another model; the message names the first array that differs.
    """
    path = directory / str(step)
    manifest = verify(path)
    check_same_arrays(path, manifest["arrays"], describe(like))
    return ocp.load(_arrays(path), _placed(like)), manifest["meta"]


def load_newest(directory: Path, like: Any, warn: Callable[[str], None]) -> tuple[int, Any, dict[str, Any]] | None:
    """Loads the newest whole checkpoint. Newer ones that are broken are renamed to `STEP.broken`.

    Args:
        directory: the run's checkpoints; it may be missing.
        like: as for `load`.
        warn: gets one line for each broken checkpoint.

    Returns:
        Step, state and meta; None if there is no whole checkpoint.
    """
    _put_back(directory)
    numbered = numbered_steps(directory)
    while numbered:
        step = numbered.pop()
        try:
            return step, *load(directory, step, like)
        except BrokenCheckpoint as error:
            aside = _move_aside(directory / str(step))
            then = "taking the checkpoint before it" if numbered else "and there is no other"
            warn(f"{error}; moved to {aside.name}, {then}")
    return None


def regular(directory: Path) -> list[int]:
    """The steps that were saved on schedule, and the newest step, in numeric order.

    Checkpoints that a stop or a good validation made do not count, and neither does step 0. So the last k of these
    steps are the same for a run that was stopped on its way and for one that was not.
    """
    saved = [step for step in steps(directory) if step]
    return [step for step in saved if step == saved[-1] or _on_schedule(directory / str(step))]


def _on_schedule(path: Path) -> bool:
    try:
        return read_meta(path).get("on_schedule", True)
    except BrokenCheckpoint:  # reported when the checkpoint is loaded
        return True


def prune(directory: Path, keep_last: int, best: int | None) -> None:
    """Deletes checkpoints, but not the newest, the last `keep_last` regular ones and the best.

    It also deletes what a killed process left half-written.
    """
    saved = steps(directory)
    for step in {*saved[:-1]} - {*regular(directory)[-max(keep_last, 1) :], best}:
        _replace(directory / str(step), None)
    for leftover in [*directory.glob("*.new"), *directory.glob("*.old")]:
        _remove(leftover)


def average(directory: Path, steps: Sequence[int]) -> dict[str, Any]:
    """The mean of the parameters of several checkpoints (section 6.1). Only one checkpoint is in memory at a time.

    Args:
        directory: the run's checkpoints.
        steps: at least one.

    Returns:
        Nested dicts of float32 numpy arrays. The sums are float64, so the mean of equal checkpoints is that checkpoint,
        bit for bit.
    """
    total, trained_with = None, None
    for step in steps:
        path = directory / str(step)
        try:
            meta = verify(path)["meta"]
        except BrokenCheckpoint as error:
            raise BrokenCheckpoint(f"{error}; remove {path} to average the others") from None
        settings = [meta.get("tokenizer"), meta.get("settings")]
        if settings != (trained_with or settings):
            raise UserError(f"{path}: has another tokenizer or other settings than step {steps[0]}; remove one of them")
        trained_with = settings
        tree = _saved_tree(path)
        # These arrays are never touched, so they take no memory. They only ask for numpy arrays.
        params = _load_entry(path, tree, jax.tree.map(lambda saved: np.empty(saved.shape, saved.dtype), tree["params"]))
        if total is None:
            total = jax.tree.map(lambda array: array.astype(np.float64), params)
        else:
            jax.tree.map(lambda mean, array: np.add(mean, array, out=mean), total, params)
    if total is None:
        raise UserError(f"{directory}: no checkpoints to average")
    return jax.tree.map(lambda array: (array / len(steps)).astype(np.float32), total)


def save_params(path: Path, params: Any, meta: dict[str, Any]) -> None:
    """Writes only parameters, as in `averaged/`, complete or not at all. It replaces an existing directory."""
    _write(path, {"params": params}, meta)


def load_params(path: Path, like: Any) -> tuple[Any, dict[str, Any]]:
    """Reads only the parameters, from `averaged/` or from a checkpoint. Arguments and errors as for `load`."""
    manifest = verify(path)
    saved = {
        name.removeprefix("params/"): array for name, array in manifest["arrays"].items() if name.startswith("params/")
    }
    check_same_arrays(path, saved, describe(like))
    return _load_entry(path, _saved_tree(path), _placed(like)), manifest["meta"]


def read_meta(path: Path) -> dict[str, Any]:
    """The meta of the checkpoint at `path`; its arrays are not read."""
    return read_manifest(path)["meta"]


def load_chosen_params(run: RunDirectory, which: str, like: Any) -> tuple[Any, dict[str, Any], str]:
    """The parameters that the user chose with --checkpoint.

    Args:
        run: an existing run.
        which: "auto" (averaged if there, else last), "averaged", "last", "best" or a step.
        like: parameters of the model, as for `load`.

    Returns:
        Parameters, meta, and a label for people ("averaged", "step 300").

    Raises:
        UserError: there is no such checkpoint (the message names the existing ones), or it is of another model.
        BrokenCheckpoint: its files are not those that were written.
    """
    if which == "auto":
        which = "averaged" if has_averaged(run) else "last"
    if which == "averaged":
        if not has_averaged(run):
            raise UserError(f"{run.path}: no averaged parameters; `vaswani average {run.path}` makes them")
        params, meta = load_params(run.averaged, like)
        if (newest := max(steps(run.checkpoints), default=0)) > max(meta["steps"]):
            say(
                f"{run.averaged}: is the mean of checkpoints up to step {max(meta['steps']):,}; "
                f"step {newest:,} is newer; `vaswani average {run.path}` renews the mean, "
                "--checkpoint last takes the newest"
            )
        return params, meta, "averaged"
    while True:
        step = _find_step(run, which)
        path = run.checkpoints / str(step)
        try:
            return *load_params(path, like), f"step {step}"
        except Exception:
            if path.exists():
                raise
            # A training has deleted it meanwhile: choose again.


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
        _remove(new)  # a killed process may have left it
        new.mkdir(parents=True)
        ocp.save(_arrays(new), state)
        write_manifest(new, path.name, meta, describe(state))
        for file in files_of(new):
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
        for _ in range(20):  # after one writer of Orbax has failed, others may still write
            with suppress(OSError):
                _remove(new)
                break
            time.sleep(0.1)


def _placed(like: Any) -> Any:
    """`like`, where an array without a sharding gets the first device.

    Orbax would take the device that the array was saved from, which this machine may not have.
    """
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])

    def place(leaf: Any) -> Any:
        if isinstance(leaf, jax.ShapeDtypeStruct) and leaf.sharding is None:
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=device)
        return leaf

    return jax.tree.map(place, like)


def _arrays(path: Path) -> str:
    return str(path.absolute() / "arrays")  # Orbax refuses relative paths


def _saved_tree(path: Path) -> dict[str, Any]:
    """Nested dicts with type and shape of each array."""
    return ocp.metadata(_arrays(path)).metadata


def _load_entry(path: Path, tree: dict[str, Any], like: Any) -> Any:
    """Reads only `params`; Orbax skips what is a placeholder."""
    rest = jax.tree.map(lambda _: ocp.PLACEHOLDER, tree)
    return ocp.load(_arrays(path), {**rest, "params": like})["params"]


def _replace(path: Path, new: Path | None) -> None:
    """Puts `new`, or nothing, at `path`. The old directory is renamed first: half-deleted, it could look complete."""
    old = path.with_name(path.name + ".old")
    _remove(old)
    if path.exists():
        path.rename(old)
    if new:
        new.rename(path)
    _remove(old)


def _put_back(directory: Path) -> None:
    """A process may have been killed between the two renames of `_replace`: the old checkpoint is still whole."""
    for old in directory.glob("*.old"):
        if not (path := old.with_suffix("")).exists():
            old.rename(path)


def _remove(path: Path) -> None:
    """Deletes a directory or a file, if it exists."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _move_aside(path: Path) -> Path:
    aside = path.with_name(path.name + ".broken")
    _remove(aside)
    return path.rename(aside)
