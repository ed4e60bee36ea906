"""What is left of a sweep and how long it will take, without a device; the list of `ablate --dry-run`."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vaswani.ablation.sweep import Sweep, SweepRun
from vaswani.console import aligned, duration
from vaswani.paper import costs
from vaswani.schema import Config

STARTUP_SECONDS = 20.0
"""What a run takes beside its updates: starting, compiling where the cache does not help, translating a small set."""


def measured_speed(runs: Sequence[SweepRun], vocab_size: int) -> float | None:
    """Operations a second over the updates so far, the time for validation included; None before the first update."""
    timings = [(run.config, *timing) for run in runs if (timing := run.timing())]
    operations = sum(updates * _update_flops(config, vocab_size) for config, updates, _ in timings)
    seconds = sum(seconds for *_, seconds in timings)
    return operations / seconds if operations and seconds else None


def seconds_left(run: SweepRun, vocab_size: int, speed: float | None) -> float:
    """What is left of a run at `speed` operations a second, or until `train.max_minutes`; infinite where unknown."""
    train = run.config.train
    _, spent = run.timing() or (0, 0.0)
    updates = max(train.steps - run.steps(), 0)
    by_speed = updates * _update_flops(run.config, vocab_size) / speed if speed else math.inf
    by_bound = 60 * train.max_minutes - spent if train.max_minutes else math.inf
    return STARTUP_SECONDS + max(min(by_speed, by_bound), 0.0)


def side_by_side(seconds: Sequence[float], jobs: int) -> float:
    """The time of all, if `jobs` of them run at a time and each then takes as many seconds as given."""
    return sum(seconds) / max(1, min(jobs, len(seconds)))


def plan(sweep: Sweep, prepared: Path, jobs: int) -> dict[str, Any]:
    """Every run with its parameters, updates, state, and the seconds it will still take (None while unknown).

    Args:
        prepared: where prepared corpora are, for the size of the vocabulary.
        jobs: how many runs would go on at a time.
    """
    vocab_size = sweep.vocab_size(prepared)
    speed = measured_speed(sweep.runs, vocab_size)
    done = {run.name for run in sweep.runs if run.finished()}
    left = {run.name: seconds_left(run, vocab_size, speed) for run in sweep.runs if run.name not in done}
    runs = [
        {
            "run": run.name,
            "parameters": costs.parameters(run.config.model, vocab_size),
            "steps": run.config.train.steps,
            "made": run.steps(),
            "done": run.name in done,
            "seconds_left": _rounded(left.get(run.name, 0.0)),
        }
        for run in sweep.runs
    ]
    return {
        "directory": str(sweep.directory.path),
        "runs": runs,
        "same_models": {row.name: row.same_as for row in sweep.rows if row.same_as},
        "notes": {row.name: row.note for row in sweep.rows if row.note},
        "jobs": min(jobs, len(left)),
        "seconds_left": _rounded(side_by_side(list(left.values()), jobs)),
        "measured": speed is not None,
    }


def format_plan(values: dict[str, Any]) -> str:
    """For the terminal."""
    table = [("run", "parameters", "updates", "state", "time left")]
    for run in values["runs"]:
        state = "done" if run["done"] else f"at {run['made']:,}" if run["made"] else "not started"
        left = "" if run["done"] else _time(run["seconds_left"], values["measured"])
        table.append((run["run"], f"{run['parameters']:,}", f"{run['steps']:,}", state, left))
    same = values["same_models"].items()
    notes = [f"{row}: the same model as {other} here, trained once for both" for row, other in same]
    notes += [f"{row}: {note}" for row, note in values["notes"].items()]
    total = f"{len(values['runs'])} runs in {values['directory']}, {_total(values)}"
    return "\n".join([aligned(table, right={1, 2}), "", *notes, total])


def _total(values: dict[str, Any]) -> str:
    seconds, measured = values["seconds_left"], values["measured"]
    if not values["jobs"]:
        return "all done"
    at_a_time = f"{values['jobs']} at a time"
    if seconds is None:
        return f"{at_a_time}; the time is unknown until a run has made its first updates"
    basis = "by the speed of the runs so far" if measured else "by train.max_minutes"
    return f"{at_a_time}; {_time(seconds, measured)} in all, {basis}"


def _time(seconds: int | None, measured: bool) -> str:
    if seconds is None:
        return "unknown"
    return f"{'about' if measured else 'at most'} {duration(seconds)}"


def _rounded(seconds: float) -> int | None:
    return round(seconds) if math.isfinite(seconds) else None


def _update_flops(config: Config, vocab_size: int) -> float:
    """Operations of one update; every token attends to its whole row."""
    return costs.update_flops(config.model, vocab_size, config.train.tokens_per_update, config.train.row_length)
