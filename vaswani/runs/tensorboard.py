"""The events of a training for TensorBoard, if tensorboardX (the extra "tensorboard") is installed."""

from pathlib import Path
from typing import Any


class TensorBoardLog:
    """Writes in the caller's thread, so that a full disk is an error here.

    The library's own SummaryWriter writes in another thread. If that thread fails, the training waits for it forever.
    """

    def __init__(self, directory: Path, step: int):
        """Begins a file. TensorBoard will drop what earlier files hold of later steps than `step`.

        Raises:
            ImportError: tensorboardX is not installed.
        """
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2, summary_pb2

        # Generated modules, whose names a type checker does not see.
        self._event: Any = vars(event_pb2)["Event"]
        self._summary: Any = vars(summary_pb2)["Summary"]
        directory.mkdir(parents=True, exist_ok=True)
        self._file = EventsWriter(str(directory / "events"))
        self._file.write_event(self._event(step=step + 1, session_log={"status": "START"}))

    def write(self, kind: str, step: int, time: float, values: dict[str, Any]) -> None:
        """Writes the numbers among `values`; `time` is that of the clock."""
        numbers = {f"{kind}/{name}": v for name, v in values.items() if isinstance(v, int | float)}
        summary = self._summary(value=[{"tag": tag, "simple_value": v} for tag, v in numbers.items()])
        self._file.write_event(self._event(wall_time=time, step=step, summary=summary))
        self._file.flush()

    def close(self) -> None:
        self._file.close()
