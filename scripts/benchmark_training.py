"""Training speed against PyTorch's own Transformer: same model, text, optimiser, dropout and label smoothing.

Each side batches as suits it best: packed rows of one shape here, buckets of similar length there. Contestants take
turns of some seconds, each in a process of its own, and each has all processors while it is its turn.

    python scripts/benchmark_training.py configs/multi30k.toml --epochs 1
    python scripts/benchmark_training.py configs/base.toml --prepared prepared/multi30k --seconds 300 \\
        --train.tokens-per-update 2048 --train.row-length 64 --data.max-tokens 64
    python scripts/benchmark_training.py configs/multi30k.toml --sweep row_length vocabulary --seconds 20

Reported for each: useful tokens (not padding, source and target) a second, median and range over the turns; how long
until the first update is made; the most memory its process held; and the model's FLOP/s, by formula, as a share of the
rate at which this machine does the products of our update alone (the faster of JAX and PyTorch for each).
"""

import os
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from benchmark_common import (
    Job,
    Remote,
    Turn,
    above_zero,
    flops,
    machine,
    make_parser,
    need,
    products,
    run,
    save,
    spread,
    takes_out,
    time_products,
    write_results,
)

from vaswani.arguments import positive, resolve, takes_config
from vaswani.console import say
from vaswani.data.packing import TrainingBatches
from vaswani.data.prepared_corpus import PreparedCorpus
from vaswani.errors import UserError, WorkFailed

ROW_LENGTHS = (64, 128, 256, 512, 1024)
VOCABULARIES = (4_000, 8_000, 16_000, 37_000)
SWEEP_TOKENS = 4096
CONTESTANTS = ("ours", "eager", "compiled")


class Ours:
    """The training loop's own parts. Ready once its first update is made."""

    def __init__(self, job: Job):
        import jax

        from vaswani.devices import make_mesh, set_up_jax, shard_rows
        from vaswani.training.train_step import init_state, make_train_step, state_structure

        set_up_jax()
        config, self._mesh, self._shard = job.config, make_mesh(), shard_rows
        self._device_get = jax.device_get
        self._batches = TrainingBatches(job.pairs(), config.train, self._mesh.size)
        self.shape = self._batches.shape
        self._key = jax.random.key(config.train.seed)
        graphdef, _ = state_structure(config, job.vocab_size, self._mesh)
        self._state = init_state(config, job.vocab_size, self._mesh)
        self._initial_params = jax.device_get(self._state.params)
        self._batch = next(self._batches)
        before = time.perf_counter()
        step = make_train_step(graphdef, config, self._mesh)
        self._step = step.lower(self._state, shard_rows(self._batch, self._mesh), self._key).compile()
        self._compile_seconds = time.perf_counter() - before
        self._graphdef = graphdef
        self.turn(0.0)

    def facts(self) -> dict[str, Any]:
        shape, devices = list(self.shape), self._mesh.size
        return {"compile_seconds": self._compile_seconds, "shape": shape, "devices": devices}

    def params_and_loss(self, pairs: list[int], job: Job) -> tuple[Any, float]:
        """The parameters before the first update, and the mean loss of some pairs with them, without dropout."""
        from vaswani.data.packing import Batch, Shape, lay_out
        from vaswani.training.train_step import batch_loss

        shape = Shape(1, len(pairs), job.config.train.row_length)
        batch = Batch(*(x[0] for x in lay_out(job.pairs(), [[pair] for pair in pairs], shape)))
        smoothing = job.config.train.label_smoothing
        sums = batch_loss(self._graphdef, self._initial_params, batch, smoothing, None)
        return self._initial_params, float(sums.loss / sums.target_tokens)

    def time_products(self, shapes: Any, dtype: str) -> list[float]:
        return time_products(shapes, dtype)

    def turn(self, seconds: float) -> Turn:
        """Updates until the time is over, at least one, just as the loop makes them."""
        begin, updates, source_tokens, target_tokens = time.perf_counter(), 0, 0, 0
        while updates == 0 or time.perf_counter() - begin < seconds:
            self._state, metrics = self._step(self._state, self._shard(self._batch, self._mesh), self._key)
            self._batch = next(self._batches)
            sums = self._device_get(metrics).sums
            updates += 1
            source_tokens += int(sums.source_tokens)
            target_tokens += int(sums.target_tokens)
        return Turn(time.perf_counter() - begin, updates, source_tokens, target_tokens)


def pytorch(job: Job, compiled: bool) -> Any:
    """The other side, which needs PyTorch only in its own process."""
    from benchmark_pytorch import Trainer

    return Trainer(job.pairs(), job.config, job.vocab_size, compiled)


