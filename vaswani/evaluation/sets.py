"""Translating whole sets and scoring them in every convention, for `vaswani evaluate`."""

import dataclasses
from collections.abc import Sequence

from vaswani.console import say, watched
from vaswani.decoding.translator import Translator
from vaswani.evaluation.bleu import SetEvaluation, read_evaluation, score, to_json
from vaswani.evaluation.metrics import References
from vaswani.files import write_json
from vaswani.runs.directory import RunDirectory
from vaswani.runs.translations import write_translations
from vaswani.schema import Config


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

    Writes the set's translations, and its scores into evaluation.json.
    """
    hypotheses, truncated = translate_set(translator, sources, name)
    write_translations(run, name, sources, references, hypotheses)
    result = score_set(hypotheses, [references], config, checkpoint, truncated)
    sets = read_evaluation(run.evaluation_path) | {name: result}
    write_json(run.evaluation_path, to_json(sets))
    return result


def translate_set(translator: Translator, sources: Sequence[str], name: str) -> tuple[list[str], int]:
    """The best translation of each line, and how many source lines were cut. Messages call the set `name`."""
    truncated: list[str] = []

    def warn(message: str) -> None:
        truncated.append(message)
        say(f"{name}: {message}")

    translations = translator.translate(sources, on_warning=warn)
    return [best.text for best, *_ in watched(translations, f"translating {name}", len(sources))], len(truncated)


def score_set(
    hypotheses: Sequence[str], references: References, config: Config, checkpoint: str, truncated: int = 0
) -> SetEvaluation:
    """Scores given translations; `checkpoint` names what made them."""
    scores = score(hypotheses, references, config.data.target)
    return SetEvaluation(scores, len(hypotheses), checkpoint, dataclasses.asdict(config.decode), truncated)
