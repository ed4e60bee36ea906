"""What `benchmark_gpu.sh` runs: training and decoding speed of a configuration on this device, and how right it is.

    python scripts/benchmark_gpu.py train configs/base.toml --model.dtype bfloat16
    python scripts/benchmark_gpu.py decode configs/base.toml --model.dtype bfloat16
    python scripts/benchmark_gpu.py check configs/base.toml    # loss and gradients against the CPU's, on the same batch

Needs no corpus and no peer: tokens are random, and fill their rows.
"""

import time
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from benchmark_common import above_zero, flops, machine, make_parser, products, random_pairs, run, spread, time_products

from vaswani.arguments import positive, resolve, takes_config
from vaswani.data.packing import Batch, TrainingBatches
from vaswani.decoding.translator import Translator
from vaswani.devices import make_mesh, shard_rows
from vaswani.errors import WorkFailed
from vaswani.files import write_json
from vaswani.model import build
from vaswani.schema import Config
from vaswani.training.loss import CHUNK
from vaswani.training.train_step import batch_loss, init_state, make_train_step, state_structure

TOLERANCES = {"float32": 2e-5, "bfloat16": 3e-2}
"""Largest difference of the loss, and of the gradients' norm, that is rounding; relative."""


class Numbers:
    """A tokenizer of lines that are token ids, for a vocabulary of any size."""

    def __init__(self, vocab_size: int):
        self.vocab_size = vocab_size

    def encode_batch(self, lines: list[str]) -> list[list[int]]:
        return [[int(word) for word in line.split()] for line in lines]

    def decode(self, ids: Any) -> str:
        return " ".join(map(str, ids))


