"""How far an exported run translates as the run itself: equal lines and BLEU on a test set.

    python scripts/check_export.py runs/multi30k --set test_2016_flickr --lines 1000

Each exported folder is used by `scripts/export_peer.py`, which knows nothing of vaswani, in a process of its own.
Greedy search and beam search without a length penalty are the same search everywhere; with one they are not:
ours is ((5 + n) / 6)^α, that of the others n^p.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmark_common import make_parser, need, run

from vaswani.arguments import positive, resolve, takes_run
from vaswani.commands import PREPARED, export_run, set_up_jax
from vaswani.console import say
from vaswani.data.prepared_corpus import PreparedCorpus
from vaswani.decoding.translator import load_translator
from vaswani.evaluation.bleu import corpus_bleu
from vaswani.export.marian import LENGTH_PENALTY
from vaswani.runs.directory import RunDirectory
from vaswani.schema import DecodeConfig

FORMATS = (("marian", "float32"), ("ctranslate2", "float32"), ("ctranslate2", "float16"), ("ctranslate2", "int8"))
BEAM_OPTION = {"marian": "num_beams", "ctranslate2": "beam_size"}
PATIENCE = {"marian": [], "ctranslate2": ["patience=2"]}  # else it stops as soon as a whole beam has ended


def main() -> None:
    parser = make_parser(__doc__)
    takes_run(parser)
    parser.add_argument("--set", metavar="SET", help="a test set (default: the first of data.tests)")
    parser.add_argument("--lines", type=positive, default=1000, metavar="N", help="its first N lines (default: 1000)")
    a = resolve(parser.parse_args())
    need("torch", "transformers", "ctranslate2", "safetensors")
    set_up_jax()
    config = a.run.load_config()
    corpus = PreparedCorpus.open(PREPARED / config.data.name)
    sources, references = (side[: a.lines] for side in corpus.raw(a.set or config.data.tests[0]))
    beam, alpha = config.decode.beam, config.decode.alpha
    greedy, plain = replace(config.decode, beam=1), replace(config.decode, alpha=0.0)
    ours = {name: translate(a.run, decode, sources) for name, decode in
            (("greedy", greedy), ("beam, no penalty", plain), ("beam", config.decode))}  # fmt: skip
    for name, texts in ours.items():
        print(
            f"{'vaswani':28} {name:28} BLEU {corpus_bleu(texts, references, config.data.target).value:.2f}", flush=True
        )
    with tempfile.TemporaryDirectory() as directory:
        for format, type in FORMATS:
            folder = Path(directory) / f"{format} {type}"
            export_run(a.run, format, "auto", type, folder)
            for search, label, options in (
                ("greedy", "greedy", {"beam": 1}),
                ("beam, no penalty", "beam, no penalty", {"beam": beam, "length_penalty": 0.0}),
                ("beam", f"beam, p = {LENGTH_PENALTY} α", {"beam": beam, "length_penalty": LENGTH_PENALTY * alpha}),
                ("beam", "beam, p = α", {"beam": beam, "length_penalty": alpha}),
            ):
                given = [f"{BEAM_OPTION[format] if key == 'beam' else key}={value}" for key, value in options.items()]
                texts = peer(folder, [*given, *PATIENCE[format]], sources)
                same = sum(one == other for one, other in zip(texts, ours[search], strict=True))
                bleu = corpus_bleu(texts, references, config.data.target).value
                print(f"{folder.name:28} {label:28} BLEU {bleu:.2f}, {same} of {len(texts)} lines equal", flush=True)


def translate(run: RunDirectory, decode: DecodeConfig, sources: Sequence[str]) -> list[str]:
    translator, _ = load_translator(run, "auto", decode)
    return [best.text for best, *_ in translator.translate(sources)]


def peer(folder: Path, options: Sequence[str], sources: Sequence[str]) -> list[str]:
    say(f"{folder.name}: {' '.join(options)}")
    command = [sys.executable, str(Path(__file__).with_name("export_peer.py")), str(folder), *options]
    done = subprocess.run(command, input="\n".join([*sources, ""]), stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split("\n")[:-1]


if __name__ == "__main__":
    run(main)
