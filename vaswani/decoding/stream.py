"""Translates a stream of text line by line, in order. `vaswani translate` uses this."""

import io
import select
import sys
from collections.abc import Iterator
from typing import BinaryIO

from vaswani.data.corpus import read_lines
from vaswani.decoding.beam_search import check_n_best
from vaswani.decoding.translator import WINDOW, Hypothesis, Translator

NAME = "standard input"
BLOCK_BYTES = 1 << 16
WAIT_SECONDS = 0.02
"""If the writer pauses for longer, the lines so far are translated. Otherwise lines are collected in windows."""


def translate_stream(
    translator: Translator, source: BinaryIO, output: BinaryIO, n_best: int = 1, with_scores: bool = False
) -> None:
    """Translates `source` line by line, in bounded memory.

    A file is translated in windows of some thousand lines. A pipe or a terminal gets its translations as soon as no
    further line is waiting, so another program can write a line and wait for the answer.

    Args:
        source, output: UTF-8, whatever the locale is. Only "\\n" ends a line.
        n_best: translations of each line.
        with_scores: write LINE <tab> SCORE <tab> LOG_PROB <tab> TEXT.

    Raises:
        UserError: a line is not UTF-8; n_best is larger than the beam.
    """
    check_n_best(n_best, translator.decode.beam)
    windows = _typed_lines(source) if source.isatty() else _windows(source)
    number = 0
    for window in windows:
        for hypotheses in translator.translate(window, n_best, first_line=number + 1):
            number += 1
            for hypothesis in hypotheses:
                output.write(f"{_line(number, hypothesis, with_scores)}\n".encode())
        output.flush()


def _line(number: int, hypothesis: Hypothesis, with_scores: bool) -> str:
    if not with_scores:
        return hypothesis.text
    return f"{number}\t{hypothesis.score:.6f}\t{hypothesis.log_prob:.6f}\t{hypothesis.text}"


def _typed_lines(source: BinaryIO) -> Iterator[list[str]]:
    """Asks for one line after another until Ctrl-D."""
    lines = read_lines(source, NAME)
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        try:
            yield [next(lines)]
        except StopIteration:
            print(file=sys.stderr)
            return


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
