"""Table 3 with the paper's results beside ours: for the terminal, as Markdown, as CSV, and as a picture."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from vaswani.ablation.results import RowResult, Table
from vaswani.evaluation.significance import Estimate
from vaswani.files import write_json, write_text
from vaswani.report.png import drawing
from vaswani.report.style import BLUE, GRID, INK, ORANGE

HEADINGS = {
    "N": "N", "d_model": "d_model", "d_ff": "d_ff", "h": "h", "d_k": "d_k", "d_v": "d_v", "P_drop": "P_drop",
    "epsilon_ls": "ε_ls", "steps": "steps",
}  # fmt: skip
OURS = ("PPL", "BLEU", "params", "Δ BLEU", "95% interval")
PAPER = ("PPL", "BLEU", "params", "Δ BLEU")
SYMBOLS = {"d_model": "d_model", "epsilon_ls": "ε_ls", "positions": "positions:"}


def write(table: Table, directory: Path) -> None:
    """Writes table3.json, .md, .csv and .png."""
    write_json(directory / "table3.json", table.to_json())
    write_text(directory / "table3.md", to_markdown(table))
    write_text(directory / "table3.csv", to_csv(table))
    draw(table, directory / "table3.png")


def to_text(table: Table) -> str:
    """For the terminal: the paper's columns, our results, the paper's, whether they agree; then the notes."""
    lines = [("", *_headings(table), "sign")] + [
        (row.row, *settings, *ours, *paper, _sign(row)) for row, settings, ours, paper in _rows(table)
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    groups = (1 + len(HEADINGS) + len(_positions(table)), len(OURS), len(PAPER), 1)
    heading, *body = (_join(line, widths, groups) for line in lines)
    parts = [_caption(table), "", _group_titles(widths, groups), heading]
    for i, line in enumerate(body):
        if i and lines[i][0][:1] != lines[i + 1][0][:1]:  # another group of rows; lines[0] is the heading
            parts.append("")
        parts.append(line)
    return "\n".join([*parts, "", *_notes(table)])


def _join(cells: Sequence[str], widths: Sequence[int], groups: Sequence[int]) -> str:
    """Cells in columns, with wider gaps between groups. The first and the last column are aligned to the left."""
    padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
    padded[0], padded[-1] = cells[0].ljust(widths[0]), cells[-1]
    return "   ".join("  ".join(group) for group in _grouped(padded, groups)).rstrip()


def _group_titles(widths: Sequence[int], groups: Sequence[int]) -> str:
    spans = (sum(group) + 2 * (len(group) - 1) for group in _grouped(widths, groups))
    titles = ("", "— ours —", "— paper —", "")
    return "   ".join(title.center(span) for title, span in zip(titles, spans, strict=True)).rstrip()


def _grouped(items: Sequence, lengths: Sequence[int]) -> Iterator[Sequence]:
    start = 0
    for length in lengths:
        yield items[start : start + length]
        start += length


def to_markdown(table: Table) -> str:
    """A table of GitHub's Markdown, with caption and notes."""
    settings = _headings(table)[: -len(OURS) - len(PAPER)]
    heads = ["row", *settings, *OURS, *(f"paper {name}" for name in PAPER), "sign"]
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 2) + ["---"]]
    lines += [[row.row, *s, *ours, *paper, _sign(row)] for row, s, ours, paper in _rows(table)]
    text = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return "\n\n".join([_caption(table), text, "\n".join(f"- {note}" for note in _notes(table))]) + "\n"


def to_csv(table: Table) -> str:
    """One line a row, every value in its own column, unrounded."""
    file = io.StringIO()
    heads = [
        "row", *HEADINGS, "positions", "parameters", "runs", "perplexity", "perplexity_sd", "bleu", "bleu_sd",
        "delta_bleu", "delta_low", "delta_high", "paper_perplexity", "paper_bleu", "paper_params_millions",
        "paper_delta_bleu", "sign", "same_as", "note",
    ]  # fmt: skip
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(heads)
    for row in table.rows:
        delta, paper = row.delta, row.paper
        writer.writerow([
            row.row, *(row.settings[key] for key in (*HEADINGS, "positions")), row.parameters, len(row.results),
            *(row.perplexity or (None, None)), *(row.bleu or (None, None)),
            *((delta.value, delta.low, delta.high) if delta else (None,) * 3),
            *((paper.perplexity, paper.bleu, paper.params_millions) if paper else (None,) * 3),
            row.paper_delta, row.verdict, row.same_as, row.note,
        ])  # fmt: skip
    return file.getvalue()


