"""Translates a stream of text line by line, in order. `vaswani translate` uses this."""

import io
import json
import select
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

from vaswani.data.corpus import file_lines, read_lines
from vaswani.decoding.beam_search import check_n_best
from vaswani.decoding.translation import Hypothesis, pharaoh, with_sources
from vaswani.decoding.translator import WINDOW, Translator
from vaswani.errors import UserError

NAME = "standard input"
BLOCK_BYTES = 1 << 16
WAIT_SECONDS = 0.02
"""If the writer pauses for longer, the lines so far are translated. Otherwise lines are collected in windows."""


@dataclass(frozen=True)
class Layout:
    """What is written for each line. By default the text of each translation, a line each."""

    n_best: int = 1
    """Translations of each line."""
    scores: bool = False
    """LINE <tab> SCORE <tab> LOG_PROB <tab> before the text."""
    alignments: bool = False
    """The alignment in Pharaoh's format ("0-0 2-1": source token - target token, both from 0), <tab>, before the text.
    With `as_json` a field."""
    as_json: bool = False
    """One JSON object for each source line, with all its translations; see `Translation.to_json`."""


def translate_stream(translator: Translator, source: BinaryIO, output: BinaryIO, layout: Layout) -> None:
    """Translates `source` line by line, in bounded memory.

    A file is translated in windows of some thousand lines. A pipe or a terminal gets its translations as soon as no
    further line is waiting, so another program can write a line and wait for the answer. A terminal gets a prompt.

    Args:
        source, output: UTF-8, whatever the locale is. Only "\\n" ends a line.
        layout: what is written.

    Raises:
        UserError: a line is not UTF-8; n_best is larger than the beam.
    """
    _translate(translator, _typed_lines() if source.isatty() else _windows(source), output, layout)


def translate_files(translator: Translator, paths: Sequence[Path], output: BinaryIO, layout: Layout) -> None:
    """As `translate_stream`, for the lines of files (.gz too), one file after another.

    Raises:
        UserError: a file cannot be read, or as `translate_stream`.
    """
    lines = chain.from_iterable(map(file_lines, paths))
    _translate(translator, iter(lambda: list(islice(lines, WINDOW)), []), output, layout)


def _translate(translator: Translator, windows: Iterable[list[str]], output: BinaryIO, layout: Layout) -> None:
    check_n_best(layout.n_best, translator.decode.beam)
    first = 1
    for window in windows:
        found = translator.translate(window, layout.n_best, first_line=first, aligned=layout.alignments)
        lines = _json_lines if layout.as_json else _plain_lines
        for line in lines(translator, window, found, first, layout):
            output.write(f"{line}\n".encode())
        output.flush()
        first += len(window)


def _json_lines(
    translator: Translator, window: list[str], found: Iterable[list[Hypothesis]], first: int, layout: Layout
) -> Iterator[str]:
    for number, translation in enumerate(with_sources(translator.tokenizer, window, found), start=first):
        yield json.dumps({"line": number} | translation.to_json(), ensure_ascii=False)


def _plain_lines(
    translator: Translator, window: list[str], found: Iterable[list[Hypothesis]], first: int, layout: Layout
) -> Iterator[str]:
    for number, hypotheses in enumerate(found, start=first):
        for h in hypotheses:
            columns = [f"{number}", f"{h.score:.6f}", f"{h.log_prob:.6f}"] if layout.scores else []
            if h.alignment is not None:
                columns.append(pharaoh(h.alignment))
            yield "\t".join([*columns, h.text])


def _typed_lines() -> Iterator[list[str]]:
    """Asks for one line after another until Ctrl-D. The arrow keys bring earlier lines back."""
    import readline  # noqa: F401  (`input` uses it; where it is imported, the terminal's settings are read)

    while True:
        try:
            yield [_ask()]
        except EOFError:
            print(file=sys.stderr)
            return
        except UnicodeDecodeError as error:
            raise UserError(f"{NAME}: not UTF-8 ({error.reason})") from None


def _ask() -> str:
    if sys.stdout.isatty():
        return input("> ")
    print("> ", end="", file=sys.stderr, flush=True)  # `input` would write it to the file that takes the translations
    return input()


def _windows(source: BinaryIO) -> Iterator[list[str]]:
    """The lines that have arrived, at most `WINDOW` at a time."""
    number = 0
    for lines in _arrived(source):
        yield list(read_lines(lines, NAME, first=number + 1))
        number += len(lines)


def _arrived(source: BinaryIO) -> Iterator[list[bytes]]:
    """Complete lines with their line ends. The last line may lack its line end."""
    waiting: list[bytes] = []
    pieces: list[bytes] = []  # of a line whose end has not arrived
    while block := _read(source):
        *complete, rest = block.split(b"\n")
        for line in complete:
            waiting.append(b"".join([*pieces, line, b"\n"]))
            pieces = []
        pieces.append(rest)
        while len(waiting) >= WINDOW:
            yield waiting[:WINDOW]
            waiting = waiting[WINDOW:]
        if waiting and not _more_is_waiting(source):
            yield waiting
            waiting = []
    if last := b"".join(pieces):
        waiting.append(last)
    if waiting:
        yield waiting


def _read(source: BinaryIO) -> bytes:
    """Waits until some bytes have arrived, and returns them. Empty at the end of the input."""
    return source.read1(BLOCK_BYTES) if isinstance(source, io.BufferedReader) else source.read(BLOCK_BYTES)


def _more_is_waiting(source: BinaryIO) -> bool:
    """Whether `source` can be read without waiting. This is also True at the end of a file."""
    return bool(select.select([source], [], [], WAIT_SECONDS)[0])
