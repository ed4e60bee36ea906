"""The training loop: from a prepared corpus to checkpoints. Started again, it goes on exactly where it stopped."""

import math
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import jax
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from vaswani.console import duration, say
from vaswani.data.packing import TrainingBatches
from vaswani.data.prepare import PreparedCorpus
from vaswani.data.tokenizer import Tokenizer
from vaswani.devices import make_mesh, shard_rows
from vaswani.errors import UserError, WorkFailed
from vaswani.files import atomic_path
from vaswani.runs import checkpoints
from vaswani.runs.directory import RunDirectory
from vaswani.runs.events import MetricsLog
from vaswani.schema import Config
from vaswani.training.optimizer import learning_rate
from vaswani.training.signals import Interrupted, StopSignals, leave_at_once, run_unless_stopped
from vaswani.training.train_step import Params, TrainState, init_state, make_train_step
from vaswani.training.validation import Validation
from vaswani.training.window import Window

NON_FINITE_IN_A_ROW = 10


@dataclass
class RunProgress:
    """What a checkpoint knows beside the train state and the place in the data; plain values, saved as they are."""

    elapsed_s: float = 0.0
    best_step: int | None = None
    best_perplexity: float = math.inf
    validations_without_gain: int = 0
    validated_step: int = 0
    """The last step that was validated: a signal may have come between an update and the validation due there."""
    skipped: int = 0
    """Updates that were not finite, and so not made."""


def train(config: Config, run: RunDirectory, corpus: PreparedCorpus, init: RunDirectory | None = None) -> None:
    """Trains until `steps`, `max_minutes` or `patience` says enough, and leaves the last state as a checkpoint.

    Args:
        init: take the parameters of this run for the start (fine-tuning); the tokenizer must be the same.

    Raises:
        UserError: the run was begun with other settings, on another corpus, or is in use.
        WorkFailed: ten updates in a row were not finite, or a checkpoint could not be written.
        Interrupted: SIGTERM or Ctrl-C; everything is saved.
    """
    with run.lock(), StopSignals() as stop:
        _enter(config, run, corpus)
        _train(config, run, corpus, init, stop)


def _enter(config: Config, run: RunDirectory, corpus: PreparedCorpus) -> None:
    """Makes the run directory, or checks that this run is the one that is there."""
    saved = checkpoints.steps(run.checkpoints)
    if saved and not run.exists():
        raise UserError(f"{run.config_path}: missing, though there are checkpoints; choose another run with --run")
    # Without a checkpoint nothing was begun: a start may have been refused, and be tried again as its message advised.
    if run.exists() and (saved or checkpoints.has_averaged(run)):
        run.check_same(config)
        if not saved:
            raise UserError(
                f"{run.path}: holds only averaged parameters, and no optimiser state to train on with; "
                f"to fine-tune them, start another run with --init {run.path}"
            )
        if Tokenizer.load(run.tokenizer_path).checksum != corpus.tokenizer.checksum:
            raise UserError(
                f"{run.path}: was begun with another tokenizer than that of {corpus.path}; "
                "choose the corpus it was trained on, or another run with --run"
            )
    else:
        run.path.mkdir(parents=True, exist_ok=True)
        with atomic_path(run.tokenizer_path) as path:
            shutil.copyfile(corpus.path / "tokenizer.model", path)
    run.create(config)


