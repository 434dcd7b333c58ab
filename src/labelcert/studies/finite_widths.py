"""What networks of finite width did in a study: sums over seeds, tables and curves."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from labelcert.finite.transfer import Counts
from labelcert.jobs.store import Store
from labelcert.models.networks.network import RECIPES
from labelcert.studies.expansion import StudyPlan
from labelcert.text import per_cent

if TYPE_CHECKING:
    from labelcert.report.pictures import CurvePanel

SHARES = {
    "same prediction %": ("agree", "nodes"),
    "certified %": ("certified", "nodes"),
    "broken %": ("violated", "certified"),
    "by a flip, of all %": ("broken", "nodes"),
    "certified with margin %": ("certified_with_margin", "nodes"),
    "broken with margin %": ("violated_with_margin", "certified_with_margin"),
    "attacks that work %": ("changed", "attacked"),
}
"""What is counted for each column, and of what that is a share."""

LOST = ("broken %", "by a flip, of all %", "broken with margin %", "attacks that work %")
"""Shares of what is lost, which are rounded up."""

TRANSFER_COLUMNS = ("correlation", "deviation", *SHARES)

DRAWN = {
    "certified with the margin": "certified with margin %",
    "broken, without margin": "broken %",
    "broken, with the margin": "broken with margin %",
    "attacks that work": "attacks that work %",
}
"""The titles of panels, and the columns that they show."""


class NetworkKind(NamedTuple):
    """Networks of one kind."""

    dataset: str
    recipe: str
    model: str
    width: int


def transfer_counts(plan: StudyPlan, store: Store) -> dict[NetworkKind, Counts]:
    """What all networks of one kind did, summed over seeds."""
    found: dict[NetworkKind, Counts] = defaultdict(Counts)
    for place in plan.places:
        told = store.records.get(place.cell, {}).get("result", {}).get("transfer", {})
        for recipe in RECIPES:
            if recipe in told:
                width = int(told["width"])
                label = re.sub(rf"\s*\bwidth={width}\b", "", place.model)
                total = found[NetworkKind(place.dataset, recipe, label, width)]
                for field in fields(Counts):
                    setattr(total, field.name, getattr(total, field.name) + told[recipe][field.name])
    return dict(found)


def transfer_rows(counts: dict[NetworkKind, Counts]) -> dict[tuple[str, str], tuple[tuple[str, ...], ...]]:
    """The rows of a table for each dataset and recipe."""
    rows: dict[tuple[str, str], list[tuple[str, ...]]] = defaultdict(list)
    for spot, c in counts.items():
        means = f"{c.correlation / c.networks:.4f}", f"{c.deviation / c.networks:.3f}"
        shares = {column: _share(c, column) / 100 for column in SHARES}
        texts = ("–" if math.isnan(share) else per_cent(share, up=name in LOST) for name, share in shares.items())
        rows[spot.dataset, spot.recipe].append((spot.model, f"{spot.width:,}", *means, *texts))
    return {key: tuple(value) for key, value in rows.items()}


def transfer_panels(counts: dict[NetworkKind, Counts]) -> list[CurvePanel]:
    """Certified, broken without and with the margin, and attacks that work, over the width."""
    from labelcert.report.pictures import Curve, CurvePanel

    panels = []
    theory = {spot: c for spot, c in counts.items() if spot.recipe == "theory"}
    for dataset in dict.fromkeys(spot.dataset for spot in theory):
        for title, column in DRAWN.items():
            curves = []
            for model in dict.fromkeys(spot.model for spot in theory if spot.dataset == dataset):
                own = sorted((s.width, c) for s, c in theory.items() if (s.dataset, s.model) == (dataset, model))
                x = np.array([float(width) for width, _ in own])
                y = np.array([_share(c, column) for _, c in own])
                curves.append(Curve(model, x, y, y, np.zeros_like(y)))
            panels.append(CurvePanel(f"{dataset}: {title}", tuple(curves)))
    return panels


def _share(c: Counts, column: str) -> float:
    part, whole = (getattr(c, name) for name in SHARES[column])
    return 100 * part / whole if whole else math.nan
