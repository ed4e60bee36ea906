"""The lines that a training prints, made from plain values."""

import math
from typing import Any

from vaswani.console import duration
from vaswani.schema import Config
from vaswani.training.progress import TrainingProgress


def log_line(config: Config, step: int, values: dict[str, Any], progress: TrainingProgress) -> str:
    """One line about the updates since the previous line. metrics.jsonl gets the same `values`."""
    seconds_left = (config.train.steps - step) * values["seconds_per_update"]
    if config.train.max_minutes:
        seconds_left = min(seconds_left, 60 * config.train.max_minutes - progress.elapsed_s)
    return (
        f"step {step:,}/{config.train.steps:,}  loss {values['loss']:.3f}  "
        f"ppl {math.exp(min(values['nll'], 700)):.2f}  lr {values['lr']:.2e}  "
        f"{values['source_tokens_per_s']:,}+{values['target_tokens_per_s']:,} tokens/s  "
        f"{duration(max(seconds_left, 0))} left"
    )


def validation_lines(step: int, result: dict[str, Any], improved: bool, progress: TrainingProgress) -> str:
    """Perplexity and BLEU on one line, then the sample translations. `result` is what `Validation` returns."""
    bleu = "" if result["bleu"] is None else f"  BLEU {result['bleu']:.2f}"
    if improved:
        best = "best so far"
    elif progress.best_step is None:  # no perplexity was finite
        best = "no best yet"
    else:
        best = f"best {progress.best_perplexity:.2f} at step {progress.best_step:,}"
    lines = [f"valid {step:,}  ppl {result['perplexity']:.2f}{bleu}  ({best})"]
    if note := result.get("bleu_note"):
        lines.append(f"  {note}")
    for sample in result["samples"]:
        lines += [
            f"  source     {sample['source']}",
            f"  reference  {sample['reference']}",
            f"  model      {sample['hypothesis']}",
        ]
    return "\n".join(lines)
