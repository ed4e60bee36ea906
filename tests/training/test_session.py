"""The state of a training, method by method, in this process and without a compiled update."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from vaswani import config as config_module
from vaswani.data.prepared_corpus import PreparedCorpus
from vaswani.runs import checkpoints
from vaswani.runs.directory import RunDirectory
from vaswani.training.session import TrainingSession
from vaswani.training.start import enter_run
from vaswani.training.train_step import StepMetrics, Sums


def made(state, batch, key):
    """An update that only counts, of a loss of 3 nats a token."""
    tokens = np.int32(10)
    sums = Sums(np.float32(30), np.float32(20), tokens, tokens)
    return state._replace(step=state.step + 1), StepMetrics(sums, np.float32(1), np.bool_(True))


def not_finite(state, batch, key):
    nan = np.float32(np.nan)
    return state, StepMetrics(Sums(nan, nan, np.int32(10), np.int32(10)), nan, np.bool_(False))


@pytest.fixture
def start(prepared, monkeypatch):
    """Makes sessions of runs/tiny with some settings and given perplexities."""
    perplexities = iter([math.nan])

    def validate(self, params, stop):
        return {"perplexity": next(perplexities), "bleu": None, "samples": []}

    monkeypatch.setattr("vaswani.training.validation.Validation.__call__", validate)
    monkeypatch.setattr(TrainingSession, "_compile", lambda self: made)

    def session(values=(), **settings) -> TrainingSession:
        nonlocal perplexities
        perplexities = iter(values)
        given = {"train.checkpoint_every": "0", "train.checkpoint_minutes": "100"}
        given |= {f"train.{key}": str(value) for key, value in settings.items()}
        config = config_module.override(config_module.load(prepared.path / "tiny.toml"), given)
        run, corpus = RunDirectory(prepared.path / "runs/tiny"), PreparedCorpus.open(prepared.path / "prepared/tiny")
        enter_run(config, run, corpus)
        return TrainingSession(config, run, corpus, SimpleNamespace(received=None))

    return session


def test_a_new_training_has_nothing_to_do_but_to_advance(start):
    session = start()
    assert (session.step, session.saved_step, session.data_position) == (0, None, {"epoch": 0, "index": 0})
    assert not session.validation_due and not session.checkpoint_due and not session.finished


def test_an_update_moves_step_and_data(start):
    session = start()
    with session.started() as step:
        for _ in range(3):
            session.advance(step)
    assert (session.step, int(session.state.step), session.data_position) == (3, 3, {"epoch": 0, "index": 3})
    (event,) = [json.loads(line) for line in session.run.metrics_path.read_text().splitlines()]
    assert (event["step"], event["loss"], event["nll"], event["target_tokens_per_update"]) == (2, 3.0, 2.0, 10)


def test_an_update_that_is_not_finite_moves_only_the_data(start):
    session = start()
    with session.started():
        session.advance(not_finite)
    assert (session.step, session.data_position["index"], session.progress.skipped) == (0, 1, 1)


def test_a_step_is_validated_once_and_a_better_one_is_saved(start):
    session = start([9.0, 8.0, 8.5, 8.5], valid_every=1, patience=2)
    saved = []
    with session.started() as step:
        while not session.finished:
            session.advance(step)
            assert session.validation_due
            session.validate()
            assert not session.validation_due
            if session.checkpoint_due:
                session.save()
                saved.append(session.step)
    assert saved == [1, 2, 4]  # the first is the best so far, the second is better, the fourth ends the training
    assert (session.step, session.progress.best_step, session.progress.best_perplexity) == (4, 2, 8.0)
    assert "2 validations in a row" in session.finished and session.complete
    assert checkpoints.regular(session.run.checkpoints) == [4]


def test_a_restored_session_is_the_saved_one(start):
    session = start([7.0], valid_every=2)
    with session.started() as step:
        for _ in range(2):
            session.advance(step)
        session.validate()
        session.save()
        session.advance(step)  # is lost
    restored = start()
    assert (restored.step, restored.saved_step, restored.data_position) == (2, 2, {"epoch": 0, "index": 2})
    progress = restored.progress
    assert (progress.best_step, progress.best_perplexity, progress.validated_step, progress.skipped) == (2, 7.0, 2, 0)
    assert not restored.validation_due and not restored.checkpoint_due


def test_a_stop_asks_for_a_checkpoint_and_for_no_validation(start):
    session = start(valid_every=1)
    with session.started() as step:
        session.advance(step)
        session.stop.received = 15
        assert session.checkpoint_due and not session.validation_due
        session.save()
        assert not session.checkpoint_due
    assert checkpoints.read_meta(session.run.checkpoints / "1")["on_schedule"] is False


def test_the_clock_of_checkpoints_counts_all_starts(start):
    """Stopped or killed every two of three minutes, a run still saves on schedule."""
    session = start(checkpoint_minutes=3)
    with session.started() as step:
        session._clock_start -= 120
        session.advance(step)
        session.stop.received = 15
        session.save()
    stopped = start(checkpoint_minutes=3, log_every=1)
    with stopped.started() as step:
        stopped._clock_start -= 50
        stopped.advance(step)
        assert not stopped.checkpoint_due
        stopped._clock_start -= 11
        stopped.advance(step)
        assert stopped.checkpoint_due
    # Killed here, before it saved: the log tells how much time was lost.
    killed = start(checkpoint_minutes=3)
    with killed.started() as step:
        assert killed.step == 1
        killed.advance(step)
        assert killed.checkpoint_due
        killed.save()
        assert not killed.checkpoint_due
    assert checkpoints.regular(killed.run.checkpoints) == [2]


def test_a_state_is_held_once(start, monkeypatch):
    """A restored training makes no random parameters beside those of the checkpoint."""
    session = start()
    with session.started() as step:
        session.advance(step)
        session.save()
    monkeypatch.setattr("vaswani.training.session.init_state", None)
    assert start().step == 1
