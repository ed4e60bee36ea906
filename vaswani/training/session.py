"""The state of one training, and what can be done with it: begin or restore, validate, save, advance."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

import jax

from vaswani.config import essential_settings
from vaswani.console import duration, progress_bar, say
from vaswani.data.packing import Batch, TrainingBatches
from vaswani.data.prepared_corpus import PreparedCorpus
from vaswani.devices import make_mesh, shard_rows
from vaswani.errors import WorkFailed
from vaswani.runs import checkpoints
from vaswani.runs.directory import RunDirectory
from vaswani.runs.events import MetricsLog, read_events
from vaswani.schema import Config
from vaswani.training.messages import log_line, validation_lines
from vaswani.training.optimizer import scheduled_rate
from vaswani.training.progress import TrainingProgress, why_finished
from vaswani.training.signals import StopSignals, leave_at_once, run_unless_stopped
from vaswani.training.stagnation import StagnationWatch
from vaswani.training.start import load_checkpoint, parameters_of
from vaswani.training.train_step import StepMetrics, TrainState, init_state, make_train_step, state_structure
from vaswani.training.validation import Validation
from vaswani.training.window import Window

NON_FINITE_IN_A_ROW = 10

TrainStep = Callable[[TrainState, Batch, jax.Array], tuple[TrainState, StepMetrics]]


class TrainingSession:
    """A training between two updates. A checkpoint holds everything that later updates depend on.

    Attributes:
        state: step, parameters and optimiser, on all devices.
        step: updates made.
        data_position: where the data of the next update begin.
        progress: time, best validation, patience.
        saved_step: the step of the newest checkpoint; None if there is none.
        has_running_thread: True if a stop interrupted a validation. Its search may still run in a thread.
    """

    def __init__(
        self,
        config: Config,
        run: RunDirectory,
        corpus: PreparedCorpus,
        stop: StopSignals,
        init: RunDirectory | None = None,
    ):
        """Restores the newest checkpoint of the run; begins a new training if there is none.

        Args:
            init: a new training starts from the parameters of this run instead of random ones.

        Raises:
            UserError: the checkpoint belongs to another model or text; `init` has another model or tokenizer; a
                validation sentence is too long for the model.
        """
        self.config, self.run, self.corpus, self.stop = config, run, corpus, stop
        self.mesh = make_mesh()
        pairs = corpus.pairs(config.data.train)
        self._batches = TrainingBatches(pairs, config.train, self.mesh.size)
        self.graphdef, structure = state_structure(config, corpus.tokenizer.vocab_size, self.mesh)
        # A new state is made only if none is restored: memory might not hold two whole states.
        restored = load_checkpoint(config, run, corpus, structure)
        if restored is None:
            self._begin(init)
        else:
            self._restore(*restored)
        self.data_position = self._batches.state
        self._batch = next(self._batches)
        self._root_key = jax.random.key(config.train.seed, impl="threefry2x32")
        self._validation = Validation(config, corpus, self.graphdef, self.state.params, self.mesh)
        self._validation_is_unsaved = self.has_running_thread = False
        self._non_finite_in_a_row = 0
        self._stagnation = StagnationWatch(pairs, config.train)
        self._describe(len(pairs), restored is not None)

    def _begin(self, init: RunDirectory | None) -> None:
        self.state = init_state(self.config, self.corpus.tokenizer.vocab_size, self.mesh)
        if init is not None:
            self.state = self.state._replace(params=parameters_of(init, self.corpus, self.state.params))
        self.step, self.progress = 0, TrainingProgress()
        self.saved_step, self._saved_on_schedule = None, False

    def _restore(self, state: TrainState, meta: dict[str, Any]) -> None:
        self.state, self.step = state, int(state.step)
        self.progress = TrainingProgress.from_dict(meta["progress"])
        self._batches.state = meta["data"]
        self.saved_step, self._saved_on_schedule = self.step, meta["on_schedule"]

    def _describe(self, pairs: int, restored: bool) -> None:
        shape, devices = self._batches.shape, self.mesh.size
        tokens, parameters = math.prod(shape), sum(x.size for x in jax.tree.leaves(self.state.params))
        say(
            f"{self.run.path}: {parameters:,} parameters, {pairs:,} pairs; "
            f"an update has {tokens:,} + {tokens:,} tokens, padding included, "
            f"in {shape.micro_batches} x {shape.rows} rows of {shape.row_length} "
            f"on {devices} device{'s' if devices > 1 else ''}"
        )
        if restored and not self.complete:
            say(f"going on from step {self.step:,}, after {duration(self.progress.elapsed_s)} of training")

    @contextmanager
    def started(self) -> Iterator[TrainStep]:
        """Compiles the update, then starts the clock, the log and the progress bar. Yields the compiled update."""
        train_step = self._compile()
        lost_s = self._lost_seconds()
        self._log, self._window = MetricsLog(self.run, self.step), Window()
        self._clock_start = time.monotonic() - self.progress.elapsed_s
        self.progress.scheduled_s -= lost_s
        try:
            with progress_bar("training", self.config.train.steps) as self._bar:
                self._bar.update(self.step)
                yield train_step
        finally:
            self._log.close()

    def _compile(self) -> TrainStep:
        say("compiling the training step (later starts take it from the cache) …")
        start = time.monotonic()
        jitted = make_train_step(self.graphdef, self.config, self.mesh)
        lowered = partial(jitted.lower, self.state, shard_rows(self._batch, self.mesh), self._root_key)
        train_step = run_unless_stopped(lambda: lowered().compile(), self.stop)
        if train_step is None:
            if self.checkpoint_due:
                self.save()
            say(f"stopped at step {self.step:,}, before the first update; the same command starts again")
            leave_at_once(128 + (self.stop.received or 0))
        say(f"compiled in {time.monotonic() - start:.1f} s")
        return train_step

    def _lost_seconds(self) -> float:
        """The training time after the last checkpoint. A kill lost the updates of that time.

        This time counts towards the interval between checkpoints. Suppose that every start is killed before
        `train.checkpoint_minutes` have passed: without this rule the run would never save.
        """
        last = max((event.get("elapsed_s", 0.0) for event in read_events(self.run.metrics_path)), default=0.0)
        return max(last - self.progress.elapsed_s, 0.0)

    @property
    def finished(self) -> str:
        """Why the training ends here; empty if it goes on."""
        return why_finished(self.config, self.step, self.progress)

    @property
    def complete(self) -> bool:
        """Finished, and the last step is validated: nothing is left to do."""
        return bool(self.finished) and self.progress.validated_step == self.step

    @property
    def validation_due(self) -> bool:
        """Each step is validated at most once. A stopped run may still have to validate its last step."""
        due = self.step % self.config.train.valid_every == 0 or bool(self.finished)
        return due and self.progress.validated_step != self.step and not self.stop.received

    @property
    def checkpoint_due(self) -> bool:
        """True on schedule, at the end, at a stop, and after a validation whose result a later start needs."""
        if self._validation_is_unsaved:
            return True
        return self.saved_step != self.step and bool(self._on_schedule or self.finished or self.stop.received)

    @property
    def _on_schedule(self) -> bool:
        """Whether averaging uses a checkpoint of this step. It does not use those made for a stop or a validation."""
        if self.saved_step == self.step:
            return self._saved_on_schedule
        every, minutes = self.config.train.checkpoint_every, self.config.train.checkpoint_minutes
        by_updates = every > 0 and self.step % every == 0
        by_time = minutes > 0 and self.progress.elapsed_s - self.progress.scheduled_s >= 60 * minutes
        return self.step > 0 and (by_updates or by_time)

    def validate(self) -> None:
        """Measures perplexity and BLEU, logs them, and notes whether they are the best so far."""
        start = time.monotonic()
        result = self._validation(self.state.params, self.stop)
        self._window.leave_out(time.monotonic() - start)
        if result is None:
            self.has_running_thread = True
            return
        improved = self.progress.note_validation(result["perplexity"], self.step)
        self.progress.elapsed_s = time.monotonic() - self._clock_start
        self._log.write("valid", self.step, **result, elapsed_s=round(self.progress.elapsed_s, 1))
        say(validation_lines(self.step, result, improved, self.progress))
        self._validation_is_unsaved = improved or self.saved_step == self.step

    def save(self) -> None:
        """Writes a checkpoint, then deletes those that are no longer needed."""
        on_schedule = self._on_schedule
        if on_schedule:
            self.progress.scheduled_s = self.progress.elapsed_s
        meta = {
            "data": self.data_position,
            "progress": asdict(self.progress),
            "best_step": self.progress.best_step,
            "on_schedule": on_schedule,
            "tokenizer": self.corpus.tokenizer.checksum,
            "corpus": self.corpus.training_text(),
            "settings": essential_settings(self.config),
        }
        checkpoints.save(self.run.checkpoints, self.step, self.state._asdict(), meta)
        checkpoints.prune(self.run.checkpoints, self.config.train.keep_last, self.progress.best_step)
        self.saved_step, self._saved_on_schedule, self._validation_is_unsaved = self.step, on_schedule, False

    def advance(self, train_step: TrainStep) -> None:
        """Makes one update, and logs every `train.log_every` updates.

        Raises:
            WorkFailed: too many updates in a row were not finite.
        """
        self.state, metrics = train_step(self.state, shard_rows(self._batch, self.mesh), self._root_key)
        self.data_position = self._batches.state
        self._batch = next(self._batches)  # made while the devices compute
        metrics = jax.device_get(metrics)
        self.progress.elapsed_s = time.monotonic() - self._clock_start
        if not metrics.finite:
            self._note_not_finite()
            return
        self.step, self._non_finite_in_a_row = self.step + 1, 0
        self._window.add(metrics)
        self._bar.update(self.step)
        if self.step % self.config.train.log_every == 0 or self.finished:
            self._log_window()

    def _note_not_finite(self) -> None:
        self.progress.skipped += 1
        self._non_finite_in_a_row += 1
        say(
            f"step {self.step + 1:,}: loss or gradient is not finite; the update is not applied "
            f"({self.progress.skipped} so far)"
        )
        if self._non_finite_in_a_row == NON_FINITE_IN_A_ROW:
            newest = "there is no checkpoint" if self.saved_step is None else f"checkpoint {self.saved_step} is good"
            raise WorkFailed(
                f"{self.run.path}: {NON_FINITE_IN_A_ROW} updates in a row were not finite at step {self.step + 1}; "
                f"{newest}; try a smaller train.lr_scale or a longer train.warmup"
            )

    def _log_window(self) -> None:
        values = {
            **self._window.summary(),
            "lr": float(scheduled_rate(self.step, self.config.model, self.config.train)),
            "epoch": self.data_position["epoch"],
            "elapsed_s": round(self.progress.elapsed_s, 1),
            "skipped": self.progress.skipped,
        }
        self._log.write("train", self.step, **values)
        say(log_line(self.config, self.step, values, self.progress))
        if advice := self._stagnation.advice(self.step, values["nll"]):
            say(advice)
        self._window = Window()
