"""Compares our results with the published numbers: which agree, and by how many nodes the others differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from labelcert.studies import published
from labelcert.studies.results import each_row
from labelcert.studies.schema import Kind, Study

if TYPE_CHECKING:
    import pandas as pd

RANGES = {"(0,0.1]": (0.0, 0.1), "(0.1,0.3]": (0.1, 0.3), "(0.3,1)": (0.3, 0.999), "total": (0.0, 0.999)}
"""Ranges of budgets over which ranks are averaged. They exclude their lower end."""

_NAMES = ["dataset", "dataset_name", "model", "model_name"]
_SLACK = 1e-9


class Verdict(StrEnum):
    """How our number compares with a published one, up to the rounding of the printed number."""

    EQUAL = "equal"
    CLOSE = "within one node"
    OFF = "further off"
    OPEN = "not exact"
    NONE = "no result"


@dataclass(frozen=True)
class Compared:
    """One published number and ours.

    Attributes
    ----------
    table : str
        Where it is printed.
    dataset, model, certificate : str
        Names, and the label of the certificate.
    at : str
        Budget, or range of budgets.
    ours_lower, ours_upper : float
        In the printed unit; NaN if there is no result.
    published : float
    difference : float
        Ours minus the published number, measured from the nearer end of our interval.
    one_node : float
        The weight of one test node, out of those of all seeds.
    verdict : Verdict
    """

    table: str
    dataset: str
    model: str
    certificate: str
    at: str
    ours_lower: float
    ours_upper: float
    published: float
    difference: float
    one_node: float
    verdict: Verdict


def compared(*place: str, ours: tuple[float, float], printed: float, rounding: float, one_node: float) -> Compared:
    """Judge one number; ``place`` is its table, dataset, model, certificate and budget.

    Examples
    --------
    >>> def judge(*ours):
    ...     place = ("t", "d", "m", "c", "0.1")
    ...     return str(compared(*place, ours=ours, printed=50.0, rounding=0.05, one_node=0.4).verdict)
    >>> judge(50.04, 50.04), judge(50.4, 50.4), judge(48.0, 48.0), judge(48.0, 52.0)
    ('equal', 'within one node', 'further off', 'not exact')
    """
    table, dataset, model, certificate, at = place
    lower, upper = ours
    difference = lower - printed if printed < lower else upper - printed if printed > upper else 0.0
    if math.isnan(lower):
        verdict, difference = Verdict.NONE, math.nan
    elif upper - lower > _SLACK and abs(difference) <= rounding + one_node + _SLACK:
        verdict = Verdict.OPEN
    elif abs(difference) <= rounding + _SLACK:
        verdict = Verdict.EQUAL
    else:
        verdict = Verdict.CLOSE if abs(difference) <= one_node + rounding + _SLACK else Verdict.OFF
    return Compared(table, dataset, model, certificate, at, lower, upper, printed, difference, one_node, verdict)


def compare_certified(study: Study, summary: pd.DataFrame) -> list[Compared]:
    """Compare every number of the study's published tables."""
    ours = {(row.dataset_name, row.model_name, row.certificate, _key(row.epsilon)): row for row in each_row(summary)}
    found = []
    for number in published.certified():
        row = ours.get((number.dataset, number.model, number.certificate, _key(number.epsilon)))
        if row is None or number.table not in study.compare:
            continue
        # A relaxed certificate only claims its lower bound.
        upper = row.mean_lower if number.certificate.startswith("relaxed") else row.mean_upper
        place = (number.table, number.dataset, number.model, number.certificate, f"{number.epsilon:g}")
        found.append(
            compared(
                *place,
                ours=(row.mean_lower, upper) if row.seeds_missing == 0 else (math.nan, math.nan),
                printed=number.mean,
                rounding=number.rounding,
                one_node=_one_node(row),
            )
        )
    return found


def average_ranks(summary: pd.DataFrame) -> pd.DataFrame:
    """Average rank of each model over ranges of budgets, by the mean collective ratio. Ties share the best rank.

    Returns
    -------
    DataFrame
        Columns dataset, dataset_name, model, model_name, epsilons, rank.
    """
    import pandas as pd

    collective = summary[summary["kind"] == Kind.COLLECTIVE].copy()
    # Floating-point noise must not break ties.
    collective["mean_lower"] = collective["mean_lower"].round(9)
    collective["rank"] = collective.groupby(["dataset", "epsilon"])["mean_lower"].rank(method="min", ascending=False)
    rows = []
    for values, group in collective.groupby(_NAMES, sort=False):
        for epsilons, (above, at_most) in RANGES.items():
            inside = group[(group["epsilon"] > above + _SLACK) & (group["epsilon"] <= at_most + _SLACK)]
            rows.append({**dict(zip(_NAMES, values, strict=True)), "epsilons": epsilons, "rank": inside["rank"].mean()})
    return pd.DataFrame(rows)


