"""What each run of a directory has reached, read from its files alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from vaswani.console import aligned, visible
from vaswani.errors import UserError, WorkFailed
from vaswani.evaluation.bleu import read_evaluation
from vaswani.runs import integrity
from vaswani.runs.directory import RunDirectory
from vaswani.runs.events import read_events
from vaswani.training.progress import TrainingProgress, why_finished


def read_status(runs: Path) -> list[dict[str, Any]]:
    """One row for each run below `runs`, sorted by name.

    A row has: step and steps (made and wanted), the last validation, the checkpoints, the scores of each test set, the
    process that works on the run, and how the run ended. Values from a damaged file keep their defaults, and "damaged"
    names the file.

    Raises:
        UserError: `runs` is no directory.
    """
    if not runs.is_dir():
        raise UserError(f"{runs}: no such directory; `vaswani train CONFIG` makes runs in ./runs")
    return [_status(path.parent) for path in sorted(runs.glob("*/config.toml"))]


def _status(path: Path) -> dict[str, Any]:
    row: dict[str, Any] = {
        "run": path.name,
        "step": 0,
        "steps": None,
        "perplexity": None,
        "valid_bleu": None,
        "checkpoints": [],
        "averaged": False,
        "sets": {},
        "in_use_by": "",
        "ended": "",
        "damaged": "",
    }
    readers: list[Callable[[dict[str, Any], RunDirectory], None]] = [
        _read_holder, _read_checkpoints, _read_events, _read_scores, _read_end,
    ]  # fmt: skip
    damages = []
    try:
        run = RunDirectory(path)
    except UserError as error:
        return row | {"damaged": str(error)}
    for read in readers:
        try:
            read(row, run)
        except (UserError, WorkFailed, OSError) as error:
            damages.append(str(error))
    return row | {"damaged": "; ".join(dict.fromkeys(damages))}


def _read_holder(row: dict[str, Any], run: RunDirectory) -> None:
    row["in_use_by"] = run.holder()


def _read_checkpoints(row: dict[str, Any], run: RunDirectory) -> None:
    row["averaged"] = integrity.has_averaged(run)
    row["checkpoints"] = integrity.steps(run.checkpoints)
    row["step"] = max(row["checkpoints"], default=0)


def _read_events(row: dict[str, Any], run: RunDirectory) -> None:
    for event in read_events(run.metrics_path):
        row["step"] = max(row["step"], event["step"])
        if event["kind"] == "valid":
            row.update(perplexity=event["perplexity"], valid_bleu=event.get("bleu"))


def _read_scores(row: dict[str, Any], run: RunDirectory) -> None:
    sets = read_evaluation(run.evaluation_path)
    row["sets"] = {name: result.scores[0].value for name, result in sets.items()}


def _read_end(row: dict[str, Any], run: RunDirectory) -> None:
    """How many updates the run should have, and how a run that nobody works on came to its last checkpoint."""
    config = run.load_config()
    row["steps"] = config.train.steps
    if row["in_use_by"] or not row["checkpoints"]:
        return
    step = row["checkpoints"][-1]
    meta = integrity.read_manifest(run.checkpoints / str(step))["meta"]
    progress = TrainingProgress.from_dict(meta.get("progress", {}))
    reason = why_finished(config, step, progress)
    if reason and progress.validated_step == step:
        row["ended"] = f"finished: {reason}"
    else:
        row["ended"] = f"stopped at step {step:,}; the same command goes on from there"


def format_status(rows: list[dict[str, Any]], runs: Path) -> str:
    """A table for the terminal."""
    if not rows:
        return f"{runs}: no runs yet"
    table = [("run", "step", "of", "valid ppl", "valid BLEU", "sacreBLEU", "")]
    for row in rows:
        perplexity = "" if row["perplexity"] is None else f"{row['perplexity']:.2f}"
        bleu = "" if row["valid_bleu"] is None else f"{row['valid_bleu']:.2f}"
        sets = "  ".join(f"{name} {value:.2f}" for name, value in row["sets"].items())
        steps = "" if row["steps"] is None else f"{row['steps']:,}"
        notes = [f"damaged: {row['damaged']}"] if row["damaged"] else []
        notes += [f"running: {row['in_use_by']}"] if row["in_use_by"] else []
        notes += [row["ended"]] if row["ended"] else []
        name, note = visible(row["run"]), visible("; ".join(notes))
        table.append((name, f"{row['step']:,}", steps, perplexity, bleu, sets, note))
    return aligned(table)
