"""Ours beside the published numbers: what differs, by how many nodes, and how many cells are equal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labelcert.studies import published
from labelcert.studies.results import each_row
from labelcert.studies.schema import Study

if TYPE_CHECKING:
    import pandas as pd

EQUAL, CLOSE, OFF, OPEN, NONE = "equal", "within one node", "further off", "not exact", "no result"
VERDICTS = (EQUAL, CLOSE, OFF, OPEN, NONE)

RANGES = {"(0,0.1]": (0.0, 0.1), "(0.1,0.3]": (0.1, 0.3), "(0.3,1)": (0.3, 0.999), "total": (0.0, 0.999)}
"""Ranges of budgets over which ranks are averaged; the lower end does not belong to them."""

_SLACK = 1e-9


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
        In the units of print; NaN where there is no result.
    published : float
    difference : float
        Ours less the published number, from the nearer end of an interval.
    one_node : float
        What one test node of all seeds makes up.
    verdict : str
        One of `VERDICTS`. Equal means: up to what rounding in print can make up.
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
    verdict: str


def compared(
    table: str,
    dataset: str,
    model: str,
    certificate: str,
    at: str,
    *,
    ours: tuple[float, float],
    printed: float,
    rounding: float,
    one_node: float,
) -> Compared:
    """Judge one number.

    Examples
    --------
    >>> def judge(ours):
    ...     return compared("t", "d", "m", "c", "0.1", ours=ours, printed=50.0, rounding=0.05, one_node=0.4).verdict
    >>> judge((50.04, 50.04)), judge((50.4, 50.4)), judge((48.0, 48.0)), judge((48.0, 52.0))
    ('equal', 'within one node', 'further off', 'not exact')
    """
    lower, upper = ours
    difference = lower - printed if printed < lower else upper - printed if printed > upper else 0.0
    if math.isnan(lower):
        verdict, difference = NONE, math.nan
    elif upper - lower > _SLACK and abs(difference) <= rounding + one_node + _SLACK:
        verdict = OPEN
    elif abs(difference) <= rounding + _SLACK:
        verdict = EQUAL
    else:
        verdict = CLOSE if abs(difference) <= one_node + rounding + _SLACK else OFF
    return Compared(table, dataset, model, certificate, at, lower, upper, printed, difference, one_node, verdict)


def compare_certified(study: Study, summary: pd.DataFrame) -> list[Compared]:
    """Every number of the study's published tables."""
    ours = {(row.dataset_name, row.model_name, row.certificate, _key(row.epsilon)): row for row in each_row(summary)}
    wanted = set(study.compare)
    found = []
    for number in published.certified():
        if number.table not in wanted:
            continue
        row = ours.get((number.dataset, number.model, number.certificate, _key(number.epsilon)))
        if row is None:
            continue
        # A relaxed certificate claims its lower bound and nothing else.
        upper = row.mean_lower if number.certificate.startswith("relaxed") else row.mean_upper
        found.append(
            compared(
                number.table,
                number.dataset,
                number.model,
                number.certificate,
                f"{number.epsilon:g}",
                ours=(row.mean_lower, upper) if row.seeds_missing == 0 else (math.nan, math.nan),
                printed=number.mean,
                rounding=number.rounding,
                one_node=100 / row.nodes if row.nodes else math.nan,
            )
        )
    return found


def average_ranks(summary: pd.DataFrame) -> pd.DataFrame:
    """Average rank of each model over ranges of budgets, by the mean collective ratio; equal ratios share the best.

    Returns
    -------
    DataFrame
        Columns dataset, dataset_name, model, model_name, epsilons, rank.
    """
    import pandas as pd

    collective = summary[summary["kind"] == "collective"].copy()
    # Means of ratios of whole numbers: rounding must not break ties.
    collective["mean_lower"] = collective["mean_lower"].round(9)
    by = ["dataset", "epsilon"]
    collective["rank"] = collective.groupby(by)["mean_lower"].rank(method="min", ascending=False)
    rows = []
    names = ["dataset", "dataset_name", "model", "model_name"]
    for values, group in collective.groupby(names, sort=False):
        for epsilons, (above, at_most) in RANGES.items():
            inside = group[(group["epsilon"] > above + _SLACK) & (group["epsilon"] <= at_most + _SLACK)]
            rows.append({**dict(zip(names, values, strict=True)), "epsilons": epsilons, "rank": inside["rank"].mean()})
    return pd.DataFrame(rows)


