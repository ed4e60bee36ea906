"""Which checkpoints a run has, and whether their files are those that were written. JAX and Orbax are not needed.

manifest.json holds the checkpoint's name, its meta, the name, type and shape of every array, and size and CRC-32 of
every file. Orbax finds a truncated array only while loading it, and a changed one not at all.
"""

import json
import re
import zlib
from pathlib import Path
from typing import Any

from vaswani.errors import WorkFailed
from vaswani.files import fingerprint, read_failure
from vaswani.runs.directory import RunDirectory

MANIFEST = "manifest.json"
_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class BrokenCheckpoint(WorkFailed):
    """The files of a checkpoint are not those that were written: incomplete, truncated or changed."""


def write_manifest(path: Path, name: str, meta: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Describes the checkpoint at `path`, whose other files are written. `name` is the name it will have."""
    checksums = {file: fingerprint(path / file) for file in files_of(path)}
    manifest = {"name": name, "meta": meta, "arrays": arrays, "files": checksums}
    text = json.dumps({"crc32": _crc32(manifest), **manifest}, indent=1, ensure_ascii=False)
    (path / MANIFEST).write_text(text, encoding="utf-8")


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of the checkpoint at `path`; the other files are not read.

    Raises:
        BrokenCheckpoint: it is missing or damaged, or belongs to another checkpoint.
    """
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        if manifest.pop("crc32") != _crc32(manifest):
            raise ValueError
    except _ABSENT:
        raise BrokenCheckpoint(f"{path}: broken checkpoint: {MANIFEST} is missing") from None
    except OSError as error:
        raise read_failure(path / MANIFEST, error) from None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise BrokenCheckpoint(f"{path}: broken checkpoint: {MANIFEST} is damaged") from None
    if manifest["name"] != path.name:
        raise BrokenCheckpoint(f"{path}: broken checkpoint: it was saved as {manifest['name']}")
    return manifest


def verify(path: Path) -> dict[str, Any]:
    """Reads every file of the checkpoint at `path`. Returns its manifest.

    Raises:
        BrokenCheckpoint: a file is missing, truncated or changed.
    """
    manifest = read_manifest(path)
    for file, (size, crc32) in manifest["files"].items():
        try:
            size_now, crc32_now = fingerprint(path / file)
        except _ABSENT:
            raise BrokenCheckpoint(f"{path}: broken checkpoint: {file} is missing") from None
        except OSError as error:
            raise read_failure(path / file, error) from None
        if size_now != size:
            raise BrokenCheckpoint(f"{path}: broken checkpoint: {file} has {size_now} bytes instead of {size}")
        if crc32_now != crc32:
            raise BrokenCheckpoint(f"{path}: broken checkpoint: the contents of {file} have changed")
    return manifest


def steps(directory: Path) -> list[int]:
    """The steps of the checkpoints in `directory`, in numeric order: 9, 10, 100."""
    return [step for step in numbered_steps(directory) if (directory / str(step) / MANIFEST).is_file()]


def numbered_steps(directory: Path) -> list[int]:
    """Every directory whose name is a step, complete or not, in numeric order."""
    try:
        names = [p.name for p in directory.iterdir() if p.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise read_failure(directory, error) from None
    return sorted(int(name) for name in names if re.fullmatch("0|[1-9][0-9]*", name))


def has_averaged(run: RunDirectory) -> bool:
    """Whether the run has averaged parameters."""
    return (run.averaged / MANIFEST).is_file()


def files_of(path: Path) -> list[str]:
    """Every file below `path`, as a relative path, sorted."""
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())


def _crc32(manifest: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(manifest).encode())
