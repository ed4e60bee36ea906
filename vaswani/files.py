"""Reading and writing files: a file is written whole or not at all, and every error is one line."""

import errno
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from vaswani.errors import UserError, WorkFailed


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Writes a file whole or not at all.

    Missing parent directories are made. The yielded path has the suffix of `path`, because some writers look at it.

    Example:
        with atomic_path("scores.json") as temporary:
            temporary.write_text("{}")

    Args:
        path: the file to write or replace.

    Yields:
        A path in the same directory, which the caller writes. It is renamed to `path` if the block succeeds, and
        removed if the block fails.

    Raises:
        WorkFailed: the disk is full, or the directory cannot be written to. An existing file stays as it was.
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


def write_text(path: str | Path, text: str) -> None:
    """Writes `text` as UTF-8 with `atomic_path`. Line ends stay as they are."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def write_json(path: str | Path, value: Any) -> None:
    """Writes `value` as indented JSON with `atomic_path`."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """The value in a JSON file; None if there is no file.

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
    """The lines of a file that this program wrote: UTF-8, and only "\\n" ends a line."""
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            return [line.removesuffix("\n") for line in file]
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 ({error.reason}), so not as it was written") from None
    except OSError as error:
        raise read_failure(path, error) from None


def fingerprint(path: Path) -> list[int]:
    """Size in bytes and CRC-32 of a file."""
    size = crc32 = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            size, crc32 = size + len(block), zlib.crc32(block, crc32)
    return [size, crc32]


def read_failure(path: Path, error: OSError) -> UserError:
    """Why `path` could not be read, as one line."""
    return UserError(f"{path}: cannot be read: {error.strerror or error}")


def write_failure(path: Path, error: OSError) -> WorkFailed:
    """Why `path` could not be written, as one line."""
    why = "no space left on the disk" if _is_full(error) else error.strerror or str(error)
    return WorkFailed(f"{path}: cannot be written: {why}")


@contextmanager
def advise(advice: str) -> Iterator[None]:
    """Adds the advice to the message of a file that cannot be written in this block."""
    try:
        yield
    except WorkFailed as error:
        raise WorkFailed(f"{error}; {advice}") from None


def flush(path: Path) -> None:
    """Waits until a file's bytes, or a directory's names, are on the disk. Otherwise a rename may reach it first."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_full(error: OSError) -> bool:
    # numpy reports a short write without an errno: "4096 requested and 0 written".
    return error.errno in (errno.ENOSPC, errno.EDQUOT) or (error.errno is None and "requested and" in str(error))


def _concerns(error: OSError, temporary: Path) -> bool:
    """Whether the error comes from writing the file, and not from something else in the caller's block."""
    return _is_full(error) or error.filename in {str(p) for p in (temporary, *temporary.parents)}
