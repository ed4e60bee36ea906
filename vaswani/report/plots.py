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

from vaswani.report.style import BLUE, GRID, INK, ORANGE, STYLE
from vaswani.runs.events import read_events

PAGE_COLOURS = {INK: "var(--ink)", GRID: "var(--grid)", BLUE: "var(--first)", ORANGE: "var(--second)"}
"""The page's variable for each colour that a curve may have."""


@dataclass
class Metrics:
    """The events of metrics.jsonl, in the order of its lines."""

    train: list[dict[str, Any]] = field(default_factory=list)
    valid: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Plot:
    """A drawing with its title and caption."""

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
    """Reads metrics.jsonl up to its last whole line. A missing file has no metrics."""
    events = read_events(path)
    return Metrics(*([event for event in events if event["kind"] == kind] for kind in ("train", "valid")))


def curves(metrics: Metrics) -> list[Plot]:
    """The plots in the order of the page. A plot without points is left out."""
    train, valid = metrics.train, metrics.valid
    return [plot for plot in (*_quality(train, valid), *_schedule(train)) if plot is not None]


def _quality(train: list[dict[str, Any]], valid: list[dict[str, Any]]) -> list[Plot | None]:
    """Loss, perplexity and BLEU."""
    return [
        _plot(
            "Training loss",
            "Nats per target token. Training minimises the label-smoothed loss.",
            [
                Curve("label-smoothed loss", _series(train, "loss"), BLUE),
                Curve("unsmoothed −log P", _series(train, "nll"), ORANGE),
            ],
        ),
        _plot(
            "Perplexity",
            "From the unsmoothed likelihood, per word-piece. The training curve is measured with dropout.",
            [
                Curve("training", [(step, math.exp(nll)) for step, nll in _series(train, "nll") if nll < 20], ORANGE),
                Curve("validation", _series(valid, "perplexity"), BLUE, marked=True),
            ],
            log=True,
        ),
        _plot(
            "Validation BLEU",
            "sacreBLEU of beam-searched translations of the first lines of the validation set.",
            [Curve("BLEU", _series(valid, "bleu"), BLUE, marked=True)],
        ),
        _plot(
            "Validation BLEU over time",
            "The same against minutes of training. Validation is counted, compilation is not.",
            [Curve("BLEU", [(s / 60, bleu) for s, bleu in _series(valid, "bleu", x="elapsed_s")], BLUE, marked=True)],
            x="minutes",
        ),
    ]


def _schedule(train: list[dict[str, Any]]) -> list[Plot | None]:
    """Learning rate and speed."""
    return [
        _plot(
            "Learning rate",
            "Linear up to the end of warmup, then proportional to 1/√update (equation 3).",
            [Curve("learning rate", _series(train, "lr"), BLUE)],
        ),
        _plot(
            "Speed",
            "Tokens per second in training, without padding.",
            [
                Curve("source", _series(train, "source_tokens_per_s"), ORANGE),
                Curve("target", _series(train, "target_tokens_per_s"), BLUE),
            ],
            from_zero=True,
        ),
    ]


def _series(records: Sequence[dict[str, Any]], key: str, x: str = "step") -> list[tuple[float, float]]:
    """(x, value) of each record that has both, where the value is finite."""
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
    # The text stays text, in the page's font. The salt makes ids unique within the page.
    with matplotlib.rc_context({**STYLE, "svg.fonttype": "none", "svg.hashsalt": title}):
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
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=x == "update"))
    axes.xaxis.set_major_formatter(EngFormatter(sep="") if x == "update" else "{x:,g}")  # no "500m" minutes
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
    """The figure as an <svg> element, without addresses and with the page's colours."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    # Matplotlib's style sheet would apply to the whole page. The page has its own rules for svg.
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r' id="[a-zA-Z0-9.]+_\d+"', "", svg)  # ids that each plot would repeat; unused
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', rf'<svg viewBox="\1" role="img" aria-label="{title}">', svg)
    for colour, variable in PAGE_COLOURS.items():
        svg = svg.replace(colour, variable)
    return svg
