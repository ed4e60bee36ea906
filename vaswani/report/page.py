"""report.html: what a run directory contains, as one page that needs no other file."""

import json
import math
import random
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from sacrebleu.metrics.chrf import CHRF

from vaswani import config as config_module
from vaswani.console import visible
from vaswani.evaluation.bleu import SetEvaluation, read_evaluation
from vaswani.files import advise, read_json, write_text
from vaswani.report.plots import Metrics, curves, read_metrics
from vaswani.runs.directory import RunDirectory
from vaswani.runs.translations import read_translations, translated_sets
from vaswani.schema import Config

LINES_PER_LIST = 10
"""Translations in each of a test set's two lists: a random choice, and the worst."""


@dataclass(frozen=True)
class Line:
    """A line of a test set with its translation."""

    number: int
    """In the file, from 1."""
    source: str
    reference: str
    hypothesis: str
    chrf: float
    """chrF of this line, 0 to 100. BLEU says little about one sentence."""


@dataclass(frozen=True)
class Sample:
    """A validation sentence, and its translations by earlier and later states of the model."""

    source: str
    reference: str
    translations: list[tuple[int, str]]
    """(step, translation)"""


def write_report(run: RunDirectory, out: Path | None = None, maps: Path | None = None) -> Path:
    """Writes the report of a run. What the run does not have yet is left out, or the page says that it is missing.

    Args:
        run: an existing run, finished or not.
        out: a directory for report.html, or an .html file; by default the run.
        maps: the attention maps to show, as `write_attention` wrote them; by default those of the run, if any.

    Returns:
        The page's path.

    Raises:
        UserError: a file of the run is damaged.
        WorkFailed: the page cannot be written.
    """
    config = run.load_config()
    metrics = read_metrics(run.metrics_path)
    evaluation = read_evaluation(run.evaluation_path)
    test_sets = dict.fromkeys((*evaluation, *config.data.tests))  # each once, in this order
    translated = translated_sets(run)
    out = out or run.report_path
    page_path = out if out.suffix == ".html" else out / run.report_path.name
    page = _template().render(
        path=shlex.quote(str(run.path)),
        config_path=shlex.quote(str(run.config_path)),
        name=run.path.resolve().name,
        config=config,
        facts=facts(config, metrics, evaluation),
        evaluation=evaluation,
        plots=curves(metrics),
        samples=samples(metrics),
        translations={name: translated_lines(run, name) for name in test_sets if name in translated},
        differences={k: map(notation, pair) for k, pair in config_module.differences(Config(), config).items()},
        settings={key: notation(value) for key, value in config_module.flatten(config).items()},
        versions=read_json(run.versions_path) or {},
        attention=read_json(maps or maps_path(run.path)),
    )
    with advise(f"`vaswani report {run.path} --out DIR` writes elsewhere"):
        write_text(page_path, page)
    return page_path


def maps_path(directory: Path) -> Path:
    """Where the values of the attention maps are, in a run or another directory."""
    return directory / "attention" / "maps.json"


def _template() -> jinja2.Template:
    """page.html. Text of a corpus cannot act on the page: markup is escaped, control characters are made visible."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=lambda value: visible(value) if type(value) is str else value,  # a subclass is markup of our own
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html")


def notation(value: Any) -> str:
    """A setting's value as JSON. For all values but tables this is also TOML.

    >>> notation(("test", "long")), notation(True)
    ('["test", "long"]', 'true')
    """
    return json.dumps(value, ensure_ascii=False)


def facts(config: Config, metrics: Metrics, evaluation: dict[str, SetEvaluation]) -> list[tuple[str, str]]:
    """The numbers at the top of the page: (label, value)."""
    rows = []
    for name, result in evaluation.items():
        rows.append((f"sacreBLEU, {name}", f"{result.scores[0].value:.1f}"))
    finite = [record for record in metrics.valid if math.isfinite(record["perplexity"])]
    if finite:
        best = min(finite, key=lambda record: record["perplexity"])
        rows.append(("best validation perplexity", f"{best['perplexity']:.2f} at {best['step']:,}"))
    records = metrics.train + metrics.valid
    if records:
        rows.append(("updates", f"{max(r['step'] for r in records):,} of {config.train.steps:,}"))
        minutes = max(r.get("elapsed_s", 0) for r in records) / 60
        rows.append(("training time", f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"))
    skipped = max((r.get("skipped", 0) for r in metrics.train), default=0)
    if skipped:
        rows.append(("updates skipped (not finite)", f"{skipped:,}"))
    return rows


def samples(metrics: Metrics) -> list[Sample]:
    """The last validation's samples, each with its translations at up to five validations from first to last.

    The validations are evenly spaced.
    """
    with_samples = [record for record in metrics.valid if record.get("samples")]
    if not with_samples:
        return []
    last = len(with_samples) - 1
    chosen = [with_samples[i] for i in sorted({round(last * k / 4) for k in range(5)})]
    return [
        Sample(
            sample["source"],
            sample["reference"],
            [
                (record["step"], earlier["hypothesis"])
                for record in chosen
                for earlier in record["samples"]
                if earlier["source"] == sample["source"]
            ],
        )
        for sample in with_samples[-1]["samples"]
    ]


def translated_lines(run: RunDirectory, name: str) -> tuple[list[Line], list[Line]]:
    """Lines of a translated test set: those with the lowest chrF, and a random choice, the same at every call.

    Raises:
        UserError: the three files of the set have unequal numbers of lines.
    """
    sources, references, hypotheses = read_translations(run, name)
    chrf = CHRF()
    lines = [
        Line(i, source, reference, hypothesis, chrf.sentence_score(hypothesis, [reference]).score)
        for i, (source, reference, hypothesis) in enumerate(zip(sources, references, hypotheses, strict=True), start=1)
    ]
    worst = sorted(lines, key=lambda line: line.chrf)[:LINES_PER_LIST]
    chosen = random.Random(len(lines)).sample(lines, min(LINES_PER_LIST, len(lines)))
    return worst, sorted(chosen, key=lambda line: line.number)
