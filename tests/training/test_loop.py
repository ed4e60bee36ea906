"""Runs of the real command: exact resume, signals, limits, what is kept."""

import itertools
import json
import os
import re
import signal
import threading
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from orbax.checkpoint import v1 as ocp

from vaswani import config as config_module
from vaswani.data.packing import TrainingBatches
from vaswani.data.prepared_corpus import PreparedCorpus
from vaswani.decoding.translator import Translator
from vaswani.errors import WorkFailed
from vaswani.runs import checkpoints
from vaswani.runs.directory import RunDirectory
from vaswani.schema import Config, TrainConfig
from vaswani.training import loop, session
from vaswani.training.progress import TrainingProgress, why_finished
from vaswani.training.signals import Interrupted
from vaswani.training.train_step import StepMetrics, Sums


def arrays(run):
    """Step and every array of the newest checkpoint: parameters, and the optimiser's state."""
    step = checkpoints.steps(run / "checkpoints")[-1]
    return step, load(run / "checkpoints" / str(step))


def load(path):
    path = (path / "arrays").absolute()
    like = jax.tree.map(lambda saved: np.empty(saved.shape, saved.dtype), ocp.metadata(path).metadata)
    return ocp.load(path, like)  # as numpy arrays, on however many devices they were


def same(a, b) -> bool:
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.array_equal(x, y) for x, y in leaves)


def events(run, kind):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def timeless(event):
    return {k: v for k, v in event.items() if not re.search(r"_s$|second", k)}


def test_stopping_and_going_on_is_the_same_as_going_straight(trained):
    """Bitwise, with accumulation, cut in the middle of an epoch: parameters, order of the data, learning rate."""
    trained.vaswani("train", "tiny.toml", "--run", "runs/cut", "--train.steps", "7")
    going_on = trained.vaswani("train", "tiny.toml", "--run", "runs/cut")
    assert "going on from step 7" in going_on.stderr
    straight, cut = trained.path / "runs/tiny", trained.path / "runs/cut"
    step, expected = arrays(straight)
    assert (step, True) == (arrays(cut)[0], same(expected, arrays(cut)[1]))
    meta = [checkpoints.read_meta(run / "checkpoints" / "12") for run in (straight, cut)]
    assert meta[0]["data"] == meta[1]["data"] and meta[0]["data"]["index"] > 0
    # The average is of the same checkpoints, though the stop made one more on the way.
    assert checkpoints.regular(cut / "checkpoints") == checkpoints.regular(straight / "checkpoints") == [3, 6, 9, 12]
    first, last = (event["perplexity"] for event in events(straight, "valid"))
    assert last < first < 500, "an untrained model's perplexity is its vocabulary's size"
    assert list((straight / "tensorboard").glob("events*"))
    by_step = {e["step"]: timeless(e) for e in events(straight, "train")}
    assert {e["step"]: timeless(e) for e in events(cut, "train") if e["step"] in (10, 12)} == {
        step: by_step[step] for step in (10, 12)
    }


def test_going_on_is_exact_on_two_devices_too(prepared):
    """And in a program that XLA has optimised, as in use; those of the other tests are not, to compile faster."""
    flags = "--xla_force_host_platform_device_count=2"
    prepared.environment = prepared.environment | {"XLA_FLAGS": flags}
    for run, steps in (("runs/cut", "4"), ("runs/cut", "7"), ("runs/straight", "7")):
        done = prepared.vaswani("train", "tiny.toml", "--run", run, "--train.steps", steps, "--train.valid-lines", "0")
        assert "on 2 devices" in done.stderr
    (_, straight), (_, cut) = (arrays(prepared.path / run) for run in ("runs/straight", "runs/cut"))
    assert same(straight, cut)


def test_a_killed_run_goes_on_from_its_last_checkpoint(trained):
    """SIGKILL leaves log lines ahead of the checkpoint; the resumed log has each step once."""
    process = trained.start("train", "tiny.toml", "--run", "runs/killed", "--train.steps", "100000")
    for line in process.stderr:
        if line.startswith("step 20/"):
            process.kill()
            break
    process.wait()
    saved = checkpoints.steps(trained.path / "runs/killed/checkpoints")[-1]
    done = trained.vaswani("train", "tiny.toml", "--run", "runs/killed", "--train.steps", str(saved + 4))
    assert f"going on from step {saved}" in done.stderr
    steps = [e["step"] for e in events(trained.path / "runs/killed", "train")]
    assert steps == sorted(set(steps)) and steps[-1] == saved + 4


