"""What each run of a directory is at, read from its files alone."""

from pathlib import Path
from typing import Any

from vaswani.console import aligned
from vaswani.errors import UserError, WorkFailed
from vaswani.evaluation.bleu import read_evaluation
from vaswani.runs import checkpoints
from vaswani.runs.directory import RunDirectory
from vaswani.runs.events import read_events
from vaswani.schema import Config
from vaswani.training.progress import TrainingProgress, why_finished


def read_status(runs: Path) -> list[dict[str, Any]]:
    """One row a run below `runs`: where it is, its last validation, its scores, who works on it, or how it ended.

    A run whose files cannot be understood says so in its row, under "damaged", and leaves the others as they are.
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
    try:
        _fill(row, RunDirectory(path))
    except (UserError, WorkFailed, OSError) as error:
        row["damaged"] = str(error)
    return row


def _fill(row: dict[str, Any], run: RunDirectory) -> None:
    row["in_use_by"] = run.holder()
    config, saved = run.load_config(), checkpoints.steps(run.checkpoints)
    row |= {"step": max(saved, default=0), "steps": config.train.steps}
    row |= {"checkpoints": saved, "averaged": checkpoints.has_averaged(run)}
    for event in read_events(run.metrics_path):
        row["step"] = max(row["step"], event["step"])
        if event["kind"] == "valid":
            row |= {"perplexity": event["perplexity"], "valid_bleu": event.get("bleu")}
    sets = read_evaluation(run.evaluation_path)
    row["sets"] = {name: result.scores[0].value for name, result in sets.items()}
    if saved and not row["in_use_by"]:
        row["ended"] = _ended(config, saved[-1], checkpoints.read_meta(run.checkpoints / str(saved[-1])))


def _ended(config: Config, step: int, meta: dict[str, Any]) -> str:
    """How a training that nobody works on came to its last checkpoint."""
    progress = TrainingProgress.from_dict(meta["progress"])
    why = why_finished(config, step, progress)
    if why and progress.validated_step == step:
        return f"finished: {why}"
    return f"stopped at step {step:,}; the same command goes on from there"


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
        table.append((row["run"], f"{row['step']:,}", steps, perplexity, bleu, sets, "; ".join(notes)))
    return aligned(table)
