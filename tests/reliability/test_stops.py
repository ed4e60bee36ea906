"""Stop signals, closed terminals and full disks: what is saved stays whole, and the same command goes on."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.reliability.harness import killed, line
from vaswani.runs import checkpoints

TRAIN = ["train", "tiny.toml", "--train.log-every", "1", "--train.valid-every", "5000", "--train.valid-lines", "0"]


def steps_of(run: Path) -> list[int]:
    return [json.loads(text)["step"] for text in (run / "metrics.jsonl").read_text().splitlines()]


def test_every_stop_signal_saves_and_the_command_goes_on(prepared):
    """Here those that `tests/training/test_loop.py` does not send, one after the other."""
    run = prepared.path / "runs/tiny"
    for signum in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        start = killed(prepared, [*TRAIN, "--train.steps", "5000"], line("updates", "step ", times=3), signum)
        assert start.exit_code == 128 + signum and f"{signum.name} received" in start.stderr, start.stderr
        last = checkpoints.steps(run / "checkpoints")[-1]
        assert f"stopped at step {last}" in start.stderr and steps_of(run) == list(range(1, last + 1))
        assert "Traceback" not in start.stderr


def test_a_second_signal_ends_at_once_and_breaks_nothing(prepared):
    """It arrives while the first one's checkpoint is written, or when that is over."""
    process = prepared.start(*TRAIN, "--train.steps", "5000")
    for text in process.stderr:
        if text.startswith("step 20/") or "SIGTERM received" in text:
            process.terminate()
        if "SIGTERM received" in text:
            break
    rest = process.stderr.read()
    assert process.wait(60) in (-signal.SIGTERM, 128 + signal.SIGTERM) and "Traceback" not in rest
    saved = checkpoints.steps(prepared.path / "runs/tiny/checkpoints")[-1]
    assert saved >= 18
    again = prepared.vaswani(*TRAIN, "--train.steps", str(saved + 1)).stderr
    assert f"going on from step {saved}" in again and "broken" not in again


def test_a_closed_terminal_does_not_stop_what_nohup_started(prepared):
    """`nohup` makes a process ignore SIGHUP, and the training leaves it so."""
    ignore = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    process = prepared.start(*TRAIN, "--train.steps", "30", **ignore)
    for text in process.stderr:
        if text.startswith("step 2/"):
            process.send_signal(signal.SIGHUP)
            break
    rest = process.stderr.read()
    assert process.wait(60) == 0 and "done at step 30" in rest and "SIGHUP" not in rest


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small file system needs root")
@pytest.mark.parametrize(
    ("checkpoint_every", "names"),
    [
        pytest.param("1000", "runs/tiny/metrics.jsonl", id="metrics.jsonl"),
        # Slow, because it sometimes fails: Orbax's threads may still print tracebacks while the process ends.
        pytest.param("10", "runs/tiny/checkpoints/", id="checkpoint", marks=pytest.mark.slow),
    ],
)
def test_a_disk_that_fills_up_is_one_line_and_the_command_goes_on_when_there_is_room(
    prepared, tmp_path, checkpoint_every, names
):
    disk, command = tmp_path / "disk", [*TRAIN, "--train.steps", "5000", "--train.checkpoint-every", checkpoint_every]
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("no small file system can be mounted here")
    try:
        subprocess.run(["cp", "-r", prepared.path / "tiny.toml", prepared.path / "prepared", disk], check=True)
        prepared.path = disk
        process = prepared.start(*command)
        for text in process.stderr:
            if text.startswith("step 15/"):
                fill(disk / "ballast")
                break
        rest = process.stderr.read()
        assert process.wait(60) == 1 and "Traceback" not in rest, rest
        assert rest.count("vaswani: ") == 1 and rest.split("\n")[-2].startswith(f"vaswani: {names}")
        assert "cannot be written: no space left on the disk" in rest
        (disk / "ballast").unlink()
        saved = checkpoints.steps(disk / "runs/tiny/checkpoints")
        assert saved == ([10] if checkpoint_every == "10" else [])
        done = prepared.vaswani(*command, "--train.steps", "30").stderr
        assert ("going on from step 10" in done) == (saved == [10]) and "broken" not in done
        assert steps_of(disk / "runs/tiny")[:30] == list(range(1, 31))
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(ballast: Path) -> None:
    """Takes all the room that is left, also what is freed a moment later."""
    for _ in range(3):
        subprocess.run(f"cat /dev/zero >> '{ballast}'", shell=True, stderr=subprocess.DEVNULL)
        time.sleep(0.05)
