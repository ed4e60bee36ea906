"""The command line: parses, calls, prints. Exit codes: 0 done, 1 the work failed, 2 the input is wrong."""

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from vaswani.arguments import (
    RUNS,
    Parser,
    positive,
    resolve,
    settings_of_run,
    takes_config,
    takes_json,
    takes_run,
)  # fmt: skip
from vaswani.errors import UserError, WorkFailed
from vaswani.memory import keep_freed_memory
from vaswani.runs.directory import RunDirectory


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and ends the process."""
    replace_closed_streams()
    keep_freed_memory()
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """Runs one command. Returns the exit code."""
    try:
        if sys.stdout is None:
            raise UserError("standard output is closed; where nobody reads it, say `> /dev/null`")
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # whatever the system's: text is UTF-8, and so are our tables
        try:
            arguments = parse(argv)
            arguments.command(arguments)
        finally:
            flush_output()
        return 0
    except UserError as error:
        print(f"vaswani: {error}", file=sys.stderr)
        return 2
    except WorkFailed as error:
        print(f"vaswani: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        return 1
    except OSError as error:  # what no room foresaw: a name too long, a directory taken away meanwhile
        print(f"vaswani: {error.filename or 'input or output'}: {error.strerror or error}", file=sys.stderr)
        return 1
    except RuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):  # JAX's word for it
            raise
        advice = "try a smaller --train.max-tokens-per-device or, in translating, --decode.batch-tokens"
        print(f"vaswani: out of memory; {advice}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("vaswani: interrupted", file=sys.stderr)
        return 130


def replace_closed_streams() -> None:
    """Gives the numbers of closed streams away, or files opened later would get them, and a library's messages with it.

    Python has None for a closed stream; of these only stderr, which everything may write to, gets a substitute.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):  # in this order: the lowest number that is free is given
        if stream is None:
            null = os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = os.fdopen(null, "w")


def flush_output() -> None:
    """Writes what is still buffered, and names standard output where it takes no more."""
    try:
        sys.stdout.flush()
    except OSError as error:
        sys.stdout = None  # or the interpreter would try once more as it ends, and complain
        error.filename = "standard output"
        raise


# --- commands; each imports what it needs, so that `--help` does not wait for JAX ---


def prepare(a: argparse.Namespace) -> None:
    from vaswani.commands import PREPARED
    from vaswani.data.prepare import prepare

    prepare(a.config, PREPARED)


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
    from vaswani.commands import set_up_jax
    from vaswani.decoding.stream import Layout, translate_files, translate_stream
    from vaswani.decoding.translator import load_ensemble

    if sys.stdin is None and not a.input:
        raise UserError("standard input is closed; give it the text to translate, as `< in.txt`")
    if a.json and a.scores:
        raise UserError("--scores: --json has the scores; give one of the two")
    runs = [a.run, *map(RunDirectory.open, a.others)]
    set_up_jax()
    translator = load_ensemble(runs, a.checkpoint, settings_of_run(a).decode)
    layout = Layout(a.n_best, a.scores, a.alignments, a.json)
    if a.input:
        translate_files(translator, a.input, sys.stdout.buffer, layout)
    elif sys.stdin is not None:
        translate_stream(translator, sys.stdin.buffer, sys.stdout.buffer, layout)


def evaluate(a: argparse.Namespace) -> None:
    from vaswani.commands import evaluate_files, evaluate_run
    from vaswani.evaluation import bleu

    config = settings_of_run(a)
    if a.src and a.hyp:
        raise UserError("--src FILE is translated, --hyp FILE scored as it is: give one of them, with --ref FILE")
    if bool(a.ref) != bool(a.src or a.hyp):
        raise UserError("--ref FILE goes with --src FILE (translate and score) or --hyp FILE (score only)")
    if a.ref:
        results = evaluate_files(a.run, config, a.checkpoint, a.ref, src=a.src, hyp=a.hyp)
    else:
        results = evaluate_run(a.run, config, a.checkpoint)
    print_result(bleu.to_json(results), bleu.format_table(results), a.json)


def reproduce(a: argparse.Namespace) -> None:
    from vaswani.commands import reproduce
    from vaswani.console import say
    from vaswani.evaluation import bleu

    def work() -> None:
        results = reproduce(a.config, a.run)
        print_result(bleu.to_json(results), bleu.format_table(results), a.json)
        say(f"report: {a.run.report_path}")

    stoppable(work)


