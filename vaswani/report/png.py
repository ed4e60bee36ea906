"""Drawings as PNG files."""

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font

from vaswani.console import visible
from vaswani.files import atomic_path
from vaswani.report.style import SOFT, STYLE


@contextmanager
def drawing(path: Path, width: float, height: float, dpi: int = 150) -> Iterator[Figure]:
    """A figure to draw on. It is written to `path` when the block succeeds.

    Args:
        path: a PNG file.
        width, height: in inches.
        dpi: pixels per inch.

    Raises:
        WorkFailed: the file cannot be written.
    """
    with matplotlib.rc_context(STYLE), atomic_path(path) as temporary:
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        figure.savefig(temporary, format="png", dpi=dpi, metadata={"Software": None})


def caption(figure: Figure, text: str) -> None:
    """Writes small text below the whole drawing, wrapped to its width."""
    columns = int(13 * figure.get_size_inches()[0])
    text = "\n".join(textwrap.fill(drawable(line), columns) for line in text.split("\n"))
    figure.supxlabel(text, fontsize=8.5, color=SOFT, x=0.01, ha="left", parse_math=False)


def drawable(text: str) -> str:
    r"""The text with escapes for control characters, and for characters that Matplotlib's font cannot draw.

    Example:
        drawable("dog 犬")  # "dog \u72ac" with Matplotlib's own font
    """
    font = get_font(findfont(FontProperties()))
    return "".join(c if font.get_char_index(ord(c)) else ascii(c)[1:-1] for c in visible(text))
