"""Sums of the updates between two log lines."""

import time
from typing import Any


class Window:
    """Sums since the last log line."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.sums: list[Any] = []
        self.gradient_norm = 0.0

    def add(self, metrics: Any) -> None:
        self.sums.append(metrics.sums)
        self.gradient_norm = float(metrics.gradient_norm)

    def summary(self) -> dict[str, Any]:
        """Loss and nll in nats per target token; tokens without padding."""
        seconds = max(time.monotonic() - self.started, 1e-9)
        loss, nll, target_tokens, source_tokens = (
            sum(float(getattr(s, name)) for s in self.sums)  # as int32 the tokens of a long window would overflow
            for name in ("loss", "nll", "target_tokens", "source_tokens")
        )
        return {
            "loss": round(loss / target_tokens, 5),
            "nll": round(nll / target_tokens, 5),
            "gradient_norm": round(self.gradient_norm, 5),
            "source_tokens_per_update": round(source_tokens / len(self.sums)),
            "target_tokens_per_update": round(target_tokens / len(self.sums)),
            "source_tokens_per_s": round(source_tokens / seconds),
            "target_tokens_per_s": round(target_tokens / seconds),
            "seconds_per_update": round(seconds / len(self.sums), 4),
        }
