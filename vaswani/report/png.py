"""Drawings as PNG files."""

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from cycler import cycler
from matplotlib.figure import Figure

from vaswani.files import atomic_path

INK, SOFT, GRID = "#1d1f24", "#63666e", "#dcdcd6"
BLUE, ORANGE, GREEN, PURPLE = COLOURS = ("#1f5fbf", "#d07a1c", "#2c8a57", "#8b4bb3")

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "figure.facecolor": "white",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GRID,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=COLOURS),
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
}


@contextmanager
def drawing(path: Path, width: float, height: float, dpi: int = 150) -> Iterator[Figure]:
    """A figure of so many inches to draw on; it becomes the file when the block succeeds."""
    with matplotlib.rc_context(STYLE), atomic_path(path) as temporary:
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        figure.savefig(temporary, format="png", dpi=dpi, metadata={"Software": None})


def caption(figure: Figure, text: str) -> None:
    """Small words below the whole drawing, whose lines it fills."""
    columns = int(13 * figure.get_size_inches()[0])
    text = "\n".join(textwrap.fill(line, columns) for line in text.split("\n"))
    figure.supxlabel(text, fontsize=8.5, color=SOFT, x=0.01, ha="left")
