"""A run belongs to one process and one configuration."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from filelock import FileLock, Timeout

from vaswani.errors import UserError
from vaswani.runs.directory import RunDirectory
from vaswani.schema import Config, ModelConfig, TrainConfig


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
    with pytest.raises(UserError, match=r"train\.warmup = 4000 before, 16000 now") as caught:
        run.check_same(dataclasses.replace(config, train=TrainConfig(steps=5, warmup=16000)))
    assert "train.steps" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "says"),
    [("file", "file: is a file"), ("file/run", "file: is a file"), ("x" * 300, "File name too long")],
)
def test_a_path_that_no_run_can_have_is_named(tmp_path, name, says):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=says):
        RunDirectory(tmp_path / name)


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


def test_a_holder_that_lets_go_while_it_is_asked_for(tmp_path, monkeypatch):
    run = RunDirectory(tmp_path / "run")
    run.create(Config())

    class Held:
        def __init__(self, *_, **__):
            run.path.joinpath(".lock.holder").unlink()
            raise Timeout("")

    run.path.joinpath(".lock.holder").write_text("process 1")
    monkeypatch.setattr("vaswani.runs.directory.FileLock", Held)
    assert run.holder() == ""


@pytest.mark.parametrize("name", ["a[1]", "a\\b", "a[1]/b"])
def test_names_that_checkpoints_cannot_be_read_from_are_refused(tmp_path, name):
    with pytest.raises(UserError, match="cannot contain"):
        RunDirectory(tmp_path / name)


def test_one_process_at_a_time_and_a_dead_one_does_not_count(tmp_path):
    hold = "import sys; from vaswani.runs.directory import RunDirectory\n"
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
