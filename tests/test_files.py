"""A file is written whole or not at all, and what fails is one line."""

import errno
import json

import pytest

from vaswani.errors import UserError, WorkFailed
from vaswani.files import atomic_path, read_json, write_json, write_text
from vaswani.runs.events import read_events


def names(directory):
    return sorted(p.name for p in directory.iterdir())


def test_a_written_file_appears_whole_and_keeps_its_suffix(tmp_path):
    path = tmp_path / "new" / "x.npy"
    with atomic_path(path) as temporary:
        temporary.write_bytes(b"abc")
        assert temporary.suffix == ".npy" and not path.exists()
    assert path.read_bytes() == b"abc"
    write_text(path, "ü\r\n\u2028\n")
    assert path.read_bytes() == "ü\r\n\u2028\n".encode()  # no line end is translated
    assert names(path.parent) == ["x.npy"]


def test_a_failed_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "scores.json"
    write_json(path, {"bleu": 27.3})
    with pytest.raises(KeyError), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise KeyError
    assert json.loads(path.read_text()) == {"bleu": 27.3}
    assert names(tmp_path) == ["scores.json"]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), OSError("4096 requested and 0 written")]
)
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, error):
    message = r"x\.npy: cannot be written: no space left on the disk"
    with pytest.raises(WorkFailed, match=message) as caught, atomic_path(tmp_path / "x.npy") as temporary:
        temporary.write_text("half")
        raise error
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == []


def test_a_place_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkFailed, match="cannot be written"):
        write_text(tmp_path / "file" / "x", "")


def test_an_error_of_reading_is_not_taken_for_one_of_writing(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "out"):
        (tmp_path / "missing").read_text()


def test_what_cannot_be_read_is_one_line(tmp_path):
    for read in (read_json, read_events):
        assert not read(tmp_path / "missing")
        with pytest.raises(UserError, match=f"{tmp_path}: cannot be read: Is a directory"):
            read(tmp_path)
