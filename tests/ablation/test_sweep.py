"""Whole sweeps of the tiny configuration, by the real command: crashes, kills, two at once, another base."""

import json
import os
import signal
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from vaswani import cli
from vaswani import config as config_module
from vaswani.ablation import rows as table3
from vaswani.ablation.pool import why_failed
from vaswani.ablation.sweep import Sweep, SweepRun
from vaswani.errors import UserError
from vaswani.runs.directory import RunDirectory
from vaswani.schema import Config

SWEEP = "runs/tiny-table3"
RESEEDED = "[train]\nseed = 9\n"  # another run of the same program: nothing new to compile


def wait_for(what):
    deadline = time.monotonic() + 150
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def text(path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


# Validation and checkpoints cost the tiny model more than its updates.
SPARSE = ["--train.valid-every", "500", "--train.valid-lines", "0", "--train.checkpoint-every", "150"]


def sweep_of(work, steps=300, seeds=1, names=("E",), set_name="valid") -> Sweep:
    settings = {
        key.removeprefix("--").replace("-", "_"): SPARSE[i + 1] for i, key in enumerate(SPARSE[:-1]) if i % 2 == 0
    }
    config = config_module.load(work.path / "tiny.toml")
    config = config_module.override(config, settings | {"train.steps": str(steps)})
    return Sweep(RunDirectory(work.path / SWEEP), config, table3.rows(config, names), seeds, set_name)


def test_a_sweep_is_killed_goes_on_survives_a_crash_and_makes_the_table(prepared, monkeypatch, capsys):
    """Base, C1 (around one layer the base model), E, and a row of our own; E dies as if memory had run out."""
    monkeypatch.chdir(prepared.path)
    Path("reseeded.toml").write_text(RESEEDED)
    rows = ["--rows", "C1,E,reseeded.toml", "--seeds", "1"]
    command = ["ablate", "tiny.toml", *rows, "--train.steps", "300", *SPARSE]
    directory = Path(SWEEP)
    log = directory / "base-seed0/log.txt"

    assert cli.run([*command, "--dry-run"]) == 0
    plan = capsys.readouterr().out
    assert "base-seed0" in plan and "not started" in plan and not directory.exists()
    assert "3 runs in runs/tiny-table3, 1 at a time; the time is unknown until" in plan
    assert "C1: the same model as base here" in plan

    # Killed half-way: the child saves and leaves by itself. While it runs, nobody else can work here.
    first = prepared.start(*command)
    try:
        wait_for(lambda: "step 4/" in text(log))
    finally:
        first.kill()
        first.wait()
    first.stderr.close()
    wait_for(lambda: "stopped at step" in text(log) and not RunDirectory(directory / "base-seed0").holder())
    assert "SIGTERM received" in text(log)

    # Continued: the base goes on, E is killed, which stops nothing.
    second = prepared.start(*command, "--json", stdout=subprocess.PIPE)
    wait_for(lambda: text(directory / ".lock.holder") == f"process {second.pid} on {socket.gethostname()}")
    assert cli.run(command) == 2
    assert f"tiny-table3: in use by process {second.pid} on " in capsys.readouterr().err
    holder = directory / "E-seed0/.lock.holder"
    wait_for(lambda: text(holder))
    os.kill(int(text(holder).split()[1]), signal.SIGKILL)
    out, err = second.communicate()
    assert second.returncode == 1 and "Traceback" not in err
    assert "going on from step" in text(log) and "done at step 300" in text(log)
    assert (
        "E-seed0: failed: killed by SIGKILL (runs/tiny-table3/E-seed0/log.txt)" in err and "1 of 3 runs failed" in err
    )
    found = {row["row"]: row for row in json.loads(out)["rows"]}
    assert list(found) == ["base", "C1", "E", "reseeded"]
    for name in ("base", "reseeded"):
        (result,) = found[name]["results"]
        run = directory / f"{name}-seed0"
        events = [json.loads(line) for line in text(run / "metrics.jsonl").split("\n") if line]
        valid = [e["perplexity"] for e in events if e["kind"] == "valid" and e["step"] == 300]
        evaluation = json.loads(text(run / "evaluation.json"))["sets"]["valid"]
        assert result["steps"] == 300 and [result["perplexity"]] == valid
        assert evaluation["checkpoint"] == "step 300"
        assert evaluation["scores"][0]["value"] == pytest.approx(result["bleu"])
        assert len(text(run / "translations/valid.txt").split("\n")) == 13 and not (run / "averaged").exists()
    delta = found["reseeded"]["delta"]
    assert delta["value"] == pytest.approx(found["reseeded"]["bleu"][0] - found["base"]["bleu"][0])
    assert delta["low"] <= delta["value"] <= delta["high"] and found["reseeded"]["paper"] is None
    assert found["C1"]["same_as"] == "base" and found["C1"]["results"] == found["base"]["results"]
    assert found["C1"]["paper_delta"] == -2.1 and found["C1"]["delta"] is None
    assert found["E"]["results"] == [] and found["E"]["missing"] == {"E-seed0": "failed: killed by SIGKILL"}
    for suffix in ("json", "csv", "md", "png"):
        assert (directory / f"table3.{suffix}").stat().st_size > 500
    assert "| E |" in text(directory / "table3.md") and "learned" in text(directory / "table3.md")

    # Again, without the row that failed: nothing is left to do, and the table is there at once.
    command[3] = "C1,reseeded.toml"
    assert cli.run(command) == 0
    done = capsys.readouterr()
    assert "started" not in done.err and "going on" not in done.err and "same as base" in done.out

    # Another base is refused, with what differs. What no result depends on may change; rows and seeds may be added.
    with pytest.raises(UserError, match=r"\(train\.steps = 300 before, 301 now\)"), sweep_of(prepared, 301).lock():
        pass
    more = sweep_of(prepared, seeds=3, names=("A", "B"))
    with more.lock():
        assert [run.name for run in more.runs if run.finished()] == ["base-seed0"]
    # A row's own file may ask for more updates than before.
    (longer,) = [run for run in sweep_of(prepared).runs if run.name == "base-seed0"]
    assert longer.finished()
    assert not replace(longer, config=config_module.override(longer.config, {"train.steps": "400"})).finished()
    # Another set to be scored on leaves the training as it is; only the translating is left.
    base = sweep_of(prepared, set_name="test").runs[0]
    assert not base.finished() and base.steps() == 300


def test_ctrl_c_saves_every_run_and_leaves_no_process(prepared):
    """Two at a time; the terminal's signal goes to the sweep alone, which passes it on and waits."""
    (prepared.path / "reseeded.toml").write_text(RESEEDED)
    command = ["ablate", "tiny.toml", "--rows", "reseeded.toml", "--seeds", "1", "--jobs", "2", *SPARSE]
    command += ["--train.steps", "100000"]
    process = prepared.start(*command)
    runs = [RunDirectory(prepared.path / SWEEP / f"{name}-seed0") for name in ("base", "reseeded")]
    try:
        wait_for(lambda: all("step 2/" in text(run.path / "log.txt") for run in runs))
        cores = [os.sched_getaffinity(int(str(run.holder()).split()[1])) for run in runs]
        assert len(os.sched_getaffinity(0)) < 2 or cores[0].isdisjoint(cores[1]), "each has its share"
    finally:
        process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait(60) == 130 and "Traceback" not in rest
    for run in runs:
        assert "stopped at step" in text(run.path / "log.txt") and not run.holder()
        assert f"{run.path.name}: stopped at step" in rest
    mine = [p for p in os.listdir("/proc") if p.isdigit() and str(prepared.path) in cwd(p)]
    assert mine == []


def cwd(process: str) -> str:
    try:
        return os.readlink(f"/proc/{process}/cwd")
    except OSError:
        return ""


def test_every_seed_first_then_the_next(prepared):
    sweep = sweep_of(prepared, seeds=2, names=("A", "C1", "E"))
    # Around two heads, A1 and A2 are one head each, A3 four and A4 eight; around one layer, C1 is the base.
    assert [run.name for run in sweep.runs] == [
        f"{row}-seed{k}" for k in (0, 1) for row in ("base", "A1", "A3", "A4", "E")
    ]
    assert {run.config.train.seed for run in sweep.runs} == {1706, 1707}
    arguments = sweep.arguments(sweep.runs[-1])
    assert arguments[arguments.index("--set") :] == [
        "--set", "valid", "--model.positions", "learned", "--train.seed", "1707",
    ]  # fmt: skip


def test_why_a_run_failed(tmp_path):
    log = tmp_path / "log.txt"
    assert why_failed(log, 0, 1) == "exit code 1"  # a cluster's job that never began has no log
    log.write_text("of an earlier start\n")
    assert why_failed(log, log.stat().st_size, 1) == "exit code 1"
    log.write_text("vaswani: no space left\nTraceback\n")
    assert why_failed(log, 0, 1) == "no space left" and why_failed(log, 0, -9) == "killed by SIGKILL"


def test_progress_is_read_from_a_log_that_is_being_written(tmp_path):
    """Whole events count; half a character, other JSON and an event without its time are passed over."""
    run = SweepRun("A1-seed0", Config(), RunDirectory(tmp_path), "valid")
    assert (run.steps(), run.timing()) == (0, None)
    event = '{"kind": "train", "step": %d, "loss": 2.5%s}\n'
    lines = event % (100, ', "elapsed_s": 40.0') + "5\n{}\n" + event % (200, "") + '{"kind": "valid", "samples": "ü'
    run.directory.metrics_path.write_bytes(lines.encode()[:-1])
    assert run.steps() == 200
    assert run.timing() == (100, 40.0)
