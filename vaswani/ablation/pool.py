"""Doing what is left of a sweep, some runs at a time."""

import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from vaswani.ablation.jobs import Job, Start
from vaswani.ablation.progress import Progress
from vaswani.ablation.sweep import Run
from vaswani.console import duration, say
from vaswani.evaluation.bleu import read_evaluation
from vaswani.training.signals import StopSignals

SAVING_SECONDS = 60.0


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
        _leave_none_behind(list(running.values()), patience=0.0 if stopping else SAVING_SECONDS)


def _leave_none_behind(jobs: Sequence[Job], patience: float) -> None:
    """After a fault of our own (our reader has gone, the disk is full) jobs may save; after a second signal not."""
    deadline = time.monotonic() + patience
    for job in jobs:
        if patience:
            job.stop()
    while time.monotonic() < deadline and any(job.exit_code() is None for job in jobs):
        time.sleep(0.1)
    for job in jobs:
        job.kill()


def _note_end(progress: Progress, run: Run, code: int, log_start: int, stopping: bool) -> bool:
    """Says how a run ended, and returns whether it is finished."""
    result = run.finished()
    if result:
        progress.done.add(run.name)
        bleu = read_evaluation(run.directory.evaluation_path)[run.set_name].scores[0].value
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
    if not log.exists():  # a job of a cluster that never began
        return f"exit code {code}"
    with open(log, "rb") as file:
        file.seek(start)
        lines = [line for line in file.read().decode("utf-8", "replace").split("\n") if line.strip()]
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    ours = [line.removeprefix("vaswani: ") for line in lines if line.startswith("vaswani: ")]
    return (ours or lines or [f"exit code {code}"])[-1].strip()
