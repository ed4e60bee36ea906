"""The translations in a run: for each set three files, in which line i belongs together.

translations/NAME.txt             what the model wrote
translations/NAME.source.txt      what it read
translations/NAME.reference.txt   what it is compared with
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from vaswani.errors import UserError
from vaswani.files import read_own_lines, write_text
from vaswani.runs.directory import RunDirectory


class Translations(NamedTuple):
    """One translated set, a sentence an entry."""

    sources: list[str]
    references: list[str]
    hypotheses: list[str]


def write_translations(
    run: RunDirectory, name: str, sources: Sequence[str], references: Sequence[str], hypotheses: Sequence[str]
) -> None:
    """Writes the three files of set `name`; a line end inside a sentence becomes a space."""
    for path, lines in zip(_paths(run, name), (sources, references, hypotheses), strict=True):
        write_text(path, "".join(line.replace("\n", " ") + "\n" for line in lines))


def read_translations(run: RunDirectory, name: str) -> Translations:
    """Reads the three files of set `name`.

    Raises:
        UserError: the run has not translated that set, or the files have unequal numbers of lines.
    """
    paths = _paths(run, name)
    if not all(path.exists() for path in paths):
        existing = translated_sets(run)
        raise UserError(
            f"{run.path}: has no translation of {name!r}"
            + (f"; it has {', '.join(existing)}" if existing else f"; `vaswani evaluate {run.path}` makes it")
        )
    translations = Translations(*(read_own_lines(path) for path in paths))
    if len({len(lines) for lines in translations}) > 1:
        counts = ", ".join(f"{path.name} {len(lines)}" for path, lines in zip(paths, translations, strict=True))
        raise UserError(f"{run.translations}: unequal numbers of lines ({counts}); run `vaswani evaluate` again")
    return translations


def translated_sets(run: RunDirectory) -> list[str]:
    """The names of the sets that the run has translated, sorted."""
    names = (path.name.removesuffix(".source.txt") for path in run.translations.glob("*.source.txt"))
    return sorted(name for name in names if all(path.exists() for path in _paths(run, name)))


def _paths(run: RunDirectory, name: str) -> tuple[Path, Path, Path]:
    """Of sources, references and hypotheses."""
    return (
        run.translations / f"{name}.source.txt",
        run.translations / f"{name}.reference.txt",
        run.translations / f"{name}.txt",
    )
