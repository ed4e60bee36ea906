"""Time and memory of attention against length: the model's own, and JAX's fused kernel where the device has one.

    python scripts/benchmark_attention.py                        # float32, up to 4096 tokens
    python scripts/benchmark_attention.py --dtype bfloat16 --batch 8

"Prefill" is n queries over n keys, what encoding does; "gradient" is the same with its backward pass, what training
does; "step" is one query over n cached keys, what decoding does. The base model's heads: h = 8, d_k = d_v = 64.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from benchmark_common import above_zero, machine, make_parser, percentiles, run, takes_out, write_results

from vaswani.arguments import positive
from vaswani.console import say
from vaswani.errors import UserError
from vaswani.kernels import cached_attention
from vaswani.model import attention
from vaswani.report.png import caption, drawing
from vaswani.report.style import COLOURS

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
H, D = 8, 64
KINDS = ("prefill", "gradient", "step")


def plain(Q: Any, K: Any, V: Any, mask: Any) -> Any:
    """The model's."""
    return attention(Q, K, V, mask)[0]


def fused(Q: Any, K: Any, V: Any, mask: Any) -> Any:
    """cuDNN's flash attention: the scores are never written to memory."""
    return jax.nn.dot_product_attention(Q, K, V, mask=mask[:, None], implementation="cudnn")


def step(Q: Any, K: Any, V: Any, mask: Any) -> Any:
    """The model's with a cache, of one hypothesis and filled."""
    return cached_attention(Q, K[:, :, None], V[:, :, None], jnp.int32(K.shape[1]))


def measure(f: Callable[..., Any], kind: str, n: int, batch: int, dtype: str, seconds: float) -> dict[str, Any]:
    """Percentiles of its seconds, and the bytes that the compiled program allocates between arguments and result."""
    queries = 1 if kind == "step" else n
    keys = jax.random.split(jax.random.key(n), 3)
    Q, K, V = (jax.random.normal(k, (batch, m, H, D), dtype) for k, m in zip(keys, (queries, n, n), strict=True))
    # As in packed rows: two segments, so that a mask is there which a kernel may not assume away.
    segments = jnp.broadcast_to(jnp.arange(n) < n // 2, (batch, n))
    mask = segments[:, -queries:, None] == segments[:, None, :]

    def gradient(Q: Any, K: Any, V: Any, mask: Any) -> Any:
        return jax.grad(lambda *x: f(*x, mask).astype(jnp.float32).sum(), argnums=(0, 1, 2))(Q, K, V)

    program = jax.jit(gradient if kind == "gradient" else f).lower(Q, K, V, mask).compile()
    memory: Any = program.memory_analysis()
    for _ in range(2):
        jax.block_until_ready(program(Q, K, V, mask))
    times: list[float] = []
    while len(times) < 10 or (sum(times) < seconds and len(times) < 1000):
        before = time.perf_counter()
        jax.block_until_ready(program(Q, K, V, mask))
        times.append(time.perf_counter() - before)
    cache = K.nbytes + V.nbytes if kind == "step" else 0
    return {"seconds": percentiles(times), "n": len(times), "bytes": memory.temp_size_in_bytes, "cache_bytes": cache}


def draw(path: Path, results: dict[str, Any]) -> None:
    with drawing(path, 13, 8) as figure:
        for column, kind in enumerate(KINDS):
            time_axes, memory_axes = figure.add_subplot(2, 3, column + 1), figure.add_subplot(2, 3, column + 4)
            for colour, (name, found) in zip(COLOURS, results[kind].items(), strict=False):
                ns = [int(n) for n in found]
                p50, p99 = (np.array([m["seconds"][p] for m in found.values()]) * 1e3 for p in ("p50", "p99"))
                time_axes.plot(ns, p50, "o-", color=colour, label=f"{name}, median")
                time_axes.fill_between(ns, p50, p99, color=colour, alpha=0.2, label="up to the 99th percentile")
                key = "cache_bytes" if kind == "step" else "bytes"
                memory_axes.plot(ns, [m[key] / 2**20 for m in found.values()], "o-", color=colour, label=name)
            time_axes.set_title(f"{kind.capitalize()}: ms")
            memory_axes.set_title(
                f"{kind.capitalize()}: MiB " + ("of cache" if kind == "step" else "between in and out")
            )
            for axes in (time_axes, memory_axes):
                axes.set(xscale="log", yscale="log", xticks=LENGTHS, xlabel="n")
                axes.set_xticklabels([str(n) for n in LENGTHS], rotation=45)
                axes.minorticks_off()
                axes.legend()
        m, o = results["machine"], results["options"]
        what = f"h = {H}, d_k = d_v = {D}, batch of {o['batch']}, {o['dtype']}"
        caption(figure, f"{what}. {m['devices'][0]}, {m['cpu']}, {m['cores']} cores, JAX {m['jax']}, {m['date']}.")


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--batch", type=positive, default=1, help="sentences (%(default)s)")
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], help="the largest n (%(default)s)")
    parser.add_argument("--seconds", type=above_zero, default=2.0, help="spent on each measurement (%(default)s)")
    takes_out(parser, "attention")
    a = parser.parse_args()
    if a.longest < LENGTHS[0]:
        raise UserError(f"--longest must be at least {LENGTHS[0]}")
    forms = {"plain": plain}
    if jax.default_backend() == "gpu" and a.dtype == "bfloat16":
        forms["fused"] = fused
    else:
        say("no fused kernel here: JAX has one for bfloat16 on NVIDIA GPUs")
    results: dict[str, Any] = {"machine": machine(), "options": {"dtype": a.dtype, "batch": a.batch}}
    for kind in KINDS:
        forms_of_kind = {"plain": step} if kind == "step" else forms
        results[kind] = {name: {} for name in forms_of_kind}
        for name, form in forms_of_kind.items():
            for n in (n for n in LENGTHS if n <= a.longest):
                try:
                    found = measure(form, kind, n, a.batch, a.dtype, a.seconds)
                except jax.errors.JaxRuntimeError as error:  # out of memory, or a shape that the kernel refuses
                    say(f"{kind} {name} {n}: not measured: {str(error).splitlines()[0]}")
                    break
                results[kind][name][str(n)] = found
                p50, p95, p99 = (1e3 * found["seconds"][p] for p in ("p50", "p95", "p99"))
                size = found["cache_bytes" if kind == "step" else "bytes"] / 2**20
                print(f"{kind:8} {name:5} {n:5}  p50 {p50:9.3f}  p95 {p95:9.3f}  p99 {p99:9.3f} ms  {size:9.2f} MiB")
    write_results(a.out, results, draw)


if __name__ == "__main__":
    run(main)