def train(config: Config, V: int, seconds: float) -> dict[str, Any]:
    """Updates as the training loop makes them; every position holds a token."""
    mesh, settings = make_mesh(), config.train
    pairs = random_pairs(4 * settings.tokens_per_update // settings.row_length, settings.row_length, V)
    batches = TrainingBatches(pairs, settings, mesh.size)
    graphdef, state = state_structure(config, V, mesh)[0], init_state(config, V, mesh)
    key, batch = jax.random.key(settings.seed), next(batches)
    before = time.perf_counter()
    step = make_train_step(graphdef, config, mesh).lower(state, shard_rows(batch, mesh), key).compile()
    compile_seconds = time.perf_counter() - before
    rates: list[float] = []
    took: list[float] = []
    while len(took) < 5 or sum(took) < seconds:
        before = time.perf_counter()
        state, metrics = step(state, shard_rows(batch, mesh), key)
        batch = next(batches)
        sums = jax.device_get(metrics).sums
        took.append(time.perf_counter() - before)
        rates.append((int(sums.source_tokens) + int(sums.target_tokens)) / took[-1])
    micro_batches, rows, row_length = batches.shape
    every = products(config.model, V, rows // mesh.size, row_length, CHUNK)
    alone = dict(zip(every, time_products(list(every), config.model.dtype, 0.2), strict=True))
    all_alone = sum(every[shape] * alone[shape] for shape in every)
    rate = micro_batches * mesh.size * flops(every) / float(np.median(took[2:]))
    device_rate = max(flops(Counter([shape])) / alone[shape] for shape in every)
    stats = jax.local_devices()[0].memory_stats() or {}
    memory: Any = step.memory_analysis()
    return {
        "compile_seconds": compile_seconds,
        "tokens_per_s": spread(rates[2:]),
        "flops_per_s": rate,
        "best_product_flops_per_s": device_rate,
        "share_of_best_product": rate / device_rate / mesh.size,
        "share_of_products_alone": micro_batches * all_alone / float(np.median(took[2:])),
        "peak_bytes": stats.get("peak_bytes_in_use"),
        "compiled_bytes": memory.temp_size_in_bytes + memory.argument_size_in_bytes,
    }


def decode(config: Config, V: int, sentences: int) -> dict[str, Any]:
    """Untrained parameters hardly ever end a sentence, so outputs have full length: tokens a second is what counts."""
    graphdef, params = build(config.model, V, config.train.seed)
    tokenizer: Any = Numbers(V)
    translator = Translator(graphdef, params, tokenizer, config.decode)
    lengths = np.random.default_rng(0).integers(10, 50, sentences)
    lines = [" ".join(map(str, np.random.default_rng(i).integers(4, V, n))) for i, n in enumerate(lengths)]
    results: dict[str, Any] = {}
    for name, these in (("batched", lines), ("one line", lines[:1])):
        rates = []
        for _ in range(4):
            before = time.perf_counter()
            tokens = sum(best.length for best, *_ in translator.translate(these))
            rates.append(tokens / (time.perf_counter() - before))
        results[name] = {"tokens_per_s": spread(rates[1:]), "sentences": len(these)}
    return results


def check(config: Config, V: int) -> dict[str, Any]:
    """Loss and gradients of one batch on this device and on the CPU, from the same parameters, without dropout."""
    length = min(config.train.row_length, 64)
    pairs = random_pairs(8, length, V)
    whole = replace(config.train, row_length=length, tokens_per_update=8 * length, max_tokens_per_device=8 * length)
    batches = TrainingBatches(pairs, whole, devices=1)
    batch = Batch(*(x[0] for x in next(batches)))
    results: dict[str, Any] = {}
    for dtype, tolerance in TOLERANCES.items():
        graphdef, params = build(replace(config.model, dtype=dtype), V, config.train.seed)
        found = {}
        for device in (jax.devices()[0], jax.devices("cpu")[0]):
            # By default a GPU rounds the factors of float32 products; here that would hide a fault.
            with jax.default_device(device), jax.default_matmul_precision("highest"):

                def loss(params: Any, graphdef: Any = graphdef) -> jax.Array:
                    sums = batch_loss(graphdef, params, batch, config.train.label_smoothing, None)
                    return sums.loss / sums.target_tokens

                found[device.platform] = jax.device_get(
                    jax.jit(jax.value_and_grad(loss))(jax.device_put(params, device))
                )
        (loss_here, here), (loss_cpu, on_cpu) = found[jax.devices()[0].platform], found["cpu"]
        norm = np.sqrt(sum(float(np.sum(np.square(x))) for x in jax.tree.leaves(on_cpu)))
        difference = jax.tree.map(lambda x, y: float(np.sum(np.square(x - y))), here, on_cpu)
        results[dtype] = {
            "loss": [float(loss_here), float(loss_cpu)],
            "loss_difference": abs(float(loss_here) / float(loss_cpu) - 1),
            "gradient_difference": float(np.sqrt(sum(jax.tree.leaves(difference))) / norm),
            "tolerance": tolerance,
        }
    return results


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("what", metavar="WHAT", choices=("train", "decode", "check"), help="train, decode or check")
    takes_config(parser)
    parser.usage = "%(prog)s WHAT CONFIG --out FILE.json [OPTIONS] [--TABLE.KEY VALUE ...]"
    parser.add_argument("--vocabulary", type=positive, default=37_000, help="(%(default)s)")
    parser.add_argument("--seconds", type=above_zero, default=20.0, help="of training (%(default)s)")
    parser.add_argument("--sentences", type=positive, default=512, help="to decode (%(default)s)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.json")
    a = parser.parse_args()
    name = Path(a.config).stem
    config, V = resolve(a).config, a.vocabulary
    found = {
        "train": lambda: train(config, V, a.seconds),
        "decode": lambda: decode(config, V, a.sentences),
        "check": lambda: check(config, V),
    }[a.what]()
    write_json(a.out, {"machine": machine(), "what": a.what, "config": asdict(config), "results": found})
    for what, value in found.items():
        print(f"{name} {a.what} {what}: {value}")
    if a.what == "check":
        for dtype, r in found.items():
            if not max(r["loss_difference"], r["gradient_difference"]) <= r["tolerance"]:
                raise WorkFailed(f"{dtype}: differs from the CPU by more than rounding: {r}")


if __name__ == "__main__":
    run(main)