def draw(table: Table, path: Path) -> None:
    """Writes a PNG: the Δ BLEU of each row with its 95% interval, and the paper's Δ below it.

    Rows that are the base model itself are left out, and so are rows for which neither has a result.
    """
    rows = [row for row in table.rows[1:] if row.delta or row.paper_delta is not None]
    rows = [row for row in rows if row.same_as != table.rows[0].row]
    with drawing(path, 7.6, 1.5 + 0.42 * max(len(rows), 1), dpi=160) as figure:
        axes = figure.add_subplot()
        axes.axvline(0, color=INK, linewidth=1)
        for y, row in enumerate(rows):
            if row.delta:
                if row.delta.low is not None:
                    ends = [row.delta.low, row.delta.high]
                    axes.plot(ends, [y - 0.14] * 2, color=BLUE, linewidth=2.2, solid_capstyle="butt")
                axes.plot(row.delta.value, y - 0.14, "o", color=BLUE, markersize=6)
            if row.paper_delta is not None:
                axes.plot(row.paper_delta, y + 0.2, "D", color=ORANGE, markersize=5.5, markerfacecolor="white")
            if y and row.row[0] != rows[y - 1].row[0]:
                axes.axhline(y - 0.5, color=GRID, linewidth=1)
        # The legend's entries are drawn apart from the rows: each once, and also where the first row lacks one of them.
        seeds = f"{table.seeds} seeds" if table.seeds > 1 else "1 seed"
        ours = f"ours, {table.name}, {table.set_name}, {seeds} a row: mean and 95% interval"
        axes.plot([], [], "o-", color=BLUE, linewidth=2.2, label=ours)
        axes.plot([], [], "D", color=ORANGE, markerfacecolor="white", label="the paper, newstest2013, one run a row")
        axes.set_yticks(range(len(rows)), [_label(row) for row in rows])
        axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)
        axes.set_xlabel("BLEU less the base row's")
        axes.grid(visible=False, axis="y")
        axes.tick_params(length=0)
        figure.legend(loc="outside upper left", ncols=1, fontsize=9)
        axes.spines["left"].set_visible(False)


def _label(row: RowResult) -> str:
    return f"{row.row}   " + ", ".join(f"{SYMBOLS.get(key, key)} {value}" for key, value in row.changed.items())


def _headings(table: Table) -> list[str]:
    return [*HEADINGS.values(), *_positions(table), *OURS, *PAPER]


def _positions(table: Table) -> list[str]:
    """The column of the positions' kind, where a row has another."""
    return ["positions"] if any("positions" in row.changed for row in table.rows) else []


def _rows(table: Table) -> list[tuple[RowResult, list[str], list[str], list[str]]]:
    """Each row's cells: settings, our results, the paper's. A blank setting is the base's, as in the paper."""
    names = [*HEADINGS, *_positions(table)]
    rows = []
    for row in table.rows:
        values = row.settings if row is table.rows[0] else row.changed
        settings = [_setting(name, values[name]) if name in values else "" for name in names]
        ours = [_mean(row.perplexity), _mean(row.bleu), _millions(row.parameters), *_delta(row.delta)]
        rows.append((row, settings, ours, _paper_cells(row)))
    return rows


def _paper_cells(row: RowResult) -> list[str]:
    paper, delta = row.paper, row.paper_delta
    if paper is None:
        return [""] * len(PAPER)
    millions = f"{paper.params_millions}M" if paper.params_millions else ""
    difference = "" if delta is None else f"{delta:+.1f}" if delta else "0.0"
    return [f"{paper.perplexity:.2f}", f"{paper.bleu:.1f}", millions, difference.replace("-", "−")]


def _setting(name: str, value: object) -> str:
    if name == "steps":
        assert isinstance(value, int)
        return f"{value // 1000}K" if value % 1000 == 0 else f"{value:,}"
    return "sines" if value == "sinusoidal" else str(value)


def _millions(parameters: int) -> str:
    millions = parameters / 1e6
    return f"{millions:.0f}M" if millions >= 10 else f"{millions:.2f}M"


def _mean(values: tuple[float, float | None] | None) -> str:
    if values is None:
        return "–"
    mean, spread = values
    return f"{mean:.2f}" if spread is None else f"{mean:.2f} ± {spread:.2f}"


def _delta(delta: Estimate | None) -> tuple[str, str]:
    if delta is None:
        return "", ""
    value, interval = f"{delta.value:+.2f}", ""
    if delta.low is not None:
        interval = f"[{delta.low:+.2f}, {delta.high:+.2f}]"
    return value.replace("-", "−"), interval.replace("-", "−")


def _sign(row: RowResult) -> str:
    return "same as base" if row.same_as == "base" else row.verdict


def _caption(table: Table) -> str:
    decode = table.decode
    return (
        f"Table 3 around {table.name}: {table.set_name}{f' ({table.lines:,} lines)' if table.lines else ''}, beam "
        f"{decode['beam']}, α {decode['alpha']}, last checkpoint, no averaging. A blank setting is the base's."
    )


def _notes(table: Table) -> list[str]:
    notes = [
        "PPL: per word-piece, unsmoothed, of the validation set; do not rank rows by it alone.",
        f"BLEU: {table.signature}.",
        "±: standard deviation over seeds. Δ: less the base row. Its interval is a bootstrap over seeds and sentences "
        f"({table.resamples:,} draws), "
        + ("too narrow with few seeds." if table.seeds > 1 else "with one seed over sentences alone."),
        "sign: whether Δ has the paper's sign; “cannot tell” where the interval holds 0.",
    ]
    for row in table.rows:
        if row.same_as:
            notes.append(f"{row.row}: the same model as {row.same_as} here, trained once for both.")
        if row.note:
            notes.append(f"{row.row}: {row.note}.")
        steps = {result.steps for result in row.results} - {row.settings["steps"]}
        if steps:
            made = ", ".join(f"{result.steps:,}" for result in row.results)
            notes.append(f"{row.row}: ended by its bound of time or patience after {made} updates.")
        if row.missing and not row.same_as:
            listed = "; ".join(f"{run}: {reason}" for run, reason in row.missing.items())
            notes.append(f"{row.row}: {len(row.results)} of {table.seeds} seeds ({listed}).")
    return notes + [f"{run}: {note}." for run, note in table.bleu_notes.items()]
