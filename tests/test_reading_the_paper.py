"""The map from the paper to this repository leaves nothing of the paper out, and every name in it exists."""

import importlib
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.command_help import help_of
from vaswani.paper.figures import FIGURES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reading-the-paper.md"


@pytest.fixture(scope="module")
def rows() -> list[list[str]]:
    """The table's cells: in the paper, code, tests, left open."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").split("\n") if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def names(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


@cache
def settings() -> set[str]:
    """TABLE.KEY of every setting."""
    tables = tomllib.loads((ROOT / "configs" / "base.toml").read_text(encoding="utf-8"))
    return {f"{table}.{key}" for table, keys in tables.items() for key in keys}


def missing(name: str) -> str | None:
    """Why there is no such thing; None where there is."""
    if name.startswith("vaswani "):
        _, command, *arguments = name.split()
        lacking = [word for word in arguments if word.startswith("--") and word not in help_of(command)]
        return f"no {lacking[0]}" if lacking else None if help_of(command) else "no such command"
    if name.startswith("vaswani."):
        return missing_attribute(name)
    if "::" in name:
        path, _, function = name.partition("::")
        is_test = path.startswith("tests/") and (ROOT / path).exists()
        return None if is_test and f"\ndef {function}(" in (ROOT / path).read_text("utf-8") else "no such test"
    if name in settings() or name in FIGURES or name == "report.html":
        return None
    return None if (ROOT / name).exists() else "no such file, setting or figure"


def missing_attribute(name: str) -> str | None:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for attribute in parts[length:]:
            if not hasattr(value, attribute):
                return f"{value.__name__} has no {attribute}"
            value = getattr(value, attribute)
        return None


def test_every_name_in_the_table_exists(rows):
    cells = [name for row in rows for cell in row for name in names(cell)]
    theirs = {"transformer_base_v1", "get_ende_bleu.sh"}  # of tensor2tensor
    assert len(cells) > 80
    assert {name: why for name in cells if name not in theirs and (why := missing(name))} == {}


def test_every_part_that_is_implemented_has_a_test(rows):
    untested = [row[0] for row in rows if not any("::" in name for name in names(row[2]))]
    assert untested == ["6.3, Table 4: English constituency parsing"]


def test_nothing_of_the_paper_is_left_out(rows):
    left = " ".join(row[0] for row in rows)
    places = ["3.1", "3.2.1", "3.2.2", "3.2.3", "3.3", "3.4", "3.5", "5.1", "5.2", "5.3", "5.4", "6.1", "6.2", "6.3"]
    places += [f"equation {i}" for i in (1, 2, 3)] + [f"Table {i}" for i in (1, 2, 3, 4)] + ["Figure 1", "Figure 2"]
    places += ["4, Table 1", "Figures 3, 4 and 5", "footnote 4"]
    assert [place for place in places if place not in left] == []


def test_what_does_not_exist_is_noticed():
    wrong = ["vaswani fly", "vaswani paper --fly", "vaswani.model.Reformer", "vaswani/fly.py", "train.fly", "fly.png"]
    wrong += ["tests/test_model.py::test_fly", "tests/fly.py::test_fly"]
    assert [name for name in wrong if not missing(name)] == []
