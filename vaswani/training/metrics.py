"""What a run says of itself: one console line and one line of metrics.jsonl an event, TensorBoard where installed."""

import json
import time
from pathlib import Path
from typing import Any

from vaswani.files import write_text
from vaswani.run_directory import RunDirectory, read_events


class MetricsLog:
    """Appends to metrics.jsonl. Opened at the step that training goes on from, it drops what a killed run had ahead."""

    def __init__(self, run: RunDirectory, step: int):
        _drop_after(run.metrics_path, step)
        self._file = open(run.metrics_path, "a", encoding="utf-8")  # noqa: SIM115 (closed by `close`)
        self._tensorboard = _tensorboard(run.path / "tensorboard", step)

    def write(self, kind: str, step: int, **values: Any) -> None:
        """One event; `kind` is "train" or "valid"."""
        self._file.write(json.dumps({"kind": kind, "step": step, **values}, ensure_ascii=False) + "\n")
        self._file.flush()
        if self._tensorboard:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._tensorboard.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        self._file.close()
        if self._tensorboard:
            self._tensorboard.close()


def _drop_after(path: Path, step: int) -> None:
    kept = [event for event in read_events(path) if event["step"] <= step]
    if path.exists():
        write_text(path, "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in kept))


def _tensorboard(directory: Path, step: int) -> Any:
    try:
        from tensorboardX import SummaryWriter  # the extra "tensorboard"
    except ImportError:
        return None
    return SummaryWriter(str(directory), purge_step=step + 1)


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
