"""What a person reads on stderr: messages, a progress bar, durations; and streams that are closed.

Text of a corpus cannot control the terminal.
"""

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

T = TypeVar("T")

_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f"  # C0 (with ESC, tab and line ends), DEL, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # the direction of writing
    r"\u2028\u2029"  # line and paragraph separator
    r"\ud800-\udfff]"  # half of a character, which UTF-8 cannot write
)


def visible(text: str) -> str:
    r"""The text with control characters written as Python writes them; all other characters stay.

    >>> print(visible("\x1b[2J\t\u202e ü 🙂 [red] :smile:"))
    \x1b[2J\t\u202e ü 🙂 [red] :smile:
    """
    return _CONTROL.sub(lambda control: ascii(control[0])[1:-1], text)


def say(message: str) -> None:
    """Prints a message on stderr, above a progress bar if there is one. Only line ends act on the terminal."""
    print("\n".join(map(visible, message.split("\n"))), file=sys.stderr, flush=True)


def console() -> Console:
    """The one console of rich: stderr, where `[red]` and `:smile:` are text, and nothing is coloured or wrapped."""
    return Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)


class ProgressBar:
    """What `progress_bar` yields. It draws nothing where stderr is not a terminal."""

    def __init__(self, bar: Progress, description: str, total: float | None):
        self._bar = bar
        self._task = bar.add_task(visible(description), total=total)

    @property
    def hidden(self) -> bool:
        return self._bar.disable

    def update(self, completed: float, description: str | None = None) -> None:
        """Sets how much is done, and the words beside the bar if they are given."""
        text = None if description is None else visible(description)
        self._bar.update(self._task, completed=completed, description=text)


@contextmanager
def progress_bar(description: str, total: float | None = None) -> Iterator[ProgressBar]:
    """A progress bar on stderr while the block runs; nothing where stderr is not a terminal. `say` prints above it.

    Example:
        with progress_bar("training", total=100) as bar:
            bar.update(7)
    """
    with _bar() as bar:
        yield ProgressBar(bar, description, total)


def watched(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """The items, with the same bar and the time left."""
    with _bar(TimeRemainingColumn()) as bar:
        yield from bar.track(items, total=total, description=visible(description))


def _bar(*columns: ProgressColumn) -> Progress:
    text = TextColumn("{task.description}", markup=False)  # last: a narrow terminal cuts it
    return Progress(
        BarColumn(bar_width=20), MofNCompleteColumn(), *columns, text,
        console=console(), transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip


def aligned(table: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Cells in columns; columns whose number is in `right` are aligned to the right.

    >>> aligned([("run", "updates"), ("toy", "9")], right={1})
    'run  updates\\ntoy        9'
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = (
        [cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))]
        for line in table
    )
    return "\n".join("  ".join(cells).rstrip() for cells in lines)


def duration(seconds: float) -> str:
    """
    >>> duration(59.6), duration(3599), duration(90061)
    ('1m00s', '59m59s', '25h01m')
    """
    minutes, seconds = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60}h{minutes % 60:02d}m"
    return f"{minutes}m{seconds:02d}s" if minutes else f"{seconds}s"


def replace_closed_streams() -> None:
    """Opens the null device for each closed stream: a file opened later would get its number, and be written to."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):  # in this order: each gets the lowest free number
        if stream is None:
            null = os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = os.fdopen(null, "w")


def flush_output() -> None:
    """Writes what is still buffered; an error names standard output."""
    try:
        sys.stdout.flush()
    except OSError as error:
        sys.stdout = None  # otherwise the interpreter tries once more when it ends, and complains
        error.filename = "standard output"
        raise
