"""What a person watches on stderr: messages, progress bars, durations."""

import sys
from collections.abc import Iterable
from typing import TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import track

T = TypeVar("T")


def say(message: str) -> None:
    """A message, as it is."""
    print(message, file=sys.stderr, flush=True)


def watched(items: Iterable[T], what: str, total: int | None = None) -> Iterable[T]:
    """The items, with a progress bar where a person watches."""
    quiet = not sys.stderr.isatty()
    return track(items, escape(what), total=total, console=Console(stderr=True), transient=True, disable=quiet)


def duration(seconds: float) -> str:
    """
    >>> duration(59.6), duration(3599), duration(90061)
    ('1m00s', '59m59s', '25h01m')
    """
    minutes, seconds = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60}h{minutes % 60:02d}m"
    return f"{minutes}m{seconds:02d}s" if minutes else f"{seconds}s"