def compete(job: Job, names: list[str], turn_seconds: float, seconds: float, epochs: float) -> dict[str, Any]:
    """Turns until each contestant has had its time, or its epochs. Every contestant starts cold."""
    contestants: dict[str, Remote] = {}
    with tempfile.TemporaryDirectory(prefix="benchmark") as cache:
        os.environ |= {"XDG_CACHE_HOME": cache, "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor"}
        results: dict[str, Any] = {}
        for name in names:
            contestants[name] = Remote(Ours, job) if name == "ours" else Remote(pytorch, job, name == "compiled")
            results[name] = {"cold_start_seconds": contestants[name].start_seconds} | contestants[name].call("facts")
            say(f"{name}: first update made {contestants[name].start_seconds:.1f} s after the start")
            if name == "ours":
                warm = Remote(Ours, job)
                results[name]["warm_start_seconds"] = warm.start_seconds
                warm.close()
        _check_same_loss(contestants, job)
        for contestant in contestants.values():
            contestant.call("turn", turn_seconds)  # warms up; new shapes may still be compiled
        pairs = job.pairs()
        epoch = int(pairs.source_lengths.sum() + pairs.target_lengths.sum())
        turns: dict[str, list[Turn]] = {name: [] for name in contestants}

        def open_(name: str) -> bool:
            if epochs:
                return sum(t.source_tokens + t.target_tokens for t in turns[name]) < epochs * epoch
            return sum(t.seconds for t in turns[name]) < seconds

        while any(open_(name) for name in contestants):
            for name in filter(open_, contestants):
                turns[name].append(contestants[name].call("turn", turn_seconds))
                say(f"  {name:8} {turns[name][-1].tokens_per_s:8,.0f} tokens/s")
        for name, contestant in contestants.items():
            done, results[name]["peak_bytes"] = turns[name], contestant.peak_bytes()
            results[name]["tokens_per_s"] = spread([t.tokens_per_s for t in done])
            results[name]["seconds_per_update"] = sum(t.seconds for t in done) / sum(t.updates for t in done)
            results[name]["useful_tokens_per_update"] = sum(t.source_tokens + t.target_tokens for t in done) / sum(
                t.updates for t in done
            )
        _rate(results, contestants, job)
        for contestant in contestants.values():
            contestant.close()
    if peers := [name for name in names if name != "ours"]:
        best = max(peers, key=lambda name: results[name]["tokens_per_s"]["median"])
        ratio = results["ours"]["tokens_per_s"]["median"] / results[best]["tokens_per_s"]["median"]
        results["ratio"] = {"to": best, "value": ratio}
    return results


def _check_same_loss(contestants: dict[str, Remote], job: Job) -> None:
    """Both sides must be the same model: from the same parameters, the same loss."""
    pairs = list(range(4))
    params, ours = contestants["ours"].call("params_and_loss", pairs, job)
    for name, contestant in contestants.items():
        if name != "ours":
            theirs = contestant.call("loss_from", params, pairs)
            say(f"{name}: loss {theirs:.5f} where ours is {ours:.5f}")
            rounding = 1e-4 if job.config.model.dtype == "float32" else 1e-2
            if not abs(theirs - ours) < rounding * ours:
                raise WorkFailed(f"{name}: has a loss of {theirs} where ours is {ours}: not the same model")