@pytest.mark.parametrize(
    ("signum", "moment"),
    [
        (signal.SIGINT, "compiling"),
        (signal.SIGTERM, "compiling"),
        (signal.SIGTERM, "step 4/"),
        (signal.SIGTERM, "valid 6"),
    ],
)
def test_a_signal_saves_and_leaves(prepared, signum, moment):
    """During compilation, between updates, and in or around a validation; then the same command goes on."""
    environment = prepared.environment | {"XDG_CACHE_HOME": str(prepared.path / "empty_cache")}
    if signum == signal.SIGINT and moment == "compiling":
        prepared.environment = environment  # the longest compilation
    process = prepared.start("train", "tiny.toml", "--train.steps", "100000")
    for line in process.stderr:
        if line.startswith(moment):
            process.send_signal(signum)
            break
    rest = process.stderr.read()
    assert process.wait(60) == 128 + signum, rest
    assert f"{signum.name} received" in rest and "the same command" in rest and "Traceback" not in rest
    stopped_at = int(re.search(r"stopped at step (\d+)", rest)[1])
    assert checkpoints.steps(prepared.path / "runs/tiny/checkpoints")[-1] == stopped_at
    assert (stopped_at == 0) == (moment == "compiling")
    done = prepared.vaswani("train", "tiny.toml", "--train.steps", str(stopped_at + 1))
    assert f"going on from step {stopped_at}" in done.stderr


def test_a_validation_that_a_signal_cut_off_is_made_up(trained):
    """At the last step too: the same validations and the same best as in a straight run, each of them once."""
    command = ["train", "tiny.toml", "--run", "runs/cut", "--train.valid-lines", "12", "--train.steps"]
    process = trained.start(*command, "6")
    for line in process.stderr:
        if line.startswith("step 6/"):
            process.send_signal(signal.SIGTERM)
            break
    assert "stopped at step 6; the same command goes on" in process.stderr.read()
    assert process.wait(60) == 128 + signal.SIGTERM
    assert "done at step 6" in trained.vaswani(*command, "6").stderr
    assert "nothing to do at step 6" in trained.vaswani(*command, "6").stderr
    trained.vaswani(*command, "12")
    straight, cut = ([(e["step"], e["perplexity"]) for e in events(trained.path / run, "valid")] for run in
                     ("runs/tiny", "runs/cut"))  # fmt: skip
    assert straight == cut
    saved = [checkpoints.read_meta(trained.path / f"runs/{run}/checkpoints/12")["progress"] for run in ("tiny", "cut")]
    assert timeless(saved[0]) == timeless(saved[1])


def test_how_a_training_ends():
    assert why_finished(Config(), 1, TrainingProgress(elapsed_s=5.0)) == ""
    config = Config(train=TrainConfig(steps=9, max_minutes=1, patience=1))
    assert why_finished(config, 9, TrainingProgress()) == "all 9 updates are made (train.steps)"
    assert "the time limit of 1 min is reached" in why_finished(config, 1, TrainingProgress(elapsed_s=60))
    assert "1 validation brought no" in why_finished(config, 1, TrainingProgress(validations_without_gain=1))


def test_patience_and_best_survive_a_resume(prepared):
    """With a learning rate of nearly nothing, float noise aside, no validation after the first brings a gain."""
    still = ["train", "tiny.toml", "--train.lr-scale", "1e-30", "--train.valid-every", "2", "--train.patience", "3"]
    prepared.vaswani(*still, "--train.steps", "4")
    meta = checkpoints.read_meta(prepared.path / "runs/tiny/checkpoints/4")
    assert meta["progress"]["best_step"] == 2 and meta["progress"]["validations_without_gain"] == 1
    assert 2 in checkpoints.steps(prepared.path / "runs/tiny/checkpoints"), "the best is kept, though on no schedule"
    done = prepared.vaswani(*still, "--train.steps", "100")
    assert "3 validations in a row brought no better perplexity" in done.stderr
    assert checkpoints.steps(prepared.path / "runs/tiny/checkpoints")[-1] == 8
    again = prepared.vaswani(*still, "--train.steps", "100")
    assert "nothing to do at step 8" in again.stderr


def test_the_best_and_the_last_are_kept(trained):
    """Five last ones, here 3 to 12 and the best; a validation that improves is saved."""
    steps = checkpoints.steps(trained.path / "runs/tiny/checkpoints")
    assert steps == [3, 6, 9, 12]
    trained.vaswani("train", "tiny.toml", "--train.steps", "40", "--train.keep-last", "2", "--train.average-last", "2")
    steps = checkpoints.steps(trained.path / "runs/tiny/checkpoints")
    best = checkpoints.read_meta(trained.path / "runs/tiny/checkpoints/40")["best_step"]
    assert steps == sorted({39, 40, best})


