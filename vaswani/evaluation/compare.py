"""Whether one run translates a set better than another, beyond chance."""

from collections.abc import Sequence
from typing import Any

from vaswani.errors import UserError
from vaswani.evaluation.metrics import bleu_metric, bleu_note, line_counts, tokeniser_of
from vaswani.evaluation.significance import RESAMPLES, paired_bootstrap
from vaswani.runs.directory import RunDirectory
from vaswani.runs.translations import read_translations


def compare(runs: Sequence[RunDirectory], set_name: str | None) -> dict[str, Any]:
    """sacreBLEU's paired bootstrap of each run against the first, on what they have translated.

    Args:
        runs: two or more; the first is the baseline.
        set_name: by default the first of the baseline's test sets.

    Raises:
        UserError: fewer than two different runs, or one that has not translated the set, or another set of that name.
    """
    names = [str(run.path) for run in runs]
    if len({run.path.resolve() for run in runs}) < max(len(runs), 2):
        raise UserError(f"{' '.join(names)}: name two different runs or more; the first is what they are compared with")
    data = runs[0].load_config().data
    if set_name is None and not data.tests:
        raise UserError(f"{names[0]}: its configuration names no test sets; choose a set with --set")
    set_name = set_name or data.tests[0]
    systems, references = _read_systems(dict(zip(names, runs, strict=True)), set_name)
    metric = bleu_metric(data.target)
    notes = {name: bleu_note(line_counts(metric, hypotheses, [references])) for name, hypotheses in systems.items()}
    scores = paired_bootstrap(metric, systems, references)
    return {
        "set": set_name,
        "lines": len(references),
        "tokeniser": tokeniser_of(data.target),
        "resamples": RESAMPLES,
        "signature": scores[0].signature,
        "runs": [
            {
                "run": score.system,
                "bleu": score.estimate.value,
                "low": score.estimate.low,
                "high": score.estimate.high,
                "delta": score.estimate.value - scores[0].estimate.value,
                "p_value": score.p_value,
                "note": notes[score.system],
            }
            for score in scores
        ],
    }


def _read_systems(runs: dict[str, RunDirectory], set_name: str) -> tuple[dict[str, list[str]], list[str]]:
    """What each run translated, by the run's name, and the references of all."""
    systems: dict[str, list[str]] = {}
    common: list[str] = []
    for name, run in runs.items():
        _, references, systems[name] = read_translations(run, set_name)
        if common and references != common:
            raise UserError(f"{name}: its {set_name} has other references than that of {next(iter(runs))}")
        common = references
    return systems, common


def format_comparison(values: dict[str, Any]) -> str:
    """A table for the terminal."""
    one_line = values["lines"] == 1
    width = max(len(run["run"]) for run in values["runs"])
    brackets = "" if one_line else ", brackets: 95% bootstrap interval"
    lines = [f"{values['set']}: {values['lines']:,} lines, sacreBLEU ({values['tokeniser']}, cased){brackets}"]
    for i, run in enumerate(values["runs"]):
        interval = "" if one_line else f"  [{run['low']:6.2f}, {run['high']:6.2f}]"
        difference = f"  {run['delta']:+6.2f}" if i else "  the baseline"
        p_value = "" if run["p_value"] is None else f"  p = {run['p_value']:.4f}"
        lines.append(f"  {run['run']:<{width}}  {run['bleu']:6.2f}{interval}{difference}{p_value}")
    lines += [f"  {run['run']}: {run['note']}" for run in values["runs"] if run["note"]]
    if one_line:
        lines.append("One line cannot be resampled: there is no interval and no test.")
    else:
        lines.append(
            "p: how often a difference this large comes by chance, by sacreBLEU's paired bootstrap "
            f"({values['resamples']:,} draws of lines). It does not cover other seeds of training."
        )
    return "\n".join(lines)
