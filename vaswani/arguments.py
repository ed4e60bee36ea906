"""The options of every command: CONFIG, RUN, every setting as an option. Wrong ones get one line."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from vaswani import config as config_module
from vaswani import shipped
from vaswani.errors import UserError, closest, did_you_mean
from vaswani.runs.directory import RunDirectory
from vaswani.schema import Config

RUNS = Path("runs")
CHECKPOINT_HELP = "averaged, best, last, or the number of a step (default: averaged if it exists, else last)"


class Parser(argparse.ArgumentParser):
    """Refuses wrong arguments in one line, and names what was probably meant."""

    def __init__(self, description: str | None, prog: str | None = None) -> None:
        self.known_options: list[str] = []
        super().__init__(
            prog, description=description, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
        )

    def add_argument(self, *names: str, **kwargs: Any) -> argparse.Action:
        self.known_options += [name for name in names if name.startswith("--")]
        return super().add_argument(*names, **kwargs)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._hint(unknown[0])}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see `{self.prog} --help`")

    def _hint(self, argument: str) -> str:
        """Offers the same key of another table, or the option that is spelt most like `argument`."""
        wanted = argument.partition("=")[0].replace("_", "-")
        key = wanted.lstrip("-").rpartition(".")[2]
        in_another_table = [option for option in self.known_options if option.rpartition(".")[2] == key]
        return did_you_mean(in_another_table or closest(wanted, self.known_options))


@dataclass(frozen=True)
class Command:
    """A command, and what `--help` says of it."""

    run: Callable[[argparse.Namespace], None]
    """Its name is the command's."""
    takes: Callable[[Parser], None]
    """Adds its arguments to a parser."""
    what: str
    examples: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.run.__name__.strip("_").replace("_", "-")  # import_ is `import`

    def parser(self) -> Parser:
        examples = "\n".join(f"  vaswani {example}" for example in self.examples)
        parser = Parser(f"{self.what}\n\nExamples:\n{examples}", f"vaswani {self.name}")
        self.takes(parser)
        parser.set_defaults(command=self.run)
        return parser


def parse(argv: Sequence[str], listed: Sequence[Command], internal: Sequence[Command]) -> argparse.Namespace:
    """The arguments of the command that `argv` begins with; CONFIG and RUN are read.

    Raises:
        UserError: an argument is wrong. Only `listed` commands are offered instead of one that does not exist.
    """
    for argument in argv:
        if any("\ud800" <= character <= "\udfff" for character in argument):  # how Python passes on other bytes
            raise UserError(f"the argument {argument!r} is not UTF-8")
    if not argv:
        raise UserError("which COMMAND? see `vaswani --help`")
    commands = {command.name: command for command in (*listed, *internal)}
    if argv[0] not in commands:
        hint = did_you_mean(closest(argv[0], [command.name for command in listed]))
        raise UserError(f"no command {argv[0]!r}{hint}; see `vaswani --help`")
    return resolve(commands[argv[0]].parser().parse_args(argv[1:]))


# --- what several commands take ---


def takes_config(parser: Parser) -> None:
    parser.add_argument(
        "config", metavar="CONFIG",
        help="a TOML file, or a name that `vaswani config` lists, for example toy. A path in the file is relative to "
        "that file; a path on the command line is relative to the working directory",
    )  # fmt: skip
    takes_settings(parser, ("data", "model", "train", "decode"), "CONFIG")


def takes_new_run(parser: Parser, suffix: str = "") -> None:
    takes_config(parser)
    parser.add_argument(
        "--run", metavar="RUN", help=f"the run's directory (default: runs/NAME{suffix} if CONFIG is NAME.toml)"
    )
    parser.set_defaults(suffix=suffix)


