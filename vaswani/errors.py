"""The two ways a command can fail, each one line and an exit code (`cli.py`), and the hint that the line may end in."""

import difflib
from collections.abc import Iterable, Sequence


class _OneLine(Exception):
    """One line without control characters, whatever the messages of libraries and the text in it hold."""

    def __init__(self, message: str) -> None:
        line = " ".join(message.split())
        super().__init__("".join(char if char.isprintable() else repr(char)[1:-1] for char in line))


class UserError(_OneLine):
    """The input is wrong (exit code 2). The message says what, where, and what would be right."""


class WorkFailed(_OneLine):
    """The input was right but the work could not be done (exit code 1), for instance a loss that stays infinite."""


def alike(wanted: str, known: Iterable[str]) -> list[str]:
    """The name spelt most like `wanted`, if one is."""
    return difflib.get_close_matches(wanted, known, n=1, cutoff=0.6)


def did_you_mean(guesses: Sequence[object]) -> str:
    """The end of a message that refuses a name."""
    return f" (did you mean {guesses[0]}?)" if guesses else ""
