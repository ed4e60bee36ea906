"""Scores of translations in four conventions, each named, each with its signature and a bootstrap interval.

BLEU moves by a point and more with the convention: tokenisation, case, how German compounds and quotes are treated.
So a score is never given without its convention.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from vaswani.errors import UserError
from vaswani.evaluation.significance import RESAMPLES, SEED, bootstrap, check_counts
from vaswani.files import read_json

_COMPOUND = re.compile(r"(\S)-(\S)")
_QUOTES = str.maketrans(dict.fromkeys("„“”", '"'))


@dataclass(frozen=True)
class Score:
    """One score of one set."""

    name: str
    """Which convention, in a word or two; the same in every run."""
    value: float
    """0 to 100."""
    low: float
    """Lower end of the 95% bootstrap interval."""
    high: float
    """Upper end of it."""
    signature: str
    """sacreBLEU's, with a field `pre` where the text was changed before sacreBLEU saw it."""
    description: str
    """The convention in a sentence."""


@dataclass(frozen=True)
class SetEvaluation:
    """All that is known of one translated set."""

    scores: Annotated[tuple[Score, ...], Field(min_length=1)]
    lines: int
    """Lines scored: all of the set."""
    checkpoint: str
    """What translated it: "averaged", "step 300", or the path of a file that was scored as it is."""
    decode: dict[str, Any]
    """The search's settings."""
    truncated: int
    """Source lines that were longer than the longest allowed and lost their ends."""


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Cased BLEU by sacreBLEU with its default (13a) tokenisation, without an interval, and its signature.

    >>> corpus_bleu(["The cat sat on the mat."], ["The cat sat on the mat."])[1].split("|version")[0]
    'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp'

    Raises:
        UserError: unequal counts, or none.
    """
    check_counts(hypotheses, references)
    metric = BLEU(force=True)
    value = metric.corpus_score(hypotheses, [references]).score
    return value, str(metric.get_signature())


def score(
    hypotheses: Sequence[str],
    references: Sequence[str],
    target_language: str,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> tuple[Score, ...]:
    """Scores raw translations against raw references in every convention.

    Empty lines take part: a missing translation costs brevity and recall, a translation of nothing costs precision
    (but not in sacreBLEU's chrF, which counts no n-grams of a translation whose reference has none).

    Args:
        hypotheses: the translations, one a line, untokenised.
        references: the reference file's own lines, never text that went through a tokenizer's ids.
        target_language: as "de"; decides Moses' abbreviations and apostrophes, and whether compounds are split.
        resamples: bootstrap samples for the intervals.
        seed: of the bootstrap.

    Returns:
        "sacreBLEU", "paper BLEU", "lower-cased BLEU" and "chrF", in this order.

    Raises:
        UserError: unequal counts, or none.
    """
    check_counts(hypotheses, references)

    def scored(
        name: str, metric: Metric, hyps: Iterable[str], refs: Iterable[str], pre: str, description: str
    ) -> Score:
        estimate = bootstrap(metric, list(hyps), list(refs), resamples, seed)
        signature = metric.get_signature()
        signature.update("pre", pre or None)
        return Score(name, estimate.value, estimate.low, estimate.high, str(signature), description)

    paper_hypothesis, paper_reference = paper_convention(target_language)
    lowered = lowercase_convention(target_language)
    # As multi-bleu.perl, by which published scores of tokenised text were made: no tokenisation, no smoothing.
    tokenised_bleu = partial(BLEU, tokenize="none", smooth_method="none", force=True)
    moses = f"sacremoses[{version('sacremoses')},{target_language}]"
    return (
        scored(
            "sacreBLEU", BLEU(force=True), hypotheses, references, "", "Cased BLEU of the raw text, tokenised by 13a."
        ),
        scored(
            "paper BLEU",
            tokenised_bleu(),
            map(paper_hypothesis, hypotheses),
            map(paper_reference, references),
            f"quotes+hyp-punct+{moses}+compounds" if target_language == "de" else f"norm-punct+{moses}",
            "The convention of the paper's Table 2: cased, Moses-tokenised, compounds split at hyphens; the quotes "
            '„ “ ” count as " on both sides, and other Unicode punctuation is replaced in the translation only (as in '
            "T2T's script since 2018)."
            if target_language == "de"
            else "Cased, Moses-tokenised, punctuation and quotes normalised on both sides; what the paper did in "
            "languages other than German is not known.",
        ),
        scored(
            "lower-cased BLEU",
            tokenised_bleu(lowercase=True),
            map(lowered, hypotheses),
            map(lowered, references),
            f"lower+norm-punct+{moses}",
            "Both sides lower-cased, their punctuation and quotes normalised, and tokenised by Moses, as the text that "
            "published Multi30k scores are computed on.",
        ),
        scored("chrF", CHRF(), hypotheses, references, "", "Character 6-gram F-score (chrF2) of the raw text, cased."),
    )


def split_compounds(tokens: str) -> str:
    """Splits tokens at inner hyphens, as `get_ende_bleu.sh` of T2T and papers before it do; matches do not overlap.

    >>> split_compounds("a-b-c")
    'a ##AT##-##AT## b-c'
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", tokens)


def paper_convention(target_language: str) -> tuple[Callable[[str], str], Callable[[str], str]]:
    """The convention of the paper's BLEU, as functions of a raw hypothesis line and of a raw reference line.

    T2T's script replaces Unicode punctuation in the hypothesis only, and its table has “ and ” but not „. The reference
    it was used with had all three as plain ", and so had the text that the paper's models were trained on. Here quotes
    are made plain on both sides: otherwise each „ that a model learns from raw text would count as an error.
    Moses' escapes (&quot; and the like) are kept, as in the script; being one-to-one they change no score.

    The script is for German. In other languages both sides have their punctuation normalised alike by Moses, so that
    neither « » nor ’ costs anything.
    """
    tokenize, normalizer = _moses_tokenizer(target_language), MosesPunctNormalizer(target_language)

    def normalized(line: str) -> str:
        return tokenize(normalizer.normalize(line))

    if target_language != "de":
        return normalized, normalized

    def reference(line: str) -> str:
        return split_compounds(tokenize(line.translate(_QUOTES)))

    def hypothesis(line: str) -> str:
        return reference(normalizer.replace_unicode_punct(line))

    return hypothesis, reference


def lowercase_convention(target_language: str) -> Callable[[str], str]:
    """Lower case, then Moses' normalised punctuation, then its tokens: Multi30k's own `task1-tokenize.sh`."""
    tokenize, normalizer = _moses_tokenizer(target_language), MosesPunctNormalizer(target_language)
    return lambda line: tokenize(normalizer.normalize(line.lower()))


def _moses_tokenizer(language: str) -> Callable[[str], str]:
    """A line as its tokens with single spaces between."""
    tokenizer = MosesTokenizer(language)
    return lambda line: " ".join(tokenizer.tokenize(line))


def to_json(sets: Mapping[str, SetEvaluation]) -> dict[str, Any]:
    """The content of evaluation.json: {"sets": {name: {"scores": […], "lines": …, …}}}."""
    return {"sets": {name: asdict(evaluation) for name, evaluation in sets.items()}}


def from_json(values: Mapping[str, Any]) -> dict[str, SetEvaluation]:
    """The inverse of `to_json`."""
    return TypeAdapter(dict[str, SetEvaluation]).validate_python(values["sets"])


def read_evaluation(path: Path) -> dict[str, SetEvaluation]:
    """An evaluation.json; nothing where there is none yet.

    Raises:
        UserError: it is something else.
    """
    values = read_json(path)
    try:
        return {} if values is None else from_json(values)
    except (KeyError, TypeError, ValidationError):
        raise UserError(f"{path}: not a result of `vaswani evaluate`; remove it and evaluate again") from None


def format_table(sets: Mapping[str, SetEvaluation]) -> str:
    """The scores as aligned plain text, each set under its name, and what each convention means at the end."""
    blocks = []
    meaning: dict[str, str] = {}
    for name, evaluation in sets.items():
        decode = ", ".join(f"{key} {value}" for key, value in evaluation.decode.items())
        made_by = f", checkpoint {evaluation.checkpoint}, {decode}" if decode else f", {evaluation.checkpoint}"
        head = f"{name}: {evaluation.lines} lines{made_by}"
        if evaluation.truncated:
            head += f", {evaluation.truncated} source lines truncated"
        width = max((len(s.name) for s in evaluation.scores), default=0)
        rows = [
            f"  {s.name:<{width}}  {s.value:6.2f}  [{s.low:6.2f}, {s.high:6.2f}]  {s.signature}"
            for s in evaluation.scores
        ]
        blocks.append("\n".join([head, *rows]))
        meaning.update({s.name: s.description for s in evaluation.scores})
    width = max((len(name) for name in meaning), default=0)
    legend = [f"  {name:<{width}}  {description}" for name, description in meaning.items()]
    return "\n\n".join([*blocks, "\n".join(["Brackets: 95% bootstrap interval.", *legend])])