def takes_run(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's directory, for example runs/toy")


def takes_translator(parser: Parser) -> None:
    takes_run(parser)
    parser.add_argument("--checkpoint", default="auto", metavar="WHICH", help=CHECKPOINT_HELP)
    takes_settings(parser, ("decode",), "RUN/config.toml")


def takes_settings(parser: Parser, tables: Sequence[str], file: str) -> None:
    """One option for each setting of the schema."""
    parser.usage = "%(prog)s " + ("CONFIG" if "data" in tables else "RUN") + " [OPTIONS] [--TABLE.KEY VALUE ...]"
    defaults = config_module.flatten(Config())
    explanation = (
        f"An option replaces the value in {file}.\nIn brackets: the default, used if the file does not have the key.\n"
        "A list is written a,b and a table KEY=VALUE,KEY=VALUE."
    )
    for table in tables:
        group = parser.add_argument_group(f"settings: {table}", explanation)
        for key, description in config_module.descriptions().items():
            if key.startswith(f"{table}."):
                option = f"--{key.replace('_', '-')}"
                parser.known_options.append(option)
                text = f"{description} [{json.dumps(defaults[key])}]".replace("%", "%%")
                group.add_argument(option, dest=key, metavar="VALUE", default=argparse.SUPPRESS, help=text)


def takes_out(parser: Parser, what: str = "a directory") -> None:
    text = f"write to PATH, {what}, instead of RUN, for example if RUN is read-only"
    parser.add_argument("--out", type=Path, metavar="PATH", help=text)


def takes_json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} should be a whole number, at least 1")
    return int(text)


# --- what one command takes; the others take only what stands above ---


def takes_train(parser: Parser) -> None:
    takes_new_run(parser)
    parser.add_argument("--init", metavar="RUN", help="start from the parameters of this run (fine-tuning)")


def takes_average(parser: Parser) -> None:
    takes_run(parser)
    parser.add_argument(
        "--last", type=positive, metavar="N", help="how many checkpoints (default: train.average_last of the run)"
    )


def takes_config_name(parser: Parser) -> None:
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="print this configuration, as a file that extends no other"
    )


def takes_translate(parser: Parser) -> None:
    takes_translator(parser)
    parser.usage = "%(prog)s RUN [RUN ...] [OPTIONS] [--TABLE.KEY VALUE ...]"
    parser.add_argument(
        "others", nargs="*", metavar="RUN",
        help="further runs on the same prepared corpus: the log-probabilities of all are averaged (an ensemble)",
    )  # fmt: skip
    parser.add_argument(
        "--input", nargs="+", type=Path, metavar="FILE", help="translate these files (.gz too), not standard input"
    )
    parser.add_argument(
        "--n-best", type=positive, default=1, metavar="N",
        help="print the N best translations of each line, at most decode.beam (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--scores", action="store_true",
        help="print LINE <tab> SCORE <tab> LOG_PROB <tab> TEXT for each translation. "
        "SCORE is LOG_PROB divided by the length penalty",
    )  # fmt: skip
    parser.add_argument(
        "--alignments", action="store_true",
        help="print pairs of tokens, SOURCE-TARGET from 0 (Pharaoh format), and <tab> before each TEXT",
    )  # fmt: skip
    parser.add_argument(
        "--json", action="store_true",
        help="print a JSON object for each line: its tokens, and its translations with scores and tokens",
    )  # fmt: skip


def takes_evaluate(parser: Parser) -> None:
    takes_translator(parser)
    parser.add_argument(
        "--src", type=Path, metavar="FILE", help="translate this file and score it, instead of the test sets"
    )
    parser.add_argument("--hyp", type=Path, metavar="FILE", help="score this file's translations as they are")
    parser.add_argument(
        "--ref", type=Path, action="append", metavar="FILE",
        help="the references for --src or --hyp; repeat the option for more references of the same lines",
    )  # fmt: skip
    takes_out(parser)
    takes_json(parser)


def takes_report(parser: Parser) -> None:
    takes_run(parser)
    takes_out(parser, "a directory or FILE.html")


def takes_attention(parser: Parser) -> None:
    takes_translator(parser)
    parser.usage = "%(prog)s RUN TEXT [OPTIONS] [--TABLE.KEY VALUE ...]"
    parser.add_argument("text", metavar="TEXT", help="a sentence of the source language")
    parser.add_argument("--target", metavar="TEXT", help="its translation (default: the model's own)")
    takes_out(parser)


def takes_status(parser: Parser) -> None:
    parser.add_argument(
        "runs", nargs="?", type=Path, default=RUNS, help="the directory that holds the runs (default: runs)"
    )
    takes_json(parser)


def takes_reproduce(parser: Parser) -> None:
    takes_new_run(parser)
    takes_json(parser)