def compare_ranks(ranks: pd.DataFrame) -> list[Compared]:
    """The table of average ranks; "one node" is one place here."""
    ours = {(row.dataset_name, row.model_name, row.epsilons): row.rank for row in each_row(ranks)}
    return [
        compared(
            "tab:model_rank",
            number.dataset,
            number.model,
            "rank",
            number.epsilons,
            ours=(ours[key], ours[key]),
            printed=number.rank,
            rounding=0.005,
            one_node=1.0,
        )
        for number in published.ranks()
        if (key := (number.dataset, number.model, number.epsilons)) in ours
    ]


def drops(summary: pd.DataFrame, steps: Sequence[tuple[float, float]]) -> pd.DataFrame:
    """How much the mean collective ratio falls between pairs of budgets, in points (as intervals).

    Returns
    -------
    DataFrame
        Columns dataset, dataset_name, model, model_name, from_epsilon, to_epsilon, drop_lower, drop_upper, nodes.
    """
    import pandas as pd

    names = ["dataset", "dataset_name", "model", "model_name"]
    rows = []
    for values, group in summary[summary["kind"] == "collective"].groupby(names, sort=False):
        at = {_key(row.epsilon): row for row in each_row(group)}
        for first, last in steps:
            a, b = at[_key(first)], at[_key(last)]
            rows.append(
                {
                    **dict(zip(names, values, strict=True)),
                    "from_epsilon": first,
                    "to_epsilon": last,
                    "drop_lower": a.mean_lower - b.mean_upper,
                    "drop_upper": a.mean_upper - b.mean_lower,
                    "nodes": a.nodes,
                }
            )
    return pd.DataFrame(rows)


def compare_drops(found: pd.DataFrame) -> list[Compared]:
    """The drops that the text gives."""
    ours = {(r.dataset_name, r.model_name, _key(r.from_epsilon), _key(r.to_epsilon)): r for r in each_row(found)}
    result = []
    for number in published.differences():
        row = ours.get((number.dataset, number.model, _key(number.from_epsilon), _key(number.to_epsilon)))
        if row is not None:
            result.append(
                compared(
                    number.where,
                    number.dataset,
                    number.model,
                    "drop",
                    f"{number.from_epsilon:g} to {number.to_epsilon:g}",
                    ours=(row.drop_lower, row.drop_upper),
                    printed=number.drop,
                    rounding=0.05,
                    one_node=100 / row.nodes if row.nodes else math.nan,
                )
            )
    return result


def thresholds(summary: pd.DataFrame) -> dict[tuple[str, str], float]:
    """For each dataset and model (by name) the smallest budget at which no node is certified on its own; NaN: none."""
    found = {}
    alone = summary[summary["kind"] == "accuracy"]
    for (dataset, model), group in alone.groupby(["dataset_name", "model_name"], sort=False):
        zero = group["epsilon"][group["mean_upper"] < _SLACK]
        found[(str(dataset), str(model))] = float(zero.min()) if len(zero) else math.nan
    return found


def compare_thresholds(summary: pd.DataFrame) -> list[Compared]:
    """The budgets beyond which, the text says, no prediction is certified."""
    ours = thresholds(summary)
    special = {(number.dataset, number.model) for number in published.thresholds() if number.model}
    result = []
    for number in published.thresholds():
        if number.model:
            values = [v for k, v in ours.items() if k == (number.dataset, number.model)]
        else:
            values = [v for k, v in ours.items() if k[0] == number.dataset and k not in special]
        if values:
            largest = math.nan if any(math.isnan(v) for v in values) else max(values)
            name = number.model or "all others"
            result.append(
                compared(
                    "text",
                    number.dataset,
                    name,
                    "threshold",
                    "ε",
                    ours=(largest, largest),
                    printed=number.at_most,
                    rounding=0.0,
                    one_node=0.0,
                )
            )
    return result


def count_text(numbers: Sequence[Compared], *, unit: str = "node") -> str:
    """How many cells are equal, within one node, further off.

    Examples
    --------
    >>> count_text([])
    'the paper prints no numbers for this'
    """
    if not numbers:
        return "the paper prints no numbers for this"
    counts = Counter(number.verdict for number in numbers)
    parts = [f"{counts[EQUAL]} of {len(numbers)} cells equal", f"{counts[CLOSE]} within one {unit}"]
    parts.append(f"{counts[OFF]} further off")
    parts += [f"{counts[verdict]} {verdict}" for verdict in (OPEN, NONE) if counts[verdict]]
    return ", ".join(parts)


def _key(epsilon: float) -> str:
    return f"{epsilon:.6g}"
