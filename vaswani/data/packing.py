"""Several sentence pairs in each row of one fixed shape (the paper's section 5.1 batches by similar length instead).

Segment numbers keep the pairs of a row apart in all three attentions, and positions restart at each, so a packed pair
gives the same loss and gradients as the pair alone. One shape means one compilation, and every update but an epoch's
last holds the same number of rows.
"""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from vaswani.data.encoded import EncodedPairs
from vaswani.data.tokenizer import BEGIN, PAD
from vaswani.errors import UserError
from vaswani.schema import TrainConfig

# Pairs that are packed together. A larger window would hardly fill the rows better.
WINDOW = 4096

Row = list[int]  # the pairs in it
Ints = Any  # int32 arrays: numpy's as they are made, JAX's once they are on the devices


class Batch(NamedTuple):
    """One update's tokens; each array int32 [micro_batches, rows, row_length].

    Segment 0 is padding; segments 1, 2, … are the pairs of a row from the left, the same on both sides. The source ends
    with the end symbol. `target_output` is the target with its end symbol; `target_input` is the begin symbol and then
    the target.
    """

    source: Ints
    source_segments: Ints
    source_positions: Ints
    target_input: Ints
    target_output: Ints
    target_segments: Ints
    target_positions: Ints


class Shape(NamedTuple):
    """How the rows of one update lie on the devices."""

    micro_batches: int
    rows: int
    """Of one micro-batch, over all devices; a multiple of their number."""
    row_length: int

    @classmethod
    def of(cls, rows: int, row_length: int, max_tokens_per_device: int, devices: int) -> "Shape":
        """The fewest micro-batches that hold `rows` rows, of at most `max_tokens_per_device` tokens on each device."""
        most = max(1, max_tokens_per_device // row_length) * devices
        micro_batches = math.ceil(rows / most)
        return cls(micro_batches, math.ceil(rows / (micro_batches * devices)) * devices, row_length)


class TrainingBatches(Iterator[Batch]):
    """Endless updates, epoch after epoch, each pair exactly once an epoch.

    The plan of an epoch is a pure function of the lengths, the seed and the epoch, so `state` is two numbers:

        state = batches.state        # {"epoch": 0, "index": 17}: 17 updates of epoch 0 are done
        batches.state = state        # goes on with the 18th

    An update has ceil(tokens_per_update / row_length) rows on any number of devices. Empty rows fill up an epoch's last
    update, and every update whose rows the devices and micro-batches cannot share evenly.
    """

    def __init__(self, pairs: EncodedPairs, train: TrainConfig, devices: int):
        """Starts at the first update of epoch 0.

        Args:
            pairs: the training set.
            train: row_length, tokens_per_update (over all devices; padding counts too), max_tokens_per_device, and the
                seed that decides the order of the pairs.
            devices: how many share the rows of a micro-batch.

        Raises:
            UserError: no pairs, or a pair longer than a row.
        """
        if len(pairs) == 0:
            raise UserError("there are no training pairs to make batches of")
        self._pairs = pairs
        self._lengths = (pairs.source_lengths, pairs.target_lengths)
        _check_lengths(*self._lengths, train.row_length)
        self._rows_per_update = math.ceil(train.tokens_per_update / train.row_length)
        self._seed = train.seed
        self.shape = Shape.of(self._rows_per_update, train.row_length, train.max_tokens_per_device, devices)
        self.state = {"epoch": 0, "index": 0}

    @property
    def state(self) -> dict[str, int]:
        """The epoch, from 0, and how many of its updates are done."""
        return {"epoch": self._epoch, "index": self._index}

    @state.setter
    def state(self, state: dict[str, int]) -> None:
        """Plans the epoch up to the index again, without making its batches."""
        self._epoch, self._index = state["epoch"], state["index"]
        self._updates = islice(self._plan(), self._index, None)

    def __next__(self) -> Batch:
        rows = next(self._updates, None)
        if rows is None:
            self.state = {"epoch": self._epoch + 1, "index": 0}
            rows = next(self._updates)
        self._index += 1
        return lay_out(self._pairs, rows, self.shape)

    def _plan(self) -> Iterator[list[Row]]:
        rng = np.random.default_rng((self._seed, self._epoch))
        return _chunks(pack(*self._lengths, self.shape.row_length, rng), self._rows_per_update)


def one_pass(pairs: EncodedPairs, train: TrainConfig, devices: int) -> Iterator[Batch]:
    """Every pair once, packed, in a fixed order: for validation.

    Args:
        pairs: the validation set. No pair is dropped: if one is longer than `row_length`, all rows are as long as it
            needs, rounded up to a multiple of 64.
        train: row_length and max_tokens_per_device.
        devices: how many share the rows.

    Returns:
        Batches of one micro-batch, all of one shape; as few as the devices allow, the last filled up with empty rows.
    """
    longest = max(pairs.source_lengths.max(initial=0), pairs.target_lengths.max(initial=0))
    row_length = train.row_length if longest <= train.row_length else math.ceil(longest / 64) * 64
    rows = list(pack(pairs.source_lengths, pairs.target_lengths, row_length))
    shape = Shape.of(len(rows), row_length, train.max_tokens_per_device, devices)._replace(micro_batches=1)
    for chunk in _chunks(iter(rows), shape.rows):
        yield lay_out(pairs, chunk, shape)


def pack(
    source_lengths: np.ndarray, target_lengths: np.ndarray, row_length: int, rng: np.random.Generator | None = None
) -> Iterator[Row]:
    """Puts every pair into a row, so that neither side overflows.

    The pairs are shuffled and cut into windows of 4096. Each window is packed longest pair first, each pair into the
    first row that has room (first-fit decreasing). The window's rows are then shuffled, so that their order does not
    depend on the lengths of their pairs.

    Args:
        source_lengths: tokens of each pair's source, [n].
        target_lengths: tokens of each pair's target, [n].
        row_length: tokens of a row, a side; no pair is longer.
        rng: shuffles; without it pairs and rows keep the order of the windows.

    Yields:
        The pairs of each row.
    """
    n = len(source_lengths)
    order = np.arange(n) if rng is None else rng.permutation(n)
    for begin in range(0, n, WINDOW):
        window = order[begin : begin + WINDOW]
        rows = _first_fit_decreasing(window, source_lengths[window], target_lengths[window], row_length)
        for i in range(len(rows)) if rng is None else rng.permutation(len(rows)):
            yield rows[i]


def lay_out(pairs: EncodedPairs, rows: list[Row], shape: Shape) -> Batch:
    """The arrays of one update; rows beyond those given stay empty."""
    members = [pair for row in rows for pair in row]
    row = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    segment = np.concatenate([np.arange(1, len(r) + 1) for r in rows])
    source = _Side([pairs.source(pair) for pair in members], row, segment, shape)
    target = _Side([pairs.target(pair) for pair in members], row, segment, shape)
    shifted = np.roll(target.tokens, 1)
    shifted[target.positions == 0] = BEGIN
    return Batch(
        source=source.place(source.tokens),
        source_segments=source.place(source.segments),
        source_positions=source.place(source.positions),
        target_input=target.place(shifted),
        target_output=target.place(target.tokens),
        target_segments=target.place(target.segments),
        target_positions=target.place(target.positions),
    )


class _Side:
    """One side of an update as flat arrays over its tokens, and where each token belongs."""

    def __init__(self, sequences: list[np.ndarray], row: np.ndarray, segment: np.ndarray, shape: Shape):
        lengths = np.array([len(s) for s in sequences])
        begins = np.cumsum(lengths) - lengths
        row_begins = begins[segment == 1][row]  # where each pair's row begins; every row has a first pair
        self.tokens = np.concatenate(sequences).astype(np.int32)
        self.segments = np.repeat(segment, lengths)
        self.positions = np.arange(len(self.tokens)) - np.repeat(begins, lengths)
        self._slots = np.repeat(row * shape.row_length + begins - row_begins, lengths) + self.positions
        self._shape = shape

    def place(self, values: np.ndarray) -> np.ndarray:
        """[tokens] to [micro_batches, rows, row_length]."""
        placed = np.full(math.prod(self._shape), PAD, np.int32)  # PAD = segment 0 = position 0
        placed[self._slots] = values
        return placed.reshape(self._shape)


def _first_fit_decreasing(pairs: np.ndarray, sources: np.ndarray, targets: np.ndarray, row_length: int) -> list[Row]:
    """Rows of the given pairs, whose lengths are `sources` and `targets`."""
    room_source = np.full(len(pairs), row_length)
    room_target = np.full(len(pairs), row_length)
    rows: list[Row] = []
    longest_first = np.argsort(-np.maximum(sources, targets), kind="stable")
    columns = (values[longest_first].tolist() for values in (pairs, sources, targets))
    for pair, source, target in zip(*columns, strict=True):
        n = len(rows) + 1  # the last of these is still empty: one row always fits
        fits = (room_source[:n] >= source) & (room_target[:n] >= target)
        row = int(fits.argmax())
        if row == len(rows):
            rows.append([])
        rows[row].append(pair)
        room_source[row] -= source
        room_target[row] -= target
    return rows


def _chunks(rows: Iterator[Row], size: int) -> Iterator[list[Row]]:
    while chunk := list(islice(rows, size)):
        yield chunk


def _check_lengths(source_lengths: np.ndarray, target_lengths: np.ndarray, row_length: int) -> None:
    longest = int(max(source_lengths.max(), target_lengths.max()))
    if longest > row_length:
        raise UserError(
            f"train.row_length = {row_length}: the longest training pair has {longest} tokens and fits no row; "
            f"make row_length at least {longest}, or prepare the corpus with a smaller data.max_tokens"
        )
