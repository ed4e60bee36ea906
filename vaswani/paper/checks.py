"""Comparisons of expected numbers with ours, and the table that shows them."""

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import numpy as np

from vaswani.errors import WorkFailed

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
MARKS = {True: "✓", False: "≠", None: "·"}


@dataclass(frozen=True)
class Check:
    """The comparison of one number, or of a few that belong together."""

    where: str
    """Section, equation, table or footnote of the paper."""
    what: str
    expected: str
    """Empty if there is nothing to compare with."""
    ours: str
    agrees: bool | None
    """None if there is nothing to compare with."""
    printed: bool = True
    """Whether the paper prints the expected number. If not, it was derived from the paper, without our code."""
    why: str = ""
    """The reason of a difference."""
    cause: str = ""
    """A short name of the reason, shared by all comparisons that differ for this reason."""


def numbers(
    where: str, what: str, expected: str, ours: Any, printed: bool = True, why: str = "", cause: str = ""
) -> Check:
    """Compares the numbers in `expected` with ours, in order. They agree if ours round to the expected digits.

    Raises:
        ValueError: the two have unequal counts.

    >>> numbers("5.3", "peak", "6.99e-04", 6.98771e-4)
    Check(where='5.3', what='peak', expected='6.99e-04', ours='6.99e-04', agrees=True, printed=True, why='', cause='')
    """
    values = [float(x) for x in np.ravel(ours)]
    patterns = NUMBER.findall(expected)
    errors = [abs(value - float(p.replace(",", ""))) for value, p in zip(values, patterns, strict=True)]
    agrees = all(error <= 0.5 * _unit(p) * (1 + 1e-6) for error, p in zip(errors, patterns, strict=True))
    rest = iter(values)
    formatted = NUMBER.sub(lambda match: _like(match[0], next(rest), more_digits=0 if agrees else 1), expected)
    return Check(where, what, expected, formatted, agrees, printed, "" if agrees else why, "" if agrees else cause)


def derived(where: str, what: str, expected: str, ours: Any, why: str = "") -> Check:
    """As `numbers`, for numbers that the paper does not print."""
    return numbers(where, what, expected, ours, printed=False, why=why)


def below(where: str, what: str, error: float, bound: float) -> Check:
    """Two computations of the same value agree up to the rounding of float32."""
    return Check(where, what, f"< {bound:.0e}", f"{error:.1e}", error < bound, printed=False)


def only(where: str, what: str, ours: str) -> Check:
    """A number of ours without an expected one."""
    return Check(where, what, "", ours, agrees=None)


def _unit(pattern: str) -> float:
    """The value of 1 in the last digit: 0.01 for "3.14"."""
    mantissa, _, exponent = pattern.partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def _like(pattern: str, value: float, more_digits: int) -> str:
    """The value with the pattern's notation and number of digits, and `more_digits`."""
    mantissa, e, _ = pattern.partition("e")
    decimals = len(mantissa.partition(".")[2]) + more_digits
    return f"{value:.{decimals}e}" if e else f"{value:,.{decimals}f}"


def require_reasons(checks: Sequence[Check]) -> None:
    """Refuses differences without a known reason: then our code is wrong.

    Raises:
        WorkFailed: naming them.
    """
    unexplained = [f"{check.where}: {check.what}" for check in checks if check.agrees is False and not check.why]
    if unexplained:
        raise WorkFailed(f"these numbers differ from the paper for no known reason: {'; '.join(unexplained)}")


def to_json(checks: Sequence[Check]) -> list[dict[str, Any]]:
    return [asdict(check) for check in checks]


def format_checks(checks: Sequence[Check]) -> str:
    """A table for the terminal, with a heading for each section, equation or table of the paper."""
    table = [(c.what, c.expected if c.printed or not c.expected else f"({c.expected})", c.ours) for c in checks]
    widths = [max(len(row[i]) for row in table) for i in range(2)]
    lines, rows = [], iter(table)
    for where, group in groupby(checks, key=lambda check: check.where):
        lines += ["", where]
        for check in group:
            what, expected, ours = next(rows)
            lines.append(f"  {MARKS[check.agrees]} {what:{widths[0]}}  {expected:{widths[1]}}  {ours}")
            lines += textwrap.wrap(check.why, 100, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return "\n".join([
        f"    {'the paper':{widths[0]}}  {'expected':{widths[1]}}  ours", *lines, "",
        "Values in parentheses are not printed in the paper. They were derived from it.", _summary(checks),
    ])  # fmt: skip


def _summary(checks: Sequence[Check]) -> str:
    """How many agree and how many differ, with the causes."""
    differ = [check for check in checks if check.agrees is False]
    explained = sum(bool(check.why) for check in differ)
    causes = Counter(check.cause for check in differ if check.cause)
    line = f"{sum(check.agrees is True for check in checks)} agree, {len(differ)} differ"
    if differ:
        line += f" (a reason is given for {'each' if explained == len(differ) else explained})"
    if causes:
        line += ": " + ", ".join(f"{count} because {cause}" for cause, count in causes.items())
    return line + "."
