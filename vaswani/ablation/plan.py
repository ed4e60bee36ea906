"""What a sweep would do, for `ablate --dry-run`."""

from pathlib import Path
from typing import Any

from vaswani.ablation import estimate
from vaswani.ablation.sweep import Sweep
from vaswani.console import aligned, duration
from vaswani.paper import costs


def plan(sweep: Sweep, prepared: Path, jobs: int) -> dict[str, Any]:
    """Every run with its parameters, updates, state and the seconds it will still take.

    The estimate goes by the sweep's own runs if there are any, else by a matrix product on this machine.
    """
    vocab_size = sweep.vocab_size(prepared)
    together = max(1, min(jobs, len(sweep.runs)))
    measured = estimate.measured_speed([s for run in sweep.runs if (s := run.speed())], vocab_size)
    speed = measured or estimate.guessed_speed() / together  # the whole machine's, which runs side by side share
    runs = []
    for run in sweep.runs:
        done, steps = run.finished() is not None, run.steps()
        _, _, spent = run.speed() or (run.config, 0, 0.0)
        left = 0.0 if done else estimate.seconds(run.config, vocab_size, speed, steps, spent)
        runs.append({
            "run": run.name,
            "parameters": costs.parameters(run.config.model, vocab_size),
            "steps": run.config.train.steps,
            "made": steps,
            "done": done,
            "seconds_left": round(left),
        })  # fmt: skip
    return {
        "directory": str(sweep.directory.path),
        "runs": runs,
        "same_models": {row.name: row.same_as for row in sweep.rows if row.same_as},
        "notes": {row.name: row.note for row in sweep.rows if row.note},
        "seconds_left": round(sum(run["seconds_left"] for run in runs) / together),
        "measured": measured is not None,
    }


def format_plan(values: dict[str, Any]) -> str:
    """For the terminal."""
    table = [("run", "parameters", "updates", "state", "time left")]
    for run in values["runs"]:
        state = "done" if run["done"] else f"at {run['made']:,}" if run["made"] else "not started"
        left = "" if run["done"] else f"about {duration(run['seconds_left'])}"
        table.append((run["run"], f"{run['parameters']:,}", f"{run['steps']:,}", state, left))
    notes = [f"{row}: the same model as {other} here, trained once for both" for row, other in
             values["same_models"].items()]  # fmt: skip
    notes += [f"{row}: {note}" for row, note in values["notes"].items()]
    basis = (
        "by the speed of the runs so far"
        if values["measured"]
        else "guessed from a matrix product on this machine: it may be half or twice as long; validation not counted"
    )
    left = duration(values["seconds_left"])
    total = f"{len(values['runs'])} runs in {values['directory']}, about {left} in all, {basis}"
    return "\n".join([aligned(table, right={1, 2}), "", *notes, total])
