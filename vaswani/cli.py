"""The command line: parses, calls, prints. Exit codes: 0 done, 1 the work failed, 2 the input is wrong."""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from vaswani import actions, arguments
from vaswani.arguments import Command
from vaswani.console import flush_output, replace_closed_streams
from vaswani.errors import UserError, WorkFailed
from vaswani.memory import keep_freed_memory


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


# --- the list of commands, and their help ---

STEPS = (
    Command(
        actions.prepare, arguments.takes_config,
        "Get the text, clean it, learn a joint vocabulary of subwords (BPE), and encode it.",
        ("prepare toy", "prepare multi30k --data.dir my-text --data.name my-text"),
    ),
    Command(
        actions.train, arguments.takes_train,
        "Train a model. If it was stopped, the same command goes on from its last checkpoint.",
        ("train toy", "train toy --run runs/wide --model.d-ff 1024"),
    ),
    Command(
        actions.average, arguments.takes_average,
        "Average the parameters of the last checkpoints into RUN/averaged.",
        ("average runs/toy",),
    ),
    Command(
        actions.translate, arguments.takes_translate,
        "Translate standard input line by line. On a terminal it shows a prompt.",
        ("translate runs/toy < in.txt > out.txt", "translate runs/a runs/b --input in.txt --json --alignments"),
    ),
    Command(
        actions.evaluate, arguments.takes_evaluate,
        "Translate the test sets and score the translations, in every convention of BLEU.",
        ("evaluate runs/toy", "evaluate runs/toy --src my.en --ref my.de"),
    ),
    Command(
        actions.report, arguments.takes_report,
        "Write RUN/report.html: learning curves, translations, scores.",
        ("report runs/toy",),
    ),
    Command(
        actions.attention, arguments.takes_attention,
        "Draw the attention weights of each head while a sentence is translated; RUN/report.html shows them too.",
        ("attention runs/toy 'The dog sleeps.'",),
    ),
    Command(
        actions.status, arguments.takes_status,
        "List the runs of a directory: how far each is, and its scores.",
        ("status",),
    ),
)  # fmt: skip

MORE = (
    Command(
        actions.config, arguments.takes_config_name,
        "List the configurations that come with vaswani, or print one, to change it.",
        ("config toy > mine.toml", "config"),
    ),
    Command(
        actions.reproduce, arguments.takes_reproduce,
        "Do the main steps: prepare, train, average, evaluate and report.",
        ("reproduce toy",),
    ),
    Command(
        actions.compare, arguments.takes_compare,
        "Compare the BLEU of each run with that of the first run, by sacreBLEU's paired bootstrap.",
        ("compare runs/toy runs/wide",),
    ),
    Command(
        actions.ablate, arguments.takes_ablate,
        "Train rows of the paper's Table 3 as changes to CONFIG, and print the results beside the paper's.",
        ("ablate toy --rows A,C1 --dry-run", "ablate toy --rows A,C1 --seeds 2"),
    ),
    Command(
        actions.export, arguments.takes_export,
        "Write a run as a model of Hugging Face (Marian) or CTranslate2.",
        ("export runs/toy --to marian --out toy-marian", "export runs/toy --to ctranslate2 --type int8 --out toy-int8"),
    ),
    Command(
        actions.import_, arguments.takes_import,
        "Make a run of a Marian model in the format of Hugging Face.",
        ("import marian toy-marian --run runs/imported",),
    ),
    Command(
        actions.paper, arguments.takes_paper,
        "Recompute the paper's numbers, and print each beside the paper's value.",
        ("paper",),
    ),
)  # fmt: skip

INTERNAL = (
    Command(
        actions.ablate_run, arguments.takes_ablate_run,
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