def report(a: argparse.Namespace) -> None:
    from vaswani.report.page import write_report

    print(write_report(a.run, a.out))


def status(a: argparse.Namespace) -> None:
    from vaswani.report.status import format_status, read_status

    rows = read_status(a.runs)
    print_result(rows, format_status(rows, a.runs), a.json)


def ablate(a: argparse.Namespace) -> None:
    from vaswani.ablation import layout
    from vaswani.ablation import rows as table3
    from vaswani.ablation.plan import format_plan
    from vaswani.ablation.sweep import Sweep
    from vaswani.commands import ablate, plan_ablation

    names = [name for name in a.rows.split(",") if name]
    if not names:
        raise UserError(f"--rows {a.rows!r}: names no row; give groups or rows of Table 3, as A,C1,big")
    rows = table3.rows(a.config, names)
    sweep = Sweep(a.run, a.config, rows, a.seeds, a.set or a.config.data.valid)
    sweep.check_set()

    def work() -> None:
        table, failed = ablate(sweep, a.jobs, a.slurm)
        print_result(table.to_json(), layout.to_text(table), a.json)
        if failed:
            raise WorkFailed(f"{len(failed)} of {len(sweep.runs)} runs failed; the same command tries them again")

    if a.dry_run:
        values = plan_ablation(sweep, a.jobs, a.slurm)
        print_result(values, format_plan(values), a.json)
    else:
        stoppable(work)


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
    from vaswani.commands import set_up_jax
    from vaswani.console import say
    from vaswani.report.attention_map import write_attention

    set_up_jax()
    target, paths = write_attention(a.run, a.text, a.target, a.checkpoint, settings_of_run(a).decode, a.out)
    say(f"{a.text} -> {target}")
    print(*paths, sep="\n")


def paper(a: argparse.Namespace) -> None:
    from vaswani.commands import set_up_jax
    from vaswani.console import say
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


