from pathlib import Path

import pytest

from tests.data.texts import write_text


@pytest.fixture
def text(tmp_path) -> Path:
    return write_text(tmp_path / "text")


@pytest.fixture
def root(tmp_path) -> Path:
    """Where prepared corpora live."""
    return tmp_path / "prepared"
