"""Reads parallel text: line-aligned files, local tables, data sets of the Hugging Face hub, the embedded corpus.

Everything is streamed, so memory does not grow with the corpus. Text is never changed: no field is taken for a number
or a missing value, and only "\\n" ends a line.
"""

import csv
import gzip
import json
import os
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import compress, zip_longest
from pathlib import Path
from typing import Any

from vaswani.console import say
from vaswani.errors import UserError
from vaswani.files import read_failure
from vaswani.schema import DataConfig, ToyConfig

Pair = tuple[str, str]

TABLES = ("parquet", "json", "jsonl", "csv")


def read_pairs(data: DataConfig, name: str) -> Iterator[Pair]:
    """The sentence pairs of one set, in order, exactly as they stand, blank lines included.

    Args:
        data: where the text is: `dir` if given, else the embedded corpus ("toy"), else a data set of the hub.
        name: the set's name: a file stem, or by way of `data.splits` a split of the hub's data set.

    Raises:
        UserError: no such set, sides of unequal length, text that is not UTF-8, an empty set, an unreachable hub.
    """
    if data.dir:
        pairs, origin = _read_files(data, name), f"{name} in {data.dir}"
    elif data.corpus == "toy":
        pairs, origin = _read_toy(data, name), f"{name} of the embedded corpus"
    else:
        pairs, origin = _read_hub(data, name), f"{name} of {data.corpus}"
    empty = True
    for pair in pairs:
        empty = False
        yield pair
    if empty:
        raise UserError(f"{origin}: holds no text")


def read_lines(file: Iterable[bytes], name: str, first: int = 1) -> Iterator[str]:
    """Lines of a binary file without their ends, as strict UTF-8.

    A line ends at "\\n" or "\\r\\n" and nowhere else: U+2028, U+0085, "\\x0b", "\\x0c" and "\\x1c" are text. A
    byte order mark at the start is dropped.

    Args:
        file: a file opened in binary mode, or anything that yields its lines.
        name: what the file is called in messages.
        first: the number of the first line.

    Raises:
        UserError: bytes that are not UTF-8, with `name` and the line's number.
    """
    for number, line in enumerate(file, start=first):
        if number == 1:
            line = line.removeprefix(BOM_UTF8)
        line = line[:-2] if line.endswith(b"\r\n") else line.removesuffix(b"\n")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{name}, line {number}: not UTF-8 (byte {line[error.start]:#04x} at position {error.start + 1}); "
                "convert the file to UTF-8"
            ) from None
        yield text


def find_files(data: DataConfig, name: str) -> list[Path]:
    """The local files of one set: two line-aligned ones, source first, or one table.

    Raises:
        UserError: they do not exist; says which names were looked for, and which sets the directory holds.
    """
    try:
        return _find_files(data, name)
    except OSError as error:
        raise UserError(f"data.dir = {data.dir!r}: cannot be read: {error.strerror or error}") from None


def _find_files(data: DataConfig, name: str) -> list[Path]:
    directory = Path(os.path.expanduser(data.dir))  # pathlib's raises for a "~" that is no one's home
    if not directory.is_dir():
        raise UserError(f"data.dir = {data.dir!r}: no such directory")
    sides = [_first_file(directory, f"{name}.{lang}", f"{name}.{lang}.gz") for lang in (data.source, data.target)]
    if all(sides):
        return [path for path in sides if path]
    table = _first_file(directory, *(f"{name}.{kind}" for kind in TABLES))
    if table and not any(sides):
        return [table]
    missing = " and ".join(
        f"{name}.{lang}[.gz]" for lang, path in zip((data.source, data.target), sides, strict=True) if not path
    )
    tables = "" if any(sides) else f", nor {name}.{'|'.join(TABLES)}"
    existing = sorted({path.name.split(".")[0] for path in directory.iterdir() if not path.name.startswith(".")})
    holds = f"holds {', '.join(existing[:10])}{' …' if existing[10:] else ''}" if existing else "is empty"
    raise UserError(f"{directory}: no {missing}{tables}; it {holds}")


def write_jsonl(path: Path, pairs: Iterable[Pair]) -> int:
    """Stores pairs, ["source", "target"] a line, so that `read_jsonl` gives any text back. Returns their number."""
    count = 0
    with open(path, "w", encoding="utf-8", newline="") as file:
        for pair in pairs:
            file.write(json.dumps(pair, ensure_ascii=False) + "\n")
            count += 1
    return count


def read_jsonl(path: Path, keep: Iterable[bool] | None = None) -> Iterator[Pair]:
    """What `write_jsonl` stored; only the pairs that `keep` marks, if given."""
    try:
        with open(path, "rb") as file:
            for line in file if keep is None else compress(file, keep):
                source, target = json.loads(line)
                yield source, target
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{path}: cannot be read ({error}); remove {path.parent} and prepare again") from None


def _first_file(directory: Path, *names: str) -> Path | None:
    return next((directory / name for name in names if (directory / name).is_file()), None)


def _read_files(data: DataConfig, name: str) -> Iterator[Pair]:
    files = find_files(data, name)
    if len(files) == 2:
        return _aligned(*files)
    rows = {".parquet": _parquet_rows, ".csv": _csv_rows}.get(files[0].suffix, _json_rows)(files[0])
    return (_pair(row, data, f"{files[0]}, row {number}") for number, row in enumerate(rows, start=1))


def file_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, plain or .gz, as `read_lines` gives them.

    Raises:
        UserError: it cannot be read, is no whole gzip file, or not UTF-8.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            yield from read_lines(file, str(path))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path}: not a whole gzip file ({error})") from None
    except OSError as error:
        raise read_failure(path, error) from None


