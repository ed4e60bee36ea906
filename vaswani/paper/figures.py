"""Drawings of the paper's arguments, one PNG each, made with the code that trains and translates."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from vaswani.model import sinusoids
from vaswani.paper import costs, demonstrations
from vaswani.paper.attention_cost import draw_attention_cost
from vaswani.paper.tables import TABLE_1
from vaswani.report.png import caption, drawing
from vaswani.report.style import BLUE, GREEN, INK, ORANGE, SOFT
from vaswani.training.optimizer import learning_rate


def write_figures(directory: Path) -> list[Path]:
    """Draws every figure of `FIGURES`. It takes about half a minute on two CPU cores, mostly to measure attention.

    Returns:
        The files written.
    """
    for name, draw in FIGURES.items():
        draw(directory / name)
    return [directory / name for name in FIGURES]


def positional_encoding(path: Path) -> None:
    """Section 3.5: the table of sines and cosines, and PE(pos)·PE(pos + k) for two positions."""
    length, d_model = 100, 128
    table = np.asarray(sinusoids(length, d_model))
    wide = np.asarray(sinusoids(2 * length + 1, 512), np.float64)
    with drawing(path, 11, 4.2) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
        image = left.imshow(table, cmap="RdBu_r", aspect="auto", vmin=-1, vmax=1, interpolation="nearest")
        left.set(xlabel="dimension", ylabel="position", title=f"Positional encoding, d_model = {d_model}")
        left.grid(False)
        figure.colorbar(image, ax=left, pad=0.02).outline.set_visible(False)
        distance = np.arange(-length, length + 1)
        for pos, colour in ((100, BLUE), (10, ORANGE)):
            k = distance[distance + pos >= 0]
            right.plot(k, wide[k + pos] @ wide[pos] / 256, color=colour, label=f"pos = {pos}")
        right.lines[-1].set(linestyle=(0, (3, 3)))
        right.set(
            xlabel="k", ylabel="PE(pos)·PE(pos + k) / (d_model/2)", title="The product depends on k only, d_model = 512"
        )
        right.legend()
        caption(
            figure,
            "Left: sines at even dimensions, cosines at odd ones. Right: both curves coincide.",
        )


def learning_rates(path: Path) -> None:
    """Equation 3 for several widths and warmups."""
    steps = np.arange(1, 40_001)
    with drawing(path, 8, 4.2) as figure:
        axes = figure.subplots()
        for d_model, warmup, style, colour in (
            (512, 4000, "-", BLUE), (512, 8000, "--", BLUE), (512, 2000, ":", BLUE),
            (256, 4000, "-", GREEN), (1024, 4000, "-", ORANGE),
        ):  # fmt: skip
            rates = np.asarray(learning_rate(steps, d_model, warmup))
            axes.plot(steps, rates * 1e3, style, color=colour, label=f"d_model {d_model}, warmup {warmup}")
        axes.set(
            xlabel="update", ylabel="learning rate / 10⁻³", title="Learning rate (equation 3)", xlim=(0, 40_000), ylim=0
        )
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        axes.legend()
        caption(
            figure,
            "The base model has d_model 512, the big one 1024, both warmup 4000. The peak is (d_model·warmup)^-0.5.",
        )


def softmax_saturation(path: Path) -> None:
    """Footnote 4: the softmax and its gradient without and with the division by √d_k."""
    rng = np.random.default_rng(demonstrations.SEED)
    d_ks = [4, 16, 64, 256, 1024]
    saturations = [demonstrations.saturation(rng, d_k) for d_k in d_ks]
    with drawing(path, 11, 4.2) as figure:
        left, right = figure.subplots(1, 2)
        for i, (label, colour) in enumerate((("q·k", ORANGE), ("q·k / √d_k", BLUE))):
            left.plot(d_ks, [both[i].largest_weight for both in saturations], "o-", color=colour, label=label)
            right.plot(d_ks, [both[i].jacobian_norm for both in saturations], "o-", color=colour, label=label)
        left.axhline(1 / 8, color=SOFT, linewidth=1, linestyle=":")
        left.text(d_ks[-1], 1 / 8 + 0.015, "1/8: equal weights", ha="right", color=SOFT, fontsize=9)
        left.set(ylabel="largest weight, mean", title="Without √d_k one key takes all weight …", ylim=(0, 1.02))
        right.set(ylabel="norm of ∂weights/∂scores, median", title="… and the gradient vanishes", yscale="log")
        for axes in (left, right):
            _doubling(axes, d_ks)
            axes.set_xlabel("d_k")
            axes.legend(loc="upper left" if axes is left else "lower left")
        caption(
            figure,
            "2000 queries, 8 keys. Their elements are independent, with mean 0 and variance 1 (footnote 4).",
        )


def complexity(path: Path) -> None:
    """Table 1: operations per layer against sequence length."""
    d, k, r = 512, 3, 16
    ns = np.unique(np.geomspace(8, 32_768, 100).astype(int))
    with drawing(path, 8, 4.6) as figure:
        axes = figure.subplots()
        for row in TABLE_1:
            kept = [n for n in ns if "restricted" not in row.name or n >= r]
            axes.plot(
                kept,
                [costs.layer_operations(int(n), d, k, r)[row.name] for n in kept],
                label=f"{row.name}: {row.complexity}",
            )
        axes.plot(d, d**3, "o", color=INK)
        axes.annotate(f"n = d = {d}", (d, d**3), (9, -12), textcoords="offset points")
        axes.set(
            xlabel="sequence length n",
            ylabel="operations per layer",
            xscale="log",
            yscale="log",
            title="Complexity per layer (Table 1)",
        )
        _doubling(axes, [2**i for i in range(3, 16, 2)])
        axes.legend(loc="upper left")
        caption(
            figure,
            f"d = {d}, kernel width k = {k}, neighbourhood r = {r}. Self-attention is cheaper for n < d.",
        )


def label_smoothing(path: Path) -> None:
    """Section 5.4: the target distribution and the loss for several ε."""
    V, ps = 1000, np.concatenate([np.linspace(0.3, 0.99, 70), 1 - np.geomspace(1e-2, 1e-6, 40)])
    with drawing(path, 11, 4.2) as figure:
        left, right = figure.subplots(1, 2)
        for i, (epsilon, colour) in enumerate(((0.0, ORANGE), (0.1, BLUE), (0.2, GREEN))):
            centres = np.arange(5) + (i - 1) * 0.27
            left.bar(centres, demonstrations.smoothed_target(5, epsilon), 0.25, color=colour, label=f"ε = {epsilon}")
            losses, _ = demonstrations.smoothed_loss(np.stack([*[(1 - ps) / (V - 1)] * (V - 1), ps], axis=1), epsilon)
            right.plot(-np.log10(1 - ps), losses, color=colour, label=f"ε = {epsilon}")
            if epsilon:
                right.plot(-np.log10(epsilon * (1 - 1 / V)), min(losses), "o", color=colour)
        left.set(xlabel="token", ylabel="target probability", title="Target for V = 5 if token 4 is right")
        left.grid(False, axis="x")
        right.set(
            xlabel="probability of the right token",
            ylabel="loss in nats",
            ylim=(0, 3),
            title=f"Loss for V = {V}: it rises near certainty",
        )
        ticks = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
        right.set_xticks([-np.log10(1 - p) for p in ticks], [f"{p:g}" for p in ticks], fontsize=9)
        left.legend()
        right.legend()
        caption(
            figure,
            "Target distribution: (1 - ε)·onehot + ε/V. Right: the points are the minima, at 1 - ε + ε/V.",
        )


def _doubling(axes: Axes, values: list[int]) -> None:
    """Makes the x axis logarithmic, with these ticks."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(values)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())


FIGURES: dict[str, Callable[[Path], None]] = {
    "positional_encoding.png": positional_encoding,
    "learning_rate.png": learning_rates,
    "softmax_saturation.png": softmax_saturation,
    "complexity.png": complexity,
    "label_smoothing.png": label_smoothing,
    "attention_cost.png": draw_attention_cost,
}
