"""Which training pairs are kept: neither blank nor of too unequal length, none twice, and at most `data.limit`."""

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from vaswani.data.corpus import Pair, read_jsonl, write_jsonl

EXAMPLES = 3
EXAMPLE_CHARACTERS = 200
# A constant, because runs with different seeds share one prepared corpus.
SAMPLE_SEED = 1706


ADVICE = {
    "blank": "both sides of a pair need text",
    "length ratio": "make data.max_length_ratio larger, or 0 for any",
    "too long": "make a line one sentence, or data.max_tokens larger",
}
"""What to do if a reason leaves no pair."""


class Dropped:
    """Pairs that cleaning took out: how many for which reason, and the first few of them."""

    def __init__(self):
        self.counts: dict[str, int] = {}
        self.examples: dict[str, list[Pair]] = {}

    def add(self, reason: str, pair: Pair) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + 1
        examples = self.examples.setdefault(reason, [])
        if len(examples) < EXAMPLES:
            examples.append((pair[0][:EXAMPLE_CHARACTERS], pair[1][:EXAMPLE_CHARACTERS]))

    def to_dict(self) -> dict[str, dict]:
        """{"blank": {"count": 3, "examples": [["", "Ein Hund."], …]}, …}"""
        return {reason: {"count": count, "examples": self.examples[reason]} for reason, count in self.counts.items()}

    def advice(self) -> str:
        """An example of the most frequent reason, and what to do about it."""
        reason = max(ADVICE, key=lambda reason: self.counts.get(reason, 0))
        source, target = (f"{text[:40]}{'…' * (len(text) > 40)}" for text in self.examples[reason][0])
        return f"{reason}: for example {source!r} and {target!r}; {ADVICE[reason]}"

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {reason}" for reason, count in self.counts.items()) or "none"


def clean(pairs: Iterable[Pair], max_length_ratio: float, dropped: Dropped) -> Iterator[Pair]:
    """Leaves out pairs with a blank side, and pairs of too unequal length.

    A blank side always takes the other one with it: a filter of each side alone would shift every later pair.

    Args:
        pairs: (source, target).
        max_length_ratio: the longer side may have this many times the other's characters (0: any).
        dropped: gets what is left out, as "blank" and "length ratio".
    """
    for pair in pairs:
        shorter, longer = sorted(map(len, pair))
        if not pair[0].strip() or not pair[1].strip():
            dropped.add("blank", pair)
        elif max_length_ratio and longer > max_length_ratio * shorter:
            dropped.add("length ratio", pair)
        else:
            yield pair


class CleanedPairs:
    """Pairs in a file, one JSON array a line, so that a corpus of any size is fetched once and read several times.

    Memory holds only an 8-byte digest of each pair.
    """

    def __init__(self, path: Path):
        self.path = path
        self._digests = array("Q")

    def __len__(self) -> int:
        return len(self._digests)

    def fill(self, pairs: Iterable[Pair]) -> None:
        """Writes the pairs."""
        write_jsonl(self.path, self._digested(pairs))

    def read(self, keep: np.ndarray) -> Iterator[Pair]:
        """The pairs marked in `keep`, booleans [pairs], in order."""
        return read_jsonl(self.path, keep)

    def first_of_equals(self, dropped: Dropped) -> np.ndarray:
        """Marks each pair unless one before it has the same source and target; booleans [pairs].

        Args:
            dropped: gets what is not marked, as "duplicate".
        """
        keep = np.zeros(len(self), bool)
        # By sorting: a Python set of 36 million digests would take several gigabytes.
        keep[np.unique(np.asarray(self._digests), return_index=True)[1]] = True
        for pair in self.read(~keep):
            dropped.add("duplicate", pair)
        return keep

    def _digested(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        for pair in pairs:
            digest = hashlib.blake2b(repr(pair).encode(), digest_size=8).digest()
            self._digests.append(int.from_bytes(digest))
            yield pair


def sample(keep: np.ndarray, limit: int) -> np.ndarray:
    """Marks at most `limit` of the pairs marked in `keep`, each as likely as any other (0: all); booleans [pairs]."""
    marked = np.flatnonzero(keep)
    if not limit or len(marked) <= limit:
        return keep
    chosen = np.zeros_like(keep)
    chosen[np.random.default_rng(SAMPLE_SEED).choice(marked, limit, replace=False)] = True
    return chosen
