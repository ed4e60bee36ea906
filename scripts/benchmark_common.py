"""What the benchmarks share: contestants in processes of their own, tokens to train on, products to time, results."""

import argparse
import datetime
import importlib
import multiprocessing
import os
import platform
import re
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vaswani.arguments import Parser
from vaswani.console import say
from vaswani.data.encoded import EncodedPairs
from vaswani.data.prepared_corpus import PreparedCorpus
from vaswani.data.tokenizer import END
from vaswani.errors import UserError, WorkFailed
from vaswani.files import write_json
from vaswani.memory import keep_freed_memory
from vaswani.schema import Config, ModelConfig

Product = tuple[int, int, int, int]
"""(batch, m, k, n): so many products of an m×k matrix and a k×n matrix at once."""


def run(main: Callable[[], None]) -> None:
    """Runs a script and ends the process: 0 done, 1 the work failed, 2 the input is wrong."""
    try:
        main()
    except UserError as error:
        say(f"{Path(sys.argv[0]).name}: {error}")
        sys.exit(2)
    except WorkFailed as error:
        say(f"{Path(sys.argv[0]).name}: {error}")
        sys.exit(1)


def need(*modules: str) -> None:
    """Raises UserError where a peer is not installed."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise UserError(f"{module}: not installed ({error}); `scripts/setup.sh bench` installs the peers") from None


class Remote:
    """An object in a process of its own, so that no contestant has another's threads, caches or memory.

    Args:
        make, arguments: the object is make(*arguments); all must be picklable.
        threads: processors that the process may use; None for all.
    """

    def __init__(self, make: Callable[..., Any], *arguments: Any, threads: int | None = None):
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make, arguments), daemon=True)
        started = time.perf_counter()
        all_processors = os.sched_getaffinity(0)
        # Inherited by the child before any library in it counts the processors, or numpy starts threads of its own.
        os.sched_setaffinity(0, sorted(all_processors)[:threads])
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        self._process.start()
        os.sched_setaffinity(0, all_processors)
        theirs.close()
        self._receive()
        self.start_seconds = time.perf_counter() - started
        """From nothing to an object that is ready."""

    def call(self, method: str, *arguments: Any) -> Any:
        self._pipe.send((method, arguments))
        return self._receive()

    def peak_bytes(self) -> int:
        """The most memory that the process has held."""
        return self.call("__peak_bytes__")

    def close(self) -> None:
        self._pipe.close()
        self._process.join()

    def _receive(self) -> Any:
        try:
            error, value = self._pipe.recv()
        except EOFError:
            raise WorkFailed("a contestant's process has died; was it out of memory?") from None
        if isinstance(error, UserError):
            raise error
        if error:
            say(error)
            raise WorkFailed("a contestant failed; its own words stand above")
        return value


def _serve(pipe: Any, make: Callable[..., Any], arguments: Sequence[Any]) -> None:
    keep_freed_memory()  # as our command line does; peers gain by it too
    try:
        thing = make(*arguments)
        pipe.send((None, None))
        while True:
            method, arguments = pipe.recv()
            pipe.send((None, _peak_bytes() if method == "__peak_bytes__" else getattr(thing, method)(*arguments)))
    except EOFError:  # closed by the other side
        pass
    except UserError as error:
        pipe.send((error, None))
    except Exception:
        pipe.send((traceback.format_exc(), None))


def _peak_bytes() -> int:
    try:
        # Not ru_maxrss, which would begin with the parent's.
        status = Path("/proc/self/status").read_text()
        return 1024 * int(re.findall(r"VmHWM:\s+(\d+)", status)[0])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def make_parser(description: str | None) -> Parser:
    return Parser(description)


def takes_out(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("--out", type=Path, default=Path("benchmarks") / name, metavar="STEM",
                        help="results go to STEM.json and STEM.png (default: %(default)s)")  # fmt: skip


def write_results(stem: Path, results: dict[str, Any], draw: Callable[[Path, dict[str, Any]], None]) -> None:
    """STEM.json, and the drawing STEM.png."""
    numbers, drawing = save(stem, results), stem.with_name(stem.name + ".png")
    draw(drawing, results)
    say(f"{numbers}, {drawing}")


def save(stem: Path, results: dict[str, Any]) -> Path:
    """STEM.json alone, for results that may be all there will be."""
    numbers = stem.with_name(stem.name + ".json")
    write_json(numbers, results)
    return numbers


def above_zero(text: str) -> float:
    """For argparse: seconds, or another amount."""
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text}: must be above 0")
    return value


def machine() -> dict[str, Any]:
    """What a figure must be read with. The load tells whether something else ran beside it."""
    import jax

    if (load := os.getloadavg()[0]) > 0.5:
        say(f"the load average is {load:.1f}: something else is running, and threads that wait for it mislead")
    model = platform.machine()
    if (info := Path("/proc/cpuinfo")).exists() and (found := re.search(r"model name\s*:\s*(.*)", info.read_text())):
        model = found[1]
    return {
        "date": datetime.date.today().isoformat(),
        "command": " ".join(sys.argv),
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "devices": [d.device_kind for d in jax.devices()],
        "load_average_before": load,
        "python": platform.python_version(),
        "jax": jax.__version__,
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": float(np.median(values)), "lowest": min(values), "highest": max(values), "n": len(values)}


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    return {f"p{p}": float(np.percentile(seconds, p)) for p in (50, 95, 99)}


def kernel(layer: dict[str, Any], part: str, *names: str) -> np.ndarray:
    """The matrices of one sub-layer, one below the other, each as [out, in], which all peers expect."""
    return np.concatenate([np.asarray(layer[part][name]["kernel"]).T for name in names])


def random_pairs(n: int, length: int, vocab_size: int, seed: int = 1706) -> EncodedPairs:
    """Pairs of `length` random tokens a side, end symbol counted: they fill rows and length buckets without padding.

    Raises:
        UserError: a vocabulary without room for a word.
    """
    if vocab_size <= END + 2:
        raise UserError(f"a vocabulary of {vocab_size}: the least is {END + 3}, special symbols counted")
    ids = np.random.default_rng(seed).integers(END + 2, vocab_size, (2, n, length), dtype=np.int32)
    ids[:, :, -1] = END
    offsets = np.arange(n + 1) * length
    return EncodedPairs(ids[0].reshape(-1), offsets, ids[1].reshape(-1), offsets)


@dataclass(frozen=True)
class Job:
    """What a contestant trains on."""

    config: Config
    vocab_size: int
    corpus: Path | None
    """A prepared corpus; None for random pairs that are as long as a row."""

    def pairs(self) -> EncodedPairs:
        if self.corpus is not None:
            return PreparedCorpus.open(self.corpus).pairs(self.config.data.train)
        length = self.config.train.row_length
        return random_pairs(max(64, 8 * self.config.train.tokens_per_update // length), length, self.vocab_size)


@dataclass(frozen=True)
class Turn:
    """What was done in one turn."""

    seconds: float
    updates: int
    source_tokens: int
    target_tokens: int

    @property
    def tokens_per_s(self) -> float:
        return (self.source_tokens + self.target_tokens) / self.seconds


# --- the products of an update, by formula ---


def products(config: ModelConfig, vocab_size: int, rows: int, row_length: int, chunk: int) -> "Counter[Product]":
    """Every matrix product of loss and gradient of rows [rows, row_length] on both sides, padding included.

    Forward m×k·k×n, and for each two backward: m×n·n×k for the input's gradient and k×m·m×n for the weight's.

    Args:
        chunk: positions whose logits are computed at once; they must divide rows · row_length to be counted exactly.
    """
    d, ff, h, d_k, d_v = config.d_model, config.d_ff, config.h, config.d_k, config.d_v
    n, L = rows * row_length, row_length
    chunk = min(chunk, n)
    attention: Counter[Product] = Counter()
    attention[1, n, d, h * d_k] += 2
    attention[1, n, d, h * d_v] += 1
    attention[1, n, h * d_v, d] += 1
    attention[rows * h, L, d_k, L] += 1
    attention[rows * h, L, L, d_v] += 1
    forward: Counter[Product] = Counter({(1, chunk, d, vocab_size): -(-n // chunk)})
    for product, count in attention.items():
        forward[product] += 3 * config.N * count
    forward[1, n, d, ff] += 2 * config.N
    forward[1, n, ff, d] += 2 * config.N
    every: Counter[Product] = Counter()
    for (batch, m, k, n_), count in forward.items():
        for product in ((batch, m, k, n_), (batch, m, n_, k), (batch, k, m, n_)):
            every[product] += count
    return every


def flops(every: "Counter[Product]") -> float:
    return float(sum(2 * count * b * m * k * n for (b, m, k, n), count in every.items()))


def time_products(shapes: Sequence[Product], dtype: str = "float32", seconds: float = 0.3) -> list[float]:
    """How long each product takes alone in JAX: median of as many repetitions as fit into `seconds`, at least three."""
    import jax
    import jax.numpy as jnp

    product = jax.jit(jnp.matmul)

    def once(b: int, m: int, k: int, n: int) -> Callable[[], None]:
        x, y = (jax.random.normal(jax.random.key(i), s, dtype) for i, s in enumerate(((b, m, k), (b, k, n))))
        if b == 1:
            x, y = x[0], y[0]
        return lambda: product(x, y).block_until_ready()

    return [median_seconds(once(*shape), seconds) for shape in shapes]


def median_seconds(once: Callable[[], Any], seconds: float) -> float:
    once()
    once()
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        before = time.perf_counter()
        once()
        times.append(time.perf_counter() - before)
    return float(np.median(times))
