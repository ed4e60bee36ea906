"""Time and memory of the model's attention, measured on this machine and compared with the formulas of Table 1."""

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes

from vaswani.kernels import cached_attention
from vaswani.model import attention
from vaswani.report.png import caption, drawing
from vaswani.report.style import BLUE, ORANGE, SOFT

H, D_K = 8, 64  # of the base model
PREFILL = (64, 128, 256, 512, 1024, 2048)
CACHED = (128, 256, 512, 1024, 2048, 4096, 8192)
REPETITIONS = 20


@dataclass(frozen=True)
class Measurement:
    """Time and memory for one sequence length n."""

    n: int
    seconds: tuple[float, float, float]
    """50th, 95th and 99th percentile."""
    bytes: int
    """By XLA's analysis. Of a prefill: the memory between inputs and output. Of a step: its keys and values."""


def measure(n: int, queries: int, repetitions: int) -> Measurement:
    """Measures one attention in float32 with the heads of the base model, for one sentence.

    Args:
        n: keys.
        queries: n for a prefill, 1 for a decoding step with cached keys and values.
        repetitions: timed runs, after three that are not timed.
    """
    Q = jax.random.normal(jax.random.key(0), (1, queries, H, D_K))
    cached = queries == 1
    K, V = jax.random.normal(jax.random.key(1), (2, 1, n, 1, H, D_K) if cached else (2, 1, n, H, D_K))

    def attend(Q: jax.Array, K: jax.Array, V: jax.Array) -> jax.Array:
        return cached_attention(Q, K, V, jnp.int32(n)) if cached else attention(Q, K, V)[0]

    compiled = jax.jit(attend).lower(Q, K, V).compile()
    memory: Any = compiled.memory_analysis()
    size = memory.argument_size_in_bytes - Q.nbytes if cached else memory.temp_size_in_bytes
    for _ in range(3):
        compiled(Q, K, V).block_until_ready()
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        compiled(Q, K, V).block_until_ready()
        seconds.append(time.perf_counter() - start)
    p50, p95, p99 = np.percentile(seconds, (50, 95, 99))
    return Measurement(n, (float(p50), float(p95), float(p99)), size)


def draw_attention_cost(path: Path) -> None:
    """Draws time and memory of a prefill (n queries, n keys) and of a decoding step (one query, n cached keys)."""
    prefill = [measure(n, n, REPETITIONS) for n in PREFILL]
    cached = [measure(n, 1, 5 * REPETITIONS) for n in CACHED]
    with drawing(path, 11, 8) as figure:
        (prefill_time, prefill_memory), (step_time, step_memory) = figure.subplots(2, 2)
        _times(prefill_time, prefill, lambda n: n * n, "∝ n²")
        _memory(prefill_memory, prefill, lambda n: 4 * H * n * n, "one matrix of scores, 4·h·n² bytes")
        _times(step_time, cached, lambda n: n, "∝ n")
        _memory(step_memory, cached, lambda n: 4 * 2 * n * H * D_K, "cache, 4·2·n·h·d_k bytes")
        prefill_time.set_title("Prefill, n queries: time")
        prefill_memory.set_title("Prefill: memory between inputs and output")
        step_time.set_title("One cached decoding step: time")
        step_memory.set_title("One cached decoding step: keys and values")
        device = jax.devices()[0]
        where = f"{os.cpu_count()} CPU cores ({platform.machine()})" if device.platform == "cpu" else device.device_kind
        caption(
            figure,
            f"One attention of the base model (h = {H}, d_k = d_v = {D_K}), one sentence, float32, {where}, "
            f"JAX {jax.__version__}, load of the machine {os.getloadavg()[0]:.1f}, "
            f"{REPETITIONS} repetitions of each prefill, {5 * REPETITIONS} of each step.",
        )


def _times(axes: Axes, measured: list[Measurement], formula: Callable[[int], int], label: str) -> None:
    ns = [m.n for m in measured]
    last = measured[-1]
    scale = last.seconds[0] / formula(last.n)
    axes.plot(ns, [scale * formula(n) * 1e3 for n in ns], ":", color=SOFT, label=f"{label}, through the last point")
    p50, p95, p99 = (np.array([m.seconds[i] for m in measured]) * 1e3 for i in range(3))
    axes.plot(ns, p50, "o-", color=BLUE, label="p50")
    axes.plot(ns, p95, "_", color=BLUE, markersize=10, label="p95")
    axes.plot(ns, p99, "x", color=ORANGE, markersize=6, label="p99")
    _finish(axes, ns, "ms")


def _memory(axes: Axes, measured: list[Measurement], formula: Callable[[int], int], label: str) -> None:
    ns = [m.n for m in measured]
    axes.plot(ns, [formula(n) / 2**20 for n in ns], ":", color=SOFT, label=label)
    axes.plot(ns, [m.bytes / 2**20 for m in measured], "o-", color=BLUE, label="measured")
    _finish(axes, ns, "MiB")


def _finish(axes: Axes, ns: list[int], unit: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel="n", ylabel=unit)
    axes.set_xticks(ns, [f"{n:,}" for n in ns], minor=False)
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.legend(loc="lower right")
