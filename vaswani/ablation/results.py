"""What a sweep has measured so far, row by row, beside the paper's results."""

import statistics as numbers
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU

from vaswani.ablation.bootstrap import differences
from vaswani.ablation.rows import PAPER_BASE, Row
from vaswani.ablation.sweep import Sweep, SweepRun
from vaswani.errors import UserError
from vaswani.evaluation.metrics import Counts, bleu_note, line_counts, score_of
from vaswani.evaluation.significance import RESAMPLES, Estimate
from vaswani.paper import costs
from vaswani.paper.tables import Variation
from vaswani.runs.translations import read_translations


@dataclass(frozen=True)
class SeedResult:
    """One finished run: a row with one seed."""

    run: str
    seed: int
    steps: int
    perplexity: float | None
    """Unsmoothed, of the whole validation set, at the last step."""
    bleu: float
    seconds: float
    """Of the training."""


@dataclass(frozen=True)
class RowResult:
    """A row over all its seeds."""

    row: str
    settings: dict[str, Any]
    """The columns of Table 3, as they were run."""
    changed: dict[str, Any]
    """The columns in which it differs from the base."""
    parameters: int
    results: tuple[SeedResult, ...]
    missing: dict[str, str]
    """Run -> "failed: …" or "step 300 of 1,500"."""
    perplexity: tuple[float, float | None] | None
    """Mean, and standard deviation over seeds (None for one seed)."""
    bleu: tuple[float, float | None] | None
    delta: Estimate | None
    """BLEU less the base's; None for the base, and for a row that is the same model."""
    paper: Variation | None
    paper_delta: float | None
    verdict: str
    note: str
    """`Row.note`."""
    same_as: str


@dataclass(frozen=True)
class Table:
    """The whole table, and what its numbers are of; `to_json` is the content of table3.json."""

    name: str
    set_name: str
    lines: int
    """0 while nothing is finished."""
    signature: str
    decode: dict[str, Any]
    seeds: int
    resamples: int
    rows: tuple[RowResult, ...]
    bleu_notes: dict[str, str] = field(default_factory=dict)
    """Run -> what misleads about its BLEU."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class TranslationCounts:
    """The BLEU counts of each run's translation. Reads a run once, and checks that all have the same references."""

    def __init__(self, metric: BLEU) -> None:
        self.metric = metric
        self._references: tuple[Path, list[str]] | None = None
        self._counts: dict[str, Counts] = {}

    def of(self, run: SweepRun) -> Counts:
        """[lines, counts] of a run that has translated its set."""
        if run.name not in self._counts:
            _, references, hypotheses = read_translations(run.directory, run.set_name)
            self._references = self._references or (run.directory.path, references)
            if references != self._references[1]:
                raise UserError(
                    f"{run.directory.path}: its {run.set_name} has other references than that of {self._references[0]}"
                )
            self._counts[run.name] = line_counts(self.metric, hypotheses, [references])
        return self._counts[run.name]


def collect(sweep: Sweep, failed: Mapping[str, str], vocab_size: int, counts: TranslationCounts) -> Table:
    """The table of the runs that are finished.

    Args:
        failed: run -> why, of those that failed in this start.
    """
    results: dict[str, tuple[SeedResult, ...]] = {}
    missing: dict[str, dict[str, str]] = {}
    of_row: dict[str, list[Counts]] = {}
    bleu_notes = {}
    for row in sweep.rows:
        runs = [sweep.run_of(row, k) for k in range(sweep.seeds)]
        results[row.name] = tuple(result for run in runs if (result := _seed_result(run, counts)))
        done = {result.run for result in results[row.name]}
        missing[row.name] = {run.name: _why_missing(run, failed) for run in runs if run.name not in done}
        of_row[row.name] = [counts.of(run) for run in runs if run.name in done]
        bleu_notes |= {run.name: note for run in runs if run.name in done and (note := bleu_note(counts.of(run)))}
    base, *others = sweep.rows
    compared = {row.name: of_row[row.name] for row in others if row.same_as != base.name and of_row[row.name]}
    deltas = differences(counts.metric, of_row[base.name], compared) if of_row[base.name] and compared else {}
    return Table(
        name=sweep.directory.path.name,
        set_name=sweep.set_name,
        lines=max((len(runs[0]) for runs in of_row.values() if runs), default=0),
        signature=_signature(counts.metric),
        decode=asdict(sweep.base.decode),
        seeds=sweep.seeds,
        resamples=RESAMPLES,
        rows=tuple(
            _row_result(row, base, vocab_size, results[row.name], missing[row.name], deltas.get(row.name))
            for row in sweep.rows
        ),
        bleu_notes=bleu_notes,
    )


def verdict(ours: Estimate | None, paper: float | None) -> str:
    """Whether a difference has the paper's sign; "cannot tell" where its interval holds 0, or it has none.

    >>> verdict(Estimate(-1.0, -1.5, -0.5), -0.9), verdict(Estimate(-0.2, -0.6, 0.3), -0.9)
    ('agrees', 'cannot tell')
    """
    if ours is None:
        return ""
    if ours.low is None or ours.high is None or ours.low <= 0 <= ours.high:
        return "cannot tell"
    if paper is None:
        return "better" if ours.value > 0 else "worse"
    if paper == 0:
        return "differs: the paper sees none"
    return "agrees" if (ours.value > 0) == (paper > 0) else "opposite"


def _row_result(
    row: Row,
    base: Row,
    vocab_size: int,
    results: tuple[SeedResult, ...],
    missing: dict[str, str],
    delta: Estimate | None,
) -> RowResult:
    paper = row.paper
    paper_delta = None if paper is None or paper is PAPER_BASE else round(paper.bleu - PAPER_BASE.bleu, 2)
    return RowResult(
        row=row.name,
        settings=row.settings,
        changed={key: value for key, value in row.settings.items() if value != base.settings[key]},
        parameters=costs.parameters(row.config.model, vocab_size),
        results=results,
        missing=missing,
        perplexity=_mean_and_spread([r.perplexity for r in results if r.perplexity is not None]),
        bleu=_mean_and_spread([r.bleu for r in results]),
        delta=delta,
        paper=paper,
        paper_delta=paper_delta,
        verdict=verdict(delta, paper_delta),
        note=row.note,
        same_as=row.same_as,
    )


def _seed_result(run: SweepRun, counts: TranslationCounts) -> SeedResult | None:
    record = run.finished()
    if record is None:
        return None
    bleu = score_of(counts.metric, counts.of(run))
    return SeedResult(run.name, run.config.train.seed, record["step"], record["perplexity"], bleu, record["seconds"])


def _why_missing(run: SweepRun, failed: Mapping[str, str]) -> str:
    if run.name in failed:
        return f"failed: {failed[run.name]}"
    steps = run.steps()
    return f"step {steps:,} of {run.config.train.steps:,}" if steps else "not started"


def _mean_and_spread(values: Sequence[float]) -> tuple[float, float | None] | None:
    """The mean and the sample's standard deviation.

    >>> _mean_and_spread([25.0, 26.0]), _mean_and_spread([25.0])
    ((25.5, 0.7071067811865476), (25.0, None))
    """
    if not values:
        return None
    return numbers.mean(values), numbers.stdev(values) if len(values) > 1 else None


def _signature(metric: BLEU) -> str:
    metric.corpus_score(["a"], [["a"]])  # before its first score it does not know the number of references
    return str(metric.get_signature())
