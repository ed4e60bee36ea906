"""Text streams through a translator: N lines in, N lines out, in order; what `vaswani translate` does."""

import sys
from collections.abc import Iterator
from typing import BinaryIO

from vaswani.data.corpus import read_lines
from vaswani.decoding.beam_search import check_n_best
from vaswani.decoding.translator import Hypothesis, Translator


def translate_stream(
    translator: Translator, source: BinaryIO, output: BinaryIO, n_best: int = 1, with_scores: bool = False
) -> None:
    """Translates one line after another on a terminal, else windows of some thousand lines, in bounded memory.

    Args:
        source, output: UTF-8 whatever the locale says, lines ended by "\\n" alone.
        n_best: lines written for each line read.
        with_scores: write LINE <tab> SCORE <tab> LOG_PROB <tab> TEXT, so that an n-best list can be told apart.

    Raises:
        UserError: not UTF-8 (names the line); n_best exceeds the beam.
    """
    check_n_best(n_best, translator.decode.beam)
    if source.isatty():
        translations = (next(translator.translate([line], n_best)) for line in _prompted(source))
    else:
        translations = translator.translate(read_lines(source, "standard input"), n_best)
    for number, hypotheses in enumerate(translations, start=1):
        for hypothesis in hypotheses:
            output.write(f"{_line(number, hypothesis, with_scores)}\n".encode())
        if source.isatty():
            output.flush()
    output.flush()


def _line(number: int, hypothesis: Hypothesis, with_scores: bool) -> str:
    if not with_scores:
        return hypothesis.text
    return f"{number}\t{hypothesis.score:.6f}\t{hypothesis.log_prob:.6f}\t{hypothesis.text}"


def _prompted(source: BinaryIO) -> Iterator[str]:
    """Asks for one line after another until Ctrl-D."""
    lines = read_lines(source, "standard input")
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        try:
            yield next(lines)
        except StopIteration:
            print(file=sys.stderr)
            return