def _train(
    config: Config, run: RunDirectory, corpus: PreparedCorpus, init: RunDirectory | None, stop: StopSignals
) -> None:
    mesh = make_mesh()
    pairs = corpus.pairs(config.data.train)
    batches = TrainingBatches(pairs, config.train, mesh.size)
    graphdef, state = init_state(config, corpus.tokenizer.vocab_size, mesh)
    progress, on_schedule = RunProgress(), False
    found = checkpoints.load_newest(run.checkpoints, state._asdict(), warn=say)
    if found is not None:
        _, loaded, meta = found
        state = TrainState(**loaded)
        if meta.get("corpus") != corpus.manifest["sets"][config.data.train]:
            raise UserError(
                f"{run.path}: was begun on another text than {corpus.path} holds now; "
                "choose the corpus it was trained on, or another run with --run"
            )
        batches.state = meta["data"]
        progress, on_schedule = RunProgress(**meta["progress"]), meta["on_schedule"]
    elif init is not None:
        state = state._replace(params=_initial_params(init, corpus, state.params))
    step = int(state.step)
    shape, tokens = batches.shape, math.prod(batches.shape)
    say(
        f"{run.path}: {sum(x.size for x in jax.tree.leaves(state.params)):,} parameters, {len(pairs):,} pairs; "
        f"an update holds {tokens:,} + {tokens:,} tokens, padding included, in {shape.micro_batches} x {shape.rows} "
        f"rows of {shape.row_length} on {mesh.size} device{'s'[: mesh.size - 1]}"
    )
    finished = why_finished(config, step, progress)
    if finished and progress.validated_step == step:
        say(f"nothing to do at step {step:,}: {finished}")
        return
    if found:
        say(f"going on from step {step:,}, {duration(progress.elapsed_s)} into the training")

    root_key = jax.random.key(config.train.seed)
    data_position = batches.state
    batch = next(batches)

    saved_step = step if found else None

    def save(on_schedule: bool) -> None:
        nonlocal scheduled_at, saved_step
        meta = {
            "data": data_position,
            "progress": asdict(progress),
            "best_step": progress.best_step,
            "on_schedule": on_schedule,
            "tokenizer": corpus.tokenizer.checksum,
            "corpus": corpus.manifest["sets"][config.data.train],
        }
        checkpoints.save(run.checkpoints, step, state._asdict(), meta)
        checkpoints.prune(run.checkpoints, config.train.keep_last, progress.best_step)
        saved_step = step
        if on_schedule:  # one for a good validation alone does not put off the next that averaging counts
            scheduled_at = time.monotonic()

    say("compiling the training step (once; a second start takes it from the cache) …")
    before = time.monotonic()
    jitted = make_train_step(graphdef, config, mesh)
    train_step = run_unless_stopped(lambda: jitted.lower(state, shard_rows(batch, mesh), root_key).compile(), stop)
    if train_step is None:
        if saved_step != step:
            save(on_schedule=False)
        say(f"stopped at step {step:,}, before the first update; the same command starts again")
        leave_at_once(128 + (stop.received or 0))
    say(f"compiled in {time.monotonic() - before:.1f} s")

    log = MetricsLog(run, step)
    validate = Validation(config, corpus, graphdef, state.params, mesh)
    window = Window()
    started = time.monotonic() - progress.elapsed_s  # compiling is not counted
    scheduled_at, non_finite, cut_off = time.monotonic(), 0, False
    console = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
    with _progress_bar(console) as bar:
        task = bar.add_task("training", total=config.train.steps, completed=step)
        while True:
            # First what follows an update: a run that a signal stopped may still owe the validation of its last step.
            validation_due = step % config.train.valid_every == 0 or finished
            news = False
            if validation_due and progress.validated_step != step and not stop.received:
                pause = time.monotonic()
                result = validate(state.params, stop)
                window.started += time.monotonic() - pause
                cut_off = result is None
                if result is not None:
                    improved = _note_validation(result["perplexity"], step, progress)
                    progress.elapsed_s = time.monotonic() - started
                    log.write("valid", step, **result, elapsed_s=round(progress.elapsed_s, 1))
                    console.print(_valid_text(step, result, improved, progress))
                    finished = why_finished(config, step, progress)
                    news = improved or saved_step == step  # a checkpoint from before knows nothing of the validation
            every, minutes = config.train.checkpoint_every, config.train.checkpoint_minutes
            by_updates = every > 0 and step % every == 0
            by_time = minutes > 0 and time.monotonic() - scheduled_at >= 60 * minutes
            on_schedule = (on_schedule and saved_step == step) or (step > 0 and (by_updates or by_time))
            if news or ((on_schedule or finished or stop.received) and saved_step != step):
                save(on_schedule)
            if finished or stop.received:
                break
            state, metrics = train_step(state, shard_rows(batch, mesh), root_key)
            data_position = batches.state  # where the next update's data begin: what a resumed run must take
            batch = next(batches)  # made while the device works
            metrics = jax.device_get(metrics)
            progress.elapsed_s = time.monotonic() - started
            if not metrics.finite:
                progress.skipped, non_finite = progress.skipped + 1, non_finite + 1
                say(f"step {step + 1:,}: loss or gradient is not finite: update not made ({progress.skipped} so far)")
                if non_finite == NON_FINITE_IN_A_ROW:
                    raise WorkFailed(
                        f"{run.path}: {non_finite} updates in a row were not finite at step {step + 1}; the newest "
                        "checkpoint is from before; try a smaller train.lr_scale or a longer train.warmup"
                    )
                continue
            step, non_finite = step + 1, 0
            window.add(metrics)
            bar.update(task, completed=step)
            finished = why_finished(config, step, progress)
            if step % config.train.log_every == 0 or finished:
                values = {
                    **window.summary(),
                    "lr": float(learning_rate(step, config.model.d_model, config.train.warmup, config.train.lr_scale)),
                    "epoch": data_position["epoch"],
                    "elapsed_s": round(progress.elapsed_s, 1),
                    "skipped": progress.skipped,
                }
                log.write("train", step, **values)
                console.print(_log_line(config, step, values, progress))
                window = Window()
    log.close()
    if finished and progress.validated_step == step:
        say(f"done at step {step:,}, after {duration(progress.elapsed_s)}: {finished}")
    else:
        assert stop.received is not None
        say(f"stopped at step {step:,}; the same command goes on from there")
        if cut_off:  # its search may still be under way in a thread
            leave_at_once(128 + stop.received)
        raise Interrupted(stop.received)


