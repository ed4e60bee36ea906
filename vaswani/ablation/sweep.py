"""The runs of a sweep: which there are, how far each is, and doing what is left.

runs/NAME-table3/
    base.toml                    the base configuration that all rows change
    base-seed0/ A1-seed0/ …      ordinary run directories, each with log.txt, and finished.json once trained to its end
    table3.{json,md,csv,png}     the results
"""

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import rich.progress
from rich.console import Console

from vaswani import checkpoints
from vaswani import config as config_module
from vaswani.ablation import estimate
from vaswani.ablation.jobs import Job, Start
from vaswani.ablation.table3 import Row, with_seed
from vaswani.config import Config
from vaswani.data.prepare import PreparedCorpus
from vaswani.errors import UserError
from vaswani.evaluation.sets import read_evaluation
from vaswani.run_directory import RunDirectory, write_json, write_text
from vaswani.training.metrics import duration, say
from vaswani.training.signals import StopSignals

# What may change between two starts of a sweep, because no result depends on it.
FREE_BETWEEN_STARTS = {
    "data.dir", "data.tests", "train.log_every", "train.valid_lines", "train.checkpoint_every",
    "train.checkpoint_minutes", "train.keep_last", "train.average_last", "decode.batch_tokens",
}  # fmt: skip

REFRESH_SECONDS = 2.0


@dataclass(frozen=True)
class Run:
    """One training: a row and the number of its seed."""

    name: str
    config: Config
    directory: RunDirectory
    set_name: str
    """The set that it is to be scored on."""

    def steps(self) -> int:
        """Updates made so far; logged ones, so a few may be lost with a process that was killed."""
        return max((record["step"] for record in _metrics(self.directory)), default=0)

    def speed(self) -> tuple[Config, int, float] | None:
        """Updates and the seconds they took, validation included; None before the first are logged."""
        last = max(_metrics(self.directory), key=lambda record: record["step"], default=None)
        return (self.config, last["step"], last["elapsed_s"]) if last and last["elapsed_s"] > 0 else None

    def finished(self) -> dict[str, Any] | None:
        """Step, perplexity and seconds of a run that is trained to its end and scored at that step; else None."""
        end = self.directory.path / "finished.json"
        if not end.exists() or not self.directory.evaluation_path.exists():
            return None
        record = json.loads(end.read_text(encoding="utf-8"))
        scored = read_evaluation(self.directory).get(self.set_name)
        decode = config_module.to_dict(self.config.decode)
        current = checkpoints.steps(self.directory.checkpoints)[-1:] == [record["step"]]
        alike = scored is not None and scored.checkpoint == f"step {record['step']}" and scored.decode == decode
        return record if current and alike else None

    @property
    def log(self) -> Path:
        return self.directory.path / "log.txt"


