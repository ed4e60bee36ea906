"""Does what is left of a sweep, some runs at a time."""

import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from vaswani.ablation.jobs import Job, Start
from vaswani.ablation.progress import RunningJob, SweepProgress
from vaswani.ablation.sweep import Sweep, SweepRun
from vaswani.console import duration, say
from vaswani.evaluation.bleu import read_evaluation
from vaswani.training.signals import StopSignals

POLL_SECONDS = 0.2
SAVING_SECONDS = 60.0


def run_jobs(
    progress: SweepProgress,
    start: Start,
    stop: StopSignals,
    refresh: Callable[[], None],
    after_each: Callable[[], object],
) -> None:
    """Starts every run that is not finished, at most `progress.jobs` at a time, and waits for all of them.

    If another process holds a run, it waits for that process. A sweep that was killed may have left one that is saving.

    Args:
        progress: is kept up to date with what runs, is done, and has failed.
        start: starts a job.
        stop: when a signal is received, the running jobs are asked to save and no other is started.
        refresh: is called several times a second.
        after_each: is called after each run that was finished.
    """
    progress.done |= {run.name for run in progress.sweep.runs if run.finished()}
    waiting = [run for run in progress.sweep.runs if run.name not in progress.done]
    announced: set[str] = set()
    asked_to_save = False
    try:
        while progress.running or (waiting and not stop.received):
            while len(progress.running) < progress.jobs and not stop.received:
                run = _next_free(waiting, announced)
                if run is None:
                    break
                waiting.remove(run)
                progress.running.append(_start_run(progress.sweep, run, start))
            if stop.received and not asked_to_save:
                asked_to_save = True
                for running in progress.running:
                    running.job.stop()
            for running in list(progress.running):
                code = running.job.exit_code()
                if code is not None:
                    progress.running.remove(running)
                    if _record_end(progress, running, code, asked_to_save):
                        after_each()
            refresh()
            time.sleep(POLL_SECONDS)
    finally:
        _end_all([running.job for running in progress.running], patience=0.0 if asked_to_save else SAVING_SECONDS)


def _next_free(waiting: Sequence[SweepRun], announced: set[str]) -> SweepRun | None:
    """The first run that no other process holds. Runs that are held are named once, and added to `announced`."""
    free = None
    for run in waiting:
        holder = run.directory.holder()
        if not holder:
            free = free or run
        elif run.name not in announced:
            say(f"{run.name}: in use by {holder}; it is started when that process has ended")
            announced.add(run.name)
    return free


def _start_run(sweep: Sweep, run: SweepRun, start: Start) -> RunningJob:
    run.directory.path.mkdir(parents=True, exist_ok=True)
    log_start = run.log.stat().st_size if run.log.exists() else 0
    job = start(run.name, sweep.arguments(run), run.log)
    say(f"{run.name}: {'going on' if run.steps() else 'started'} ({run.log})")
    return RunningJob(run, job, log_start)


def _end_all(jobs: Sequence[Job], patience: float) -> None:
    """Leaves no job behind, whatever ended the sweep.

    After a failure of the sweep itself (its output was closed, the disk is full) the jobs get `patience` seconds to
    save. After a second signal they get none.
    """
    deadline = time.monotonic() + patience
    if patience:
        for job in jobs:
            job.stop()
    while time.monotonic() < deadline and any(job.exit_code() is None for job in jobs):
        time.sleep(POLL_SECONDS)
    for job in jobs:
        job.kill()


def _record_end(progress: SweepProgress, running: RunningJob, code: int, asked_to_save: bool) -> bool:
    """Prints how a run ended, and returns whether it is finished."""
    run = running.run
    result = run.finished()
    if result:
        progress.done.add(run.name)
        bleu = read_evaluation(run.directory.evaluation_path)[run.set_name].scores[0].value
        perplexity = "?" if result["perplexity"] is None else f"{result['perplexity']:.2f}"
        say(
            f"{run.name}: done in {duration(result['seconds'])}: perplexity {perplexity}, BLEU {bleu:.2f} "
            f"({progress.line()})"
        )
    elif asked_to_save:
        say(f"{run.name}: stopped at step {run.steps():,}; the same command goes on from its last checkpoint")
    else:
        progress.failed[run.name] = running.job.failure or why_failed(run.log, running.log_start, code)
        say(f"{run.name}: failed: {progress.failed[run.name]} ({run.log})")
    return result is not None


def why_failed(log: Path, start: int, code: int) -> str:
    """The reason of a failure, from the end of what the process wrote after byte `start` of its log."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    if not log.exists():  # a job of a cluster that never began
        return f"exit code {code}"
    with open(log, "rb") as file:
        file.seek(start)
        lines = [line for line in file.read().decode("utf-8", "replace").split("\n") if line.strip()]
    ours = [line.removeprefix("vaswani: ") for line in lines if line.startswith("vaswani: ")]
    return (ours or lines or [f"exit code {code}"])[-1].strip()
