"""What engines for several classes take and return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.multiclass.panel import Panel
from labelcert.problem import Problem

Int = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Relabelling:
    """Positions of flippable labels, ascending, and the classes that they become."""

    positions: Int
    targets: Int

    @property
    def key(self) -> bytes:
        """Equal for equal relabellings."""
        return self.positions.tobytes() + self.targets.tobytes()


NOTHING = Relabelling(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Question:
    """A problem whose clean predictions are decided.

    Attributes
    ----------
    panel : Panel
    nodes : (n,) array
        Test nodes with a clean prediction, sorted by it. Engines number them 0..n-1.
    segments : (K + 1,) array
        Nodes predicted as class c are ``segments[c]..segments[c + 1]``.
    """

    panel: Panel
    nodes: npt.NDArray[np.intp]
    segments: Int

    @classmethod
    def ask(cls, panel: Panel) -> Question:
        """Leave out nodes without a clean prediction."""
        decided = np.flatnonzero(panel.predicted >= 0)
        nodes = decided[np.argsort(panel.predicted[decided], kind="stable")]
        segments = np.searchsorted(panel.predicted[nodes], np.arange(panel.n_classes + 1)).astype(np.int64)
        return cls(panel=panel, nodes=nodes, segments=segments)

    @property
    def predicted(self) -> Int:
        """(n,) predicted class of each node."""
        return self.panel.predicted[self.nodes]

    def cost(self, change: Relabelling) -> int:
        """What a relabelling costs."""
        return int(self.panel.problem.adversary.costs[change.positions].sum())

    def changed(
        self, change: Relabelling, nodes: Int | None = None
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Of these nodes (or some of them): provably changed, and provably unchanged."""
        codes = self.panel.relabel(change.positions, change.targets)
        return self.panel.changed(codes, self.nodes if nodes is None else self.nodes[nodes])


@dataclass(frozen=True, eq=False)
class Findings:
    """What an engine proved about the n nodes of a question, for budgets 0..B.

    Attributes
    ----------
    radius_lower, radius_upper : (n,) arrays
    radius_changes : list of n relabellings or None
    curve_lower, curve_upper : (B + 1,) arrays
    curve_changes : list of B + 1 relabellings
    statistics : dict
    """

    radius_lower: Int
    radius_upper: Int
    radius_changes: list[Relabelling | None]
    curve_lower: Int
    curve_upper: Int
    curve_changes: list[Relabelling]
    statistics: dict[str, Any]


def within_threat(problem: Problem, change: Relabelling, budget: int) -> bool:
    """Whether the threat allows a relabelling within a budget."""
    a = problem.adversary
    p = change.positions
    if np.unique(p).size != p.size or not a.targets[p, change.targets].all() or a.costs[p].sum() > budget:
        return False
    return all(a.costs[p][a.groups[p] == g].sum() <= cap for g, cap in enumerate(a.group_caps))