@dataclass(frozen=True)
class Sweep:
    """Rows, each with as many seeds, in one directory."""

    directory: RunDirectory
    base: Config
    rows: Sequence[Row]
    seeds: int
    set_name: str
    """The set whose BLEU the table shows."""

    def run_of(self, row: Row, k: int) -> Run:
        """The k-th run of a row; of the row it equals, if it equals one."""
        name = f"{row.same_as or row.name}-seed{k}"
        return Run(name, with_seed(row.config, k), RunDirectory(self.directory.path / name), self.set_name)

    @cached_property
    def runs(self) -> list[Run]:
        """All of them once; every row's first seed before any row's second, so that an early table has every row."""
        each = [self.run_of(row, k) for k in range(self.seeds) for row in self.rows]
        return list({run.name: run for run in each}.values())

    def vocab_size(self, prepared: Path) -> int:
        """Of the prepared corpus, or before that what the configuration asks for."""
        path = prepared / self.base.data.name
        return PreparedCorpus.open(path).tokenizer.vocab_size if path.exists() else self.base.data.vocab_size

    def arguments(self, run: Run) -> list[str]:
        """The command that makes a run, with what differs from the base in view."""
        command = ["ablate-run", str(self._base_path), "--run", str(run.directory.path), "--set", self.set_name]
        for key, (_, value) in config_module.differences(self.base, run.config).items():
            command += [f"--{key.replace('_', '-')}", str(value)]
        return command

    def check_set(self) -> None:
        data = self.base.data
        if self.set_name not in (data.valid, *data.tests):
            raise UserError(
                f"--set {self.set_name}: not a set of this corpus; choose {', '.join((data.valid, *data.tests))}"
            )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Holds the directory for one sweep, and its base configuration for all that come.

        Raises:
            UserError: another sweep is at work here, or runs of another base configuration are here.
        """
        with self.directory.lock():
            self._check_same_base()
            write_text(self._base_path, config_module.to_toml(self.base))
            yield

    def _check_same_base(self) -> None:
        if not self._base_path.exists():
            return
        before = config_module.load(self._base_path)
        changed = config_module.differences(before, self.base).items()
        refused = [f"{k} = {old!r} there, {new!r} now" for k, (old, new) in changed if k not in FREE_BETWEEN_STARTS]
        if refused and any(self.directory.path.glob("*/config.toml")):
            raise UserError(
                f"{self.directory.path}: its runs are of another base configuration ({'; '.join(refused)}); "
                "set it as it was, or choose another directory with --run"
            )

    @property
    def _base_path(self) -> Path:
        return self.directory.path / "base.toml"


@dataclass
class Progress:
    """Where a sweep stands, for the person who waits."""

    sweep: Sweep
    vocab_size: int
    jobs: int
    running: dict[str, Job] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Run -> why, of this start."""
    done: set[str] = field(default_factory=set)

    def steps(self) -> tuple[int, int]:
        """Updates made and wanted, over all runs."""
        wanted = sum(run.config.train.steps for run in self.sweep.runs)
        made = (run.config.train.steps if run.name in self.done else run.steps() for run in self.sweep.runs)
        return sum(made), wanted

    def seconds_left(self) -> float | None:
        """By the speed of the runs so far, their translating not counted; None while there is nothing to go by."""
        runs = self.sweep.runs
        speed = estimate.measured_speed([s for run in runs if (s := run.speed())], self.vocab_size)
        if speed is None:
            return None
        open_runs = [run for run in runs if run.name not in self.done and run.name not in self.failed]
        left = sum(estimate.seconds(run.config, self.vocab_size, speed, run.steps()) for run in open_runs)
        return left / max(1, min(self.jobs, len(open_runs)))

    def line(self) -> str:
        """One line for all of it."""
        now = [f"{r.name} {r.steps():,}/{r.config.train.steps:,}" for r in self.sweep.runs if r.name in self.running]
        left = self.seconds_left()
        parts = [f"{len(self.done)} of {len(self.sweep.runs)} runs done"]
        parts += [f"running {', '.join(now)}"] if now else []
        parts += [f"{len(self.failed)} failed"] if self.failed else []
        parts += [f"about {duration(left)} left"] if left is not None and now else []
        return ", ".join(parts)