def test_ten_updates_in_a_row_that_are_not_finite_stop_the_run(prepared):
    done = prepared.vaswani("train", "tiny.toml", "--train.lr-scale", "1e38", "--train.steps", "50", code=1)
    assert "runs/tiny: 10 updates in a row were not finite at step 2; there is no checkpoint; try a" in done.stderr
    assert "Traceback" not in done.stderr


def test_ten_updates_in_a_row_that_are_not_finite_name_the_last_good_checkpoint(prepared, monkeypatch):
    def make_train_step(*arguments):
        step = session_make_train_step(*arguments)

        def with_faults(state, batch, key):
            if state.step < 7:
                return step(state, batch, key)
            return state, StepMetrics(Sums(*[np.float32(np.nan)] * 4), np.float32(np.nan), np.bool_(False))

        return SimpleNamespace(lower=lambda *_: SimpleNamespace(compile=lambda: with_faults))

    session_make_train_step = session.make_train_step
    monkeypatch.setattr(session, "make_train_step", make_train_step)
    with pytest.raises(WorkFailed, match="10 updates in a row were not finite at step 8; checkpoint 6 is good; try"):
        in_this_process(prepared, 12)
    assert checkpoints.steps(prepared.path / "runs/tiny/checkpoints")[-1] == 6


def in_this_process(workplace, steps, settings=()):
    """Trains runs/tiny of a workplace; returns its directory."""
    settings = {"train.steps": str(steps)} | dict(settings)
    config = config_module.override(config_module.load(workplace.path / "tiny.toml"), settings)
    run = RunDirectory(workplace.path / "runs/tiny")
    loop.train(config, run, PreparedCorpus.open(workplace.path / "prepared/tiny"))
    return run.path


def test_good_validations_do_not_put_off_the_checkpoints_that_the_clock_asks_for(prepared, monkeypatch):
    """Those of a good validation count for no average. Here every step brings one, and a clock asks each other step."""
    seconds = itertools.count()
    monkeypatch.setattr(session, "time", SimpleNamespace(monotonic=lambda: next(seconds)))  # 4 a step
    clock = {"checkpoint_every": 0, "checkpoint_minutes": 8 / 60, "valid_every": 1, "valid_lines": 0, "keep_last": 12}
    run = in_this_process(prepared, 12, {f"train.{key}": str(value) for key, value in clock.items()})
    assert len(events(run, "valid")) == 12
    assert 5 <= len(checkpoints.regular(run / "checkpoints")) <= 7


def test_an_update_that_is_not_finite_is_counted_and_its_data_left_behind(prepared, monkeypatch):
    """More than ten in all, but never ten in a row."""
    calls = []

    def make_train_step(*arguments):
        step = session_make_train_step(*arguments)

        def with_faults(state, batch, key):
            calls.append(1)
            if len(calls) % 2:
                return state, StepMetrics(Sums(*[np.float32(np.nan)] * 4), np.float32(np.nan), np.bool_(False))
            return step(state, batch, key)

        compiled = SimpleNamespace(compile=lambda: with_faults)
        return SimpleNamespace(lower=lambda *_: compiled)

    session_make_train_step = session.make_train_step
    monkeypatch.setattr(session, "make_train_step", make_train_step)
    run = in_this_process(prepared, 12)
    assert len(calls) == 24
    meta = checkpoints.read_meta(run / "checkpoints/12")
    assert meta["progress"]["skipped"] == 12 and events(run, "train")[-1]["skipped"] == 12
    settings = config_module.load(prepared.path / "tiny.toml").train
    batches = TrainingBatches(PreparedCorpus.open(prepared.path / "prepared/tiny").pairs("train"), settings, devices=1)
    for _ in range(24):
        next(batches)
    assert meta["data"] == batches.state


def test_a_signal_between_compiling_and_the_first_update_is_saved_too(prepared, monkeypatch):
    class Late(session.MetricsLog):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(session, "MetricsLog", Late)
    with pytest.raises(Interrupted):
        in_this_process(prepared, 12)
    assert checkpoints.steps(prepared.path / "runs/tiny/checkpoints") == [0]
    assert "no checkpoints to average" in prepared.vaswani("average", "runs/tiny", code=2).stderr
    assert "going on from step 0" in prepared.vaswani("train", "tiny.toml", "--train.steps", "1").stderr


def test_a_stop_while_compiling_leaves_the_newest_checkpoint_as_it_is(trained, monkeypatch):
    def leave(code):
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(session, "run_unless_stopped", lambda compute, stop: None)
    monkeypatch.setattr(session, "leave_at_once", leave)
    with pytest.raises(Interrupted):
        in_this_process(trained, 100)
    assert checkpoints.read_meta(trained.path / "runs/tiny/checkpoints/12")["on_schedule"]


