"""TensorBoard's files hold every number of every event, and say from which step on they replace earlier ones."""

import struct
from pathlib import Path

import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog

from vaswani.runs.directory import RunDirectory
from vaswani.runs.events import MetricsLog


def read(path: Path) -> list[Event]:
    """TensorFlow's records: length, its checksum, the event, its checksum."""
    data, events = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        events.append(Event.FromString(data[12 : 12 + length]))
        data = data[16 + length :]
    return events


def test_numbers_are_written_at_once(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.path.mkdir()
    log = MetricsLog(run, 40)
    log.write("valid", 50, perplexity=2.5, bleu=None, samples=[{"source": "a"}], elapsed_s=3)
    (path,) = run.tensorboard.iterdir()
    version, begins, valid = read(path)  # before the log is closed
    assert version.file_version == "brain.Event:2"
    assert (begins.step, begins.session_log.status) == (41, SessionLog.START)
    assert {v.tag: v.simple_value for v in valid.summary.value} == {"valid/perplexity": 2.5, "valid/elapsed_s": 3.0}
    assert valid.step == 50 and valid.wall_time == pytest.approx(path.stat().st_mtime, abs=60)
    log.close()
    assert len(read(path)) == 3
