"""What a person watches on stderr: messages, progress bars, durations."""

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, track

T = TypeVar("T")


def say(message: str) -> None:
    """A message, as it is."""
    print(message, file=sys.stderr, flush=True)


def watched(items: Iterable[T], what: str, total: int | None = None) -> Iterable[T]:
    """The items, with a progress bar where a person watches."""
    quiet = not sys.stderr.isatty()
    return track(items, escape(what), total=total, console=Console(stderr=True), transient=True, disable=quiet)


class ProgressBar:
    """A bar below the lines that are printed."""

    def __init__(self, bar: Progress, task):
        self._bar, self._task = bar, task

    def update(self, completed: int) -> None:
        self._bar.update(self._task, completed=completed)

    def print(self, text: str) -> None:
        self._bar.console.print(text)


@contextmanager
def progress_bar(description: str, total: int) -> Iterator[ProgressBar]:
    """Shown on a terminal only."""
    console = Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        yield ProgressBar(bar, bar.add_task(description, total=total))


def aligned(table: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Cells in columns; those numbered in `right` end together.

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