def test_a_signal_during_a_validations_search_is_heeded_at_once(prepared, monkeypatch):
    """A cluster gives half a minute; the search, with what it must compile first, may take longer."""
    over, left = threading.Event(), []

    def translate(self, lines):
        os.kill(os.getpid(), signal.SIGTERM)
        over.wait(60)
        return iter(())

    def leave(code):
        left.append((code, over.is_set()))
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(Translator, "translate", translate)
    monkeypatch.setattr(loop, "leave_at_once", leave)
    with pytest.raises(Interrupted):
        in_this_process(prepared, 12)
    assert left == [(128 + signal.SIGTERM, False)]
    over.set()
    saved = checkpoints.steps(prepared.path / "runs/tiny/checkpoints")
    assert saved == [3, 6] and not events(prepared.path / "runs/tiny", "valid")


def test_another_text_is_refused(trained):
    manifest = trained.path / "prepared/tiny/manifest.json"
    content = json.loads(manifest.read_text())
    content["sets"]["train"]["tokens"][0] += 1
    del content["crc32"]  # as version 0.1.0 wrote it, or it would be damaged
    manifest.write_text(json.dumps(content))
    assert "runs/tiny: was trained on another text than prepared/tiny" in trained.refused("train", "tiny.toml")


def test_a_truncated_checkpoint_is_moved_aside(trained):
    newest = trained.path / "runs/tiny/checkpoints/12"
    largest = max((path for path in newest.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    os.truncate(largest, largest.stat().st_size // 2)
    done = trained.vaswani("train", "tiny.toml", "--train.steps", "13")
    assert "moved to 12.broken" in done.stderr and "going on from step 9" in done.stderr
    assert checkpoints.steps(newest.parent)[-1] == 13


def test_the_log_says_what_an_update_holds(prepared):
    """What is asked for, rounded up to whole rows; and how much of it is text."""
    done = prepared.vaswani("train", "tiny.toml", "--train.steps", "4", "--train.tokens-per-update", "500")
    assert "an update has 512 + 512 tokens, padding included, in 2 x 4 rows of 64 on 1 device" in done.stderr
    for event in events(prepared.path / "runs/tiny", "train"):
        assert 256 < event["source_tokens_per_update"] < 512 and 256 < event["target_tokens_per_update"] < 512


def test_the_time_bound_counts_all_starts_together(prepared):
    bounded = ["train", "tiny.toml", "--train.steps", "1000000", "--train.max-minutes", "0.05"]
    first = prepared.vaswani(*bounded)
    assert "the time limit of 0.05 min is reached" in first.stderr
    assert "nothing to do" in prepared.vaswani(*bounded).stderr


def test_validation_perplexity_is_unsmoothed(prepared):
    """ε_ls 0 and 0.1 see the same perplexity with the same parameters."""
    found = []
    for epsilon in ("0.0", "0.1"):
        settings = ["--train.label-smoothing", epsilon, "--train.lr-scale", "1e-30", "--run", f"runs/{epsilon}"]
        prepared.vaswani("train", "tiny.toml", "--train.steps", "1", "--train.valid-lines", "0", *settings)
        found.append(events(prepared.path / "runs" / epsilon, "valid")[0]["perplexity"])
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_fine_tuning_starts_from_the_other_runs_parameters(trained):
    """From their average, where there is one."""
    trained.vaswani("average", "runs/tiny", "--last", "2")
    trained.vaswani(
        "train", "tiny.toml", "--run", "runs/tuned", "--init", "runs/tiny", "--train.steps", "1",
        "--train.lr-scale", "1e-30", "--model.P-drop", "0.0",
    )  # fmt: skip
    step, tuned = arrays(trained.path / "runs/tuned")
    assert step == 1 and same(load(trained.path / "runs/tiny/averaged")["params"], tuned["params"])


def test_a_second_start_takes_the_compilation_from_the_cache(prepared):
    """Training compiles one program, once: the second start finds it, and writes no other to the cache."""
    prepared.environment = prepared.environment | {"XDG_CACHE_HOME": str(prepared.path / "cache")}
    prepared.vaswani("train", "tiny.toml", "--train.steps", "2", "--train.valid-lines", "0")
    before = sorted(p.name for p in (prepared.path / "cache").rglob("jit_train_step-*-cache"))
    prepared.vaswani("train", "tiny.toml", "--run", "runs/second", "--train.steps", "2", "--train.valid-lines", "0")
    assert len(before) == 1 and before == sorted(
        p.name for p in (prepared.path / "cache").rglob("jit_train_step-*-cache")
    )
