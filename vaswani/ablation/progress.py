"""How far a sweep is, for the person who waits."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from vaswani.ablation.jobs import Job
from vaswani.ablation.plan import measured_speed, seconds_left, side_by_side
from vaswani.ablation.sweep import Sweep, SweepRun
from vaswani.console import duration, progress_bar

REFRESH_SECONDS = 2.0


@dataclass(frozen=True)
class RunningJob:
    """A run that is being trained."""

    run: SweepRun
    job: Job
    log_start: int
    """The size of its log, in bytes, when it was started."""


@dataclass
class SweepProgress:
    """What is running, done and failed."""

    sweep: Sweep
    vocab_size: int
    jobs: int
    """Runs at a time."""
    running: list[RunningJob] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Run -> why, since this start of the sweep."""
    done: set[str] = field(default_factory=set)

    def steps(self) -> tuple[int, int]:
        """Updates made and wanted, over all runs."""
        wanted = sum(run.config.train.steps for run in self.sweep.runs)
        made = (run.config.train.steps if run.name in self.done else run.steps() for run in self.sweep.runs)
        return sum(made), wanted

    def seconds_left(self) -> float | None:
        """By the speed of the runs so far, without their translating; None before the first updates."""
        speed = measured_speed(self.sweep.runs, self.vocab_size)
        if speed is None:
            return None
        left = [run for run in self.sweep.runs if run.name not in self.done and run.name not in self.failed]
        return side_by_side([seconds_left(run, self.vocab_size, speed) for run in left], self.jobs)

    def line(self) -> str:
        """One line for all of it."""
        now = [f"{job.run.name} {job.run.steps():,}/{job.run.config.train.steps:,}" for job in self.running]
        left = self.seconds_left()
        parts = [f"{len(self.done)} of {len(self.sweep.runs)} runs done"]
        parts += [f"{len(self.failed)} failed"] if self.failed else []
        parts += [f"about {duration(left)} left"] if left else []
        parts += [f"running {', '.join(now)}"] if now else []
        return ", ".join(parts)


@contextmanager
def progress_display(progress: SweepProgress) -> Iterator[Callable[[], None]]:
    """A bar with the state of the whole sweep on a terminal. Yields the function that brings it up to date."""
    drawn_at = 0.0
    _, wanted = progress.steps()
    with progress_bar("", total=wanted) as bar:

        def refresh() -> None:
            nonlocal drawn_at
            if not bar.hidden and time.monotonic() - drawn_at > REFRESH_SECONDS:
                made, _ = progress.steps()
                bar.update(made, progress.line())
                drawn_at = time.monotonic()

        yield refresh
