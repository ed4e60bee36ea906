"""The joint byte-pair encoding (section 5.1), by SentencePiece.

Text is not normalised: `decode(encode(text))` is the text, also for emoji, tabs, NUL, combining accents or a "</s>"
that is written out. Characters too rare for a piece of their own are spelled in bytes, so nothing is unknown. Two
exceptions: "▁" (U+2581), SentencePiece's own sign for a space, and line ends come out as spaces.
"""

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from vaswani.errors import UserError
from vaswani.files import atomic_path, read_failure

PAD, BEGIN, END, UNKNOWN = 0, 1, 2, 3
SPECIALS = (PAD, BEGIN, END, UNKNOWN)

# SentencePiece learns from no line that is longer, or that holds the sign it uses for unknown characters.
MAX_LINE_BYTES = 4192
RESERVED = "\u2585"
# Fixed, so that the pieces do not depend on how many cores a machine has.
THREADS = 8
# The rarest 0.01% of the characters are spelled in bytes: in a large corpus those are thousands, each seen a few times.
CHARACTER_COVERAGE = 0.9999

SETTINGS: dict[str, Any] = dict(
    model_type="bpe",
    character_coverage=CHARACTER_COVERAGE,
    byte_fallback=True,
    normalization_rule_name="identity",
    remove_extra_whitespaces=False,
    # So a word has the same piece at a line's start as within it; decoding takes the space away again.
    add_dummy_prefix=True,
    pad_id=PAD,
    bos_id=BEGIN,
    eos_id=END,
    unk_id=UNKNOWN,
    num_threads=THREADS,
    minloglevel=2,
)
"""SentencePiece's options for learning, but for the size of the vocabulary."""


class Tokenizer:
    """Text to ids of joint pieces, and back.

    Example:
        tokenizer = Tokenizer.load("prepared/toy/tokenizer.model")
        tokenizer.decode(tokenizer.encode("Two dogs."))  # 'Two dogs.'
    """

    def __init__(self, model: bytes, name: str = "tokenizer"):
        """Takes the bytes of a SentencePiece model (a path would be split at its commas).

        Raises:
            UserError: not a model, or one with other special symbols; `name` says which file.
        """
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except Exception:  # the library raises several kinds for a broken model
            raise UserError(f"{name}: not a SentencePiece model") from None
        processor = self._processor
        specials = (processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id())
        if specials != SPECIALS:
            raise UserError(f"{name}: its pad, begin, end and unknown symbols are {specials}, not {SPECIALS}")
        self.vocab_size: int = processor.vocab_size()
        self.checksum: str = hashlib.sha256(model).hexdigest()
        """Of the model file; two tokenizers of one size need not be the same tokenizer."""

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Reads a `tokenizer.model`.

        Raises:
            UserError: no such file, or not a tokenizer of ours.
        """
        try:
            return cls(Path(path).read_bytes(), name=str(path))
        except FileNotFoundError:
            raise UserError(
                f"{path}: no such tokenizer; `vaswani prepare` makes prepared/NAME/tokenizer.model, a run has a copy"
            ) from None
        except OSError as error:
            raise read_failure(Path(path), error) from None

    def encode(self, text: str) -> list[int]:
        """The ids of the text's pieces, without begin and end symbols."""
        return self._processor.encode(text)

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """`encode` of each text, in threads."""
        return self._processor.encode(texts, num_threads=THREADS)

    def decode(self, ids: Iterable[int]) -> str:
        """One line of text: special symbols are left out, and a line end spelled in bytes becomes a space."""
        text = self._processor.decode([int(i) for i in ids if i not in SPECIALS])
        return text.replace("\r", " ").replace("\n", " ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces' own spellings, "▁" for a space."""
        return [self._processor.id_to_piece(int(i)) for i in ids]


def check_same_tokenizer(where: str | Path, checksum: str, expected: str, owner: str | Path, advice: str) -> None:
    """Refuses a tokenizer that would give ids of another vocabulary.

    Args:
        where: the tokenizer's file, for the message.
        checksum: `Tokenizer.checksum` of that file.
        expected: the checksum that `owner` was made with.
        owner: what needs the tokenizer: a prepared corpus, a checkpoint.
        advice: what to do.

    Raises:
        UserError: the checksums differ.
    """
    if checksum != expected:
        raise UserError(f"{where}: not the tokenizer of {owner}; {advice}")


def learn(lines: Iterable[str], vocab_size: int, path: Path) -> dict[str, Any]:
    """Learns the byte-pair encoding and writes it. The same lines give the same pieces.

    A line that SentencePiece would leave out is cut into parts, so that no character is lost.

    Args:
        lines: text of both languages.
        vocab_size: pieces in all: 4 special symbols, 256 bytes, characters and merges.
        path: the model file to write.

    Returns:
        How many lines were given ("lines"), how many of them were cut ("cut"), and how the first of these begins
        ("first_cut", only if there is one).

    Raises:
        UserError: the corpus yields fewer pieces, or needs more, than `vocab_size`; names the limit.
    """
    report: dict[str, Any] = {"lines": 0, "cut": 0}
    failures: list[BaseException] = []
    model = io.BytesIO()

    def parts() -> Iterator[str]:
        try:
            yield from _learnable(lines, report)
        except BaseException as error:  # the library would turn it into a RuntimeError
            failures.append(error)
            raise

    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=parts(), model_writer=model, vocab_size=vocab_size, **SETTINGS
        )
    except RuntimeError as error:
        raise failures[0] if failures else _explain(str(error), vocab_size) from None
    with atomic_path(path) as temporary:
        temporary.write_bytes(model.getvalue())
    return report


def _learnable(lines: Iterable[str], report: dict[str, Any]) -> Iterator[str]:
    """The lines, those cut that SentencePiece would leave out; writes into `report` what `learn` returns."""
    for line in lines:
        report["lines"] += 1
        # len(line) first: most lines are far too short to need encoding
        too_long = len(line) * 4 > MAX_LINE_BYTES and len(line.encode()) > MAX_LINE_BYTES
        if too_long or RESERVED in line:
            report["cut"] += 1
            report.setdefault("first_cut", line[:40])
            yield from cut(line)
        else:
            yield line


def cut(line: str) -> Iterator[str]:
    """The parts of a line that SentencePiece can learn from.

    Cuts out U+2585, and cuts what is longer than 4192 bytes: at a space where one can be found, since every part is
    learned from as if a space stood before it.
    """
    for text in line.split(RESERVED):
        begin = 0
        while begin < len(text):
            most = text[begin : begin + MAX_LINE_BYTES].encode()[:MAX_LINE_BYTES].decode(errors="ignore")
            end = begin + len(most)
            if end < len(text):
                space = text.rfind(" ", begin + 1, end + 1)
                end = space if space != -1 else end
            yield text[begin:end]
            begin = end + text.startswith(" ", end)


def _explain(message: str, vocab_size: int) -> Exception:
    """The user's error behind one of SentencePiece's checks."""
    if match := re.search(r"set it to a value <= (\d+)", message):
        return UserError(
            f"data.vocab_size = {vocab_size} is too large for this corpus: it yields at most {match[1]} pieces"
        )
    if match := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return UserError(
            f"data.vocab_size = {vocab_size} is too small: special symbols, bytes and characters alone are {match[1]}"
        )
    if "!sentences_.empty()" in message:
        return UserError("no text to learn a byte-pair encoding from: every line is empty, or holds only U+2585")
    return RuntimeError(message)
