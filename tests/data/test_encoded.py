import numpy as np
import pytest

from vaswani.data.encoded import EncodedPairs, Writer
from vaswani.errors import UserError


def test_large_vocabularies_take_four_bytes_and_cut_files_are_refused(tmp_path):
    with Writer(tmp_path, "x", 70_000) as writer:
        writer.append([[69_999, 5], []], [[6], [7, 8, 9]])
        writer.append([[10]], [[11]])
    pairs = EncodedPairs.load(tmp_path, "x")
    assert [pairs.source(i).tolist() for i in range(3)] == [[69_999, 5, 2], [2], [10, 2]]
    assert [pairs.target(i).tolist() for i in range(3)] == [[6, 2], [7, 8, 9, 2], [11, 2]]
    path = tmp_path / "x.target.npy"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(UserError, match=r"x\.target\.npy: cannot be read"):
        EncodedPairs.load(tmp_path, "x")


def write(directory, name, sources, targets):
    with Writer(directory, name, 340) as writer:
        writer.append(sources, targets)


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    write(tmp_path, "a", [[5], [6, 7], [8]], [[5], [6], [7]])
    write(tmp_path, "b", [[5]], [[6]])
    offsets = tmp_path / "a.source.offsets.npy"
    whole = offsets.read_bytes()
    np.save(offsets, np.load(offsets)[:-1])
    with pytest.raises(UserError, match=r"a\.source\.offsets\.npy: not the offsets of its sources"):
        EncodedPairs.load(tmp_path, "a")
    offsets.write_bytes(whole)
    for kind in ("npy", "offsets.npy"):
        (tmp_path / f"b.source.{kind}").replace(tmp_path / f"a.source.{kind}")
    with pytest.raises(UserError, match="a has 1 sources but 3 targets"):
        EncodedPairs.load(tmp_path, "a")


def test_the_digest_tells_texts_apart(tmp_path):
    """Also texts of equal counts, and the same ids divided otherwise."""
    texts = {
        "a": ([[5, 6], [7]], [[8], [9]]),
        "other id": ([[5, 6], [8]], [[8], [9]]),
        "swapped": ([[8], [9]], [[5, 6], [7]]),
        "divided otherwise": ([[5], [6, 7]], [[8], [9]]),
        "other order": ([[7], [5, 6]], [[9], [8]]),
    }
    for name, sides in texts.items():
        write(tmp_path, name, *sides)
    write(tmp_path, "again", *texts["a"])
    assert len({EncodedPairs.load(tmp_path, name).digest() for name in texts}) == len(texts)
    assert EncodedPairs.load(tmp_path, "again").digest() == EncodedPairs.load(tmp_path, "a").digest()
