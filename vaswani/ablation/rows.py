"""The rows of Table 3 as changes of any base configuration.

There is one rule, and `paper.tables.TABLE_3` is its data. A size that a row states (N, d_model, d_ff, h, d_k, d_v,
steps) is the base's size in the paper's proportion (A1: h / 8, d_k · 8, d_v · 8). A probability or a kind (P_drop,
ε_ls, positions) is taken as it stands. On `configs/base.toml` this gives the paper's rows, written out in
`configs/table3/`.

A size that does not divide becomes the nearest size that exists. Where a row states h, its d_k and d_v are computed
from the h that was taken: so h·d_k and h·d_v stay those of the row, and the rows (A) keep the amount of computation.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from vaswani import config as config_module
from vaswani.errors import UserError
from vaswani.paper.tables import TABLE_3, Variation
from vaswani.schema import Config

PAPER_BASE = TABLE_3[0]
PAPER_ROWS = {variation.row: variation for variation in TABLE_3}
GROUPS = ("A", "B", "C", "D", "E", "big")
COLUMNS = {
    **{name: f"model.{name}" for name in ("N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop")},
    "epsilon_ls": "train.label_smoothing",
    "steps": "train.steps",
    "positions": "model.positions",
}
"""Column of the table -> the setting that it shows."""


@dataclass(frozen=True)
class Row:
    """One row around a base configuration."""

    name: str
    config: Config
    note: str = ""
    """What no column shows: "h would be 0.5; the nearest …", or what a row from a file changes."""
    same_as: str = ""
    """An earlier row with the same configuration: its runs are used for both."""

    @property
    def settings(self) -> dict[str, Any]:
        """The columns of Table 3."""
        return table_settings(self.config)

    @property
    def paper(self) -> Variation | None:
        return PAPER_ROWS.get(self.name)


def table_settings(config: Config) -> dict[str, Any]:
    """A configuration in the columns of Table 3."""
    values = config_module.flatten(config)
    return {name: values[key] for name, key in COLUMNS.items()}


def rows(base: Config, names: Sequence[str]) -> list[Row]:
    """The base row, and the rows that `names` choose, in the paper's order.

    Args:
        base: the configuration that the rows change.
        names: groups ("A"), single rows ("A1", "big"), or TOML files with the keys that another row changes.

    Raises:
        UserError: there is no such row, or it cannot exist around this base.
    """
    files = [name for name in names if name.endswith(".toml")]
    wanted = {"base"}
    for name in names:
        if name in GROUPS:
            wanted |= {row for row in PAPER_ROWS if row == name or (row[0] == name and row[1:].isdigit())}
        elif name in PAPER_ROWS:
            wanted.add(name)
        elif name not in files:
            raise UserError(
                f"--rows {name}: no such row; choose groups ({', '.join(GROUPS)}), single rows (A1), or a TOML file "
                "with a row of your own"
            )
    made = {"base": Row("base", base)}
    for variation in TABLE_3[1:]:  # all of them, so that `same_as` does not depend on which rows are wanted
        try:
            config, missing = vary(base, variation)
        except UserError:
            if variation.row in wanted:
                raise
            continue
        note = f"{missing}; the nearest size that exists is taken" if missing else ""
        made[variation.row] = Row(variation.row, config, note, _first_equal(config, made))
    for file in files:
        name, config = Path(file).stem, _from_file(base, Path(file))
        if name in made:
            raise UserError(f"--rows {file}: there is a row {name!r} already; give the file another name")
        made[name] = Row(name, config, _further_changes(base, config), _first_equal(config, made))
        wanted.add(name)
    return [row for name, row in made.items() if name in wanted]


def vary(base: Config, variation: Variation) -> tuple[Config, str]:
    """A row of the paper's around `base`.

    Returns:
        Its configuration, and the sizes that the rule asks for and that do not exist ("" if all exist).

    >>> vary(Config(), PAPER_ROWS["A1"])[0].model.d_k
    512
    """
    stated = {name: value for name, value in asdict(variation).items() if value is not None}
    before = table_settings(base)

    def exact(name: str) -> Fraction:
        return Fraction(stated.get(name, 1), getattr(PAPER_BASE, name) if name in stated else 1) * before[name]

    sizes: dict[str, int] = {}
    inexact = []
    for name in ("N", "d_model", "d_ff", "h", "d_k", "d_v", "steps"):
        if name in stated:
            wanted_size = exact(name)
            if name in ("d_k", "d_v") and "h" in stated:
                wanted_size *= exact("h") / sizes["h"]
            sizes[name] = _nearest(wanted_size, 2 if name == "d_model" else 1)  # sines and cosines come in pairs
            if sizes[name] != wanted_size:
                inexact.append(f"{name} would be {float(wanted_size):.4g}")
    model, train = asdict(base.model), asdict(base.train)
    model |= {name: value for name, value in sizes.items() if name != "steps"}
    model |= {name: stated[name] for name in ("P_drop", "positions") if name in stated}
    if "epsilon_ls" in stated:
        train["label_smoothing"] = stated["epsilon_ls"]
    if "steps" in stated:
        train["steps"] = sizes["steps"]
        train["max_minutes"] *= float(exact("steps") / before["steps"])
    values = config_module.to_dict(base) | {"model": model, "train": train}
    return config_module.from_dict(values, where=f"row {variation.row}"), "; ".join(inexact)


def with_seed(config: Config, k: int) -> Config:
    """The k-th run of a row, k from 0."""
    return replace(config, train=replace(config.train, seed=config.train.seed + k))


def _nearest(wanted_size: Fraction, unit: int) -> int:
    return unit * max(1, int(wanted_size / unit + Fraction(1, 2)))


def _first_equal(config: Config, rows: dict[str, Row]) -> str:
    return next((row.name for row in rows.values() if row.config == config), "")


def _further_changes(base: Config, config: Config) -> str:
    """The changed settings that have no column in Table 3."""
    changed = config_module.differences(base, config).items()
    return ", ".join(f"{key} = {value}" for key, (_, value) in changed if key not in COLUMNS.values())


def _from_file(base: Config, path: Path) -> Config:
    """`base` with the keys of a file; those of a file that it extends are left out."""
    config_module.load(path)  # raises UserError if the file is wrong
    changes = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    changes.pop("extends", None)
    values = config_module.to_dict(base)
    for table, keys in changes.items():
        if table not in ("model", "train"):
            raise UserError(f"{path}: a row changes the model or its training, and has no table [{table}]")
        values[table] = values[table] | keys
    return config_module.from_dict(values, where=str(path))