def _initial_params(init: RunDirectory, corpus: PreparedCorpus, like: Params) -> Params:
    if Tokenizer.load(init.tokenizer_path).checksum != corpus.tokenizer.checksum:
        raise UserError(
            f"--init {init.path}: its tokenizer is not that of {corpus.path}; prepare the corpus with it: "
            f"--data.tokenizer {init.tokenizer_path} --data.name NEW_NAME"
        )
    params, _, label = checkpoints.load_chosen_params(init, "auto", like)
    say(f"starting from the parameters of {init.path} ({label})")
    return params


def why_finished(config: Config, step: int, progress: RunProgress) -> str:
    """Why the training is over; empty while it is not."""
    minutes, patience = config.train.max_minutes, config.train.patience
    if step >= config.train.steps:
        return f"all {config.train.steps:,} steps are made (train.steps)"
    if minutes and progress.elapsed_s >= 60 * minutes:
        return f"its {minutes:g} minute{' is' if minutes == 1 else 's are'} over (train.max_minutes)"
    if patience and progress.validations_without_gain >= patience:
        return f"{patience} validation{'s'[: patience - 1]} brought no better perplexity (train.patience)"
    return ""


def _note_validation(perplexity: float, step: int, progress: RunProgress) -> bool:
    """Keeps the best and counts towards `patience`. Returns whether this one is the best."""
    progress.validated_step = step
    improved = perplexity < progress.best_perplexity
    if improved:
        progress.best_perplexity, progress.best_step, progress.validations_without_gain = perplexity, step, 0
    else:
        progress.validations_without_gain += 1
    return improved


def _log_line(config: Config, step: int, values: dict[str, Any], progress: RunProgress) -> str:
    left = (config.train.steps - step) * values["seconds_per_update"]
    if config.train.max_minutes:
        left = min(left, 60 * config.train.max_minutes - progress.elapsed_s)
    return (
        f"step {step:,}/{config.train.steps:,}  loss {values['loss']:.3f}  "
        f"ppl {math.exp(min(values['nll'], 700)):.2f}  "
        f"lr {values['lr']:.2e}  {values['source_tokens_per_s']:,}+{values['target_tokens_per_s']:,} tokens/s  "
        f"{duration(max(left, 0))} left"
    )


def _valid_text(step: int, result: dict[str, Any], improved: bool, progress: RunProgress) -> str:
    bleu = "" if result["bleu"] is None else f"  BLEU {result['bleu']:.2f}"
    if improved:
        best = "best so far"
    elif progress.best_step is None:  # none was finite
        best = "no best yet"
    else:
        best = f"best {progress.best_perplexity:.2f} at step {progress.best_step:,}"
    lines = [f"valid {step:,}  ppl {result['perplexity']:.2f}{bleu}  ({best})"]
    for sample in result["samples"]:
        lines += [f"  source     {sample['source']}", f"  reference  {sample['reference']}"]
        lines += [f"  ours       {sample['hypothesis']}"]
    return "\n".join(lines)


def _progress_bar(console: Console) -> Progress:
    """Shown on a terminal only."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
        transient=True,
        disable=not sys.stderr.isatty(),
    )
