"""SIGKILL at any moment: the same command goes on, and ends with the bits of a run that was never killed."""

import random
from collections import Counter

import pytest

from tests.reliability.harness import assert_same_training, file, killed, moments_of_training, same_arrays

TRAIN = ["train", "tiny.toml", "--train.log-every", "1", "--train.valid-every", "10", "--train.checkpoint-every", "5"]


def names(directory) -> list[str]:
    return sorted(path.name for path in directory.glob("*"))


def half_written(directory) -> set[tuple[str, int]]:
    """What a kill has left, by name and inode."""
    return {(path.name, path.stat().st_ino) for path in directory.glob("*.[no][el][wd]")}


@pytest.mark.parametrize(
    "kills",
    [pytest.param(6, marks=pytest.mark.slow), pytest.param(30, marks=[pytest.mark.slow, pytest.mark.timeout(3000)])],
)
def test_a_training_killed_at_random_moments_ends_with_the_same_bits(prepared, kills):
    """In compiling, an update, a validation, the writing of a checkpoint, and by the clock, in turn."""
    run = prepared.path / "runs/killed"
    command = [*TRAIN, "--train.steps", str(10 * kills), "--run"]
    moments = moments_of_training(run, random.Random(kills))
    counts, left = Counter(), set()
    for i in range(kills):
        start = killed(prepared, [*command, "runs/killed"], moments[i % len(moments)]())
        before, left = left, half_written(run / "checkpoints")
        counts[start.moment, bool(left - before)] += 1
        assert start.exit_code == -9, f"{start.moment}: ended before its kill"
        assert "Traceback" not in start.stderr and "broken" not in start.stderr
    for (moment, half), count in counts.items():  # for `pytest -s`
        print(f"{moment}: {count} kills", "that left a checkpoint half-written or half-deleted" if half else "")

    prepared.vaswani(*command, "runs/killed")
    prepared.vaswani(*command, "runs/straight")
    assert_same_training(run, prepared.path / "runs/straight")
    assert names(run / "checkpoints") == names(prepared.path / "runs/straight/checkpoints")
    assert not half_written(run / "checkpoints")


@pytest.mark.parametrize(
    "pattern",
    [
        "averaged.new/manifest.json",
        *(pytest.param(p, marks=pytest.mark.slow) for p in ("averaged.new", "averaged.old")),
    ],
)
def test_an_averaging_that_is_killed_is_made_again(trained, pattern):
    """The parameters averaged before stay until the new ones are whole."""
    run, command = trained.path / "runs/tiny", ["average", "runs/tiny", "--last"]
    trained.vaswani(*command, "2")
    (run / "averaged").rename(run / "expected")
    trained.vaswani(*command, "4")
    before = names(run)
    assert killed(trained, [*command, "2"], file("averaging", run, pattern)).exit_code == -9
    status = trained.vaswani("status", "--json").stdout
    assert '"averaged": true' in status
    trained.vaswani(*command, "2")
    assert same_arrays(run / "averaged", run / "expected") and names(run) == before
