"""How far a training has come: what a checkpoint stores beside the arrays and the position in the data."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vaswani.schema import Config


@dataclass
class TrainingProgress:
    """Plain values; a checkpoint stores them as JSON."""

    elapsed_s: float = 0.0
    """Seconds of training in all starts; compiling is not counted."""
    scheduled_s: float = 0.0
    """`elapsed_s` at the last checkpoint that was made on schedule."""
    best_step: int | None = None
    """The step with the lowest validation perplexity."""
    best_perplexity: float = math.inf
    validations_without_gain: int = 0
    """Validations in a row without a new best; `train.patience` bounds them."""
    validated_step: int = 0
    """The step of the last validation. A signal may stop a run after an update and before its validation."""
    skipped: int = 0
    """Updates that were not applied, because their loss or gradient was not finite."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TrainingProgress":
        """Reads values of any version. Unknown fields are ignored; missing ones take their default."""
        known = {field.name for field in dataclasses.fields(cls)}
        progress = cls(**{name: value for name, value in values.items() if name in known})
        if "scheduled_s" not in values:
            progress.scheduled_s = progress.elapsed_s
        return progress

    def note_validation(self, perplexity: float, step: int) -> bool:
        """Counts a validation. Returns whether it is the best so far."""
        self.validated_step = step
        improved = perplexity < self.best_perplexity
        if improved:
            self.best_perplexity, self.best_step, self.validations_without_gain = perplexity, step, 0
        else:
            self.validations_without_gain += 1
        return improved


def why_finished(config: Config, step: int, progress: TrainingProgress) -> str:
    """Why a training ends at `step`; empty if it does not."""
    minutes, patience = config.train.max_minutes, config.train.patience
    if step >= config.train.steps:
        return f"all {config.train.steps:,} updates are made (train.steps)"
    if minutes and progress.elapsed_s >= 60 * minutes:
        return f"the time limit of {minutes:g} min is reached (train.max_minutes)"
    if patience and progress.validations_without_gain >= patience:
        times = "1 validation" if patience == 1 else f"{patience} validations in a row"
        return f"{times} brought no better perplexity (train.patience)"
    return ""
