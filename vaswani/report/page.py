"""report.html: all that a run's directory holds, as one self-contained page."""

import json
import random
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from sacrebleu.metrics.chrf import CHRF

from vaswani import config as config_module
from vaswani.evaluation.bleu import SetEvaluation, read_evaluation
from vaswani.files import read_json, write_text
from vaswani.report.plots import Metrics, curves, read_metrics
from vaswani.runs.directory import RunDirectory
from vaswani.runs.translations import read_translations, translated_sets
from vaswani.schema import Config

LINES_SHOWN = 10
"""Of each test set: this many chosen at random, and as many of the worst."""


@dataclass(frozen=True)
class Line:
    """A line of a test set with its translation."""

    number: int
    """In the file, from 1."""
    source: str
    reference: str
    hypothesis: str
    chrf: float
    """0 to 100, of this line alone; BLEU means little for one sentence."""


@dataclass(frozen=True)
class Sample:
    """A validation sentence and how its translation changed while training."""

    source: str
    reference: str
    translations: list[tuple[int, str]]
    """(step, translation)"""


def write_report(run: RunDirectory) -> Path:
    """Writes report.html from whatever the run has so far; what is not there yet is left out or said to be missing.

    Args:
        run: an existing run.

    Returns:
        The page's path.

    Raises:
        UserError: a file of the run that is there cannot be understood.
    """
    config = run.load_config()
    metrics = read_metrics(run.metrics_path)
    evaluation = read_evaluation(run.evaluation_path)
    sets = dict.fromkeys((*evaluation, *config.data.tests))  # each once, in this order

    translated = translated_sets(run)
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    page = templates.get_template("page.html").render(
        path=shlex.quote(str(run.path)),
        config_path=shlex.quote(str(run.config_path)),
        name=run.path.resolve().name,
        config=config,
        facts=facts(config, metrics, evaluation),
        evaluation=evaluation,
        plots=[(plot, Markup(plot.svg)) for plot in curves(metrics)],  # our own drawing; all other text is escaped
        samples=samples(metrics),
        translations={name: translated_lines(run, name) for name in sets if name in translated},
        differences={k: map(notation, pair) for k, pair in config_module.differences(Config(), config).items()},
        settings={key: notation(value) for key, value in config_module.flatten(config).items()},
        versions=read_json(run.versions_path) or {},
        attention=read_json(run.attention / "maps.json"),
    )
    write_text(run.report_path, page)
    return run.report_path


def notation(value: Any) -> str:
    """A setting's value as JSON, which is also TOML for all but tables.

    >>> notation(("test", "long")), notation(True)
    ('["test", "long"]', 'true')
    """
    return json.dumps(value, ensure_ascii=False)


def facts(config: Config, metrics: Metrics, evaluation: dict[str, SetEvaluation]) -> list[tuple[str, str]]:
    """The few numbers at the top of the page: (what, value)."""
    found = []
    for name, result in evaluation.items():
        found.append((f"sacreBLEU, {name}", f"{result.scores[0].value:.1f}"))
    if metrics.valid:
        best = min(metrics.valid, key=lambda record: record["perplexity"])
        found.append(("best validation perplexity", f"{best['perplexity']:.2f} at {best['step']:,}"))
    records = metrics.train + metrics.valid
    if records:
        found.append(("updates", f"{max(r['step'] for r in records):,} of {config.train.steps:,}"))
        minutes = max(r.get("elapsed_s", 0) for r in records) / 60
        found.append(("training time", f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"))
    skipped = max((r.get("skipped", 0) for r in metrics.train), default=0)
    if skipped:
        found.append(("updates skipped, not finite", f"{skipped:,}"))
    return found


def samples(metrics: Metrics) -> list[Sample]:
    """The last validation's samples, each with its translations at up to five validations from first to last."""
    with_samples = [record for record in metrics.valid if record.get("samples")]
    if not with_samples:
        return []
    last = len(with_samples) - 1
    shown = [with_samples[i] for i in sorted({round(last * k / 4) for k in range(5)})]
    return [
        Sample(
            sample["source"],
            sample["reference"],
            [
                (record["step"], earlier["hypothesis"])
                for record in shown
                for earlier in record["samples"]
                if earlier["source"] == sample["source"]
            ],
        )
        for sample in with_samples[-1]["samples"]
    ]


def translated_lines(run: RunDirectory, name: str) -> tuple[list[Line], list[Line]]:
    """The worst lines of a translated test set by chrF, and a choice of all lines that the set's size alone decides.

    Raises:
        UserError: its three files have unequal numbers of lines.
    """
    sources, references, hypotheses = read_translations(run, name)
    chrf = CHRF()
    lines = [
        Line(i, source, reference, hypothesis, chrf.sentence_score(hypothesis, [reference]).score)
        for i, (source, reference, hypothesis) in enumerate(zip(sources, references, hypotheses, strict=True), start=1)
    ]
    worst = sorted(lines, key=lambda line: line.chrf)[:LINES_SHOWN]
    chosen = random.Random(len(lines)).sample(lines, min(LINES_SHOWN, len(lines)))
    return worst, sorted(chosen, key=lambda line: line.number)
