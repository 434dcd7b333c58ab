"""The report on plateaus: where curves wait, what the worst attacks do there, and what the kernel says about it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from labelcert.arrays import Int
from labelcert.jobs.store import Store
from labelcert.studies.expansion import StudyPlan
from labelcert.studies.report import BLANK, REPORTS, Sheet, StudyReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEAR = 0.04
"""A curve is near its plateau while it differs by at most this share of the nodes."""

HEADINGS = (
    *("ρ", "larger class %", "waits", "one class left", "one class flipped", "collapse, ε"),
    *("one class is worst up to ε", "budgets near", "halfway, ε", "proved"),
)

RANGES_ACROSS = (-1.0, 0.0, 0.5, 0.8, 0.9, 2.0)
"""Ends of ranges of ρ."""


@dataclass(frozen=True)
class CollapsedCurve:
    """A collective curve of two classes, exact up to budget ``len(changed) - 1``, and its plateau."""

    dataset: str
    model: str
    seed: int
    n: int
    m: int
    changed: Int
    """Most predictions that each budget changes."""
    told: dict[str, Any]
    """What `labelcert.jobs.records.Collapse` holds."""

    @property
    def height(self) -> int:
        """How many predictions the larger class has."""
        return int(max(self.told["predicted"]))

    @property
    def collapse(self) -> int | None:
        """The least budget that changes as many."""
        return _first(self.changed >= self.height)

    @property
    def waits(self) -> int:
        """For how many budgets the curve is exactly that high."""
        return int((self.changed == self.height).sum())

    @property
    def near(self) -> int:
        """For how many budgets the curve is about that high."""
        return int((np.abs(self.changed - self.height) <= NEAR * self.n).sum())

    @property
    def one_class_left(self) -> bool:
        """Whether the curve waits, and the attack that collapses it leaves all predictions in one class."""
        at = self.collapse
        return at is not None and self.waits > 0 and min(self.told["after"][at]) == 0

    @property
    def one_class_flipped(self) -> bool:
        """Whether the curve waits, and that attack flips labels of one class alone."""
        at = self.collapse
        return at is not None and self.waits > 0 and min(self.told["flips"][at]) == 0

    @property
    def one_sided(self) -> int:
        """The largest budget up to which no attack does better than flips of one class alone."""
        beaten = _first(np.max(self.told["one_sided"], axis=0)[: self.changed.size] < self.changed)
        return self.changed.size - 1 if beaten is None else beaten - 1

    @property
    def halfway(self) -> int | None:
        """The least budget that changes half of what the plateau leaves."""
        return _first(2 * self.changed >= self.height + self.n)

    @property
    def proved(self) -> tuple[int, int] | None:
        """Of the budgets at which the curve waits, how many `ceiling` proves; None where scores are not linear."""
        if not self.told["ceiling"]:
            return None
        at = self.changed == self.height
        return int((np.array(self.told["ceiling"])[: at.size][at] <= self.height).sum()), int(at.sum())


class CurveSet(NamedTuple):
    """Curves under one name."""

    name: str
    curves: Sequence[CollapsedCurve]

    def row(self) -> tuple[str, ...]:
        """Its row in a table."""
        curves = self.curves
        proofs = [c.proved for c in curves if c.proved is not None]
        return (
            self.name,
            f"{np.mean([c.told['across'] for c in curves]):.2f}",
            f"{np.mean([100 * c.height / c.n for c in curves]):.1f}",
            f"{sum(c.waits > 0 for c in curves)} of {len(curves)}",
            *(str(sum(getattr(c, what) for c in curves)) for what in ("one_class_left", "one_class_flipped")),
            _span([c.collapse / c.m for c in curves if c.collapse is not None]),
            _span([c.one_sided / c.m for c in curves]),
            f"{np.mean([c.near for c in curves]):.1f}",
            _span([c.halfway / c.m for c in curves if c.halfway is not None]),
            f"{sum(p for p, _ in proofs)} of {sum(of for _, of in proofs)}" if proofs else BLANK,
        )


def collapsed_curves(plan: StudyPlan, store: Store) -> list[CollapsedCurve]:
    """All curves of a study with their plateaus, as far as they are exact."""
    found = []
    for place in plan.places:
        result = store.records.get(place.cell, {}).get("result", {})
        if told := result.get("collapse"):
            lower, upper = (np.array(result[f"changed_{end}"]) for end in ("lower", "upper"))
            exact = lower.size if (open_at := _first(lower < upper)) is None else open_at
            sizes = (result["n_test"], result["labels"])
            found.append(CollapsedCurve(place.dataset, place.model, place.seed, *sizes, lower[:exact], told))
    return found


def _collapse(plan: StudyPlan, store: Store, summary: Any, draw: bool) -> StudyReport:
    everything = collapsed_curves(plan, store)
    curves = [c for c in everything if c.height < c.n]
    datasets = dict.fromkeys(c.dataset for c in curves)
    models = dict.fromkeys(c.model for c in curves)
    sheets = []
    for dataset in datasets:
        parts = [CurveSet(m, [c for c in curves if (c.dataset, c.model) == (dataset, m)]) for m in models]
        rows = tuple(part.row() for part in parts if part.curves)
        sheets.append(Sheet(f"{dataset}: where the collective curve waits", ("model", *HEADINGS), rows))
    if curves:
        whole = [CurveSet(d, [c for c in curves if c.dataset == d]).row() for d in datasets]
        total = CurveSet("all", curves).row()
        sheets.append(Sheet("All datasets", ("dataset", *HEADINGS), (*whole, total)))
        ranges = itertools.pairwise(RANGES_ACROSS)
        within = [
            CurveSet(f"{low:g} to {high:g}", [c for c in curves if low <= c.told["across"] < high])
            for low, high in ranges
        ]
        sheets.append(
            Sheet("By influence across classes", ("ρ in", *HEADINGS), tuple(w.row() for w in within if w.curves))
        )
    same = len(everything) - len(curves)
    notes = [f"left out: {same} models that predict one class for every node from the start"] if same else []
    return StudyReport(sheets, figures={"picture": collapse_figure(curves)} if draw and curves else {}, notes=notes)


def collapse_figure(curves: Sequence[CollapsedCurve]) -> Figure:
    """The first curve and that with the least influence across classes, then all curves over this influence."""
    from labelcert.report.pictures import new_figure

    figure = new_figure(15.0, 4.2)
    left, middle, right = figure.subplots(1, 3)
    _one_curve(left, curves[0])
    _one_curve(middle, min(curves, key=lambda c: float(c.told["across"])))
    _all_curves(right, curves)
    return figure


def _one_curve(axes: Axes, curve: CollapsedCurve) -> None:
    from labelcert.report.pictures import PALETTE

    flips, after = np.array(curve.told["flips"]), 100 * np.array(curve.told["after"]) / curve.n
    x = np.arange(curve.changed.size)
    first = 1 if curve.told["predicted"][1] == curve.height else 0
    axes.bar(x, after[: x.size, first], width=1.0, color="#CFE3F2", label="in the larger class, after the attack")
    changed = 100 * curve.changed / curve.n
    axes.plot(x, changed, color="#444444", linewidth=1.2, zorder=2)
    mixed = flips.min(axis=1)[: x.size] > 0
    for which, colour, marker, what in (
        (~mixed, PALETTE[0], "o", "changed, by flips of one class"),
        (mixed, PALETTE[1], "s", "changed, by flips of both classes"),
    ):
        axes.plot(x[which], changed[which], marker, color=colour, zorder=3, label=what)
    axes.axhline(100 * curve.height / curve.n, color="#009E73", linestyle="--", label="size of the larger class")
    axes.set(xlabel="wrong labels", ylabel="predictions (%)", ylim=(-3, 103), xlim=(-0.5, curve.m - 0.5))
    rho = f"ρ = {curve.told['across']:.2f}"
    axes.set_title(f"{curve.model} on {curve.dataset}, seed {curve.seed}: {rho}", fontsize=11)
    axes.set_xticks(range(0, curve.m + 1, max(1, curve.m // 5)))
    axes.legend(fontsize=8, loc="lower right", framealpha=0.9)


def _all_curves(axes: Axes, curves: Sequence[CollapsedCurve]) -> None:
    from labelcert.report.pictures import PALETTE

    rng = np.random.default_rng(0)  # budgets are whole numbers: points would hide each other
    for which, colour, marker, what in (
        ("collapse", PALETTE[0], "o", "as many changed as the larger class has"),
        ("halfway", PALETTE[1], "s", "and half of the rest"),
    ):
        points = [
            (c.told["across"], at / c.m + rng.uniform(-0.3, 0.3) / c.m)
            for c in curves
            if (at := getattr(c, which)) is not None
        ]
        axes.plot(*np.array(points).T, marker, color=colour, markersize=4, alpha=0.6, label=what)
    rho = np.array([-1.0, 1.0])
    axes.plot(rho, (1 - rho) / 4, color=PALETTE[0], linewidth=1.2, label="two blocks: (1 − ρ) / 4 and 1 / 2")
    axes.plot(rho, [0.5, 0.5], color=PALETTE[1], linewidth=1.2)
    axes.fill_between(rho, (1 - rho) / 4, 0.5, color="#E69F00", alpha=0.12, linewidth=0)
    axes.set(xlabel="ρ: influence of the other class's labels", ylabel="share of wrong labels ε", ylim=(0, 0.7))
    axes.set_title(f"{len(curves)} curves: the gap is the plateau", fontsize=11)
    axes.legend(frameon=False, fontsize=8, loc="upper right")


def _first(where: Any) -> int | None:
    """The first index at which something holds; None if there is none."""
    return int(np.argmax(where)) if np.any(where) else None


def _span(values: Sequence[float]) -> str:
    """The least and the largest of some shares."""
    if not values:
        return BLANK
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


REPORTS["collapse"] = _collapse