def _aligned(source: Path, target: Path) -> Iterator[Pair]:
    sources, targets = file_lines(source), file_lines(target)
    for complete, (source_line, target_line) in enumerate(zip_longest(sources, targets)):
        if source_line is None or target_line is None:
            longer = complete + 1 + sum(1 for _ in (sources if target_line is None else targets))
            n_source, n_target = (longer, complete) if target_line is None else (complete, longer)
            raise UserError(
                f"{source} has {n_source} lines, {target} has {n_target}: "
                "line i of the one must be the translation of line i of the other"
            )
        yield source_line, target_line


def _parquet_rows(path: Path) -> Iterator[Any]:
    from pyarrow import ArrowException, parquet  # slow to import, and few corpora need it

    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                yield from batch.to_pylist()
    except (ArrowException, OSError, ValueError) as error:
        raise UserError(f"{path}: not a parquet file of UTF-8 text: {str(error).splitlines()[0]}") from None


def _json_rows(path: Path) -> Iterator[Any]:
    """One JSON object a line, or one array of all."""
    try:
        with open(path, "rb") as file:
            is_array = file.read(64).removeprefix(BOM_UTF8).lstrip().startswith(b"[")
        if is_array:
            yield from json.loads("\n".join(file_lines(path)))
            return
        for number, line in enumerate(file_lines(path), start=1):
            if line.strip():
                try:
                    yield json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise UserError(f"{path}, line {number}: not JSON: {error}") from None
    except OSError as error:
        raise read_failure(path, error) from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON: {error}") from None


def _csv_rows(path: Path) -> Iterator[dict[str, str]]:
    """One row a line, under a line of column names.

    The usual csv readers turn "null" and "NA" into nothing and "007" into a number, and after a single quote take all
    lines up to the next quote for one field. Here the quotes of a line that do not pair up are plain characters.
    """
    columns: list[str] = []
    for number, line in enumerate(file_lines(path), start=1):
        try:
            cells = next(csv.reader([line], strict=True), [])
        except csv.Error:
            cells = line.split(",")
        if number == 1:
            columns = cells
            if repeated := [name for name in columns if columns.count(name) > 1]:
                raise UserError(f"{path}, line 1: names the column {repeated[0]!r} more than once")
        elif len(cells) != len(columns):
            raise UserError(
                f"{path}, line {number}: has {len(cells)} columns where the first line names {len(columns)}; "
                'text that holds a comma stands in "quotes", and a row is one line'
            )
        else:
            yield dict(zip(columns, cells, strict=True))


def _pair(row: Any, data: DataConfig, where: str) -> Pair:
    """The two texts of a table's row: {"translation": {"en": …, "de": …}}, or columns named by language."""
    cells = row.get("translation", row) if isinstance(row, dict) else row
    languages = (data.source, data.target)
    if not isinstance(cells, dict) or not all(lang in cells for lang in languages):
        has = f"the columns {list(cells)[:10]}" if isinstance(cells, dict) else _beginning(cells)
        raise UserError(
            f'{where}: has {has}; needs {data.source} and {data.target}, as columns or in one named "translation"'
        )
    source, target = ("" if cells[lang] is None else cells[lang] for lang in languages)
    for text in (source, target):
        if not isinstance(text, str):
            raise UserError(f"{where}: {_beginning(text)} is not text")
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            raise UserError(f"{where}: half of a surrogate pair, which is not Unicode text")
    return source, target


def _beginning(value: Any) -> str:
    """How a value of a table looks, on one line."""
    text = repr(value)
    return f"{text[:60]}…" if len(text) > 60 else text


@lru_cache(maxsize=1)  # one call makes all sets
def _toy_sets(toy: ToyConfig) -> dict[str, list[Pair]]:
    from vaswani.data.toy import grammar

    return grammar.generate(toy)


def _read_toy(data: DataConfig, name: str) -> Iterator[Pair]:
    sets = _toy_sets(data.toy)
    if name not in sets:
        raise UserError(f"the embedded corpus has no set {name!r}; it has {', '.join(sets)}")
    if (data.source, data.target) != ("en", "de"):
        raise UserError(f"the embedded corpus is en to de, not {data.source} to {data.target}")
    yield from sets[name]


def _read_hub(data: DataConfig, name: str) -> Iterator[Pair]:
    split = data.splits.get(name, name)
    say(f"reading {split} of {data.corpus} from the Hugging Face hub")
    for number, row in enumerate(_hub_rows(data, split), start=1):
        yield _pair(row, data, f"{data.corpus}, {split}, row {number}")


def _hub_rows(data: DataConfig, split: str) -> Iterator[Any]:
    import datasets  # slow to import
    from datasets.exceptions import DatasetsError
    from huggingface_hub.utils import httpx

    try:
        yield from datasets.load_dataset(data.corpus, data.subset or None, split=split, streaming=True)
    # OSError: no network, or no such data set. ValueError: no such subset or split, or a broken file.
    # RuntimeError: a data set that is a program. httpx: a connection that breaks off.
    except (OSError, ValueError, RuntimeError, httpx.HTTPError, DatasetsError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"{data.corpus} {data.subset}, split {split!r}: cannot be read from the Hugging Face hub ({reason}); "
            "check data.corpus, data.subset and data.splits, or give a directory of local files with --data.dir"
        ) from None
