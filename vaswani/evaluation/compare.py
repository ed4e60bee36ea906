"""Whether one run translates a set better than another, beyond chance."""

from collections.abc import Sequence
from typing import Any

from vaswani.errors import UserError
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
    tests = runs[0].load_config().data.tests
    if set_name is None and not tests:
        raise UserError(f"{names[0]}: its configuration names no test sets; choose a set with --set")
    set_name = set_name or tests[0]
    systems: dict[str, list[str]] = {}
    references: list[str] = []
    for name, run in zip(names, runs, strict=True):
        _, its_references, systems[name] = read_translations(run, set_name)
        if references and its_references != references:
            raise UserError(f"{name}: its {set_name} has other references than that of {names[0]}")
        references = its_references
    scores = paired_bootstrap(systems, references)
    base = scores[0].estimate.value
    return {
        "set": set_name,
        "lines": len(references),
        "resamples": RESAMPLES,
        "signature": scores[0].signature,
        "runs": [
            {
                "run": score.system,
                "bleu": score.estimate.value,
                "low": score.estimate.low,
                "high": score.estimate.high,
                "delta": score.estimate.value - base,
                "p_value": score.p_value,
            }
            for score in scores
        ],
    }


def format_comparison(values: dict[str, Any]) -> str:
    """A table for the terminal."""
    width = max(len(run["run"]) for run in values["runs"])
    lines = [f"{values['set']}: {values['lines']:,} lines, sacreBLEU (13a, cased), brackets: 95% bootstrap interval"]
    for i, run in enumerate(values["runs"]):
        score = f"  {run['run']:<{width}}  {run['bleu']:6.2f}  [{run['low']:6.2f}, {run['high']:6.2f}]"
        lines.append(score + (f"  {run['delta']:+6.2f}  p = {run['p_value']:.4f}" if i else "  the baseline"))
    lines.append(
        "p: how often a difference this large comes by chance, by sacreBLEU's paired bootstrap "
        f"({values['resamples']:,} draws of lines); it says nothing of other seeds."
    )
    return "\n".join(lines)
