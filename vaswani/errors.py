"""The two ways a command can fail, each with one line and an exit code (`cli.py`), and the hint "did you mean"."""

import difflib
from collections.abc import Iterable, Sequence

from vaswani.console import visible


class _OneLine(Exception):
    """One line without control characters, whatever the messages of libraries and the text in it hold."""

    def __init__(self, message: str) -> None:
        super().__init__(visible(" ".join(message.split())))


class UserError(_OneLine):
    """The input is wrong (exit code 2). The message says what, where, and what would be right."""


class WorkFailed(_OneLine):
    """The input was right but the work could not be done (exit code 1), for instance because the disk is full."""


def closest(name: str, known: Iterable[str]) -> list[str]:
    """The one of `known` that is spelt most like `name`; none if all are too different."""
    return difflib.get_close_matches(name, known, n=1, cutoff=0.6)


def did_you_mean(names: Sequence[object]) -> str:
    """The end of a message that refuses a name: offers the first of `names`, or says nothing without any."""
    return f" (did you mean {names[0]}?)" if names else ""
