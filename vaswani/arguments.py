"""What commands share on the command line: CONFIG, RUN, every setting as an option, refusals of one line."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from vaswani import config as config_module
from vaswani import shipped
from vaswani.errors import UserError, closest, did_you_mean
from vaswani.runs.directory import RunDirectory
from vaswani.schema import Config

RUNS = Path("runs")
CHECKPOINT_HELP = "averaged, best, last or a step (default: averaged if there, else last)"


class Parser(argparse.ArgumentParser):
    """Refuses in one line, and names what was probably meant."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:  # said here, by the parser of the command, which knows its own options
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self.option_like(unknown[0])}")
        return parsed, unknown

    def option_like(self, argument: str) -> str:
        """The right name in another table, or what is spelt closest."""
        known, wanted = list(self._option_string_actions), argument.partition("=")[0].replace("_", "-")
        name = wanted.lstrip("-").rpartition(".")[2]
        return did_you_mean([o for o in known if o.rpartition(".")[2] == name] or closest(wanted, known))

    def _check_value(self, action: argparse.Action, value: str) -> None:
        if action.choices is not None and value not in action.choices:
            guess = did_you_mean(closest(value, action.choices))
            if action.option_strings:
                one_of = ", ".join(action.choices)
                self.error(f"{action.option_strings[0]}: {value!r} is none of {one_of}{guess}")
            self.error(f"no command {value!r}{guess}")

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see `{self.prog} --help`")


def resolve(a: argparse.Namespace) -> argparse.Namespace:
    """The same arguments, CONFIG and RUN read."""
    if "config" in a:
        path = shipped.find(a.config)
        a.config = config_module.override(config_module.load(path), _settings(a))
        if "run" in a:
            a.run = RunDirectory(a.run or RUNS / (path.name.removesuffix(".toml") + a.suffix))
    elif "run" in a:
        a.run = RunDirectory.open(a.run)
    return a


def settings_of_run(a: argparse.Namespace) -> Config:
    """The run's configuration with the command line's `--decode.…`."""
    return config_module.override(a.run.load_config(), _settings(a))


def _settings(a: argparse.Namespace) -> dict[str, str]:
    return {key: value for key in config_module.descriptions() if (value := getattr(a, key, None)) is not None}


def takes_config(parser: argparse.ArgumentParser, run: bool = False, suffix: str = "") -> None:
    parser.add_argument("config", metavar="CONFIG", help="a TOML file, or a name that `vaswani config` lists, as toy")
    if run:
        parser.add_argument("--run", metavar="RUN", help=f"run directory (default: runs/NAME{suffix})")
        parser.set_defaults(suffix=suffix)
    takes_settings(parser, ("data", "model", "train", "decode"), "CONFIG")


def takes_run(parser: argparse.ArgumentParser, decode: bool = False) -> None:
    parser.add_argument("run", metavar="RUN", help="a run directory, as runs/toy")
    if decode:
        parser.add_argument("--checkpoint", default="auto", metavar="WHICH", help=CHECKPOINT_HELP)
        takes_settings(parser, ("decode",), "RUN/config.toml")


def takes_settings(parser: argparse.ArgumentParser, tables: Sequence[str], otherwise: str) -> None:
    """One option a setting, made from the schema."""
    parser.usage = "%(prog)s " + ("CONFIG" if "data" in tables else "RUN") + " [OPTIONS] [--TABLE.KEY VALUE ...]"
    defaults = config_module.flatten(Config())
    for table in tables:
        group = parser.add_argument_group(
            f"settings: {table}",
            f"In brackets: the default, used where {otherwise} does not set the key. Lists are given with commas: a,b; "
            "tables as KEY=VALUE,KEY=VALUE.",
        )
        for key, description in config_module.descriptions().items():
            if key.startswith(f"{table}."):
                shown = json.dumps(defaults[key]).replace("%", "%%")
                group.add_argument(
                    f"--{key.replace('_', '-')}", dest=key, metavar="VALUE", default=argparse.SUPPRESS,
                    help=f"{description} [{shown}]".replace("%", "%%"),
                )  # fmt: skip


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def takes_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
