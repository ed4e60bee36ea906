"""The training loop: from a prepared corpus to checkpoints. A stopped training continues exactly where it stopped."""

from vaswani.console import duration, say
from vaswani.data.prepared_corpus import PreparedCorpus
from vaswani.runs.directory import RunDirectory
from vaswani.schema import Config
from vaswani.training.session import TrainingSession
from vaswani.training.signals import Interrupted, StopSignals, leave_at_once
from vaswani.training.start import enter_run


def train(config: Config, run: RunDirectory, corpus: PreparedCorpus, init: RunDirectory | None = None) -> None:
    """Trains until `train.steps`, `train.max_minutes` or `train.patience` ends it. The last state is saved.

    Args:
        config: all settings.
        run: the directory for checkpoints and metrics. An existing run is continued.
        corpus: the prepared text.
        init: another run whose parameters this one starts from (fine-tuning); it must have the same tokenizer.

    Raises:
        UserError: the run has other settings, another corpus, or is in use.
        WorkFailed: ten updates in a row were not finite, or a checkpoint could not be written.
        Interrupted: a signal asked to stop; everything is saved.
    """
    with run.lock(), StopSignals() as stop:
        enter_run(config, run, corpus)
        session = TrainingSession(config, run, corpus, stop, init)
        if session.complete:
            say(f"nothing to do at step {session.step:,}: {session.finished}")
            return
        with session.started() as train_step:
            while True:
                if session.validation_due:
                    session.validate()
                if session.checkpoint_due:
                    session.save()
                if session.finished or stop.received:
                    break
                session.advance(train_step)
        _report_end(session, stop)


def _report_end(session: TrainingSession, stop: StopSignals) -> None:
    if session.complete:
        say(f"done at step {session.step:,}, after {duration(session.progress.elapsed_s)}: {session.finished}")
        return
    assert stop.received is not None
    say(f"stopped at step {session.step:,}; the same command goes on from there")
    if session.has_running_thread:
        leave_at_once(128 + stop.received)
    raise Interrupted(stop.received)
