"""The table as the paper prints it: for the terminal, as Markdown, as CSV."""

import csv
import io
from collections.abc import Sequence

from vaswani.ablation.results import RowResult, Table
from vaswani.evaluation.significance import Estimate

HEADINGS = {
    "N": "N", "d_model": "d_model", "d_ff": "d_ff", "h": "h", "d_k": "d_k", "d_v": "d_v", "P_drop": "P_drop",
    "epsilon_ls": "ε_ls", "steps": "steps",
}  # fmt: skip
OURS = ("PPL", "BLEU", "params", "Δ BLEU", "95% interval")
PAPER = ("PPL", "BLEU", "params", "Δ BLEU")


def to_text(table: Table) -> str:
    """For the terminal: the paper's columns, ours, the paper's results, whether they agree; then the notes."""
    columns = _columns(table)
    lines = [("", *_headings(table), "sign")] + [
        (row.row, *settings, *ours, *paper, _sign(row)) for row, settings, ours, paper in columns
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    settings = len(_headings(table)) - len(OURS) - len(PAPER)

    def joined(cells: Sequence[str]) -> str:
        groups, start = [], 0
        for length in (1 + settings, len(OURS), len(PAPER), 1):
            part = zip(cells[start : start + length], widths[start : start + length], strict=True)
            groups.append("  ".join(c.ljust(w) if start in (0, len(cells) - 1) else c.rjust(w) for c, w in part))
            start += length
        return "   ".join(groups).rstrip()

    def span(start: int, length: int) -> int:
        return sum(widths[start : start + length]) + 2 * (length - 1)

    top = "   ".join(
        text.center(span(start, length)) if length > 1 else ""
        for text, start, length in (
            ("", 0, 1 + settings),
            ("— ours —", 1 + settings, len(OURS)),
            ("— paper —", 1 + settings + len(OURS), len(PAPER)),
        )
    ).rstrip()
    body = []
    for before, line in zip([None, *lines[1:]], lines[1:], strict=False):
        if before and before[0][:1] != line[0][:1]:
            body.append("")
        body.append(joined(line))
    return "\n".join([_caption(table), "", top, joined(lines[0]), *body, "", *_notes(table)])


def to_markdown(table: Table) -> str:
    """A table of GitHub's Markdown, with caption and notes."""
    settings = _headings(table)[: -len(OURS) - len(PAPER)]
    heads = ["row", *settings, *OURS, *(f"paper {name}" for name in PAPER), "sign"]
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 2) + ["---"]]
    lines += [[row.row, *s, *ours, *paper, _sign(row)] for row, s, ours, paper in _columns(table)]
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


def _headings(table: Table) -> list[str]:
    return [*HEADINGS.values(), *_positions(table), *OURS, *PAPER]


def _positions(table: Table) -> list[str]:
    """The column of the positions' kind, where a row has another."""
    return ["positions"] if any("positions" in row.changed for row in table.rows) else []


def _columns(table: Table) -> list[tuple[RowResult, list[str], list[str], list[str]]]:
    """Each row's cells: settings, ours, the paper's. A blank setting is the base's, as in the paper."""
    names = [*HEADINGS, *_positions(table)]
    found = []
    for row in table.rows:
        shown = row.settings if row is table.rows[0] else row.changed
        cells = [_setting(name, shown[name]) if name in shown else "" for name in names]
        ours = [_mean(row.perplexity), _mean(row.bleu), _millions(row.parameters), *_delta(row.delta)]
        paper = row.paper
        theirs = ["", "", "", ""]
        if paper:
            delta = "" if row.paper_delta is None else f"{row.paper_delta:+.1f}" if row.paper_delta else "0.0"
            theirs = [
                f"{paper.perplexity:.2f}",
                f"{paper.bleu:.1f}",
                f"{paper.params_millions}M" if paper.params_millions else "",
                delta,
            ]
        found.append((row, cells, ours, [text.replace("-", "−") for text in theirs]))
    return found


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
    value, interval = f"{delta.value:+.2f}", f"[{delta.low:+.2f}, {delta.high:+.2f}]"
    return value.replace("-", "−"), interval.replace("-", "−")


def _sign(row: RowResult) -> str:
    return "same as base" if row.same_as == "base" else row.verdict


def _caption(table: Table) -> str:
    decode = table.decode
    return (
        f"Table 3 around {table.name}: {table.set_name}{f' ({table.lines:,} lines)' if table.lines else ''}, beam "
        f"{decode['beam']}, α {decode['alpha']}, last checkpoint, no averaging; a blank setting is the base's."
    )


def _notes(table: Table) -> list[str]:
    notes = [
        f"PPL: per word-piece, unsmoothed, of the validation set; it ranks nothing by itself. BLEU: {table.signature}.",
        "±: standard deviation over seeds. Δ: less the base row; its interval by one bootstrap over seeds and "
        f"sentences ({table.resamples:,} draws)"
        + (", which is too narrow with few seeds." if table.seeds > 1 else "; with one seed, of sentences alone."),
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
    return notes
