"""metrics.jsonl: what was measured during a training, one JSON object a line. Written and read only here.

{"kind": "train", "step": 100, "loss": …} every `train.log_every` updates
{"kind": "valid", "step": 500, "perplexity": …, "bleu": …, "samples": […]} at each validation
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from vaswani.console import say
from vaswani.files import read_failure, write_failure, write_text
from vaswani.runs.directory import RunDirectory
from vaswani.runs.tensorboard import TensorBoardLog


class MetricsLog:
    """Appends to metrics.jsonl, and to TensorBoard's files if tensorboardX is installed.

    A killed run may have logged more than its last checkpoint holds. Opening the log at `step` drops what is later.
    """

    def __init__(self, run: RunDirectory, step: int):
        _drop_after(run.metrics_path, step)
        self._path = run.metrics_path
        with self._named_failures():
            self._file = open(run.metrics_path, "a", encoding="utf-8")  # noqa: SIM115 (closed by `close`)
            self._tensorboard = _tensorboard(run.tensorboard, step)

    def write(self, kind: str, step: int, **values: Any) -> None:
        """Writes one event; `kind` is "train" or "valid".

        Raises:
            WorkFailed: the disk is full or cannot be written. The next start drops the half-written line.
        """
        with self._named_failures():
            self._file.write(json.dumps({"kind": kind, "step": step, **values}, ensure_ascii=False) + "\n")
            self._file.flush()
            if self._tensorboard:
                self._tensorboard.write(kind, step, time.time(), values)

    @contextmanager
    def _named_failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise write_failure(self._path, error) from None

    def close(self) -> None:
        for file in filter(None, (self._file, self._tensorboard)):
            with suppress(OSError):  # each event is flushed; an event that failed would fail once more
                file.close()


def _drop_after(path: Path, step: int) -> None:
    if not path.exists():
        return
    events = read_events(path)
    lines = path.read_bytes().count(b"\n")  # without the end of a line that a kill has cut
    if lost := max(lines - len(events), 0):
        say(f"{path}: damaged; {lost} of its lines cannot be read and are dropped")
    kept = [event for event in events if event["step"] <= step]
    write_text(path, "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in kept))


def _tensorboard(directory: Path, step: int) -> TensorBoardLog | None:
    try:
        return TensorBoardLog(directory, step)
    except ImportError:
        return None


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
