"""The one Matplotlib style. PNG files show these colours; in the report they follow the page, light or dark."""

from typing import Any

from matplotlib.rcsetup import cycler

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
    "axes.formatter.useoffset": False,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
}
