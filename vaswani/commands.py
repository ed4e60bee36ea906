"""The stages between raw text and BLEU, one function a command; `reproduce` runs them in order."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import jax

from vaswani.config import Config
from vaswani.console import say
from vaswani.data.corpus import file_lines
from vaswani.data.prepare import PreparedCorpus, prepare
from vaswani.decoding.translator import load_translator
from vaswani.devices import use_processors
from vaswani.errors import UserError
from vaswani.evaluation.bleu import SetEvaluation, read_evaluation
from vaswani.evaluation.sets import evaluate_set, score_set, translate_set
from vaswani.files import new_directory
from vaswani.runs import checkpoints
from vaswani.runs.directory import RunDirectory
from vaswani.training.loop import train
from vaswani.training.signals import Interrupted, StopSignals

if TYPE_CHECKING:
    from vaswani.ablation.results import Table
    from vaswani.ablation.sweep import Sweep

PREPARED = Path("prepared")


def set_up_jax() -> None:
    """Before JAX is first used: its processors, and the user's cache directory for compiled programs."""
    use_processors()
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jax.config.update("jax_compilation_cache_dir", str(root / "vaswani" / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def train_run(config: Config, run: RunDirectory, init: RunDirectory | None = None) -> None:
    """Prepares the corpus if it is not there yet, and trains."""
    corpus = prepare(config, PREPARED)
    set_up_jax()
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
            raise UserError(
                f"--last {last}: {run.path} holds {len(saved)} checkpoints ({', '.join(map(str, saved))}); "
                f"choose 1 to {len(saved)}, and keep more with --train.keep-last"
            )
        steps = saved[-(last or run.load_config().train.average_last) :]
        params = checkpoints.average(run.checkpoints, steps)
        tokenizer = checkpoints.read_meta(run.checkpoints / str(steps[-1]))["tokenizer"]
        checkpoints.save_params(run.averaged, params, {"steps": steps, "tokenizer": tokenizer})
    return steps


def evaluate_run(
    run: RunDirectory, config: Config, checkpoint: str = "auto", sets: Sequence[str] = ()
) -> dict[str, SetEvaluation]:
    """Translates and scores the configuration's test sets (or `sets`), each in every convention."""
    set_up_jax()
    corpus = PreparedCorpus.open(PREPARED / config.data.name)
    translator, label = load_translator(run, checkpoint, config.decode)
    with run.lock():
        results = {}
        for name in sets or config.data.tests:
            sources, references = corpus.raw(name)
            results[name] = evaluate_set(run, config, name, sources, references, translator, label)
    return results


def evaluate_files(
    run: RunDirectory, config: Config, checkpoint: str, ref: Path, src: Path | None, hyp: Path | None
) -> dict[str, SetEvaluation]:
    """Scores translations of a file (`src`), or given ones (`hyp`), against the lines of `ref`; named by its stem."""
    name = ref.name.removesuffix(".gz").rsplit(".", 1)[0]
    references = list(file_lines(ref))
    if not references:
        raise UserError(f"{ref}: is empty; it should hold the references, a sentence a line")
    other = hyp or src
    assert other is not None
    lines = list(file_lines(other))
    if len(lines) != len(references):
        raise UserError(
            f"{other} has {len(lines):,} lines, {ref} {len(references):,}; line i of one must match line i of the other"
        )
    if hyp is not None:
        return {name: replace(score_set(lines, references, config, str(hyp)), decode={})}  # not by this run's search
    set_up_jax()
    translator, label = load_translator(run, checkpoint, config.decode)
    # Not stored in the run: the file may bear the name of one of its own test sets.
    hypotheses, truncated = translate_set(translator, lines, name)
    return {name: score_set(hypotheses, references, config, label, truncated)}


def reproduce(config: Config, run: RunDirectory) -> dict[str, SetEvaluation]:
    """The main job: prepare, train, average, evaluate, report. Started again, it does what is left."""
    from vaswani.report.page import write_report  # Matplotlib is slow to import, and only the report needs it

    train_run(config, run)
    steps = average_run(run)
    say(f"averaged the checkpoints of steps {', '.join(f'{s:,}' for s in steps)}")
    results = evaluate_run(run, config)
    write_report(run)
    return results


def export_run(run: RunDirectory, to: str, checkpoint: str, type: str, out: Path) -> None:
    """Writes a run as a model of another program, with a model card, into the new directory `out`.

    Args:
        to: "marian" (Hugging Face) or "ctranslate2".
        type: of CTranslate2's matrices: "float32", "float16" or "int8".
    """
    from vaswani.export import card
    from vaswani.export.ctranslate2 import write_ctranslate2
    from vaswani.export.marian import LENGTH_PENALTY, write_marian

    if to == "marian" and type != "float32":
        raise UserError(f"--type {type}: a Marian folder holds float32; the other types are CTranslate2's")
    config = run.load_config()
    translator, label = load_translator(run, checkpoint, config.decode)
    params = jax.device_get(translator.params)
    pieces = translator.tokenizer.pieces(range(translator.tokenizer.vocab_size))
    with new_directory(out) as folder:
        if to == "marian":
            write_marian(folder, config, run.tokenizer_path, pieces, params)
        else:
            write_ctranslate2(folder, config, run.tokenizer_path, pieces, params, type)
        use = (card.MARIAN_USE if to == "marian" else card.CTRANSLATE2_USE).format(
            folder=out.name, type=type, example="A sentence.", beam=config.decode.beam,
            length_penalty=LENGTH_PENALTY * config.decode.alpha,
        )  # fmt: skip
        sources = card.data_sources(config, PREPARED / config.data.name)
        text = card.model_card(config, sources, read_evaluation(run.evaluation_path), label, use)
        (folder / "README.md").write_text(text, encoding="utf-8")


def ablate_run(config: Config, run: RunDirectory, set_name: str) -> None:
    """One run of a sweep: trains to the end and translates `set_name` with the last parameters, not averaged ones."""
    from vaswani.ablation.sweep import note_finished

    train_run(config, run)
    note_finished(run)
    evaluate_run(run, config, "last", [set_name])


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
    from vaswani.ablation import jobs as backends
    from vaswani.ablation.pool import work
    from vaswani.ablation.progress import Progress, shown
    from vaswani.ablation.results import Translations, write

    with sweep.lock():
        vocab_size = prepare(sweep.base, PREPARED).tokenizer.vocab_size
        if slurm is None:
            most, start = jobs or 1, backends.local(jobs or 1)
        else:
            most, start = jobs or len(sweep.runs), backends.slurm(sweep.directory.path / "slurm", slurm)
        progress, translations = Progress(sweep, vocab_size, most), Translations()

        def table() -> "Table":
            return write(sweep, progress.failed, vocab_size, translations)

        with StopSignals() as stop, shown(progress) as show:
            work(progress, start, stop, show, after_each=table)
        found = table()
        if stop.received and len(progress.done) + len(progress.failed) < len(sweep.runs):
            raise Interrupted(stop.received)
        return found, progress.failed
