"""Scores of translations in four conventions, each named, each with its signature and a bootstrap interval.

BLEU changes by a point or more with the convention: tokenisation, case, how German compounds and quotes are treated.
So a score is never given without its convention.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from vaswani.errors import UserError
from vaswani.evaluation.metrics import (
    Metric,
    References,
    bleu_metric,
    bleu_note,
    check_lines,
    language_of,
    line_counts,
    score_of,
    tokeniser_of,
)
from vaswani.evaluation.significance import RESAMPLES, SEED, bootstrap
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
    low: float | None
    """Lower end of the 95% bootstrap interval; None for a set of one line, which has none."""
    high: float | None
    """Upper end of it."""
    signature: str
    """sacreBLEU's, with a field `pre` where the text was changed before sacreBLEU saw it."""
    description: str
    """The convention in a sentence."""
    note: str = ""
    """What misleads about the value; usually empty."""


@dataclass(frozen=True)
class SetEvaluation:
    """The scores of one translated set, and what they are of."""

    scores: Annotated[tuple[Score, ...], Field(min_length=1)]
    lines: int
    """Lines scored: all of the set."""
    checkpoint: str
    """What translated it: "averaged", "step 300", or the path of a file that was scored as it is."""
    decode: dict[str, Any]
    """The search's settings."""
    truncated: int
    """Source lines that were longer than the longest allowed and lost their ends."""


class CorpusBleu(NamedTuple):
    """BLEU of one set, without an interval."""

    value: float
    """0 to 100."""
    signature: str
    note: str
    """What misleads about the value; usually empty."""


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], target: str) -> CorpusBleu:
    """Cased BLEU by sacreBLEU of raw text, with the tokeniser of the target language.

    >>> corpus_bleu(["The cat sat on the mat."], ["The cat sat on the mat."], "en").signature.split("|version")[0]
    'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp'

    Raises:
        UserError: unequal numbers of lines, or none, or the tokeniser is not installed.
    """
    metric = bleu_metric(target)
    counts = line_counts(metric, hypotheses, [references])
    return CorpusBleu(score_of(metric, counts), str(metric.get_signature()), bleu_note(counts))


