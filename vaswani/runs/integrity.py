"""Whether the files of a checkpoint are those that were written.

manifest.json holds the checkpoint's name, its meta, the name, type and shape of every array, and size and CRC-32 of
every file. Orbax finds a truncated array only while loading it, and a changed one not at all.
"""

import json
import zlib
from pathlib import Path
from typing import Any

import jax

from vaswani.errors import UserError, WorkFailed
from vaswani.files import read_failure

MANIFEST = "manifest.json"
_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class BrokenCheckpoint(WorkFailed):
    """The files of a checkpoint are not those that were written: incomplete, truncated or changed."""


def write_manifest(path: Path, name: str, meta: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Describes the checkpoint at `path`, whose other files are written. `name` is the name it will have."""
    checksums = {file: _size_and_crc32(path / file) for file in files_of(path)}
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
            size_now, crc32_now = _size_and_crc32(path / file)
        except _ABSENT:
            raise BrokenCheckpoint(f"{path}: broken checkpoint: {file} is missing") from None
        except OSError as error:
            raise read_failure(path / file, error) from None
        if size_now != size:
            raise BrokenCheckpoint(f"{path}: broken checkpoint: {file} has {size_now} bytes instead of {size}")
        if crc32_now != crc32:
            raise BrokenCheckpoint(f"{path}: broken checkpoint: the contents of {file} have changed")
    return manifest


def describe(tree: Any) -> dict[str, list[Any]]:
    """Type and shape of every array: {"params/embedding": ["float32", [37000, 512]], …}."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): [str(leaf.dtype), list(leaf.shape)]
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def check_same_arrays(path: Path, saved: dict[str, list[Any]], wanted: dict[str, list[Any]]) -> None:
    """Compares the arrays of the checkpoint at `path` with those of the model, each as `describe` has them.

    Raises:
        UserError: they differ; the message names the first array that does.
    """
    for name in [*wanted, *saved]:
        if saved.get(name) != wanted.get(name):
            in_checkpoint, in_model = (_in_words(arrays.get(name)) for arrays in (saved, wanted))
            raise UserError(
                f"{path}: a checkpoint of another model: {name} is {in_checkpoint} in the checkpoint and {in_model} in "
                "this model"
            )


def _in_words(array: list[Any] | None) -> str:
    return f"{array[0]} {array[1]}" if array else "absent"


def files_of(path: Path) -> list[str]:
    """Every file below `path`, as a relative path, sorted."""
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())


def _crc32(manifest: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(manifest).encode())


def _size_and_crc32(path: Path) -> list[int]:
    crc32 = size = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            crc32, size = zlib.crc32(block, crc32), size + len(block)
    return [size, crc32]
