"""Where a sweep stands, for the person who waits."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import rich.progress
from rich.console import Console

from vaswani.ablation import estimate
from vaswani.ablation.jobs import Job
from vaswani.ablation.sweep import Sweep
from vaswani.console import duration

REFRESH_SECONDS = 2.0


@dataclass
class Progress:
    """What is running, done and failed."""

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
        parts += [f"{len(self.failed)} failed"] if self.failed else []
        parts += [f"about {duration(left)} left"] if left else []
        parts += [f"running {', '.join(now)}"] if now else []
        return ", ".join(parts)


@contextmanager
def shown(progress: Progress) -> Iterator[Callable[[], None]]:
    """A bar with the whole sweep's state on a terminal; yields what brings it up to date."""
    console = Console(stderr=True, markup=False, highlight=False)
    bar = rich.progress.Progress(
        rich.progress.BarColumn(bar_width=20), rich.progress.TextColumn("{task.description}", markup=False),
        console=console, transient=True, disable=not sys.stderr.isatty(),
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
