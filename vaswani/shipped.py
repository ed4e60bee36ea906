"""The configurations that come with vaswani. The command line takes their names: `vaswani reproduce toy`."""

import re
from pathlib import Path

from vaswani.errors import UserError, closest, did_you_mean

DIRECTORY = Path(__file__).parent / "configs"
"""In the source a link to the top level's configs/; in an installed package a copy."""
_KEY = re.compile(r"(\w+) *=")
_TABLE = re.compile(r"\[([\w.]+)\]")


def names() -> list[str]:
    """The names of all, as "toy" and "table3/A1"."""
    paths = DIRECTORY.rglob("*.toml")
    return sorted((str(path.relative_to(DIRECTORY).with_suffix("")) for path in paths), key=lambda n: ("/" in n, n))


def find(config: str | Path) -> Path:
    """The file of a configuration: a path that exists, or the name of one that comes with vaswani.

    Raises:
        UserError: neither; the message has the nearest name.
    """
    path = Path(config)
    if path.is_file():
        return path
    if str(config) in names():
        return DIRECTORY / f"{config}.toml"
    if path.exists():
        raise UserError(f"{path}: is a directory, not a configuration file")
    files = {other.stem: str(other) for other in (*Path("configs").glob("*.toml"), *path.parent.glob("*.toml"))}
    known = {name: name for name in names()} | files
    near = [known[name] for name in closest(path.name.removesuffix(".toml"), known)]
    raise UserError(f"{path}: no such configuration file{did_you_mean(near)}; `vaswani config` lists what is included")


def written_out(name: str) -> str:
    """A configuration that comes with vaswani as one file, which extends no other. Comments are kept.

    Raises:
        UserError: there is none of this name.
    """
    if name not in names():
        raise UserError(f"no configuration {name!r}{did_you_mean(closest(name, names()))}; `vaswani config` lists them")
    changes: dict[tuple[str, str], str] = {}
    path = DIRECTORY / f"{name}.toml"
    header, body, parent = _parts(path)
    while parent:
        changes = _lines_by_key(body) | changes
        path = path.parent / parent
        _, body, parent = _parts(path)
    table = ""
    lines = []
    for line in body:
        table, key = _table_and_key(line, table)
        lines.append(changes.get((table, key), line))
    return "\n".join([*header, "", *lines, ""])


def summary(name: str) -> str:
    """What a configuration is: the first sentence of its file."""
    first_line = _parts(DIRECTORY / f"{name}.toml")[0][0].removeprefix("# ")
    return re.split(r"\.(?: [A-Z]|$)", first_line)[0]


def _parts(path: Path) -> tuple[list[str], list[str], str]:
    """(the comment at the head, the lines after it, the file that this one extends or "")."""
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    n = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    extends = re.match(r'extends = "(.+)"', lines[n])
    return lines[:n], lines[n + 1 :], extends[1] if extends else ""


def _lines_by_key(lines: list[str]) -> dict[tuple[str, str], str]:
    """{("model", "d_ff"): "d_ff = 512  # comment", …}. No value in these files takes more than one line."""
    by_key, table = {}, ""
    for line in lines:
        table, key = _table_and_key(line, table)
        if key:
            by_key[table, key] = line
    return by_key


def _table_and_key(line: str, table: str) -> tuple[str, str]:
    """The table after this line, and the key that the line sets; "[]" for the head of a table, "" for other lines."""
    if match := _TABLE.match(line):
        return match[1], "[]"
    match = _KEY.match(line)
    return table, match[1] if match else ""
