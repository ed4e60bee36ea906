"""Curves of a run as inline SVG that follows the page's colours, light or dark."""

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter

from vaswani.runs.events import read_events

# Colours that occur nowhere else, put in place of these by the page's style sheet.
_PAGE_COLOURS = {
    "#010203": "var(--ink)",
    "#010204": "var(--grid)",
    "#010205": "var(--first)",
    "#010206": "var(--second)",
}
_INK, _GRID, FIRST, SECOND = _PAGE_COLOURS

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # real text, in the page's own font
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _GRID,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.useoffset": False,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "lines.linewidth": 1.6,
    "lines.solid_joinstyle": "round",
    "legend.frameon": False,
}


@dataclass
class Metrics:
    """What metrics.jsonl says, in the order of its lines."""

    train: list[dict[str, Any]] = field(default_factory=list)
    valid: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Plot:
    """A drawn curve with the words around it."""

    title: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Curve:
    """One line of a plot."""

    label: str
    points: list[tuple[float, float]]
    colour: str
    marked: bool = False
    """Whether each point is drawn; for curves of few points."""


def read_metrics(path: Path) -> Metrics:
    """Reads a metrics.jsonl as far as it goes; without the file there are no metrics."""
    events = read_events(path)
    return Metrics(*([event for event in events if event["kind"] == kind] for kind in ("train", "valid")))


def curves(metrics: Metrics) -> list[Plot]:
    """Every plot that the metrics have points for, as they stand on the page."""
    train, valid = metrics.train, metrics.valid
    plots = [
        _plot(
            "Training loss",
            "Nats per target token. The loss that is minimised counts label smoothing; the likelihood does not.",
            [
                Curve("label-smoothed loss", _series(train, "loss"), FIRST),
                Curve("unsmoothed −log P", _series(train, "nll"), SECOND),
            ],
        ),
        _plot(
            "Perplexity",
            "From the unsmoothed likelihood, per word-piece. The training curve is measured with dropout on.",
            [
                Curve("training", [(step, math.exp(nll)) for step, nll in _series(train, "nll") if nll < 20], SECOND),
                Curve("validation", _series(valid, "perplexity"), FIRST, marked=True),
            ],
            log=True,
        ),
        _plot(
            "Validation BLEU",
            "sacreBLEU (13a, cased) of beam-searched translations of the validation set's first lines.",
            [Curve("BLEU", _series(valid, "bleu"), FIRST, marked=True)],
        ),
        _plot(
            "Validation BLEU over time",
            "The same against minutes of training, validation counted and compilation not: what more time would bring.",
            [Curve("BLEU", [(s / 60, bleu) for s, bleu in _series(valid, "bleu", x="elapsed_s")], FIRST, marked=True)],
            x="minutes",
        ),
        _plot(
            "Learning rate",
            "Linear to the peak at the end of warm-up, then falling with the square root of the step (equation 3).",
            [Curve("learning rate", _series(train, "lr"), FIRST)],
        ),
        _plot(
            "Speed",
            "Tokens per second through a training step, padding not counted.",
            [
                Curve("source", _series(train, "source_tokens_per_s"), SECOND),
                Curve("target", _series(train, "target_tokens_per_s"), FIRST),
            ],
            from_zero=True,
        ),
    ]
    return [plot for plot in plots if plot is not None]


def _series(records: Sequence[dict[str, Any]], key: str, x: str = "step") -> list[tuple[float, float]]:
    """(x, value) wherever both are there and the value is finite."""
    values = ((record.get(x), record.get(key)) for record in records)
    return [(x, float(y)) for x, y in values if x is not None and y is not None and math.isfinite(y)]


def _plot(
    title: str,
    caption: str,
    lines: Sequence[Curve],
    *,
    x: str = "update",
    log: bool = False,
    from_zero: bool = False,
) -> Plot | None:
    lines = [line for line in lines if line.points]
    if not lines:
        return None
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": title}):  # the salt keeps ids apart on one page
        figure = Figure(figsize=(5.6, 3.1), layout="constrained")
        axes = figure.add_subplot()
        for line in lines:
            xs, values = zip(*line.points, strict=True)
            marker = "o" if (line.marked and len(xs) <= 40) or len(xs) == 1 else None
            axes.plot(xs, values, color=line.colour, label=line.label, marker=marker, markersize=3.5)
        _finish(axes, x, log=log, from_zero=from_zero)
        if len(lines) > 1:
            axes.legend(loc="best")
        return Plot(title, caption, _svg(figure, title))


def _finish(axes: Axes, x: str, *, log: bool, from_zero: bool) -> None:
    axes.set_xlabel(x)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_axisbelow(True)
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif from_zero:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    else:
        axes.yaxis.set_major_formatter("{x:g}")


def _svg(figure: Figure, title: str) -> str:
    """The figure as an <svg> element that names no address and takes its colours from the page."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    # matplotlib's style sheet would apply to the whole page, which has these rules itself.
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r' id="[a-zA-Z0-9.]+_\d+"', "", svg)  # "axes_1" would be there once a plot; nothing refers to it
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', rf'<svg viewBox="\1" role="img" aria-label="{title}">', svg)
    for placeholder, colour in _PAGE_COLOURS.items():
        svg = svg.replace(placeholder, colour)
    return svg
