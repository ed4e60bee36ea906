from itertools import islice

import numpy as np
import pytest

from vaswani.data.encoded import EncodedPairs
from vaswani.data.packing import Shape, TrainingBatches, lay_out, one_pass, pack
from vaswani.data.tokenizer import BEGIN, END
from vaswani.errors import UserError
from vaswani.schema import TrainConfig


def encoded(sources, targets):
    """EncodedPairs of the given ids, to which end symbols are added."""
    sides = []
    for sequences in (sources, targets):
        ended = [[*ids, END] for ids in sequences]
        sides += [np.concatenate(ended).astype(np.uint16), np.cumsum([0, *map(len, ended)])]
    return EncodedPairs(*sides)


def numbered(n, longest=20, seed=0):
    """Pairs of random lengths whose ids tell which pair they belong to."""
    lengths = np.random.default_rng(seed).integers(0, longest, (2, n))
    return encoded(*([[4 + i] * length for i, length in enumerate(side)] for side in lengths))


def unpacked(batch):
    """The (source, target input, target output) of every pair in a batch, as its segments say; checks positions."""
    unpacked_pairs = []
    flat = {name: array.reshape(-1, array.shape[-1]) for name, array in batch._asdict().items()}
    for row in range(len(flat["source"])):
        source_segments, target_segments = flat["source_segments"][row], flat["target_segments"][row]
        assert set(source_segments) | {0} == set(target_segments) | {0} == set(range(source_segments.max() + 1))
        for segment in range(1, source_segments.max() + 1):
            ours, theirs = source_segments == segment, target_segments == segment
            assert flat["source_positions"][row][ours].tolist() == list(range(ours.sum()))
            assert flat["target_positions"][row][theirs].tolist() == list(range(theirs.sum()))
            pair = (flat["source"][row][ours], flat["target_input"][row][theirs], flat["target_output"][row][theirs])
            unpacked_pairs.append(tuple(map(tuple, pair)))
        for side in ("source", "target"):
            padding = flat[f"{side}_segments"][row] == 0
            assert not flat[f"{side}_positions"][row][padding].any()
            assert not flat["source" if side == "source" else "target_output"][row][padding].any()
    return unpacked_pairs


def expected(pairs):
    return sorted(
        (tuple(pairs.source(i)), (BEGIN, *pairs.target(i)[:-1]), tuple(pairs.target(i))) for i in range(len(pairs))
    )


def training(pairs, devices=1, **settings):
    defaults = dict(row_length=32, tokens_per_update=300, max_tokens_per_device=64, seed=1)
    return TrainingBatches(pairs, TrainConfig(**(defaults | settings)), devices)


def test_two_pairs_in_a_row_by_hand():
    pairs = encoded([[5, 6], [7]], [[8], [9, 10]])
    batch = lay_out(pairs, [[1, 0]], Shape(micro_batches=1, rows=2, row_length=7))
    empty = [0] * 7
    assert batch.source.tolist() == [[[7, END, 5, 6, END, 0, 0], empty]]
    assert batch.source_segments.tolist() == [[[1, 1, 2, 2, 2, 0, 0], empty]]
    assert batch.source_positions.tolist() == [[[0, 1, 0, 1, 2, 0, 0], empty]]
    assert batch.target_input.tolist() == [[[BEGIN, 9, 10, BEGIN, 8, 0, 0], empty]]
    assert batch.target_output.tolist() == [[[9, 10, END, 8, END, 0, 0], empty]]
    assert batch.target_segments.tolist() == [[[1, 1, 1, 2, 2, 0, 0], empty]]
    assert batch.target_positions.tolist() == [[[0, 1, 2, 0, 1, 0, 0], empty]]
    assert all(array.dtype == np.int32 for array in batch)


@pytest.mark.parametrize(
    ("rows", "most", "devices", "shape"),
    [
        (98, 8192, 1, (4, 25)),
        (98, 8192, 2, (2, 50)),
        (98, 8192, 8, (1, 104)),
        (10, 2560, 1, (1, 10)),
        (3, 256, 2, (2, 2)),
    ],
)
def test_shape_is_the_fewest_micro_batches_that_fit_the_devices(rows, most, devices, shape):
    got = Shape.of(rows, 256, most, devices)
    assert got[:2] == shape
    assert got.rows // devices * 256 <= most and got.micro_batches * got.rows >= rows


