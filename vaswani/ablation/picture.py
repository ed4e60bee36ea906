"""Table 3 as a picture: what each row gains or loses, ours and the paper's."""

from pathlib import Path

from vaswani.ablation.results import RowResult, Table
from vaswani.report.png import drawing
from vaswani.report.style import BLUE, GRID, INK, ORANGE

SYMBOLS = {"d_model": "d_model", "epsilon_ls": "ε_ls", "positions": "positions:"}


def draw(table: Table, path: Path) -> None:
    """Writes a PNG: Δ BLEU to the base with 95% intervals, row by row from the top, and the paper's Δ below each.

    Rows that are the base model itself are left out, and so are rows without results that the paper has not either.
    """
    rows = [row for row in table.rows[1:] if row.delta or row.paper_delta is not None]
    rows = [row for row in rows if row.same_as != table.rows[0].row]
    with drawing(path, 7.6, 1.5 + 0.42 * max(len(rows), 1), dpi=160) as figure:
        axes = figure.add_subplot()
        axes.axvline(0, color=INK, linewidth=1)
        for y, row in enumerate(rows):
            if row.delta:
                value, low, high = row.delta.value, row.delta.low, row.delta.high
                axes.plot([low, high], [y - 0.14] * 2, color=BLUE, linewidth=2.2, solid_capstyle="butt")
                axes.plot(value, y - 0.14, "o", color=BLUE, markersize=6)
            if row.paper_delta is not None:
                axes.plot(row.paper_delta, y + 0.2, "D", color=ORANGE, markersize=5.5, markerfacecolor="white")
            if y and row.row[0] != rows[y - 1].row[0]:
                axes.axhline(y - 0.5, color=GRID, linewidth=1)
        # Named apart from the rows, so that each is named once and also where the first row lacks one of them.
        axes.plot([], [], "o-", color=BLUE, linewidth=2.2, label=_ours(table))
        axes.plot([], [], "D", color=ORANGE, markerfacecolor="white", label="the paper, newstest2013, one run a row")
        axes.set_yticks(range(len(rows)), [_label(row) for row in rows])
        axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)
        axes.set_xlabel("BLEU less the base row's")
        axes.grid(visible=False, axis="y")
        axes.tick_params(length=0)
        figure.legend(loc="outside upper left", ncols=1, fontsize=9)
        axes.spines["left"].set_visible(False)


def _ours(table: Table) -> str:
    seeds = f"{table.seeds} seeds" if table.seeds > 1 else "1 seed"
    return f"ours, {table.name}, {table.set_name}, {seeds} a row: mean and 95% interval"


def _label(row: RowResult) -> str:
    return f"{row.row}   " + ", ".join(f"{SYMBOLS.get(key, key)} {value}" for key, value in row.changed.items())
