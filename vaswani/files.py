"""Reading and writing files: a half-written one never counts, and what goes wrong is said in one line."""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from vaswani.errors import UserError, WorkFailed


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Writes a file whole or not at all.

    Missing parent directories are made. The yielded path ends like `path`, for writers that look at the suffix.

    Example:
        with atomic_path("scores.json") as temporary:
            temporary.write_text("{}")

    Args:
        path: the file to write or replace.

    Yields:
        A path in the same directory, to be written by the caller; it takes the name `path` if the block succeeds and
        is removed if the block fails.

    Raises:
        WorkFailed: the disk is full, or the place cannot be written to; what was there before stays.
    """
    path = Path(path)
    temporary = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        flush(temporary)
        os.replace(temporary, path)
        flush(path.parent)
    except OSError as error:
        raise write_failure(path, error) if _concerns(error, temporary) else error from None
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def new_directory(path: str | Path) -> Iterator[Path]:
    """Makes a directory that is there whole or not at all.

    Yields:
        An empty directory beside `path`, to be filled by the caller; it takes the name `path` if the block succeeds
        and is removed if the block fails.

    Raises:
        UserError: something is at `path` already.
        WorkFailed: the disk is full, or the place cannot be written to.
    """
    path = Path(path)
    if path.exists():
        raise UserError(f"{path}: exists already; remove it, or choose another name")
    temporary = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        for file in temporary.iterdir():
            flush(file)
        os.rename(temporary, path)
        flush(path.parent)
    except OSError as error:
        raise write_failure(path, error) if _concerns(error, temporary) else error from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: str | Path, text: str) -> None:
    """Writes `text` as UTF-8, line ends as they are, by `atomic_path`."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def write_json(path: str | Path, value: Any) -> None:
    """Writes `value` as indented JSON, by `atomic_path`."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """What a JSON file holds; None where there is no file.

    Raises:
        UserError: it is not JSON, or cannot be read.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise read_failure(path, error) from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON: {error}") from None


def read_own_lines(path: Path) -> list[str]:
    """The lines of a file that this program wrote: UTF-8, ended by "\\n" and nothing else."""
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            return [line.removesuffix("\n") for line in file]
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not as it was written, it is not UTF-8 ({error.reason})") from None
    except OSError as error:
        raise read_failure(path, error) from None


def read_failure(path: Path, error: OSError) -> UserError:
    """The one line that says why `path` could not be read."""
    return UserError(f"{path}: cannot be read: {error.strerror or error}")


def write_failure(path: Path, error: OSError) -> WorkFailed:
    """The one line that says why `path` could not be written."""
    why = "no space left on the disk" if _is_full(error) else error.strerror or str(error)
    return WorkFailed(f"{path}: cannot be written: {why}")


def flush(path: Path) -> None:
    """Waits until a file's bytes, or a directory's names, are on the disk: a rename may otherwise get there first."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_full(error: OSError) -> bool:
    # numpy reports a short write without an errno: "4096 requested and 0 written".
    return error.errno in (errno.ENOSPC, errno.EDQUOT) or (error.errno is None and "requested and" in str(error))


def _concerns(error: OSError, temporary: Path) -> bool:
    """Whether the error comes from writing, not from something else that the caller did inside the block."""
    return _is_full(error) or error.filename in {str(p) for p in (temporary, *temporary.parents)}
