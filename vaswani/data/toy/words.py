"""A phrase in both languages, and how the tables of words are read.

A table is a block of aligned columns for each difficulty; a higher difficulty has all words of the lower ones too.
In a column "_" stands for a space, "," separates alternatives and "-" means none. Each word has one translation, so
the English sentence determines the German one: "you" is always "du", "doctor" is always "Arzt".
"""

from collections.abc import Iterator
from typing import NamedTuple


class Words(NamedTuple):
    """The same phrase in both languages."""

    english: str
    german: str


# Names for several classes of nouns; the columns of adjectives and verbs use them.
CLASS_GROUPS = {
    "living": "person animal",
    "object": "thing clothing vehicle device reading picture opening",
    "goods": "thing clothing vehicle device reading picture food",
    "gift": "thing reading picture food",
    "owned": "animal thing pocket vehicle reading",
    "portable": "pocket clothing thing",
}


def rows(blocks: dict[int, str]) -> Iterator[tuple[int, list[str]]]:
    """The difficulty and the columns of each line of a table."""
    for level, block in blocks.items():
        for line in block.strip().splitlines():
            yield level, [column.replace("_", " ") for column in line.split()]


def noun_classes(column: str) -> frozenset[str]:
    """The classes of nouns that a column names."""
    names = column.split(",") if column != "-" else []
    return frozenset(c for name in names for c in CLASS_GROUPS.get(name, name).split())