# --- arguments ---


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command's arguments, CONFIG and RUN already read.

    Raises:
        UserError: in place of argparse's usage text.
    """
    for argument in argv:
        if any("\ud800" <= character <= "\udfff" for character in argument):  # how Python passes on other bytes
            raise UserError(f"the argument {argument!r} is not UTF-8")
    return resolve(build_parser().parse_args(argv))


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="vaswani",
        allow_abbrev=False,
        description='The Transformer of "Attention Is All You Need", from raw text to BLEU.',
        epilog="First time? `vaswani reproduce toy` goes the whole way in a few minutes on a laptop.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)

    def command(
        function: Callable[[argparse.Namespace], None], help: str, internal: bool = False
    ) -> argparse.ArgumentParser:
        name, description = function.__name__.replace("_", "-"), help[0].upper() + help[1:] + "."
        listed: dict[str, Any] = {} if internal else {"help": help}
        sub = commands.add_parser(name, description=description, allow_abbrev=False, **listed)
        sub.set_defaults(command=function)
        return sub

    sub = command(config, "list the configurations that come with vaswani, or write one out")
    sub.add_argument("name", nargs="?", metavar="NAME", help="print this one as a file that extends no other")
    sub = command(prepare, "get the text, clean the training split, learn the joint BPE, encode")
    takes_config(sub)
    sub = command(train, "train a model; started again, it goes on exactly where it stopped")
    takes_config(sub, run=True)
    sub.add_argument("--init", metavar="RUN", help="start from this run's parameters")
    sub = command(average, "average the last checkpoints' parameters into RUN/averaged")
    takes_run(sub)
    sub.add_argument("--last", type=int, metavar="N", help="how many (default: train.average_last of the run)")
    sub = command(translate, "translate stdin to stdout, line by line; on a terminal, a prompt")
    takes_run(sub, decode=True)
    sub.usage = "%(prog)s RUN [RUN ...] [OPTIONS] [--TABLE.KEY VALUE ...]"
    sub.add_argument("others", nargs="*", metavar="RUN", help="further runs: their log-probabilities are averaged")
    sub.add_argument("--input", nargs="+", type=Path, metavar="FILE", help="translate these files (.gz too)")
    sub.add_argument("--n-best", type=int, default=1, metavar="N", help="translations a line, at most the beam")
    sub.add_argument("--scores", action="store_true", help="LINE <tab> SCORE <tab> LOG_PROB <tab> TEXT a translation")
    sub.add_argument(
        "--alignments", action="store_true",
        help="source token-target token pairs from cross-attention (0-0 2-1 …, Pharaoh format) <tab> before the text",
    )  # fmt: skip
    sub.add_argument(
        "--json", action="store_true", help="one JSON object a line: its tokens, and its translations with scores"
    )
    sub = command(evaluate, "translate the test sets and score them in every convention")
    takes_run(sub, decode=True)
    sub.add_argument("--src", type=Path, metavar="FILE", help="translate and score this file instead")
    sub.add_argument(
        "--ref", type=Path, action="append", metavar="FILE",
        help="the references of --src or --hyp; give it again for further references of the same lines",
    )  # fmt: skip
    sub.add_argument("--hyp", type=Path, metavar="FILE", help="score these translations instead of making them")
    takes_json(sub)
    sub = command(reproduce, "prepare, train, average, evaluate and report: the main job in one command")
    takes_config(sub, run=True)
    takes_json(sub)
    sub = command(ablate, "Table 3 around CONFIG: train the rows, resumably, and print them beside the paper's")
    takes_config(sub, run=True, suffix="-table3")
    sub.add_argument(
        "--rows", default="A,B,C,D,E", metavar="LIST",
        help="groups or rows of Table 3, as A,C1,big, or TOML files with the keys that a row of your own changes "
        "(default: A,B,C,D,E)",
    )  # fmt: skip
    sub.add_argument("--seeds", type=positive, default=3, metavar="K", help="runs a row (default: 3)")
    sub.add_argument("--set", metavar="SET", help="the set whose BLEU counts (default: data.valid)")
    sub.add_argument(
        "--jobs",
        type=positive,
        metavar="N",
        help="runs at a time, each on its share of the cores (default: 1, or with --slurm all)",
    )
    sub.add_argument(
        "--slurm", nargs="?", const="", metavar="KEY=VALUE,…",
        help="submit the runs to SLURM, with these options of sbatch, as partition=gpu,gpus_per_node=1,time=600",
    )  # fmt: skip
    sub.add_argument("--dry-run", action="store_true", help="only list the runs, with an estimate of the time")
    takes_json(sub)
    sub = command(
        ablate_run, "one run of `ablate`, which starts this command: train, translate with the last checkpoint",
        internal=True,
    )  # fmt: skip
    takes_config(sub, run=True)
    sub.add_argument("--set", metavar="SET", help="the set to translate (default: data.valid)")
    sub.add_argument("--parent", type=positive, metavar="PID", help="save and leave when this parent process has gone")
    sub = command(compare, "test runs against the first: sacreBLEU's paired bootstrap on what they translated")
    sub.add_argument("compared", nargs="+", metavar="RUN", help="two run directories or more")
    sub.add_argument("--set", metavar="SET", help="a translated set (default: the first of data.tests)")
    takes_json(sub)
    sub = command(report, "write RUN/report.html: curves, translations, scores")
    takes_run(sub)
    sub.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="write into this directory, or to this .html file; for a run that is read-only",
    )
    sub = command(attention, "draw where each head looks while a sentence is translated; report.html shows it too")
    takes_run(sub, decode=True)
    sub.usage = "%(prog)s RUN TEXT [OPTIONS] [--TABLE.KEY VALUE ...]"
    sub.add_argument("text", metavar="TEXT", help="a source sentence")
    sub.add_argument("--target", metavar="TEXT", help="its translation (default: the model's own)")
    sub.add_argument("--out", type=Path, metavar="DIR", help="write into this directory, as for a read-only run")
    sub = command(paper, "recompute the paper's numbers, and print them beside the printed ones")
    sub.add_argument("--figures", type=Path, metavar="DIR", help="draw its arguments into this directory, as PNG")
    takes_json(sub)
    sub = command(status, "what each run is at")
    sub.add_argument("runs", nargs="?", type=Path, default=RUNS, help="the directory that holds the runs")
    takes_json(sub)
    return parser


def print_result(values: Any, table: str, as_json: bool) -> None:
    print(json.dumps(values, indent=2, ensure_ascii=False) if as_json else table)


def stoppable(work: Callable[[], None]) -> None:
    """Ends with the shell's code for a signal once an interrupted training is saved."""
    from vaswani.training.signals import Interrupted

    try:
        work()
    except Interrupted as stop:
        sys.exit(stop.exit_code)
