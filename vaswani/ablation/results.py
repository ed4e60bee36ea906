"""What a sweep has found so far, row by row, beside the paper's."""

import statistics as numbers
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU

from vaswani.ablation import bootstrap
from vaswani.ablation.rows import PAPER_BASE, Row
from vaswani.ablation.sweep import Run, Sweep
from vaswani.errors import UserError
from vaswani.evaluation.significance import RESAMPLES, Estimate
from vaswani.files import write_json, write_text
from vaswani.paper import costs
from vaswani.paper.tables import Variation
from vaswani.runs.translations import read_translations


@dataclass(frozen=True)
class Result:
    """One finished run."""

    run: str
    seed: int
    steps: int
    perplexity: float | None
    """Unsmoothed, of the whole validation set, at the last step."""
    bleu: float
    seconds: float
    """Of training."""


@dataclass(frozen=True)
class RowResult:
    """One row."""

    row: str
    settings: dict[str, Any]
    """The columns of Table 3, as they were run."""
    changed: dict[str, Any]
    """Those that are not the base's."""
    parameters: int
    results: tuple[Result, ...]
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
    """What the rule asks for and does not exist here."""
    same_as: str


@dataclass(frozen=True)
class Table:
    """All of it; `asdict` is the content of table3.json."""

    name: str
    set_name: str
    lines: int
    """0 while nothing is finished."""
    signature: str
    decode: dict[str, Any]
    seeds: int
    resamples: int
    rows: tuple[RowResult, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Translations:
    """Reads what runs translated, each once, and holds that all translated the same lines."""

    def __init__(self) -> None:
        self._references: tuple[Path, list[str]] | None = None
        self._known: dict[str, bootstrap.Statistics] = {}

    def of(self, run: Run) -> bootstrap.Statistics:
        if run.name not in self._known:
            _, references, hypotheses = read_translations(run.directory, run.set_name)
            self._references = self._references or (run.directory.path, references)
            if references != self._references[1]:
                raise UserError(
                    f"{run.directory.path}: its {run.set_name} has other references than that of {self._references[0]}"
                )
            self._known[run.name] = bootstrap.statistics(hypotheses, references)
        return self._known[run.name]


def collect(sweep: Sweep, failed: Mapping[str, str], vocab_size: int, translations: Translations) -> Table:
    """The table of the runs that are finished.

    Args:
        failed: run -> why, of those that failed in this start.
    """
    found: dict[str, tuple[Result, ...]] = {}
    missing: dict[str, dict[str, str]] = {}
    counts = {}
    for row in sweep.rows:
        runs = [sweep.run_of(row, k) for k in range(sweep.seeds)]
        found[row.name] = tuple(r for run in runs if (r := _result(run, translations)))
        done = {result.run for result in found[row.name]}
        missing[row.name] = {run.name: _why_missing(run, failed) for run in runs if run.name not in done}
        counts[row.name] = [translations.of(run) for run in runs if run.name in done]
    base, *others = sweep.rows
    compared = {row.name: counts[row.name] for row in others if row.same_as != base.name and counts[row.name]}
    deltas = bootstrap.differences(counts[base.name], compared) if counts[base.name] and compared else {}
    lines = max((len(runs[0]) for runs in counts.values() if runs), default=0)
    rows = tuple(
        _row_result(row, base, vocab_size, found[row.name], missing[row.name], deltas.get(row.name))
        for row in sweep.rows
    )
    return Table(
        sweep.directory.path.name, sweep.set_name, lines, _signature(), asdict(sweep.base.decode), sweep.seeds,
        RESAMPLES, rows,
    )  # fmt: skip


def write(sweep: Sweep, failed: Mapping[str, str], vocab_size: int, translations: Translations) -> Table:
    """Collects the table and writes it into the sweep's directory, in every form."""
    from vaswani.ablation import layout, picture

    table = collect(sweep, failed, vocab_size, translations)
    path = sweep.directory.path / "table3"
    write_json(path.with_suffix(".json"), table.to_json())
    write_text(path.with_suffix(".md"), layout.to_markdown(table))
    write_text(path.with_suffix(".csv"), layout.to_csv(table))
    picture.draw(table, path.with_suffix(".png"))
    return table


def verdict(ours: Estimate | None, paper: float | None) -> str:
    """Whether a difference has the paper's sign, as far as its interval can tell.

    >>> verdict(Estimate(-1.0, -1.5, -0.5), -0.9), verdict(Estimate(-0.2, -0.6, 0.3), -0.9)
    ('agrees', 'cannot tell')
    """
    if ours is None:
        return ""
    if ours.low <= 0 <= ours.high:
        return "cannot tell"
    if paper is None:
        return "better" if ours.value > 0 else "worse"
    if paper == 0:
        return "differs: the paper sees none"
    return "agrees" if (ours.value > 0) == (paper > 0) else "opposite"


def _row_result(
    row: Row, base: Row, vocab_size: int, results: tuple[Result, ...], missing: dict[str, str], delta: Estimate | None
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


def _result(run: Run, translations: Translations) -> Result | None:
    record = run.finished()
    if record is None:
        return None
    bleu = bootstrap.bleu(translations.of(run))
    return Result(run.name, run.config.train.seed, record["step"], record["perplexity"], bleu, record["seconds"])


def _why_missing(run: Run, failed: Mapping[str, str]) -> str:
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


def _signature() -> str:
    metric = BLEU()
    metric.corpus_score(["a"], [["a"]])  # it knows its number of references only then
    return str(metric.get_signature())
