"""metrics.jsonl: what was measured during a training, one JSON object a line. Written and read only here.

{"kind": "train", "step": 100, "loss": …} every `train.log_every` updates
{"kind": "valid", "step": 500, "perplexity": …, "bleu": …, "samples": […]} at each validation
"""

import json
from pathlib import Path
from typing import Any

from vaswani.files import read_failure, write_text
from vaswani.runs.directory import RunDirectory


class MetricsLog:
    """Appends to metrics.jsonl, and to TensorBoard's files if tensorboardX is installed.

    A killed run may have logged more than its last checkpoint holds. Opening the log at `step` drops what is later.
    """

    def __init__(self, run: RunDirectory, step: int):
        _drop_after(run.metrics_path, step)
        self._file = open(run.metrics_path, "a", encoding="utf-8")  # noqa: SIM115 (closed by `close`)
        self._tensorboard = _tensorboard(run.tensorboard, step)

    def write(self, kind: str, step: int, **values: Any) -> None:
        """Writes one event; `kind` is "train" or "valid"."""
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


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events of a metrics.jsonl; an empty list if the file is missing.

    Lines that are no complete event are ignored: the last line may be half-written.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise read_failure(path, error) from None
    events = []
    needed = {"train": ("step", "loss"), "valid": ("step", "perplexity")}
    for line in lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(event, dict) or event.get("kind") not in tuple(needed):
            continue
        if all(isinstance(event.get(key), int | float) for key in needed[event["kind"]]):
            events.append(event)
    return events