@contextmanager
def shown(progress: Progress) -> Iterator[Callable[[], None]]:
    """A bar with the whole sweep's state on a terminal; yields what brings it up to date."""
    console = Console(stderr=True, markup=False, highlight=False)
    bar = rich.progress.Progress(
        rich.progress.BarColumn(), rich.progress.TextColumn("{task.description}", markup=False), console=console,
        transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip
    task = bar.add_task("")
    shown_at = 0.0

    def show() -> None:
        nonlocal shown_at
        if not bar.disable and time.monotonic() - shown_at > REFRESH_SECONDS:
            made, wanted = progress.steps()
            bar.update(task, description=progress.line(), completed=made, total=wanted)
            shown_at = time.monotonic()

    with bar:
        yield show


def work(
    progress: Progress, start: Start, stop: StopSignals, show: Callable[[], None], after_each: Callable[[], object]
) -> None:
    """Starts what is not finished, at most `progress.jobs` at a time, until all is done, has failed, or a stop comes.

    A run that another process holds, as one that a killed sweep left and that is still saving, is waited for.

    Args:
        start: begins a job.
        stop: when it is received, running jobs are asked to save, and waited for.
        show: is called several times a second.
        after_each: is called after each run that was finished.
    """
    sweep, running = progress.sweep, progress.running
    progress.done |= {run.name for run in sweep.runs if run.finished()}
    waiting = [run for run in sweep.runs if run.name not in progress.done]
    log_starts: dict[str, int] = {}
    told: set[str] = set()
    by_name = {run.name: run for run in sweep.runs}
    stopping = False
    try:
        while running or (waiting and not stop.received):
            while waiting and len(running) < progress.jobs and not stop.received:
                held = {run.name: holder for run in waiting if (holder := run.directory.holder())}
                run = next((run for run in waiting if run.name not in held), None)
                for name in held.keys() - told:
                    say(f"{name}: in use by {held[name]}; its turn comes when that has left")
                told |= held.keys()
                if run is None:
                    break
                waiting.remove(run)
                run.directory.path.mkdir(parents=True, exist_ok=True)
                log_starts[run.name] = run.log.stat().st_size if run.log.exists() else 0
                running[run.name] = start(run.name, sweep.arguments(run), run.log)
                say(f"{run.name}: {'going on' if run.steps() else 'started'} ({run.log})")
            if stop.received and not stopping:
                stopping = True
                for job in running.values():
                    job.stop()
            for name, job in list(running.items()):
                if (code := job.exit_code()) is not None:
                    del running[name]
                    if _note_end(progress, by_name[name], code, log_starts[name], stopping):
                        after_each()
            show()
            time.sleep(0.2)
    finally:
        for job in running.values():  # a second signal, or a fault of our own: nobody stays behind
            job.kill()


def _note_end(progress: Progress, run: Run, code: int, log_start: int, stopping: bool) -> bool:
    """Says how a run ended, and returns whether it is finished."""
    result = run.finished()
    if result:
        progress.done.add(run.name)
        bleu = read_evaluation(run.directory)[run.set_name].scores[0].value
        perplexity = "?" if result["perplexity"] is None else f"{result['perplexity']:.2f}"
        say(
            f"{run.name}: done in {duration(result['seconds'])}: perplexity {perplexity}, BLEU {bleu:.2f} "
            f"({progress.line()})"
        )
    elif stopping:
        say(f"{run.name}: stopped at step {run.steps():,}; the same command goes on from its last checkpoint")
    else:
        progress.failed[run.name] = why(run.log, log_start, code)
        say(f"{run.name}: failed: {progress.failed[run.name]} ({run.log})")
    return result is not None


def why(log: Path, start: int, code: int) -> str:
    """The reason of a failure, from what the process wrote last."""
    with open(log, "rb") as file:
        file.seek(start)
        lines = [line for line in file.read().decode("utf-8", "replace").split("\n") if line.strip()]
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    ours = [line.removeprefix("vaswani: ") for line in lines if line.startswith("vaswani: ")]
    return (ours or lines or [f"exit code {code}"])[-1].strip()


def note_finished(run: RunDirectory) -> None:
    """Records that a run is trained to its end: where, its perplexity there, and how long it took."""
    step = checkpoints.steps(run.checkpoints)[-1]
    perplexity = None
    for record in _metrics(run):
        if record["kind"] == "valid" and record["step"] == step:
            perplexity = record["perplexity"]
    elapsed = checkpoints.read_meta(run.checkpoints / str(step))["progress"]["elapsed_s"]
    write_json(run.path / "finished.json", {"step": step, "perplexity": perplexity, "seconds": round(elapsed, 1)})


def _metrics(run: RunDirectory) -> Iterator[dict[str, Any]]:
    if not run.metrics_path.exists():
        return
    for line in run.metrics_path.read_text(encoding="utf-8").split("\n"):
        try:
            yield json.loads(line)
        except json.JSONDecodeError:  # the line that is being written
            continue
