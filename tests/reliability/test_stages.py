"""`reproduce` and `ablate` killed in each of their stages end with what an undisturbed one makes."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from conftest import TINY
from tests.reliability.harness import Moment, file, killed, line, records, same_arrays
from tests.workplace import Workplace
from vaswani.runs.directory import RunDirectory


def moments_of_reproduce(work: Path) -> list[Moment]:
    """One in each stage and one between two, in their order."""
    run = work / "runs/tiny"
    return [
        file("prepare", work, "prepared/.tiny.partial/*.jsonl"),
        line("learning the pieces", "learning"),
        line("prepared", "train: .* pairs"),
        line("train", "step 8/"),
        line("trained", "done at step 12"),
        file("average", run, "averaged.new/*"),
        line("averaged", "averaged the checkpoints", later=0.5),
        file("evaluate", run, "translations/*"),
        file("evaluated", run, "evaluation.json"),
        file("report", run, "evaluation.json", later=0.2),
    ]


def is_slow(*values):
    return pytest.param(*values, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])


@pytest.mark.parametrize("stages", [("train", "average", "evaluate"), is_slow(None)], ids=["three", "all"])
def test_a_reproduction_killed_in_its_stages_ends_the_same(_trained, tmp_path, stages):
    works = [Workplace(tmp_path / name) for name in ("killed", "straight")]
    for work in works:
        work.path.mkdir()
        (work.path / "tiny.toml").write_text(TINY)
    work, straight = works
    command = ["reproduce", "tiny.toml", "--train.log-every", "1"]
    for moment in moments_of_reproduce(work.path):
        if stages is None or moment.name in stages:
            start = killed(work, command, moment)
            assert start.exit_code == -signal.SIGKILL and "Traceback" not in start.stderr, (moment.name, start.stderr)
    done = work.vaswani(*command)
    assert done.stdout == straight.vaswani(*command).stdout

    ours, expected = (w.path / "runs/tiny" for w in works)
    assert records(ours) == records(expected)
    assert same_arrays(ours / "averaged", expected / "averaged")
    for path in (expected.parents[1] / "prepared/tiny").iterdir():
        assert (ours.parents[1] / "prepared/tiny" / path.name).read_bytes() == path.read_bytes(), path.name
    for name in ("evaluation.json", "translations/test.txt", "config.toml"):
        assert (ours / name).read_bytes() == (expected / name).read_bytes(), name
    assert (ours / "report.html").exists() and not list((work.path / "prepared").glob("*.partial"))


@pytest.mark.slow
def test_a_sweep_killed_with_two_runs_going_on_ends_the_same(prepared):
    """The two runs notice that their parent has gone, save, and leave; the same command makes the table."""
    (prepared.path / "reseeded.toml").write_text("[train]\nseed = 9\n")
    command = ["ablate", "tiny.toml", "--rows", "reseeded.toml", "--seeds", "1", "--jobs", "2", "--json"]
    command += ["--train.steps", "300", "--train.valid-every", "500", "--train.checkpoint-every", "150"]
    runs = [RunDirectory(prepared.path / f"runs/sweep/{name}-seed0") for name in ("base", "reseeded")]

    def both_going_on(lines) -> bool:
        return all(run.log_path.exists() and "step 4/" in run.log_path.read_text() for run in runs)

    start = killed(prepared, [*command, "--run", "runs/sweep"], Moment("two runs", both_going_on))
    assert start.exit_code == -signal.SIGKILL
    deadline = time.monotonic() + 60
    while any(works_in(process, prepared.path) for process in os.listdir("/proc") if process.isdigit()):
        assert time.monotonic() < deadline, "a run goes on without its sweep"
        time.sleep(0.1)
    assert all("stopped at step" in run.log_path.read_text() for run in runs)

    tables = [json.loads(prepared.vaswani(*command, "--run", run).stdout) for run in ("runs/sweep", "runs/straight")]
    one, other = ([row["bleu"] for row in table["rows"]] for table in tables)
    assert one == other and len(one) == 2
    for run in runs:
        straight = prepared.path / "runs/straight" / run.path.name
        assert same_arrays(run.checkpoints / "300", straight / "checkpoints/300")
        assert records(run.path) == records(straight)


def works_in(process: str, path: Path) -> bool:
    try:
        return Path(f"/proc/{process}/cwd").resolve() == path
    except OSError:
        return False
