"""Decoding speed of one trained model here and in its peers, which get the same weights.

Peers: CTranslate2 (float32), Hugging Face's MarianMTModel.generate, and plain PyTorch with a cache. Everyone turns the
same lines into text with the same tokenizer, in a process of its own that may use 1 or 2 processors, and takes turns.

    python scripts/benchmark_decoding.py runs/multi30k
    python scripts/benchmark_decoding.py runs/multi30k --lines 100 --rounds 1 --peers CTranslate2        # a quick look

Reported: whether greedy outputs are identical; then, by beam search, sentences and tokens a second over the whole set
at the batch size that suits each best; one line at a time, latency's percentiles; BLEU and the share of lines equal to
ours (the penalty is ((5 + L) / 6)^α here and in plain PyTorch, L^α in the others); the most memory that a process held
which translated the set with these settings alone (JAX is loaded in all of them).
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from benchmark_common import (
    Remote,
    machine,
    make_parser,
    need,
    percentiles,
    run,
    save,
    spread,
    takes_out,
    write_results,
)
from benchmark_peers import CTranslate2, HuggingFace, check_supported

from vaswani.arguments import positive, resolve, settings_of_run, takes_translator
from vaswani.console import say
from vaswani.data.prepared_corpus import PreparedCorpus
from vaswani.data.tokenizer import END, Tokenizer
from vaswani.decoding.translator import load_translator
from vaswani.devices import set_up_jax
from vaswani.errors import UserError
from vaswani.evaluation.bleu import corpus_bleu
from vaswani.report.png import caption, drawing
from vaswani.report.style import COLOURS
from vaswani.runs.directory import RunDirectory
from vaswani.schema import DecodeConfig, ModelConfig

OURS = "ours"
PEERS = ("CTranslate2", "HF", "PyTorch")
MODULES = {"CTranslate2": ("ctranslate2",), "HF": ("torch", "transformers"), "PyTorch": ("torch",)}
OUR_BATCHES = (256, 512, 1024, 2048, 4096)  # source tokens
TUNING_LINES = 512
WARM_UP_LINES = 16


class Answer(NamedTuple):
    """A set translated."""

    seconds: float
    texts: list[str]
    tokens: list[list[int]]
    """Without end symbols."""


class Contestant:
    """What all have in common: text in, text out, on the clock."""

    def translate(self, lines: Sequence[str], beam: int) -> Answer:
        begin = time.perf_counter()
        texts, tokens = self.outputs(lines, beam)
        return Answer(time.perf_counter() - begin, texts, tokens)

    def tune(self, lines: Sequence[str], beam: int) -> dict[str, int]:
        """Tries every option twice, and keeps the one that was fastest."""
        took = []
        for option in self.options():
            self.use(option)
            took.append((min(self.translate(lines, beam).seconds for _ in range(2)), option))
        self.use(best := min(took, key=lambda x: x[0])[1])
        return best

    def one_by_one(self, lines: Sequence[str], beam: int, option: dict[str, int]) -> list[float]:
        """Seconds for each line alone, with what was fastest for many but for the batch's size."""
        self.use(option | {"batch": 1, "batch_tokens": 1})  # of one source token: a batch is one line
        by_length = sorted(lines, key=len, reverse=True)
        for line in by_length[:: max(1, len(lines) // WARM_UP_LINES)]:
            self.outputs([line], beam)
        return [self.translate([line], beam).seconds for line in lines]

    def options(self) -> list[dict[str, int]]:
        raise NotImplementedError

    def use(self, option: dict[str, int]) -> None:
        raise NotImplementedError

    def outputs(self, lines: Sequence[str], beam: int) -> tuple[list[str], list[list[int]]]:
        raise NotImplementedError


class Ours(Contestant):
    """The translator of `vaswani translate`."""

    def __init__(self, run: RunDirectory, checkpoint: str, decode: DecodeConfig):
        set_up_jax()
        self._make: Callable[[DecodeConfig], Any] = lambda decode: load_translator(run, checkpoint, decode)[0]
        self._decode, self._batch_tokens, self._translators = decode, decode.batch_tokens, {}

    def options(self) -> list[dict[str, int]]:
        return [{"batch_tokens": size} for size in OUR_BATCHES]

    def use(self, option: dict[str, int]) -> None:
        self._batch_tokens = option["batch_tokens"]

    def outputs(self, lines: Sequence[str], beam: int) -> tuple[list[str], list[list[int]]]:
        key = (beam, self._batch_tokens)
        if key not in self._translators:
            self._translators[key] = self._make(replace(self._decode, beam=beam, batch_tokens=self._batch_tokens))
        found = [best for best, *_ in self._translators[key].translate(lines)]
        return [best.text for best in found], [[i for i in best.tokens if i != END] for best in found]


class Peer(Contestant):
    """An engine of token ids, with our tokenizer around it."""

    def __init__(
        self, name: str, config: ModelConfig, params: Any, tokenizer: Path, decode: DecodeConfig, threads: int
    ):
        if name == "PyTorch":
            from benchmark_torch_decoder import PlainTorch as Engine
        else:
            Engine = {"CTranslate2": CTranslate2, "HF": HuggingFace}[name]
        self._engine = Engine(config, params, threads)
        self._tokenizer, self._decode, self._threads = Tokenizer.load(tokenizer), decode, threads

    def options(self) -> list[dict[str, int]]:
        return self._engine.options(self._threads)

    def use(self, option: dict[str, int]) -> None:
        self._engine.use(option)

    def outputs(self, lines: Sequence[str], beam: int) -> tuple[list[str], list[list[int]]]:
        sources = [[*ids, END] for ids in self._tokenizer.encode_batch(list(lines))]
        limits = [len(source) - 1 + self._decode.max_extra_tokens for source in sources]
        found = self._engine.search(sources, limits, beam, self._decode.alpha)
        # A library that bounds a batch by its largest limit may go on too long; greedy search goes on alike until then.
        tokens = [ids[:limit] for ids, limit in zip(found, limits, strict=True)]
        return [self._tokenizer.decode(ids) for ids in tokens], tokens


def compete(
    makers: dict[str, tuple[Any, ...]],
    threads: int,
    beam: int,
    lines: list[str],
    references: list[str],
    a: argparse.Namespace,
) -> dict[str, Any]:
    """Everyone with so many processors: greedy, tuned, in turns, one line at a time."""
    target = settings_of_run(a).data.target

    def start(name: str) -> Remote:
        return Remote(*makers[name], *(() if name == OURS else (threads,)), threads=threads)

    results: dict[str, Any] = {name: {} for name in makers}
    greedy: dict[str, Answer] = {}
    for name, r in results.items():
        contestant = start(name)
        greedy[name] = contestant.call("translate", lines, 1)
        same = sum(x == y for x, y in zip(greedy[name].tokens, greedy[OURS].tokens, strict=True))
        r["greedy_lines_identical"] = same
        r["option"] = contestant.call("tune", lines[:TUNING_LINES], beam)
        contestant.close()
        say(f"  {name:12} greedy: {same} of {len(lines)} lines identical to ours; fastest with {r['option']}")

    contestants = {name: start(name) for name in makers}  # new processes, which hold what they need for this alone
    for name, c in contestants.items():
        c.call("use", results[name]["option"])
        results[name]["first_pass_seconds"] = c.call("translate", lines, beam).seconds  # warms up
        results[name]["peak_bytes_after_first_pass"] = c.peak_bytes()
    answers: dict[str, list[Answer]] = {name: [] for name in contestants}
    for _ in range(a.rounds):
        for name, c in contestants.items():
            answers[name].append(c.call("translate", lines, beam))
            say(f"  {name:12} {len(lines) / answers[name][-1].seconds:7.1f} sentences/s")
    for name, c in contestants.items():
        r, last = results[name], answers[name][-1]
        n_tokens = sum(len(ids) + 1 for ids in last.tokens)
        r["sentences_per_s"] = spread([len(lines) / x.seconds for x in answers[name]])
        r["tokens_per_s"] = spread([n_tokens / x.seconds for x in answers[name]])
        r["bleu"], r["signature"] = corpus_bleu(last.texts, references, target)[:2]
        same = [x == y for x, y in zip(last.texts, answers[OURS][-1].texts, strict=True)]
        r["lines_equal_to_ours"] = float(np.mean(same))
        r["peak_bytes"] = c.peak_bytes()
        seconds = c.call("one_by_one", lines[: a.latency_lines], beam, r["option"])
        r["latency_seconds"] = percentiles(seconds)
        r["one_by_one_sentences_per_s"] = len(seconds) / sum(seconds)
        c.close()
    for r in results.values():
        r["our_ratio"] = results[OURS]["sentences_per_s"]["median"] / r["sentences_per_s"]["median"]
        r["our_ratio_one_by_one"] = results[OURS]["one_by_one_sentences_per_s"] / r["one_by_one_sentences_per_s"]
    return results


def table(results: dict[str, Any], n: int) -> str:
    lines = []
    for name, r in results.items():
        rate, late = r["sentences_per_s"], r["latency_seconds"]
        lines.append(
            f"{name:12} {rate['median']:7.1f} sentences/s ({rate['lowest']:.1f} to {rate['highest']:.1f}), "
            f"{r['tokens_per_s']['median']:7,.0f} tokens/s, ours is {r['our_ratio']:5.2f} times as fast; one by one "
            f"{r['our_ratio_one_by_one']:5.2f}, p50 {1e3 * late['p50']:.0f} p95 {1e3 * late['p95']:.0f} "
            f"p99 {1e3 * late['p99']:.0f} ms; BLEU {r['bleu']:.2f}, {r['lines_equal_to_ours']:.1%} of lines as ours, "
            f"greedy {r['greedy_lines_identical']} of {n}; {r['peak_bytes'] / 2**20:,.0f} MiB; {r['option']}"
        )
    return "\n".join(lines)


def draw(path: Path, results: dict[str, Any]) -> None:
    with drawing(path, 10, 4) as figure:
        rates, latencies = figure.subplots(1, 2)
        by_threads = results["threads"]
        names = list(next(iter(by_threads.values())))
        width = 0.8 / len(by_threads)
        for i, (threads, found) in enumerate(by_threads.items()):
            at = np.arange(len(names)) + (i - (len(by_threads) - 1) / 2) * width
            rate = [found[name]["sentences_per_s"]["median"] for name in names]
            label = f"{threads} thread{'s' if int(threads) > 1 else ''}"
            rates.bar(at, rate, width, color=COLOURS[i], label=label)
            late = np.array([[1e3 * found[n]["latency_seconds"][p] for n in names] for p in ("p50", "p95", "p99")])
            sides = [np.zeros(len(names)), late[2] - late[0]]
            latencies.bar(at, late[0], width, yerr=sides, color=COLOURS[i], label=label, capsize=3)
        for axes in (rates, latencies):
            axes.set_xticks(range(len(names)), names)
            axes.legend()
        rates.set_title("Whole set, sentences a second")
        latencies.set_title("One line, ms: median, up to the 99th percentile")
        m = results["machine"]
        caption(figure, f"Beam {results['beam']}, float32. {m['cpu']}, JAX {m['jax']}, {m['date']}.")


def main() -> None:
    parser = make_parser(__doc__)
    takes_translator(parser)
    parser.add_argument("--prepared", type=Path, help="its corpus (default: prepared/NAME)")
    parser.add_argument("--test", help="which test set (default: the first)")
    parser.add_argument("--lines", type=positive, help="only so many lines of it (default: all)")
    parser.add_argument("--latency-lines", type=positive, help="one at a time only so many (default: all)")
    parser.add_argument("--threads", type=positive, nargs="+", default=[1, 2], help="processors (%(default)s)")
    parser.add_argument("--rounds", type=positive, default=3, help="turns of each over the whole set (%(default)s)")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS), help="default: all")
    takes_out(parser, "decoding")
    a = resolve(parser.parse_args())
    if max(a.threads) > (processors := len(os.sched_getaffinity(0))):
        raise UserError(f"--threads {max(a.threads)}: this process may use {processors}")
    modules = sorted({module for peer in a.peers for module in MODULES[peer]})
    need(*modules)
    config = settings_of_run(a)
    if a.peers:
        check_supported(config.model)
    corpus = PreparedCorpus.open(a.prepared or Path("prepared") / config.data.name)
    pairs = zip(*corpus.raw(a.test or config.data.tests[0]), strict=True)
    kept = [pair for pair in pairs if pair[0].strip()][: a.lines]  # not every peer takes a blank line
    lines, references = [source for source, _ in kept], [reference for _, reference in kept]
    translator, label = load_translator(a.run, a.checkpoint, config.decode)
    params = jax.tree.map(np.asarray, translator.params)
    peer = (config.model, params, a.run.tokenizer_path, config.decode)
    makers: dict[str, tuple[Any, ...]] = {OURS: (Ours, a.run, a.checkpoint, config.decode)}
    makers |= {name: (Peer, name, *peer) for name in a.peers}
    results: dict[str, Any] = {"machine": machine() | {module: version(module) for module in modules}}
    results |= {"run": str(a.run.path), "checkpoint": label, "lines": len(lines)}
    results |= {"beam": config.decode.beam, "alpha": config.decode.alpha, "threads": {}}
    for threads in a.threads:
        say(f"{threads} thread{'s' if threads > 1 else ''}")
        results["threads"][str(threads)] = compete(makers, threads, config.decode.beam, lines, references, a)
        print(table(results["threads"][str(threads)], len(lines)))
        save(a.out, results)
    write_results(a.out, results, draw)


if __name__ == "__main__":
    run(main)