def compare_ranks(ranks: pd.DataFrame) -> list[Compared]:
    """Compare the table of average ranks; here "one node" means one rank."""
    ours = {(row.dataset_name, row.model_name, row.epsilons): row.rank for row in each_row(ranks)}
    found = []
    for number in published.ranks():
        rank = ours.get((number.dataset, number.model, number.epsilons))
        if rank is not None:
            place = ("tab:model_rank", number.dataset, number.model, "rank", number.epsilons)
            found.append(compared(*place, ours=(rank, rank), printed=number.rank, rounding=0.005, one_node=1.0))
    return found


def drops(summary: pd.DataFrame, steps: Sequence[tuple[float, float]]) -> pd.DataFrame:
    """How much the mean collective ratio falls between pairs of budgets, as intervals in points.

    Returns
    -------
    DataFrame
        Columns dataset, dataset_name, model, model_name, from_epsilon, to_epsilon, drop_lower, drop_upper, nodes.
    """
    import pandas as pd

    rows = []
    for values, group in summary[summary["kind"] == Kind.COLLECTIVE].groupby(_NAMES, sort=False):
        at = {_key(row.epsilon): row for row in each_row(group)}
        for first, last in steps:
            a, b = at[_key(first)], at[_key(last)]
            rows.append(
                {
                    **dict(zip(_NAMES, values, strict=True)),
                    "from_epsilon": first,
                    "to_epsilon": last,
                    "drop_lower": a.mean_lower - b.mean_upper,
                    "drop_upper": a.mean_upper - b.mean_lower,
                    "nodes": a.nodes,
                }
            )
    return pd.DataFrame(rows)


def compare_drops(found: pd.DataFrame) -> list[Compared]:
    """Compare the drops that the text mentions."""
    ours = {(r.dataset_name, r.model_name, _key(r.from_epsilon), _key(r.to_epsilon)): r for r in each_row(found)}
    result = []
    for number in published.differences():
        row = ours.get((number.dataset, number.model, _key(number.from_epsilon), _key(number.to_epsilon)))
        if row is not None:
            at = f"{number.from_epsilon:g} to {number.to_epsilon:g}"
            place = (number.where, number.dataset, number.model, "drop", at)
            drop = (row.drop_lower, row.drop_upper)
            result.append(compared(*place, ours=drop, printed=number.drop, rounding=0.05, one_node=_one_node(row)))
    return result


def compare_thresholds(summary: pd.DataFrame) -> list[Compared]:
    """Compare the budgets at which, the text says, no prediction is certified any more."""
    ours = _thresholds(summary)
    special = {(number.dataset, number.model) for number in published.thresholds()}
    result = []
    for number in published.thresholds():
        if number.model:
            values = [value for place, value in ours.items() if place == (number.dataset, number.model)]
        else:
            values = [value for place, value in ours.items() if place[0] == number.dataset and place not in special]
        if values:
            largest = math.nan if any(map(math.isnan, values)) else max(values)
            place = ("text", number.dataset, number.model or "all others", "threshold", "ε")
            judged = compared(*place, ours=(largest, largest), printed=number.at_most, rounding=0.0, one_node=0.0)
            result.append(judged)
    return result


def count_text(numbers: Sequence[Compared], *, unit: str = "node") -> str:
    """Say how many numbers are equal, within one node, and further off."""
    if not numbers:
        return "the paper prints no numbers for this"
    counts = Counter(number.verdict for number in numbers)
    parts = [f"{counts[Verdict.EQUAL]} of {len(numbers)} cells equal", f"{counts[Verdict.CLOSE]} within one {unit}"]
    parts.append(f"{counts[Verdict.OFF]} further off")
    parts += [f"{counts[verdict]} {verdict}" for verdict in (Verdict.OPEN, Verdict.NONE) if counts[verdict]]
    return ", ".join(parts)


def _thresholds(summary: pd.DataFrame) -> dict[tuple[str, str], float]:
    """For each dataset and model (by name), the smallest budget at which no node is certified; NaN if there is none."""
    found = {}
    alone = summary[summary["kind"] == Kind.ACCURACY]
    for (dataset, model), group in alone.groupby(["dataset_name", "model_name"], sort=False):
        zero = group["epsilon"][group["mean_upper"] < _SLACK]
        found[(str(dataset), str(model))] = float(zero.min()) if len(zero) else math.nan
    return found


def _one_node(row: Any) -> float:
    return 100 / row.nodes if row.nodes else math.nan


def _key(epsilon: float) -> str:
    return f"{epsilon:.6g}"
