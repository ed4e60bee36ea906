"""Sums of the updates between two log lines."""

import time
from typing import Any


class Window:
    """Sums and time since the last log line."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._sums: list[Any] = []
        self._gradient_norm = 0.0

    def add(self, metrics: Any) -> None:
        """Counts an update, given its `StepMetrics`."""
        self._sums.append(metrics.sums)
        self._gradient_norm = float(metrics.gradient_norm)

    def leave_out(self, seconds: float) -> None:
        """Does not count `seconds`, in which no update was made."""
        self._started += seconds

    def summary(self) -> dict[str, Any]:
        """What a log line shows. Loss and nll are in nats per target token; padding is not counted."""
        seconds = max(time.monotonic() - self._started, 1e-9)
        loss, nll, target_tokens, source_tokens = (
            sum(float(getattr(s, name)) for s in self._sums)  # as int32 the tokens of a long window would overflow
            for name in ("loss", "nll", "target_tokens", "source_tokens")
        )
        return {
            "loss": round(loss / target_tokens, 5),
            "nll": round(nll / target_tokens, 5),
            "gradient_norm": round(self._gradient_norm, 5),
            "source_tokens_per_update": round(source_tokens / len(self._sums)),
            "target_tokens_per_update": round(target_tokens / len(self._sums)),
            "source_tokens_per_s": round(source_tokens / seconds),
            "target_tokens_per_s": round(target_tokens / seconds),
            "seconds_per_update": round(seconds / len(self._sums), 4),
        }