@pytest.mark.parametrize("devices", [1, 2, 8])
def test_an_epoch_holds_every_pair_once_and_tokens_per_update_hold_on_any_number_of_devices(devices):
    pairs = numbered(5000)  # more than one window
    batches = training(pairs, devices=devices)
    unpacked_pairs, updates, rows = [], 0, []
    while batches.state["epoch"] == 0:
        batch = next(batches)
        assert batch.source.shape == batches.shape
        if batches.state["epoch"] == 0:
            rows.append(int(batch.source_segments.any(-1).sum()))
            unpacked_pairs += unpacked(batch)
            updates += 1
    assert sorted(unpacked_pairs) == expected(pairs)
    assert set(rows[:-1]) == {10}  # ceil(300 / 32)
    assert 1 <= rows[-1] <= 10


def test_order_follows_from_seed_and_epoch():
    pairs = numbered(400)
    first = list(islice(training(pairs), 200))
    for a, b in zip(first, training(pairs, devices=2), strict=False):  # the same rows, wherever they lie
        assert unpacked(a) == unpacked(b)
    epochs = training(pairs)
    epochs.state = {"epoch": 1, "index": 0}
    assert unpacked(next(epochs)) != unpacked(first[0])
    assert unpacked(next(training(pairs, seed=2))) != unpacked(first[0])


@pytest.mark.parametrize("done", [0, 3, 27, 28, 60])
def test_a_restored_state_goes_on_exactly(done):
    pairs = numbered(800)
    whole = training(pairs)
    for _ in range(done):
        next(whole)
    state = dict(whole.state)
    restored = training(pairs)
    restored.state = state
    for _ in range(40):  # beyond the end of an epoch
        for a, b in zip(next(whole), next(restored), strict=True):
            assert (a == b).all()
    assert whole.state == restored.state
    assert done + 40 == sum_of_updates(training(pairs), whole.state)


def sum_of_updates(batches, state):
    """How many updates lead to a state."""
    count = 0
    while batches.state != state:
        next(batches)
        count += 1
    return count


def test_rows_are_well_filled_and_in_random_order():
    # Lengths like those of image captions: 15 tokens a side, correlated.
    rng = np.random.default_rng(0)
    common = rng.gamma(12, 1.0, 10_000)
    source, target = (np.clip(common + rng.normal(3, 2, 10_000), 2, 60).astype(int) for _ in range(2))
    rows = list(pack(source, target, 64, np.random.default_rng(1)))
    for lengths in (source, target):
        assert lengths.sum() / (len(rows) * 64) >= 0.93
        assert max(lengths[row].sum() for row in rows) <= 64
    # A packer that leaves its order in place puts the longest pairs into a window's first rows.
    pairs_per_row = np.array([len(row) for row in rows[:1000]])
    halves = pairs_per_row[:500].mean(), pairs_per_row[500:].mean()
    assert abs(halves[0] - halves[1]) < 4 * pairs_per_row.std() / 500**0.5


def test_a_pair_longer_than_a_row_or_no_pair_is_an_error():
    pairs = encoded([[5] * 3, [5]], [[5], [5] * 32])
    with pytest.raises(UserError, match=r"train\.row_length = 32: the longest training pair has 33 tokens"):
        training(pairs)
    with pytest.raises(UserError, match="no training pairs"):
        training(EncodedPairs(*[np.zeros(n, np.int64) for n in (0, 1, 0, 1)]))


@pytest.mark.parametrize("devices", [1, 2])
def test_one_pass_takes_every_pair_in_one_shape(devices):
    pairs = numbered(300)
    batches = list(one_pass(pairs, TrainConfig(row_length=32, max_tokens_per_device=128), devices))
    (shape,) = {
        batch.source.shape for batch in batches
    }  # one shape, and no more empty rows than batches and devices force
    assert shape[0] == 1 and shape[1] % devices == 0 and shape[1] <= 4 * devices and shape[2] == 32
    filled = sum(int(batch.source_segments.any(-1).sum()) for batch in batches)
    assert len(batches) == -(-filled // (4 * devices))
    assert len(batches) * shape[1] - filled < len(batches) * devices
    assert sorted(p for batch in batches for p in unpacked(batch)) == expected(pairs)


def test_one_pass_drops_nothing_that_is_too_long_and_is_no_larger_than_needed():
    pairs = encoded([[5] * 70, [6]], [[7] * 3, [8]])
    (batch,) = one_pass(pairs, TrainConfig(row_length=32, max_tokens_per_device=1024), devices=1)
    assert batch.source.shape == (1, 1, 128)
    assert sorted(unpacked(batch)) == expected(pairs)
