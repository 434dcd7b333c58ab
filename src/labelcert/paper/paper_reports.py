"""Reports of the paper's studies: ranks, drops between budgets, and what one flip does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from labelcert.jobs.cells import Cell, Job
from labelcert.jobs.store import Store
from labelcert.paper import published
from labelcert.paper.comparing_numbers import RANGES, average_ranks, compare_drops, compare_ranks, compare_tables, drops
from labelcert.studies.expansion import StudyPlan, TablePlace
from labelcert.studies.printed_numbers import COMPARISONS, compared
from labelcert.studies.report import (
    BLANK,
    REPORTS,
    Sheet,
    StudyReport,
    certified_sheets,
    curves,
    interval,
    sheets_by_model,
    with_printed,
)

if TYPE_CHECKING:
    import pandas as pd

    from labelcert.report.pictures import GraphPanel

STEPS = ((0.05, 0.1), (0.2, 0.25), (0.1, 0.3), (0.3, 0.5))
"""Pairs of budgets whose difference the paper discusses."""


def _ranks(plan: StudyPlan, store: Store, summary: pd.DataFrame, draw: bool) -> StudyReport:
    ranks = average_ranks(summary)
    comparison = compare_ranks(ranks)
    beside = {(c.dataset, c.model, c.at): c for c in comparison}

    def cell(row: Any) -> str:
        text = BLANK if math.isnan(row.rank) else f"{row.rank:.2f}"
        return with_printed(text, beside.get((row.dataset_name, row.model_name, row.epsilons)), "{:.2f}")

    headings = tuple(epsilons if epsilons == "total" else f"ε in {epsilons}" for epsilons in RANGES)
    sheets = sheets_by_model(ranks, "average rank by the collective certified ratio / paper", headings, cell)
    return StudyReport(sheets, comparison, curves(plan, summary, draw))


def _plateau(plan: StudyPlan, store: Store, summary: pd.DataFrame, draw: bool) -> StudyReport:
    found = drops(summary, STEPS)
    comparison = compare_drops(found)
    beside = {(c.dataset, c.model, c.at): c for c in comparison}

    def cell(row: Any) -> str:
        number = beside.get((row.dataset_name, row.model_name, f"{row.from_epsilon:g} to {row.to_epsilon:g}"))
        return with_printed(interval(row.drop_lower, row.drop_upper), number, "{:.1f}")

    headings = tuple(f"ε {first:g} → {last:g}" for first, last in STEPS)
    sheets = sheets_by_model(found, "drop of the mean collective ratio in points / paper", headings, cell)
    return StudyReport(sheets, comparison, curves(plan, summary, draw))


def _attack(plan: StudyPlan, store: Store, summary: pd.DataFrame, draw: bool) -> StudyReport:
    """Show what the worst single flip does, seed by seed."""
    rows, comparison = [], []
    for place, job, _ in _attacked(plan):
        result: Mapping[str, Any] = store.records.get(place.cell, {}).get("result", {})
        correct, attack, n = result.get("correct_after"), result.get("attack"), result.get("n_test", math.nan)
        before = math.nan if correct is None else 100 * correct[0] / n
        after, changed = math.nan, BLANK
        if correct is not None and attack is not None:
            after, changed = 100 * correct[1] / n, f"{len(attack['changed'])} of {n}"
        points = (interval(value, value) for value in (before, after, before - after))
        rows.append((place.model, str(place.seed), *points, changed))
        if place.model_name == "gcn" and place.seed == 0:
            lost = (before - after, before - after)
            spot = ("text", job.graph.name, "gcn", "accuracy lost", "1 flip")
            printed = published.KARATE_GCN_DROP
            comparison.append(compared(*spot, ours=lost, printed=printed, rounding=0.5, one_node=100 / n))
    headings = ("model", "seed", "accuracy", "after the worst flip", "points lost", "predictions changed")
    sheets = [Sheet("One flipped label (paper: it costs the GCN 50 points)", headings, tuple(rows))]
    figures = dict(curves(plan, summary, draw))
    panels = _attack_panels(plan, store)
    if draw and panels:
        from labelcert.report.pictures import graph_figure

        figures["graph"] = graph_figure(panels)
    return StudyReport(sheets + certified_sheets(summary, []), comparison, figures)


def _attacked(plan: StudyPlan) -> list[tuple[TablePlace, Job, Cell]]:
    """Each cell that can be computed here with its job, and the first place that shows it."""
    places = {place.cell: place for place in reversed(plan.places)}
    return [(places[cell.key], job, cell) for job in plan.jobs for cell in job.cells]


def _attack_panels(plan: StudyPlan, store: Store) -> list[GraphPanel]:
    """The worst single flip for each model, on the first graph and seed that has one."""
    from labelcert.report.pictures import GraphPanel

    panels: list[GraphPanel] = []
    for place, job, cell in _attacked(plan):
        attack = store.records.get(cell.key, {}).get("result", {}).get("attack")
        if (
            attack
            and all(0 <= node < job.graph.n_nodes for nodes in attack.values() for node in nodes)
            and (not panels or (job.graph is panels[0].graph and np.array_equal(job.labeled, panels[0].labeled)))
        ):
            flipped, changed = (np.array(attack[key], dtype=np.int64) for key in ("labels", "changed"))
            title = f"{place.model}\n1 flip: {changed.size} of {cell.test.size} predictions change"
            panels.append(GraphPanel(title, job.graph, job.labeled, flipped, changed))
    return panels


COMPARISONS.append(compare_tables)
REPORTS |= {"ranks": _ranks, "plateau": _plateau, "attack": _attack}
