"""A Marian vocabulary as one SentencePiece model with our special symbols.

Marian has a SentencePiece model for each language, which cuts text into pieces, and vocab.json, which numbers the
pieces of both. A run of ours has one SentencePiece model that does both, for both languages.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from vaswani.data.tokenizer import BEGIN, SPECIALS, UNKNOWN
from vaswani.errors import UserError


class MarianSpecials(NamedTuple):
    """Marian's ids of the special symbols, in the order of ours."""

    pad: int
    begin: int
    """What decoding starts with; often the same as `pad`."""
    end: int
    unknown: int


def joint_tokenizer(
    model: bytes, vocabulary: Mapping[str, int], specials: MarianSpecials, name: str
) -> tuple[bytes, np.ndarray]:
    """Renumbers the pieces of a SentencePiece model: our special symbols first, the others in Marian's order.

    Text is cut as before, since a piece keeps its score and kind.

    Args:
        model: the SentencePiece model of both languages.
        vocabulary: vocab.json, {piece: id}.
        name: the folder, for messages.

    Returns:
        the new model, and which of Marian's ids each of its pieces was, [V].

    Raises:
        UserError: the vocabulary is not that of the model.
    """
    try:
        from sentencepiece import sentencepiece_model_pb2
    except ImportError:
        raise UserError("reading a vocabulary needs the package protobuf: pip install 'vaswani[export]'") from None

    proto: Any = sentencepiece_model_pb2.ModelProto()  # pyright: ignore[reportAttributeAccessIssue]
    proto.ParseFromString(model)
    tokens = _tokens(vocabulary, name)
    if not all(0 <= i < len(tokens) for i in specials):
        raise UserError(f"{name}: the special symbols {tuple(specials)} are not all among its {len(tokens)} tokens")
    ordinary = [i for i in range(len(tokens)) if i not in specials]
    existing = {piece.piece: piece for piece in proto.pieces}
    _check_same_pieces(existing, [tokens[i] for i in ordinary], tokens, name)
    rows = np.array([*specials, *ordinary])
    names = [tokens[i] for i in rows]
    if specials.begin == specials.pad:  # two symbols of ours, which need two names
        names[BEGIN] = next(name for name in ("<s>", "<begin>") if name not in vocabulary)
    elif specials.begin in (specials.end, specials.unknown):
        raise UserError(f"{name}: decoding starts with {tokens[specials.begin]!r}, which has another meaning as well")
    if [piece.piece for piece in proto.pieces] == names:
        return model, rows

    Piece = type(proto.pieces[0])
    special = [Piece(piece=names[i], type=Piece.UNKNOWN if i == UNKNOWN else Piece.CONTROL) for i in SPECIALS]
    del proto.pieces[:]
    proto.pieces.extend([*special, *(existing[tokens[i]] for i in ordinary)])
    trainer = proto.trainer_spec
    trainer.pad_id, trainer.bos_id, trainer.eos_id, trainer.unk_id = SPECIALS
    trainer.pad_piece, trainer.bos_piece, trainer.eos_piece, trainer.unk_piece = (names[i] for i in SPECIALS)
    trainer.vocab_size = len(names)
    return proto.SerializeToString(), rows


def _tokens(vocabulary: Mapping[str, int], name: str) -> list[str]:
    """The tokens by id."""
    tokens = sorted(vocabulary, key=lambda token: vocabulary[token])
    if [vocabulary[token] for token in tokens] != list(range(len(tokens))):
        raise UserError(f"{name}: the ids of vocab.json are not 0, 1, 2, …, each for one token")
    return tokens


def _check_same_pieces(existing: Mapping[str, Any], ordinary: list[str], tokens: list[str], name: str) -> None:
    """Refuses tokens that no text is cut into, and pieces that have no id."""
    if unknown := [token for token in ordinary if token not in existing]:
        raise UserError(
            f"{name}: {len(unknown):,} tokens of vocab.json, as {unknown[0]!r}, are no pieces of source.spm; a run has "
            "one SentencePiece model, with all of its vocabulary"
        )
    of_text = {
        piece.piece for piece in existing.values() if piece.type in (piece.NORMAL, piece.USER_DEFINED, piece.BYTE)
    }
    if without_id := sorted(of_text - {*tokens}):
        raise UserError(
            f"{name}: {len(without_id):,} pieces of source.spm, as {without_id[0]!r}, have no id in vocab.json; a run "
            "has one SentencePiece model, with its vocabulary and nothing else"
        )
