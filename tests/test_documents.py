"""What the documents name exists: links, headings, commands and their options. The README stays short."""

import re
from pathlib import Path

import pytest

from tests.command_help import help_of

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def anchors(page: Path) -> set[str]:
    """The headings as GitHub names them in links."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> list[str]:
    """Local links that lead to no file, or to no heading of a page."""
    text = page.read_text("utf-8")
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    dead = []
    for link in links:
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    return dead + [name for name in re.findall(r"\]\[(\w+)\]", text) if f"\n[{name}]: https://" not in text]


def command_lines(page: Path) -> list[str]:
    """Every `vaswani COMMAND …` in blocks of code, continued lines joined, and in `code`."""
    text = page.read_text("utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    pieces = [piece for line in "\n".join(blocks).split("\n") for piece in re.split(r"&&|;|#", line)]
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    pieces += [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]
    return [match[1] for piece in pieces if (match := re.search(r"(?:^|\s)vaswani ([a-z].*)", piece))]


def unknown(line: str) -> list[str]:
    """The command, or its options, that do not exist; and configurations that are not there."""
    command, *words = line.split()
    options = [word for word in words if word.startswith("--")]
    lacking = [option for option in options if f"{option} " not in help_of(command).replace("\n", " ")]
    files = [
        word for word in words if word.startswith("configs/") and not (ROOT / word).exists() and "NAME" not in word
    ]
    return lacking + files if help_of(command) else [command]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_commands(page):
    assert dead_links(page) == []
    assert {line: what for line in command_lines(page) if (what := unknown(line))} == {}


def test_dead_links_and_unknown_commands_are_noticed(tmp_path):
    page = tmp_path / "page.md"
    links = "[a](#a-title) [b](#b) [c](c.md) [d][d]"
    page.write_text(f"# A Title\n{links}\n```bash\nvaswani fly; vaswani paper \\\n--fly\n```\n")
    assert dead_links(page) == ["#b", "c.md", "d"]
    assert [unknown(line) for line in command_lines(page)] == [["fly"], ["--fly"]]
    assert unknown("train configs/fly.toml --model.N 2") == ["configs/fly.toml"]


def test_the_readme_is_read_in_two_minutes():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 150 and len(text.split()) <= 1500
