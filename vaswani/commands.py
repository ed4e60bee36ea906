"""The stages between raw text and BLEU, one function a command; `reproduce` runs them in order."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaswani.console import say
from vaswani.data.corpus import file_lines
from vaswani.data.prepare import PREPARED, prepare
from vaswani.data.prepared_corpus import PreparedCorpus
from vaswani.decoding.translator import load_translator
from vaswani.devices import set_up_jax
from vaswani.errors import UserError
from vaswani.evaluation.bleu import SetEvaluation
from vaswani.evaluation.metrics import bleu_metric
from vaswani.evaluation.sets import evaluate_set, score_set, translate_set
from vaswani.files import advise
from vaswani.runs import checkpoints
from vaswani.runs.directory import RunDirectory
from vaswani.schema import Config
from vaswani.training.loop import train
from vaswani.training.signals import Interrupted, StopSignals

if TYPE_CHECKING:
    from vaswani.ablation.results import Table
    from vaswani.ablation.sweep import Sweep


def train_run(config: Config, run: RunDirectory, init: RunDirectory | None = None) -> None:
    """Prepares the corpus if it is not there yet, and trains."""
    set_up_jax()  # first: what is wrong with the devices should not be found after an hour of preparing
    corpus = prepare(config, PREPARED)
    train(config, run, corpus, init)


def average_run(run: RunDirectory, last: int | None = None) -> Sequence[int]:
    """Averages the parameters of the last checkpoints into RUN/averaged (section 6.1).

    Args:
        last: how many; by default what the run's configuration says, or as many as there are.

    Returns:
        The steps that were averaged.
    """
    with run.lock():
        saved = checkpoints.regular(run.checkpoints)
        if not saved:
            raise UserError(f"{run.path}: no checkpoints to average; `vaswani train` makes them")
        if last is not None and not 1 <= last <= len(saved):
            n = len(saved)
            raise UserError(
                f"--last {last}: {run.path} holds {n} checkpoint{'s'[: n - 1]} ({', '.join(map(str, saved))}); "
                f"choose {f'1 to {n}' if n > 1 else '1'}, and keep more with --train.keep-last"
            )
        steps = saved[-(last or run.load_config().train.average_last) :]
        params = checkpoints.average(run.checkpoints, steps)
        meta = checkpoints.read_meta(run.checkpoints / str(steps[-1]))
        kept = {key: meta[key] for key in ("tokenizer", "settings") if key in meta}
        checkpoints.save_params(run.averaged, params, {"steps": steps, **kept})
    return steps


def evaluate_run(
    run: RunDirectory, config: Config, checkpoint: str = "auto", sets: Sequence[str] = (), out: Path | None = None
) -> dict[str, SetEvaluation]:
    """Translates and scores the configuration's test sets (or `sets`), each in every convention.

    Args:
        out: a directory for translations and scores; by default the run itself.
    """
    set_up_jax()
    corpus = PreparedCorpus.open(PREPARED / config.data.name)
    translator, label = load_translator(run, checkpoint, config.decode)
    results, store = {}, RunDirectory(out or run.path)
    with advise(f"`vaswani evaluate {run.path} --out DIR` writes elsewhere"), store.lock():
        for name in sets or config.data.tests:
            sources, references = corpus.raw(name)
            results[name] = evaluate_set(store, config, name, sources, references, translator, label)
    return results


def evaluate_files(
    run: RunDirectory, config: Config, checkpoint: str, refs: Sequence[Path], src: Path | None, hyp: Path | None
) -> dict[str, SetEvaluation]:
    """Scores translations of a file (`src`), or given ones (`hyp`), against the lines of each file of `refs`.

    The result is named by the stem of the first of `refs`. It is not stored in the run: the file may have the name of
    one of the run's own test sets.
    """
    bleu_metric(config.data.target)  # fails before the translating if its tokeniser is not installed
    path = hyp or src
    assert path is not None
    lines = list(file_lines(path))
    references = [_references(ref, path, len(lines)) for ref in refs]
    name = refs[0].name.removesuffix(".gz").rsplit(".", 1)[0]
    if hyp is not None:  # not by this run's search
        return {name: replace(score_set(lines, references, config, str(hyp)), decode={})}
    set_up_jax()
    translator, label = load_translator(run, checkpoint, config.decode)
    hypotheses, truncated = translate_set(translator, lines, name)
    return {name: score_set(hypotheses, references, config, label, truncated)}


def _references(ref: Path, other: Path, count: int) -> list[str]:
    """The lines of `ref`, as many as the `count` lines of `other`."""
    references = list(file_lines(ref))
    if not references:
        raise UserError(f"{ref}: is empty; it should hold the references, a sentence a line")
    if len(references) != count:
        raise UserError(
            f"{other} has {count:,} lines, {ref} {len(references):,}; line i of one must match line i of the other"
        )
    return references


def reproduce(config: Config, run: RunDirectory) -> dict[str, SetEvaluation]:
    """The main job: prepare, train, average, evaluate, report. Started again, it does what is left."""
    from vaswani.report.page import write_report  # Matplotlib is slow to import, and only the report needs it

    train_run(config, run)
    steps = average_run(run)
    say(f"averaged the checkpoints of steps {', '.join(f'{s:,}' for s in steps)}")
    results = evaluate_run(run, config)
    write_report(run)
    return results


def make_sweep(config: Config, run: RunDirectory, names: str, seeds: int, set_name: str) -> "Sweep":
    """The runs of `names`, which are rows or groups of Table 3 or files, separated by commas."""
    from vaswani.ablation.rows import rows
    from vaswani.ablation.sweep import Sweep

    chosen = [name for name in names.split(",") if name]
    if not chosen:
        raise UserError(f"--rows {names!r}: names no row; give groups or rows of Table 3, as A,C1,big")
    sweep = Sweep(run, config, rows(config, chosen), seeds, set_name)
    sweep.check_set()
    return sweep


def ablate_run(config: Config, run: RunDirectory, set_name: str) -> None:
    """One run of a sweep: trains to the end and translates `set_name` with the last parameters, not averaged ones."""
    from vaswani.ablation.sweep import record_finished

    train_run(config, run)
    record_finished(run)
    evaluate_run(run, config, "last", [set_name])


def plan_ablation(sweep: "Sweep", jobs: int | None, slurm: str | None) -> dict[str, Any]:
    """What `ablate` would do with the same arguments."""
    from vaswani.ablation.plan import plan

    return plan(sweep, PREPARED, _at_a_time(sweep, jobs, slurm))


def ablate(sweep: "Sweep", jobs: int | None, slurm: str | None) -> tuple["Table", dict[str, str]]:
    """Does what is left of a sweep and writes its table.

    Args:
        jobs: how many runs at a time; by default one, or on SLURM all.
        slurm: options for SLURM's jobs; None for processes of this machine.

    Returns:
        The table, and the runs that failed: {run: why}.

    Raises:
        Interrupted: SIGTERM or Ctrl-C; every run is saved, and the table of what is finished is written.
    """
    from vaswani.ablation import layout
    from vaswani.ablation.jobs import local
    from vaswani.ablation.jobs import slurm as on_slurm
    from vaswani.ablation.pool import run_jobs
    from vaswani.ablation.progress import SweepProgress, progress_display
    from vaswani.ablation.results import TranslationCounts, collect

    at_a_time = _at_a_time(sweep, jobs, slurm)
    counts = TranslationCounts(bleu_metric(sweep.base.data.target))
    with sweep.lock():
        vocab_size = prepare(sweep.base, PREPARED).tokenizer.vocab_size
        start = local(at_a_time) if slurm is None else on_slurm(sweep.directory.path / "slurm", slurm)
        progress = SweepProgress(sweep, vocab_size, at_a_time)

        def write_table() -> "Table":
            table = collect(sweep, progress.failed, vocab_size, counts)
            layout.write(table, sweep.directory.path)
            return table

        with StopSignals() as stop, progress_display(progress) as refresh:
            run_jobs(progress, start, stop, refresh, after_each=write_table)
        table = write_table()
        if stop.received and len(progress.done) + len(progress.failed) < len(sweep.runs):
            raise Interrupted(stop.received)
        return table, progress.failed


def _at_a_time(sweep: "Sweep", jobs: int | None, slurm: str | None) -> int:
    return jobs or (1 if slurm is None else len(sweep.runs))
