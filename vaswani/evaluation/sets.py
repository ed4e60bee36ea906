"""Translating whole sets and scoring them in every convention; what `vaswani evaluate` does."""

import dataclasses
import sys
from collections.abc import Sequence

from rich.progress import track

from vaswani.config import Config
from vaswani.decoding.translator import Translator
from vaswani.evaluation.bleu import SetEvaluation, read_evaluation, score, to_json
from vaswani.run_directory import RunDirectory, write_json, write_text


def evaluate_set(
    run: RunDirectory,
    config: Config,
    name: str,
    sources: Sequence[str],
    references: Sequence[str],
    translator: Translator,
    checkpoint: str,
) -> SetEvaluation:
    """Translates a set, scores it against the raw references, and adds both to the run.

    Writes translations/NAME.txt, NAME.source.txt and NAME.reference.txt, and the scores into evaluation.json.
    """
    truncated: list[str] = []

    def warn(message: str) -> None:
        truncated.append(message)
        print(f"{name}: {message}", file=sys.stderr)

    hypotheses = [best.text for best, *_ in _progress(translator.translate(sources, on_warning=warn), name, sources)]
    for suffix, lines in (("", hypotheses), (".source", sources), (".reference", references)):
        write_text(run.translations / f"{name}{suffix}.txt", "".join(line + "\n" for line in lines))
    result = score_set(hypotheses, references, config, checkpoint, len(truncated))
    sets = read_evaluation(run.evaluation_path) | {name: result}
    write_json(run.evaluation_path, to_json(sets))
    return result


def score_set(
    hypotheses: Sequence[str], references: Sequence[str], config: Config, checkpoint: str, truncated: int = 0
) -> SetEvaluation:
    """Scores given translations; `checkpoint` says where they are from."""
    scores = score(hypotheses, references, config.data.target)
    return SetEvaluation(scores, len(references), checkpoint, dataclasses.asdict(config.decode), truncated)


def _progress(translations, name: str, sources: Sequence[str]):
    from rich.console import Console

    console = Console(stderr=True, markup=False)
    return track(
        translations, f"translating {name}", len(sources), console=console, transient=True,
        disable=not sys.stderr.isatty(),
    )  # fmt: skip