def score(
    hypotheses: Sequence[str],
    references: References,
    target: str,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> tuple[Score, ...]:
    """Scores raw translations against raw references in every convention.

    Empty lines are scored too: a missing translation costs brevity and recall, a translation of nothing costs precision
    (but not in sacreBLEU's chrF, which counts no n-grams of a translation whose reference has none).

    Args:
        hypotheses: the translations, one a line, untokenised.
        references: references[k][i] is the k-th reference of line i: the lines of the reference files themselves,
            never text that went through a tokenizer's ids.
        target: the target language, as "de"; decides how text is tokenised, and whether compounds are split.
        resamples: bootstrap samples for the intervals.
        seed: of the bootstrap.

    Returns:
        "sacreBLEU", "paper BLEU", "lower-cased BLEU" and "chrF", in this order.

    Raises:
        UserError: unequal numbers of lines, or none, or the tokeniser of the language is not installed.
    """
    check_lines(hypotheses, references)
    return tuple(_score(convention, hypotheses, references, resamples, seed) for convention in _conventions(target))


@dataclass(frozen=True)
class _Convention:
    """How a score is computed: what is done to the text first, and by which metric."""

    name: str
    metric: Metric
    description: str
    hypothesis: Callable[[str], str] = str
    """Applied to each line of the translation; by default nothing."""
    reference: Callable[[str], str] = str
    changes: str = ""
    """What these two do, for the signature."""


def _score(
    convention: _Convention, hypotheses: Sequence[str], references: References, resamples: int, seed: int
) -> Score:
    metric = convention.metric
    counts = line_counts(
        metric,
        [convention.hypothesis(line) for line in hypotheses],
        [[convention.reference(line) for line in lines] for lines in references],
    )
    estimate = bootstrap(metric, counts, resamples, seed)
    signature = metric.get_signature()
    signature.update("pre", convention.changes or None)
    return Score(
        name=convention.name,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        signature=str(signature),
        description=convention.description,
        note=bleu_note(counts) if isinstance(metric, BLEU) else "",
    )


def _conventions(target: str) -> list[_Convention]:
    tokeniser = tokeniser_of(target)
    cased = _Convention("sacreBLEU", bleu_metric(target), f"Cased BLEU of the raw text, tokenised by {tokeniser}.")
    chrf = _Convention("chrF", CHRF(), "Character 6-gram F-score (chrF2) of the raw text, cased.")
    return [cased, _paper(target), _lower_cased(target), chrf]


def _paper(target: str) -> _Convention:
    by_moses = _moses_tokenises(target)
    tokens = "Moses-tokenised" if by_moses else f"tokenised by {tokeniser_of(target)}"
    changes = f"norm-punct+{_moses(target)}"
    description = (
        f"Cased, {tokens}, punctuation and quotes normalised on both sides; what the paper did in languages other than "
        "German is not known."
    )
    if language_of(target) == "de":
        changes = f"quotes+hyp-punct+{_moses(target)}+compounds"
        description = (
            "The convention of the paper's Table 2: cased, Moses-tokenised, compounds split at hyphens. The quotes "
            '„ “ ” count as " on both sides. Other Unicode punctuation is replaced in the translation only, as in '
            "T2T's script since 2018."
        )
    # As multi-bleu.perl, by which published scores of tokenised text were made: no smoothing.
    metric = bleu_metric(target, tokenise=not by_moses, smooth_method="none")
    return _Convention("paper BLEU", metric, description, *paper_convention(target), changes)


def _lower_cased(target: str) -> _Convention:
    by_moses = _moses_tokenises(target)
    metric = bleu_metric(target, tokenise=not by_moses, smooth_method="none", lowercase=True)
    tokens = f"tokenised by {tokeniser_of(target)}."
    if by_moses:
        tokens = "tokenised by Moses, as the text that published Multi30k scores are computed on."
    description = f"Both sides lower-cased, their punctuation and quotes normalised, and {tokens}"
    lowered = lowercase_convention(target)
    return _Convention("lower-cased BLEU", metric, description, lowered, lowered, f"lower+norm-punct+{_moses(target)}")


def split_compounds(tokens: str) -> str:
    """Splits tokens at inner hyphens, as `get_ende_bleu.sh` of T2T and papers before it do; matches do not overlap.

    >>> split_compounds("a-b-c")
    'a ##AT##-##AT## b-c'
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", tokens)


def paper_convention(target: str) -> tuple[Callable[[str], str], Callable[[str], str]]:
    """The convention of the paper's BLEU, as functions of a raw hypothesis line and of a raw reference line.

    T2T's script replaces Unicode punctuation in the hypothesis only, and its table has “ and ” but not „. The reference
    it was used with had all three as plain ", and so had the text that the paper's models were trained on. Here quotes
    are made plain on both sides: otherwise each „ that a model learns from raw text would count as an error.
    Moses' escapes (&quot; and others) are kept, as in the script: each stands for one character, so no score changes.

    The script is for German. In other languages Moses normalises the punctuation of both sides, so that neither « » nor
    ’ costs anything.
    """
    tokenize, normalizer = _moses_tokenizer(target), MosesPunctNormalizer(language_of(target))

    def normalized(line: str) -> str:
        return tokenize(normalizer.normalize(line))

    if language_of(target) != "de":
        return normalized, normalized

    def reference(line: str) -> str:
        return split_compounds(tokenize(line.translate(_QUOTES)))

    def hypothesis(line: str) -> str:
        return reference(normalizer.replace_unicode_punct(line))

    return hypothesis, reference


def lowercase_convention(target: str) -> Callable[[str], str]:
    """Lower case, then Moses' normalised punctuation, then its tokens: Multi30k's own `task1-tokenize.sh`."""
    tokenize, normalizer = _moses_tokenizer(target), MosesPunctNormalizer(language_of(target))
    return lambda line: tokenize(normalizer.normalize(line.lower()))


def _moses_tokenises(target: str) -> bool:
    """Whether Moses separates the words. The metric's own tokeniser does it for Chinese, Japanese and Korean."""
    return tokeniser_of(target) == BLEU.TOKENIZER_DEFAULT


def _moses_tokenizer(target: str) -> Callable[[str], str]:
    """A line as its tokens with single spaces between; as it is where the metric tokenises."""
    if not _moses_tokenises(target):
        return str
    tokenizer = MosesTokenizer(language_of(target))
    return lambda line: " ".join(tokenizer.tokenize(line))


def _moses(target: str) -> str:
    return f"sacremoses[{version('sacremoses')},{language_of(target)}]"


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
    scores = [score for evaluation in sets.values() for score in evaluation.scores]
    meaning = {score.name: score.description for score in scores}
    width = max((len(name) for name in meaning), default=0)
    blocks = [_format_set(name, evaluation, width) for name, evaluation in sets.items()]
    brackets = ["Brackets: 95% bootstrap interval."] if any(score.low is not None for score in scores) else []
    legend = [f"  {name:<{width}}  {description}" for name, description in meaning.items()]
    return "\n\n".join([*blocks, "\n".join([*brackets, *legend])])


def _format_set(name: str, evaluation: SetEvaluation, width: int) -> str:
    decode = ", ".join(f"{key} {value}" for key, value in evaluation.decode.items())
    made_by = f", checkpoint {evaluation.checkpoint}, {decode}" if decode else f", {evaluation.checkpoint}"
    head = f"{name}: {evaluation.lines} line{'s' if evaluation.lines != 1 else ''}{made_by}"
    if evaluation.truncated:
        head += f", {evaluation.truncated} source lines truncated"
    lines, notes = [head], {}
    for score in evaluation.scores:
        interval = "" if score.low is None else f"  [{score.low:6.2f}, {score.high:6.2f}]"
        lines.append(f"  {score.name:<{width}}  {score.value:6.2f}{interval}  {score.signature}")
        if score.note:
            notes.setdefault(score.note, []).append(score.name)
    return "\n".join([*lines, *(f"  {', '.join(names)}: {note}" for note, names in notes.items())])
