"""Our numbers beside numbers that are printed elsewhere: which agree, and by how many nodes the others differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from labelcert.studies.schema import Study

if TYPE_CHECKING:
    import pandas as pd

SLACK = 1e-9


class Agreement(StrEnum):
    """How our number compares with a published one, up to the rounding of the printed number."""

    EQUAL = "equal"
    CLOSE = "within one node"
    OFF = "further off"
    OPEN = "not exact"
    NONE = "no result"


@dataclass(frozen=True)
class Compared:
    """One published number and ours."""

    table: str
    dataset: str
    model: str
    certificate: str
    at: str
    """Budget, or range of budgets."""
    ours_lower: float
    ours_upper: float
    """Both in the printed unit; NaN if there is no result."""
    published: float
    difference: float
    """Ours minus the published number, measured from the nearer end of our interval."""
    one_node: float
    """The weight of one test node, out of those of all seeds."""
    verdict: Agreement


def compared(*place: str, ours: tuple[float, float], printed: float, rounding: float, one_node: float) -> Compared:
    """Judge one number; ``place`` is its table, dataset, model, certificate and budget."""
    table, dataset, model, certificate, at = place
    lower, upper = ours
    difference = lower - printed if printed < lower else upper - printed if printed > upper else 0.0
    if math.isnan(lower):
        verdict, difference = Agreement.NONE, math.nan
    elif upper - lower > SLACK and abs(difference) <= rounding + one_node + SLACK:
        verdict = Agreement.OPEN
    elif abs(difference) <= rounding + SLACK:
        verdict = Agreement.EQUAL
    else:
        verdict = Agreement.CLOSE if abs(difference) <= one_node + rounding + SLACK else Agreement.OFF
    return Compared(table, dataset, model, certificate, at, lower, upper, printed, difference, one_node, verdict)


COMPARISONS: list[Callable[[Study, pd.DataFrame], list[Compared]]] = []
"""What compares a study's means with printed numbers; extensions add theirs."""


def count_text(numbers: Sequence[Compared], *, unit: str = "node") -> str:
    """Say how many numbers are equal, within one node, and further off."""
    if not numbers:
        return "the paper prints no numbers for this"
    counts = Counter(number.verdict for number in numbers)
    parts = [f"{counts[Agreement.EQUAL]} of {len(numbers)} cells equal", f"{counts[Agreement.CLOSE]} within one {unit}"]
    parts.append(f"{counts[Agreement.OFF]} further off")
    parts += [f"{counts[verdict]} {verdict}" for verdict in (Agreement.OPEN, Agreement.NONE) if counts[verdict]]
    return ", ".join(parts)
