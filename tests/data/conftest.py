from pathlib import Path

import pytest

from tests.data.texts import VALID, WORDS, write_lines


@pytest.fixture
def text(tmp_path) -> Path:
    """A directory of small files: 100 good training pairs, and one of every sort that is dropped."""
    directory = tmp_path / "text"
    directory.mkdir()
    good = [(f"{a} {b} apples.", f"{a[::-1]} {b[::-1]} Äpfel.") for a in WORDS for b in WORDS]
    bad = [("", "leer"), ("x", "viel zu lang"), good[0], good[3], ("ß " * 80, "ü " * 80)]
    write_lines(directory, "train", good[:50] + bad + good[50:])
    write_lines(directory, "valid", VALID)
    write_lines(directory, "test", [("Last.", "\r Letzte.")])
    return directory


@pytest.fixture
def root(tmp_path) -> Path:
    """Where prepared corpora live."""
    return tmp_path / "prepared"
