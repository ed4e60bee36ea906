"""Kills `vaswani` at chosen moments, starts the same command again, and compares runs bit by bit."""

import json
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from orbax.checkpoint import v1 as ocp

from tests.workplace import Workplace
from vaswani.runs import checkpoints

LONGEST_WAIT = 200.0
"""Seconds for one start of a command; a test that waits longer has failed."""


class Moment(NamedTuple):
    """When to kill: as soon as `reached` is true of the lines on stderr, and some seconds later."""

    name: str
    reached: Callable[[Sequence[str]], bool]
    later: float = 0.0


class Killed(NamedTuple):
    """What became of one start of a command."""

    moment: str
    exit_code: int
    stderr: str


def killed(work: Workplace, command: Sequence[str], moment: Moment, signum: int = signal.SIGKILL) -> Killed:
    """Starts a command and sends it `signum` at a moment; the command may end before that."""
    process = work.start(*command, stdout=subprocess.DEVNULL)
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(iter(process.stderr.readline, "")))
    reader.start()
    deadline = time.monotonic() + LONGEST_WAIT
    try:
        while process.poll() is None and not moment.reached(lines):
            assert time.monotonic() < deadline, f"{moment.name}: waited in vain\n{''.join(lines)}"
            time.sleep(0.0005)
        time.sleep(moment.later)
        process.send_signal(signum)
        process.wait(60)
    finally:
        process.kill()
        reader.join()
        process.stderr.close()
    return Killed(moment.name, process.returncode, "".join(lines))


def line(name: str, start: str, later: float = 0.0, times: int = 1) -> Moment:
    """The line on stderr that is the `times`-th to begin with `start`, a regular expression."""
    return Moment(name, lambda lines: sum(bool(re.match(start, text)) for text in list(lines)) >= times, later)


def file(name: str, path: Path, pattern: str, later: float = 0.0) -> Moment:
    """A file below `path` that was not there at the first look, as a checkpoint that is being written."""
    before: set[Path] | None = None

    def reached(lines: Sequence[str]) -> bool:
        nonlocal before
        existing = set(path.glob(pattern))
        before = existing if before is None else before
        return bool(existing - before)

    return Moment(name, reached, later)


def after(seconds: float) -> Moment:
    """A time after the start, whatever happens then."""
    begin = time.monotonic()
    return Moment("by the clock", lambda lines: time.monotonic() - begin > seconds)


def moments_of_training(run: Path, rng: random.Random) -> list[Callable[[], Moment]]:
    """Where a training can be killed; each call makes a new moment."""
    checkpoint = run / "checkpoints"
    return [
        lambda: after(rng.uniform(0, 8)),
        lambda: line("compiling", "compiling", rng.uniform(0, 0.4)),
        lambda: line("an update", "step ", rng.uniform(0, 0.03), times=rng.randint(1, 7)),
        lambda: line("a validation", "step [0-9]*0/", rng.uniform(0, 0.5)),  # it follows every tenth update
        lambda: file("writing a checkpoint", checkpoint, "*.new", rng.uniform(0, 0.03)),
        lambda: file("deleting a checkpoint", checkpoint, "*.old"),
    ]


def same_arrays(a: Path, b: Path) -> bool:
    """Whether two checkpoints hold the same arrays: names, types, shapes, every bit."""
    one, other = arrays(a), arrays(b)
    return one.keys() == other.keys() and all(
        (x.dtype, x.shape, x.tobytes()) == (other[name].dtype, other[name].shape, other[name].tobytes())
        for name, x in one.items()
    )


def arrays(checkpoint: Path) -> dict[str, np.ndarray]:
    """Every array of a checkpoint, of parameters and optimiser, by name."""
    path = (checkpoint / "arrays").absolute()
    like = jax.tree.map(lambda saved: np.empty(saved.shape, saved.dtype), ocp.metadata(path).metadata)
    return {jax.tree_util.keystr(k): v for k, v in jax.tree_util.tree_leaves_with_path(ocp.load(path, like))}


def timeless(values: dict) -> dict:
    """An event or a training's progress without its times, which differ from run to run."""
    return {key: value for key, value in values.items() if not re.search(r"_s$|second", key)}


def records(run: Path) -> list[dict]:
    """Every line of metrics.jsonl, in its order, without times."""
    return [timeless(json.loads(text)) for text in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def assert_same_training(run: Path, straight: Path) -> None:
    """Parameters, optimiser, position in the data, best validation, and every record of metrics.jsonl in order."""
    step = checkpoints.steps(straight / "checkpoints")[-1]
    assert checkpoints.steps(run / "checkpoints")[-1] == step
    assert checkpoints.regular(run / "checkpoints") == checkpoints.regular(straight / "checkpoints")
    for saved in checkpoints.regular(straight / "checkpoints"):
        ours, expected = (path / "checkpoints" / str(saved) for path in (run, straight))
        assert same_arrays(ours, expected), saved
        (one, other) = (checkpoints.read_meta(path) for path in (ours, expected))
        assert one.keys() == other.keys() and one["data"] == other["data"]
        assert timeless(one["progress"]) == timeless(other["progress"])
    assert records(run) == records(straight)
    updates = [record["step"] for record in records(run) if record["kind"] == "train"]
    assert updates == list(range(1, step + 1)), "one record an update, in order"
