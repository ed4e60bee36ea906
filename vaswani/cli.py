"""The command line: parses, calls, prints. Exit codes: 0 done, 1 the work failed, 2 the input is wrong."""

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from vaswani import arguments
from vaswani.arguments import Command
from vaswani.console import flush_output, replace_closed_streams
from vaswani.errors import UserError, WorkFailed
from vaswani.memory import keep_freed_memory
from vaswani.runs.directory import RunDirectory
from vaswani.streams import flush_output, replace_closed_streams


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and ends the process."""
    replace_closed_streams()
    keep_freed_memory()
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """Runs one command. Returns the exit code; a defect of ours raises, and Python shows its traceback."""
    try:
        if sys.stdout is None:
            raise UserError("standard output is closed; if nobody reads it, write `> /dev/null`")
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # whatever the system's encoding is
        try:
            a = parse(argv)
            check_variables()
            a.command(a)
        finally:
            flush_output()
        return 0
    except UserError as error:
        return failed(str(error), code=2)
    except WorkFailed as error:
        return failed(str(error))
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        return 1
    except OSError as error:  # not foreseen elsewhere: a name too long, a directory removed meanwhile
        return failed(f"{error.filename or 'input or output'}: {error.strerror or error}")
    except (RuntimeError, MemoryError) as error:
        if "RESOURCE_EXHAUSTED" not in str(error) and not isinstance(error, MemoryError):  # JAX's name for it
            raise
        advice = "try a smaller --train.max-tokens-per-device or, in translating, --decode.batch-tokens"
        return failed(f"out of memory; {advice}")
    except KeyboardInterrupt:
        return failed("interrupted", code=130)


def failed(message: str, code: int = 1) -> int:
    print(f"vaswani: {message}", file=sys.stderr)
    return code


def check_variables() -> None:
    """JAX reads the variables JAX_… when it is imported, and raises if it cannot understand one."""
    if any(name.startswith("JAX_") for name in os.environ):
        try:
            import jax  # noqa: F401
        except ValueError as error:
            raise UserError(f"a variable of the environment is wrong: {error}") from None


# --- the commands; each imports what it needs, so that `--help` does not wait for JAX ---


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


# --- the list of commands, and their help ---

STEPS = (
    Command(
        prepare, arguments.takes_config,
        "Get the text, clean it, learn a joint vocabulary of subwords (BPE), and encode it.",
        ("prepare toy", "prepare multi30k --data.dir my-text --data.name my-text"),
    ),
    Command(
        train, arguments.takes_train,
        "Train a model. If it was stopped, the same command goes on from its last checkpoint.",
        ("train toy", "train toy --run runs/wide --model.d-ff 1024"),
    ),
    Command(
        average, arguments.takes_average,
        "Average the parameters of the last checkpoints into RUN/averaged.",
        ("average runs/toy",),
    ),
    Command(
        translate, arguments.takes_translate,
        "Translate standard input line by line. On a terminal it shows a prompt.",
        ("translate runs/toy < in.txt > out.txt", "translate runs/a runs/b --input in.txt --json --alignments"),
    ),
    Command(
        evaluate, arguments.takes_evaluate,
        "Translate the test sets and score the translations, in every convention of BLEU.",
        ("evaluate runs/toy", "evaluate runs/toy --src my.en --ref my.de"),
    ),
    Command(
        report, arguments.takes_report,
        "Write RUN/report.html: learning curves, translations, scores.",
        ("report runs/toy",),
    ),
    Command(
        attention, arguments.takes_attention,
        "Draw the attention weights of each head while a sentence is translated; RUN/report.html shows them too.",
        ("attention runs/toy 'The dog sleeps.'",),
    ),
    Command(
        status, arguments.takes_status,
        "List the runs of a directory: how far each is, and its scores.",
        ("status",),
    ),
)  # fmt: skip

MORE = (
    Command(
        config, arguments.takes_config_name,
        "List the configurations that come with vaswani, or print one, to change it.",
        ("config toy > mine.toml", "config"),
    ),
    Command(
        reproduce, arguments.takes_reproduce,
        "Do the main steps: prepare, train, average, evaluate and report.",
        ("reproduce toy",),
    ),
    Command(
        compare, arguments.takes_compare,
        "Compare the BLEU of each run with that of the first run, by sacreBLEU's paired bootstrap.",
        ("compare runs/toy runs/wide",),
    ),
    Command(
        ablate, arguments.takes_ablate,
        "Train rows of the paper's Table 3 as changes to CONFIG, and print the results beside the paper's.",
        ("ablate toy --rows A,C1 --dry-run", "ablate toy --rows A,C1 --seeds 2"),
    ),
    Command(
        export, arguments.takes_export,
        "Write a run as a model of Hugging Face (Marian) or CTranslate2.",
        ("export runs/toy --to marian --out toy-marian", "export runs/toy --to ctranslate2 --type int8 --out toy-int8"),
    ),
    Command(
        import_, arguments.takes_import,
        "Make a run of a Marian model in the format of Hugging Face.",
        ("import marian toy-marian --run runs/imported",),
    ),
    Command(
        paper, arguments.takes_paper,
        "Recompute the paper's numbers, and print each beside the paper's value.",
        ("paper",),
    ),
)  # fmt: skip

INTERNAL = (
    Command(
        ablate_run, arguments.takes_ablate_run,
        "One run of `vaswani ablate`, which starts this command: train, translate with the last checkpoint.",
        ("ablate-run runs/toy-table3/base.toml --run runs/toy-table3/A1-seed0",),
    ),
)  # fmt: skip


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of one command; CONFIG and RUN are read.

    Raises:
        UserError: an argument is wrong.
    """
    if argv and argv[0] in ("-h", "--help"):
        return argparse.Namespace(command=lambda _: print(overview()))
    return arguments.parse(argv, listed=(*STEPS, *MORE), internal=INTERNAL)


def overview() -> str:
    """What `vaswani --help` prints."""

    def lines(commands: Sequence[Command]) -> str:
        return "\n".join(f"  {c.name:<10} {c.what}\n             vaswani {c.examples[0]}" for c in commands)

    return f"""\
usage: vaswani COMMAND [OPTIONS]

The Transformer of "Attention Is All You Need", from raw text to BLEU.
First time? `vaswani reproduce toy` takes a few minutes on a laptop.

From text to BLEU, step by step:
{lines(STEPS)}

More commands:
{lines(MORE)}

`vaswani COMMAND --help` explains a command and its options."""


def print_result(values: Any, table: str, as_json: bool) -> None:
    print(json.dumps(values, indent=2, ensure_ascii=False) if as_json else table)


def stoppable(train: Callable[[], None]) -> None:
    """Calls `train`. If a signal stopped it, the run is saved, and the exit code is the signal's."""
    from vaswani.training.signals import Interrupted

    try:
        train()
    except Interrupted as stop:
        sys.exit(stop.exit_code)