def takes_compare(parser: Parser) -> None:
    parser.add_argument("compared", nargs="+", metavar="RUN", help="two run directories or more")
    parser.add_argument("--set", metavar="SET", help="a set that all have translated (default: first of data.tests)")
    takes_json(parser)


def takes_ablate(parser: Parser) -> None:
    takes_new_run(parser, suffix="-table3")
    parser.add_argument(
        "--rows", default="A,B,C,D,E", metavar="LIST",
        help="groups or rows of Table 3, for example A,C1,big, or TOML files with the keys that a row of your own "
        "changes (default: A,B,C,D,E)",
    )  # fmt: skip
    parser.add_argument("--seeds", type=positive, default=3, metavar="K", help="runs of each row (default: 3)")
    parser.add_argument("--set", metavar="SET", help="the set whose BLEU counts (default: data.valid)")
    parser.add_argument(
        "--jobs", type=positive, metavar="N",
        help="runs at a time, each on its share of the cores (default: 1, or all with --slurm)",
    )  # fmt: skip
    parser.add_argument(
        "--slurm", nargs="?", const="", metavar="KEY=VALUE,…",
        help="submit the runs to SLURM with these options of sbatch, for example "
        "partition=gpu,gpus_per_node=1,time=600",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="only list the runs, with an estimate of the time")
    takes_json(parser)


def takes_ablate_run(parser: Parser) -> None:
    takes_new_run(parser)
    parser.add_argument("--set", metavar="SET", help="the set to translate (default: data.valid)")
    parser.add_argument("--parent", type=positive, metavar="PID", help="save and stop when this process has ended")


def takes_export(parser: Parser) -> None:
    takes_run(parser)
    parser.add_argument("--to", required=True, choices=("marian", "ctranslate2"), help="the format")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="the new directory to write")
    parser.add_argument("--checkpoint", default="auto", metavar="WHICH", help=CHECKPOINT_HELP)
    parser.add_argument(
        "--type", default="float32", choices=("float32", "float16", "int8"),
        help="the type of the matrices, for CTranslate2 only (default: float32)",
    )  # fmt: skip


def takes_import(parser: Parser) -> None:
    parser.add_argument("format", choices=("marian",), help="the format")
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of the model")
    parser.add_argument("--run", dest="new_run", required=True, metavar="RUN", help="the new run directory")


def takes_paper(parser: Parser) -> None:
    parser.add_argument(
        "--figures", type=Path, metavar="DIR", help="also draw figures of the paper's claims, as PNG files in DIR"
    )
    takes_json(parser)


# --- what they mean ---


def resolve(a: argparse.Namespace) -> argparse.Namespace:
    """The same arguments, with what CONFIG and RUN hold in place of their paths.

    Raises:
        UserError: there is no such file or run, or it is wrong.
    """
    if "config" not in a:
        if "run" in a:
            a.run = RunDirectory.open(a.run)
        return a
    path = shipped.find(a.config)
    a.config = config_module.override(config_module.load(path), _settings(a))
    if "run" in a:
        a.run = RunDirectory(a.run or RUNS / (path.name.removesuffix(".toml") + a.suffix))
    return a


def settings_of_run(a: argparse.Namespace) -> Config:
    """The run's configuration with the command line's `--decode.…`."""
    return config_module.override(a.run.load_config(), _settings(a))


def check_files(a: argparse.Namespace) -> None:
    """Refuses combinations of `evaluate`'s files that mean nothing."""
    if a.src and a.hyp:
        raise UserError("--src FILE is translated, --hyp FILE scored as it is: give one of them, with --ref FILE")
    if bool(a.ref) != bool(a.src or a.hyp):
        raise UserError("--ref FILE goes with --src FILE (translate and score) or --hyp FILE (score only)")


def check_input(a: argparse.Namespace) -> None:
    """Refuses what `translate` cannot read or print."""
    if sys.stdin is None and not a.input:
        raise UserError("standard input is closed; give it the text to translate, as `< in.txt`")
    if a.json and a.scores:
        raise UserError("--scores: --json has the scores; give one of the two")


def _settings(a: argparse.Namespace) -> dict[str, str]:
    return {key: value for key in config_module.descriptions() if (value := getattr(a, key, None)) is not None}
