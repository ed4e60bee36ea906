"""A run that version 0.1.0 made still translates, and training goes on from it."""

import json
import tarfile
from pathlib import Path

import pytest

from tests.workplace import Workplace

FIXTURE = Path(__file__).parent / "run_of_0.1.0.tar.gz"


@pytest.fixture
def old(tmp_path) -> Workplace:
    """The run's directory, its configuration old.toml, and what that version made of in.txt and
    of four more updates."""
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(tmp_path, filter="data")
    return Workplace(tmp_path / "old")


def test_it_translates_as_before(old):
    done = old.vaswani("translate", "run", "--scores", stdin=open(old.path / "in.txt"))  # noqa: SIM115

    def rows(text: str) -> list[tuple]:
        cells = (line.split("\t") for line in text.splitlines())
        return [(number, pytest.approx(float(score), abs=1e-3), text) for number, score, _, text in cells]

    assert rows(done.stdout) == rows((old.path / "expected.txt").read_text())


def test_training_goes_on_as_before(old):
    old.vaswani("train", "old.toml", "--run", "run", "--train.steps", "12")
    expected = [json.loads(line) for line in (old.path / "expected_metrics.jsonl").read_text().splitlines()]
    found = [json.loads(line) for line in (old.path / "run/metrics.jsonl").read_text().splitlines()][-len(expected) :]
    for before, now in zip(expected, found, strict=True):
        assert (now["kind"], now["step"]) == (before["kind"], before["step"])
        for key in before.keys() & {"loss", "nll", "lr", "perplexity", "gradient_norm"}:
            assert now[key] == pytest.approx(before[key], rel=1e-3)
