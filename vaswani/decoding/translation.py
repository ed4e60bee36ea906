"""What the search returns for a line of text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from vaswani.data.tokenizer import Tokenizer

Alignment = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Hypothesis:
    """One translation of one line."""

    text: str
    score: float
    """log_prob / ((5 + length) / 6)^α."""
    log_prob: float
    """log P(Y|X), natural logarithm."""
    length: int
    """Tokens, the end symbol counted."""
    ids: tuple[int, ...] = field(default=(), repr=False)
    """The token ids that the search found, with the end symbol. Encoding `text` again may give other ids."""
    tokens: tuple[str, ...] = field(default=(), repr=False)
    """The same tokens as pieces of text, without the end symbol; "▁" is a space."""
    alignment: Alignment | None = field(default=None, repr=False)
    """(i, j): token j of this translation attends most to token i of the source, both from 0. None if not asked for."""


BLANK = Hypothesis("", 0.0, 0.0, 0)


@dataclass(frozen=True)
class Translation:
    """The translations of one line. `text`, `score`, `tokens` and `alignment` are those of the best one."""

    source: str
    """The line."""
    source_tokens: tuple[str, ...] = field(repr=False)
    """Its tokens, as pieces of text. A line that is too long is translated up to `decode.max_source_length` tokens."""
    hypotheses: tuple[Hypothesis, ...]
    """The n best translations, the best first. There are fewer where the search has found fewer."""

    @property
    def text(self) -> str:
        """The best translation."""
        return self.hypotheses[0].text

    @property
    def score(self) -> float:
        """log P(Y|X) / ((5 + length) / 6)^α of the best translation."""
        return self.hypotheses[0].score

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the best translation, as pieces of text; "▁" is a space."""
        return self.hypotheses[0].tokens

    @property
    def alignment(self) -> Alignment | None:
        """Pairs (source token, token of the best translation), both from 0; None if no alignment was asked for."""
        return self.hypotheses[0].alignment

    def to_json(self) -> dict[str, Any]:
        """The object that `vaswani translate --json` prints for a line."""
        return {
            "source": self.source,
            "source_tokens": list(self.source_tokens),
            "hypotheses": [_to_json(hypothesis) for hypothesis in self.hypotheses],
        }


def with_sources(
    tokenizer: Tokenizer, lines: Sequence[str], found: Iterable[list[Hypothesis]]
) -> Iterator[Translation]:
    """Each line with its hypotheses."""
    for line, hypotheses in zip(lines, found, strict=True):
        pieces = tokenizer.pieces(tokenizer.encode(line)) if line.strip() else []
        yield Translation(line, tuple(pieces), tuple(hypotheses))


def pharaoh(alignment: Alignment) -> str:
    """
    >>> pharaoh(((0, 0), (2, 1)))
    '0-0 2-1'
    """
    return " ".join(f"{i}-{j}" for i, j in alignment)


def _to_json(hypothesis: Hypothesis) -> dict[str, Any]:
    values = {
        "text": hypothesis.text,
        "score": hypothesis.score,
        "log_prob": hypothesis.log_prob,
        "tokens": list(hypothesis.tokens),
    }
    return values if hypothesis.alignment is None else values | {"alignment": [list(p) for p in hypothesis.alignment]}
