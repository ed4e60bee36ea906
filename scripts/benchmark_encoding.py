"""How long `prepare` takes to encode a training set, against SentencePiece's own encoder on the same lines.

    python scripts/benchmark_encoding.py prepared/wmt_subset_en_de

The text is read again from where it was prepared from. The two take turns: SentencePiece turns all lines into lists of
ids, in as many threads as `prepare` uses; ours does that, drops what is too long, counts, and writes the arrays.
"""

import tempfile
import time
from itertools import islice
from pathlib import Path

from benchmark_common import machine, make_parser, run, spread

from vaswani.arguments import positive
from vaswani.console import say
from vaswani.data.cleaning import Dropped
from vaswani.data.corpus import read_pairs
from vaswani.data.prepare import encode_set
from vaswani.data.prepared_corpus import PreparedCorpus
from vaswani.files import write_json


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("prepared", type=Path, help="a prepared corpus, as prepared/multi30k")
    parser.add_argument("--pairs", type=positive, default=200_000, help="at most so many (%(default)s)")
    parser.add_argument("--rounds", type=positive, default=3, help="turns of each (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/encoding.json"), help="default: %(default)s")
    a = parser.parse_args()
    corpus = PreparedCorpus.open(a.prepared)
    data = corpus.config()
    pairs = list(islice(read_pairs(data, data.train), a.pairs))
    lines = [text for pair in pairs for text in pair]
    results = {"machine": machine(), "pairs": len(pairs), "sentencepiece_seconds": [], "seconds": []}
    for _ in range(a.rounds):
        begin = time.perf_counter()
        corpus.tokenizer.encode_batch(lines)
        theirs = time.perf_counter()
        with tempfile.TemporaryDirectory() as directory:
            encode_set(pairs, corpus.tokenizer, Path(directory), data.train, data.max_tokens, Dropped())
        results["sentencepiece_seconds"].append(theirs - begin)
        results["seconds"].append(time.perf_counter() - theirs)
        say(f"SentencePiece {theirs - begin:.1f} s, prepare {results['seconds'][-1]:.1f} s")
    ratios = [ours / theirs for ours, theirs in zip(results["seconds"], results["sentencepiece_seconds"], strict=True)]
    results["ratio"] = spread(ratios)
    print(f"{len(pairs):,} pairs: {results['ratio']['median']:.2f} times SentencePiece's own time "
          f"({min(ratios):.2f} to {max(ratios):.2f})")  # fmt: skip
    write_json(a.out, results)


if __name__ == "__main__":
    run(main)
