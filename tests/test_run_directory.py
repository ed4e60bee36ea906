"""Files are written whole or not at all; a run belongs to one process and one configuration."""

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from filelock import FileLock

from vaswani.config import Config, ModelConfig, TrainConfig
from vaswani.errors import UserError, WorkFailed
from vaswani.run_directory import RunDirectory, atomic_path, read_events, read_json, write_json, write_text


def names(directory):
    return sorted(p.name for p in directory.iterdir())


def test_a_written_file_appears_whole_and_keeps_its_suffix(tmp_path):
    path = tmp_path / "new" / "x.npy"
    with atomic_path(path) as temporary:
        temporary.write_bytes(b"abc")
        assert temporary.suffix == ".npy" and not path.exists()
    assert path.read_bytes() == b"abc"
    write_text(path, "ü\r\n\u2028\n")
    assert path.read_bytes() == "ü\r\n\u2028\n".encode()  # no line end is translated
    assert names(path.parent) == ["x.npy"]


def test_a_failed_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "scores.json"
    write_json(path, {"bleu": 27.3})
    with pytest.raises(KeyError), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise KeyError
    assert json.loads(path.read_text()) == {"bleu": 27.3}
    assert names(tmp_path) == ["scores.json"]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), OSError("4096 requested and 0 written")]
)
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, error):
    message = r"x\.npy: cannot be written: no space left on the disk"
    with pytest.raises(WorkFailed, match=message) as caught, atomic_path(tmp_path / "x.npy") as temporary:
        temporary.write_text("half")
        raise error
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == []


def test_a_place_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkFailed, match="cannot be written"):
        write_text(tmp_path / "file" / "x", "")


def test_an_error_of_reading_is_not_taken_for_one_of_writing(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "out"):
        (tmp_path / "missing").read_text()


def test_a_run_keeps_its_configuration_and_versions(tmp_path):
    config = Config(model=ModelConfig(N=2), train=TrainConfig(steps=7, lr_scale=0.1))
    run = RunDirectory(tmp_path / "multi30k")
    run.create(config)
    assert RunDirectory.open(run.path).load_config() == config
    assert json.loads(run.versions_path.read_text())["jax"].startswith("0.")


def test_a_missing_run_names_the_nearest(tmp_path):
    RunDirectory(tmp_path / "multi30k").create(Config())
    (tmp_path / "mutli30k_notes").mkdir()  # not a run
    with pytest.raises(UserError, match=r"no run directory at .*mutli30k \(did you mean .*/multi30k\?\); "):
        RunDirectory.open(tmp_path / "mutli30k")


def test_only_budgets_and_intervals_may_change_on_resuming(tmp_path):
    config = Config()
    run = RunDirectory(tmp_path / "base")
    run.create(config)
    run.check_same(dataclasses.replace(config, train=TrainConfig(steps=5, max_minutes=1.0, log_every=1)))
    with pytest.raises(UserError, match=r"train\.warmup = 4000 there, 16000 now") as caught:
        run.check_same(dataclasses.replace(config, train=TrainConfig(steps=5, warmup=16000)))
    assert "train.steps" not in str(caught.value)


@pytest.mark.parametrize("lost", ["vocab_size", "difficulty", "d_", "everything"])
def test_a_key_that_a_run_has_lost_is_not_taken_for_its_default(tmp_path, lost):
    run = RunDirectory(tmp_path / "base")
    run.create(Config())
    lines = run.config_path.read_text().split("\n")
    run.config_path.write_text("" if lost == "everything" else "\n".join(x for x in lines if not x.startswith(lost)))
    with pytest.raises(UserError, match=r"config\.toml: has no (data|model)\.") as caught:
        run.load_config()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("name", "says"),
    [("file", "file: is a file"), ("file/run", "file: is a file"), ("x" * 300, "File name too long")],
)
def test_a_path_that_no_run_can_have_is_named(tmp_path, name, says):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=says):
        RunDirectory(tmp_path / name)


def test_what_cannot_be_read_is_one_line(tmp_path):
    for read in (read_json, read_events):
        assert not read(tmp_path / "missing")
        with pytest.raises(UserError, match=f"{tmp_path}: cannot be read: Is a directory"):
            read(tmp_path)


def test_asking_who_holds_a_run_never_keeps_it_from_a_training(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.create(Config())
    assert run.holder() == "" and not (run.path / ".lock").exists()  # not even touched
    run.path.joinpath(".lock.holder").write_text("process 1 on a killed machine")
    assert run.holder() == ""
    probe = FileLock(run.path / ".lock", thread_local=False)  # as `holder` holds it for a moment
    probe.acquire()
    threading.Timer(0.1, probe.release).start()
    with run.lock():
        pass


@pytest.mark.parametrize("name", ["a[1]", "a\\b", "a[1]/b"])
def test_names_that_checkpoints_cannot_be_read_from_are_refused(tmp_path, name):
    with pytest.raises(UserError, match="cannot hold"):
        RunDirectory(tmp_path / name)


def test_one_process_at_a_time_and_a_dead_one_does_not_count(tmp_path):
    hold = "import sys; from vaswani.run_directory import RunDirectory\n"
    hold += "with RunDirectory(sys.argv[1]).lock(): print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(tmp_path / "run")]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        run = RunDirectory(tmp_path / "run")
        with pytest.raises(UserError, match=f"in use by process {holder.pid} on {os.uname().nodename}"), run.lock():
            pass
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        with run.lock():
            pass
        with run.lock():  # and released again
            pass
    finally:
        holder.kill()
        holder.communicate()
