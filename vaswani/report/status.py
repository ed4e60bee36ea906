"""What each run of a directory is at, read from its files alone."""

from pathlib import Path
from typing import Any

from vaswani import checkpoints
from vaswani.errors import UserError
from vaswani.evaluation.bleu import read_evaluation
from vaswani.run_directory import RunDirectory, read_events


def read_status(runs: Path) -> list[dict[str, Any]]:
    """One row a run below `runs`: where it is, its last validation, its scores, and who works on it."""
    if not runs.is_dir():
        raise UserError(f"{runs}: no such directory; `vaswani train CONFIG` makes runs in ./runs")
    return [_status(RunDirectory(path.parent)) for path in sorted(runs.glob("*/config.toml"))]


def _status(run: RunDirectory) -> dict[str, Any]:
    row: dict[str, Any] = {
        "run": run.path.name,
        "step": 0,
        "steps": run.load_config().train.steps,
        "perplexity": None,
        "valid_bleu": None,
        "checkpoints": checkpoints.steps(run.checkpoints),
        "averaged": run.averaged.exists(),
        "sets": {},
        "in_use_by": run.holder(),
    }
    for event in read_events(run.metrics_path):
        row["step"] = max(row["step"], event["step"])
        if event["kind"] == "valid":
            row |= {"perplexity": event["perplexity"], "valid_bleu": event.get("bleu")}
    sets = read_evaluation(run.evaluation_path)
    row["sets"] = {name: result.scores[0].value for name, result in sets.items()}
    return row


def format_status(rows: list[dict[str, Any]], runs: Path) -> str:
    """A table for the terminal."""
    if not rows:
        return f"{runs}: no runs yet"
    table = [("run", "step", "of", "valid ppl", "valid BLEU", "sacreBLEU", "")]
    for row in rows:
        perplexity = "" if row["perplexity"] is None else f"{row['perplexity']:.2f}"
        bleu = "" if row["valid_bleu"] is None else f"{row['valid_bleu']:.2f}"
        sets = "  ".join(f"{name} {value:.2f}" for name, value in row["sets"].items())
        notes = f"running: {row['in_use_by']}" if row["in_use_by"] else ""
        table.append((row["run"], f"{row['step']:,}", f"{row['steps']:,}", perplexity, bleu, sets, notes))
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in table)
