"""README's map from the paper to this repository leaves nothing of the paper out, and every name in it exists."""

import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from vaswani import cli, config
from vaswani.paper.figures import FIGURES

ROOT = Path(__file__).parents[1]
TITLE = "Reading the paper with this repository"


@pytest.fixture(scope="module")
def section() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {TITLE}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"README.md has no section {TITLE!r}"
    return found[1]


def names(section: str) -> list[str]:
    return re.findall(r"`([^`]+)`", re.sub(r"<!--.*?-->", "", section, flags=re.DOTALL))


@cache
def commands() -> dict:
    return cli.build_parser()._subparsers._group_actions[0].choices


@cache
def settings() -> set[str]:
    return set(config.descriptions())


def missing(name: str) -> str | None:
    """Why there is no such thing."""
    if name.startswith("vaswani "):
        _, command, *arguments = name.replace("…", "text").replace('"', "").split()
        parser = commands().get(command)
        if parser is None:
            return "no such command"
        options = [word for word in arguments if word.startswith("--")]
        return next((f"no {o}" for o in options if o not in parser._option_string_actions), None)
    if name.startswith("vaswani."):
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:length]))
            except ImportError:
                continue
            for attribute in parts[length:]:
                if not hasattr(found, attribute):
                    return f"{found.__name__} has no {attribute}"
                found = getattr(found, attribute)
            return None
    if name in settings() or name in FIGURES or name == "report.html":
        return None
    return None if (ROOT / name).exists() else "no such file, setting or figure"


def test_every_name_exists(section):
    assert len(names(section)) > 40
    assert {name: why for name in names(section) if (why := missing(name))} == {}
    links = re.findall(r"\]\(([^)#]+)", section)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_nothing_of_the_paper_is_left_out(section):
    left = " ".join(row.split("|")[1] for row in section.split("\n") if row.startswith("|"))
    places = ["3.1", "3.2.1", "3.2.2", "3.2.3", "3.3", "3.4", "3.5", "5.1", "5.2", "5.3", "5.4", "6.1", "6.2", "6.3"]
    places += [f"equation {i}" for i in (1, 2, 3)] + [f"Table {i}" for i in (1, 2, 3, 4)] + ["Figure 1", "Figure 2"]
    places += ["4, Table 1", "Figures 3, 4 and 5", "footnote 4"]
    assert [place for place in places if place not in left] == []


def test_what_does_not_exist_is_found():
    wrong = ["vaswani fly", "vaswani paper --fly", "vaswani.model.Reformer", "vaswani/fly.py", "train.fly", "fly.png"]
    assert all(missing(name) for name in wrong)