def _rate(results: dict[str, Any], contestants: dict[str, Remote], job: Job) -> None:
    """Adds FLOP/s, and their share of what the products alone reach."""
    from vaswani.training.loss import CHUNK

    ours = results["ours"]
    micro_batches, rows, row_length = ours["shape"]
    times = micro_batches * ours["devices"]
    every = products(job.config.model, job.vocab_size, rows // ours["devices"], row_length, CHUNK)
    shapes = list(every)
    measured = [c.call("time_products", shapes, job.config.model.dtype) for c in contestants.values()]
    fastest = {shape: min(seconds) for shape, *seconds in zip(shapes, *measured, strict=True)}
    alone = sum(every[shape] * seconds for shape, seconds in fastest.items())
    results["products_alone"] = {
        "flops_per_s": flops(every) / alone,
        "seconds": {"x".join(map(str, shape)): seconds for shape, seconds in fastest.items()},
    }
    ours["flops_per_s"] = times * flops(every) / ours["seconds_per_update"]
    ours["share_of_products_alone"] = times * alone / ours["seconds_per_update"]
    useful = ours["useful_tokens_per_update"] / (2 * micro_batches * rows * row_length)
    ours["useful_share_of_positions"] = useful


# --- what is printed and drawn ---


def table(results: dict[str, Any]) -> str:
    lines = []
    for name in (n for n in CONTESTANTS if n in results):
        r = results[name]
        rate = r["tokens_per_s"]
        lines.append(
            f"{name:8} {rate['median']:9,.0f} tokens/s ({rate['lowest']:,.0f} to {rate['highest']:,.0f}), "
            f"first update after {r['cold_start_seconds']:.1f} s, {r['peak_bytes'] / 2**20:,.0f} MiB"
        )
    ours = results["ours"]
    lines.append(
        f"ours: compiled in {ours['compile_seconds']:.1f} s, warm start {ours['warm_start_seconds']:.1f} s; "
        f"{ours['flops_per_s'] / 1e9:.1f} GFLOP/s, {ours['share_of_products_alone']:.2f} of the products alone "
        f"({results['products_alone']['flops_per_s'] / 1e9:.1f}); {ours['useful_share_of_positions']:.2f} not padding"
    )
    if "ratio" in results:
        lines.append(f"ratio to {results['ratio']['to']}: {results['ratio']['value']:.2f}")
    return "\n".join(lines)


def draw(path: Path, results: dict[str, Any]) -> None:
    # Here, because the contestants' processes read this file too: a first look for fonts is not a part of their start.
    from vaswani.report.png import caption, drawing
    from vaswani.report.style import COLOURS

    panels = [key for key in ("training", "row_length", "vocabulary") if key in results]
    with drawing(path, 5.5 * len(panels), 4) as figure:
        for panel, axes in zip(panels, np.atleast_1d(figure.subplots(1, len(panels))), strict=True):
            found = results[panel] if panel != "training" else {"": results[panel]}
            for colour, name in zip(COLOURS, CONTESTANTS, strict=False):
                rates = [r[name]["tokens_per_s"] for r in found.values() if name in r]
                if not rates:
                    continue
                middle = np.array([r["median"] for r in rates])
                sides = np.abs([[r["lowest"] for r in rates], [r["highest"] for r in rates]] - middle)
                if panel == "training":
                    axes.bar(name, middle, yerr=sides, color=colour, capsize=4)
                else:
                    axes.errorbar([int(x) for x in found], middle, sides, color=colour, label=name, marker="o")
                    axes.set(xscale="log", xticks=[int(x) for x in found], xticklabels=list(found))
                    axes.minorticks_off()
                    axes.legend()
            axes.set_title({"training": "Training"}.get(panel, f"By {panel.replace('_', ' ')}"))
            axes.set(ylabel="useful tokens/s, source and target", ylim=(0, None))
        m = results["machine"]
        caption(figure, f"Median and range. {m['cpu']}, {m['cores']} cores, JAX {m['jax']}, {m['date']}.")


def main() -> None:
    parser = make_parser(__doc__)
    takes_config(parser)
    parser.add_argument("--prepared", type=Path, help="corpus (default: prepared/NAME, with the config's data.name)")
    parser.add_argument(
        "--random", type=positive, metavar="V", help="no corpus: random pairs of V words, long as a row"
    )
    parser.add_argument("--contestants", nargs="*", choices=CONTESTANTS[1:], default=list(CONTESTANTS[1:]),
                        help="whom to measure against (default: both)")  # fmt: skip
    parser.add_argument("--seconds", type=above_zero, default=120.0, help="of each contestant, in all (%(default)s)")
    parser.add_argument("--epochs", type=above_zero, help="instead of --seconds: of each contestant")
    parser.add_argument("--turn", type=above_zero, default=10.0, help="seconds of a turn (%(default)s)")
    parser.add_argument("--sweep", nargs="+", choices=("row_length", "vocabulary"), default=[],
                        help=f"instead: random pairs over {ROW_LENGTHS} tokens a row, or {VOCABULARIES} of vocabulary, "
                        f"{SWEEP_TOKENS} tokens a side in an update")  # fmt: skip
    parser.add_argument("--sweep-points", nargs="+", type=positive, help="other points than these (for one --sweep)")
    takes_out(parser, "training")
    config = resolve(a := parser.parse_args()).config
    if a.sweep_points and len(a.sweep) != 1:
        raise UserError("--sweep-points are those of one --sweep; give one, row_length or vocabulary")
    if a.contestants:
        need("torch")
    names = ["ours", *a.contestants]
    results: dict[str, Any] = {"machine": machine(), "config": asdict(config)}
    for sweep in a.sweep:
        results[sweep] = {}
        for point in a.sweep_points or {"row_length": ROW_LENGTHS, "vocabulary": VOCABULARIES}[sweep]:
            row_length, V = (point, 8000) if sweep == "row_length" else (64, point)
            most = max(config.train.max_tokens_per_device, SWEEP_TOKENS)
            train = replace(
                config.train, row_length=row_length, tokens_per_update=SWEEP_TOKENS, max_tokens_per_device=most
            )
            say(f"{sweep} {point:,}")
            results[sweep][str(point)] = compete(
                Job(replace(config, train=train), V, None), names, a.turn, a.seconds, 0
            )
            print(table(results[sweep][str(point)]))
            save(a.out, results)
    if not a.sweep:
        corpus = None if a.random else a.prepared or Path("prepared") / config.data.name
        V = a.random or PreparedCorpus.open(corpus or "").tokenizer.vocab_size
        results["training"] = compete(Job(config, V, corpus), names, a.turn, a.seconds, a.epochs or 0)
        print(table(results["training"]))
    write_results(a.out, results, draw)


if __name__ == "__main__":
    run(main)
