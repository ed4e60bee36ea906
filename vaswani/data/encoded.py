"""Token ids of sentence pairs on disk. They are read through memory maps, so a large corpus takes no more memory."""

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import TracebackType

import numpy as np

from vaswani.data.tokenizer import END
from vaswani.errors import UserError

SIDES = ("source", "target")


@dataclass(frozen=True)
class EncodedPairs:
    """The pairs of one set. Every sequence ends with the end symbol."""

    source_ids: np.ndarray
    """All sources, one after the other, [tokens]."""
    source_offsets: np.ndarray
    """Source i is source_ids[source_offsets[i] : source_offsets[i + 1]], [pairs + 1]."""
    target_ids: np.ndarray
    target_offsets: np.ndarray

    @classmethod
    def load(cls, directory: Path, name: str) -> "EncodedPairs":
        """Maps the files of set `name` that `Writer` wrote.

        Raises:
            UserError: a file is missing or cut off, or does not belong to the other files of the set.
        """
        arrays = []
        for file in cls.files(name):
            path = directory / file
            try:
                # A plain view: slices of np.memmap itself are several times slower.
                arrays.append(np.load(path, mmap_mode="r").view(np.ndarray))
            except (OSError, ValueError) as error:
                why = str(error).split("\n")[0]
                raise UserError(f"{path}: cannot be read ({why}); remove {directory} and prepare again") from None
        pairs = cls(*arrays)
        for side, ids, offsets in zip(SIDES, arrays[::2], arrays[1::2], strict=True):
            if len(offsets) == 0 or offsets[-1] != len(ids):
                raise UserError(
                    f"{directory / name}.{side}.offsets.npy: not the offsets of its {side}s; "
                    f"remove {directory} and prepare again"
                )
        sources, targets = len(pairs.source_offsets) - 1, len(pairs.target_offsets) - 1
        if sources != targets:
            raise UserError(
                f"{directory}: {name} has {sources} sources but {targets} targets; remove {directory} and prepare again"
            )
        return pairs

    @staticmethod
    def files(name: str) -> list[str]:
        """The names of set `name`'s files, in the order of the fields."""
        return [f"{name}.{side}.{kind}" for side in SIDES for kind in ("npy", "offsets.npy")]

    def digest(self) -> str:
        """SHA-256 of all ids and offsets: the same for the same text and tokenizer."""
        sha256 = hashlib.sha256()
        for values in (self.source_ids, self.source_offsets, self.target_ids, self.target_offsets):
            sha256.update(values.data)
        return sha256.hexdigest()

    def __len__(self) -> int:
        return len(self.source_offsets) - 1

    def source(self, i: int) -> np.ndarray:
        """Ids of source i, its end symbol included."""
        return self.source_ids[self.source_offsets[i] : self.source_offsets[i + 1]]

    def target(self, i: int) -> np.ndarray:
        """Ids of target i, its end symbol included."""
        return self.target_ids[self.target_offsets[i] : self.target_offsets[i + 1]]

    @property
    def source_lengths(self) -> np.ndarray:
        """Tokens of each source, end symbol counted, int32 [pairs]."""
        return np.diff(self.source_offsets).astype(np.int32)

    @property
    def target_lengths(self) -> np.ndarray:
        """Tokens of each target, end symbol counted, int32 [pairs]."""
        return np.diff(self.target_offsets).astype(np.int32)


class Writer:
    """Writes one set's pairs as they come; a context manager.

    Makes {name}.{source,target}.npy with the ids, uint16 where the vocabulary allows, and
    {name}.{source,target}.offsets.npy, int64. An empty `[]` becomes the end symbol alone.
    """

    def __init__(self, directory: Path, name: str, vocab_size: int):
        self._sides = [_Flat(directory / f"{name}.{side}", vocab_size) for side in SIDES]

    def append(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> None:
        """Adds pairs, given without end symbols."""
        for side, sequences in zip(self._sides, (sources, targets), strict=True):
            side.append(sequences)

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for side in self._sides:
            side.close(complete=error is None)


class _Flat:
    """A growing flat .npy file and the lengths of what is in it."""

    def __init__(self, stem: Path, vocab_size: int):
        self._stem = stem
        self._dtype = np.dtype(np.uint16 if vocab_size <= 2**16 else np.uint32)
        self._lengths = array("i")
        self._file = open(f"{stem}.npy", "wb")  # noqa: SIM115 (closed by `close`)
        self._write_header()

    def append(self, sequences: Sequence[list[int]]) -> None:
        self._lengths.extend(len(ids) + 1 for ids in sequences)
        flat = chain.from_iterable(chain(ids, (END,)) for ids in sequences)
        self._file.write(np.fromiter(flat, self._dtype).tobytes())

    def close(self, complete: bool) -> None:
        with self._file:
            if complete:
                # numpy pads its header so that a first axis can grow in place
                self._file.seek(0)
                self._write_header()
                offsets = np.zeros(len(self._lengths) + 1, np.int64)
                np.cumsum(self._lengths, out=offsets[1:])
                np.save(f"{self._stem}.offsets.npy", offsets)

    def _write_header(self) -> None:
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (sum(self._lengths),),
        }
        np.lib.format.write_array_header_1_0(self._file, header)
