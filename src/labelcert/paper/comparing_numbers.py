"""Finds the published number for each of our results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from labelcert.paper import published
from labelcert.studies.printed_numbers import SLACK, Compared, compared
from labelcert.studies.schema import Kind, Study
from labelcert.studies.tidy_tables import each_row

if TYPE_CHECKING:
    import pandas as pd

RANGES = {"(0,0.1]": (0.0, 0.1), "(0.1,0.3]": (0.1, 0.3), "(0.3,1)": (0.3, 0.999), "total": (0.0, 0.999)}
"""Ranges of budgets over which ranks are averaged. They exclude their lower end."""

_NAMES = ["dataset", "dataset_name", "model", "model_name"]


def compare_tables(study: Study, summary: pd.DataFrame) -> list[Compared]:
    """Compare every number of the study's published tables and, where it names these, the thresholds in the text."""
    limits = compare_thresholds(summary) if "thresholds" in study.compare else []
    return compare_certified(study, summary) + limits


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
        both = (row.mean_lower, upper) if row.seeds_missing == 0 else (math.nan, math.nan)
        place = (number.table, number.dataset, number.model, number.certificate, f"{number.epsilon:g}")
        how = {"printed": number.mean, "rounding": number.rounding, "one_node": _one_node(row)}
        found.append(compared(*place, ours=both, **how))
    return found


def average_ranks(summary: pd.DataFrame) -> pd.DataFrame:
    """Average rank of each model over ranges of budgets, by the mean collective ratio. Ties share the best rank."""
    import pandas as pd

    collective = summary[summary["kind"] == Kind.COLLECTIVE].copy()
    # Floating-point noise must not break ties.
    collective["mean_lower"] = collective["mean_lower"].round(9)
    collective["rank"] = collective.groupby(["dataset", "epsilon"])["mean_lower"].rank(method="min", ascending=False)
    rows = []
    for values, group in collective.groupby(_NAMES, sort=False):
        for epsilons, (above, at_most) in RANGES.items():
            inside = group[(group["epsilon"] > above + SLACK) & (group["epsilon"] <= at_most + SLACK)]
            rows.append((*values, epsilons, inside["rank"].mean()))
    return pd.DataFrame(rows, columns=[*_NAMES, "epsilons", "rank"])


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
    """How much the mean collective ratio falls between pairs of budgets, as intervals in points."""
    import pandas as pd

    rows = []
    for values, group in summary[summary["kind"] == Kind.COLLECTIVE].groupby(_NAMES, sort=False):
        at = {_key(row.epsilon): row for row in each_row(group)}
        for first, last in steps:
            a, b = at[_key(first)], at[_key(last)]
            rows.append((*values, first, last, a.mean_lower - b.mean_upper, a.mean_upper - b.mean_lower, a.nodes))
    return pd.DataFrame(rows, columns=[*_NAMES, "from_epsilon", "to_epsilon", "drop_lower", "drop_upper", "nodes"])


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


def _thresholds(summary: pd.DataFrame) -> dict[tuple[str, str], float]:
    """For each dataset and model (by name), the smallest budget at which no node is certified; NaN if there is none."""
    found = {}
    alone = summary[summary["kind"] == Kind.ACCURACY]
    for (dataset, model), group in alone.groupby(["dataset_name", "model_name"], sort=False):
        zero = group["epsilon"][group["mean_upper"] < SLACK]
        found[(str(dataset), str(model))] = float(zero.min()) if len(zero) else math.nan
    return found


def _one_node(row: Any) -> float:
    return 100 / row.nodes if row.nodes else math.nan


def _key(epsilon: float) -> str:
    return f"{epsilon:.6g}"
