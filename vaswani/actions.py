"""What each command does with its arguments: it calls, and prints the result.

Each function imports what it needs, so that `--help` does not wait for JAX.
"""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from vaswani import arguments
from vaswani.errors import WorkFailed
from vaswani.runs.directory import RunDirectory


def prepare(a: argparse.Namespace) -> None:
    from vaswani.data.prepare import prepare

    prepare(a.config)


def config(a: argparse.Namespace) -> None:
    from vaswani import shipped
    from vaswani.console import aligned

    if a.name:
        print(shipped.written_out(a.name), end="")
    else:
        print(aligned([(name, shipped.summary(name)) for name in shipped.names()]))


def train(a: argparse.Namespace) -> None:
    from vaswani.commands import train_run

    stoppable(lambda: train_run(a.config, a.run, RunDirectory.open(a.init) if a.init else None))


def average(a: argparse.Namespace) -> None:
    from vaswani.commands import average_run
    from vaswani.console import say

    steps = average_run(a.run, a.last)
    say(f"{a.run.averaged}: mean of the checkpoints of steps {', '.join(f'{s:,}' for s in steps)}")


def translate(a: argparse.Namespace) -> None:
    from vaswani.decoding.stream import Layout, translate_files, translate_stream
    from vaswani.decoding.translator import load_ensemble
    from vaswani.devices import set_up_jax

    arguments.check_input(a)
    runs = [a.run, *map(RunDirectory.open, a.others)]
    set_up_jax()
    translator = load_ensemble(runs, a.checkpoint, arguments.settings_of_run(a).decode)
    layout = Layout(a.n_best, a.scores, a.alignments, a.json)
    if a.input:
        translate_files(translator, a.input, sys.stdout.buffer, layout)
    else:
        translate_stream(translator, sys.stdin.buffer, sys.stdout.buffer, layout)


def evaluate(a: argparse.Namespace) -> None:
    from vaswani.commands import evaluate_files, evaluate_run
    from vaswani.evaluation import bleu

    arguments.check_files(a)
    config = arguments.settings_of_run(a)
    if a.ref:
        results = evaluate_files(a.run, config, a.checkpoint, a.ref, src=a.src, hyp=a.hyp)
    else:
        results = evaluate_run(a.run, config, a.checkpoint, out=a.out)
    print_result(bleu.to_json(results), bleu.format_table(results), a.json)


def reproduce(a: argparse.Namespace) -> None:
    from vaswani.commands import reproduce
    from vaswani.console import say
    from vaswani.evaluation import bleu

    def reproduce_and_print() -> None:
        results = reproduce(a.config, a.run)
        print_result(bleu.to_json(results), bleu.format_table(results), a.json)
        say(f"report: {a.run.report_path}")

    stoppable(reproduce_and_print)


def report(a: argparse.Namespace) -> None:
    from vaswani.report.page import write_report

    print(write_report(a.run, a.out))


def export(a: argparse.Namespace) -> None:
    from vaswani.commands import export_run
    from vaswani.devices import set_up_jax

    set_up_jax()
    export_run(a.run, a.to, a.checkpoint, a.type, a.out)
    print(a.out)


def import_(a: argparse.Namespace) -> None:
    from vaswani.devices import set_up_jax
    from vaswani.export.imported import import_marian

    set_up_jax()
    run = RunDirectory(a.new_run)
    import_marian(a.folder, run)
    print(run.path)


def status(a: argparse.Namespace) -> None:
    from vaswani.report.status import format_status, read_status

    rows = read_status(a.runs)
    print_result(rows, format_status(rows, a.runs), a.json)


def ablate(a: argparse.Namespace) -> None:
    from vaswani.ablation import layout
    from vaswani.ablation.plan import format_plan
    from vaswani.commands import ablate, make_sweep, plan_ablation

    sweep = make_sweep(a.config, a.run, a.rows, a.seeds, a.set or a.config.data.valid)

    def train_and_print() -> None:
        table, failed = ablate(sweep, a.jobs, a.slurm)
        print_result(table.to_json(), layout.to_text(table), a.json)
        if failed:
            raise WorkFailed(f"{len(failed)} of {len(sweep.runs)} runs failed; the same command tries them again")

    if a.dry_run:
        values = plan_ablation(sweep, a.jobs, a.slurm)
        print_result(values, format_plan(values), a.json)
    else:
        stoppable(train_and_print)


def ablate_run(a: argparse.Namespace) -> None:
    from vaswani.ablation.jobs import end_with
    from vaswani.commands import ablate_run

    if a.parent:
        end_with(a.parent)
    stoppable(lambda: ablate_run(a.config, a.run, a.set or a.config.data.valid))


def compare(a: argparse.Namespace) -> None:
    from vaswani.evaluation.compare import compare, format_comparison

    values = compare([RunDirectory.open(run) for run in a.compared], a.set)
    print_result(values, format_comparison(values), a.json)


def attention(a: argparse.Namespace) -> None:
    from vaswani.console import say
    from vaswani.devices import set_up_jax
    from vaswani.report.attention_map import write_attention

    set_up_jax()
    decode = arguments.settings_of_run(a).decode
    target, paths = write_attention(a.run, a.text, a.target, a.checkpoint, decode, a.out)
    say(f"{a.text} -> {target}")
    print(*paths, sep="\n")


def paper(a: argparse.Namespace) -> None:
    from vaswani.console import say
    from vaswani.devices import set_up_jax
    from vaswani.paper.checks import format_checks, require_reasons, to_json
    from vaswani.paper.recompute import check_paper

    set_up_jax()
    say("recomputing the paper's numbers, which takes about half a minute")
    checks = list(check_paper())
    print_result(to_json(checks), format_checks(checks), a.json)
    if a.figures:
        from vaswani.paper.figures import write_figures

        say("drawing, and measuring attention")
        say("\n".join(map(str, write_figures(a.figures))))
    require_reasons(checks)


def print_result(values: Any, table: str, as_json: bool) -> None:
    print(json.dumps(values, indent=2, ensure_ascii=False) if as_json else table)


def stoppable(train: Callable[[], None]) -> None:
    """Calls `train`. If a signal stopped it, the run is saved, and the exit code is the signal's."""
    from vaswani.training.signals import Interrupted

    try:
        train()
    except Interrupted as stop:
        sys.exit(stop.exit_code)
