"""What a walk has proved about a question so far, and what is still open: the same for all walks.

It answers what every certificate asks, the radii and the curve. Other questions are answered by observers: see
:mod:`labelcert.engines.observing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from labelcert.arrays import Int
from labelcert.engines.base import Findings, Question, running_best, within_reach
from labelcert.engines.walks import Collector
from labelcert.problem import NOTHING, Relabelling


class Ledger(Collector):
    """The cheapest change of each node and the strongest attack at each cost, and the doubts about both.

    Walks write attacks down in a short form of their own; ``decode`` turns it into a relabelling.

    - ``question``: of n nodes and budgets 0..B.
    - ``decode``: from the short form (a row of an array) to a relabelling; None: walks hand over relabellings.
    - ``radius``, ``open_radius`` (n,): cost of the cheapest attack that is known, and of the cheapest one that is
      undecided.
    - ``most``, ``open_most`` (B + 1,): most nodes that an attack of exactly this cost provably changes, and that an
      undecided one may change.
    - ``frontier``, ``curve_frontier``: all attacks that cost less were visited: for the radii, and for the curve.
    - ``beyond`` (n,): of the attacks that were not visited, those that cost less are proved not to change a node.
    - ``decided``: attacks that were decided one by one.
    """

    def __init__(self, question: Question, decode: Callable[[Any], Relabelling] | None = None) -> None:
        n, budget, never = question.nodes.size, question.budget, question.problem.adversary.never
        contrary = question.contrary
        self.question = question
        self.radius = np.where(contrary, 0, never).astype(np.int64)
        self.most = np.full(budget + 1, -1, dtype=np.int64)
        self.most[0] = contrary.sum()
        self.open_radius, self.open_most = np.full(n, never, dtype=np.int64), np.full(budget + 1, -1, dtype=np.int64)
        self.frontier = self.curve_frontier = budget + 1
        self.beyond = np.zeros(n, dtype=np.int64)
        self.decided = 0
        self._decode = decode
        self._codes: list[Any] = [NOTHING if changed else None for changed in contrary]
        self._most_codes: list[Any] = [NOTHING] * (budget + 1)
        self._decoded: dict[bytes, Relabelling] = {}

    @property
    def radius_lower(self) -> Int:
        """(n,) what is proved so far."""
        return np.minimum(np.minimum(self.radius, self.open_radius), np.maximum(self.frontier, self.beyond))

    @property
    def changes(self) -> list[Relabelling | None]:
        """The cheapest attack that is known on each node."""
        return [None if code is None else self.change(code) for code in self._codes]

    def know(self, lower: Int, upper: Int, changes: Sequence[Relabelling | None]) -> None:
        """Take over radii that were found in another way."""
        self.radius, self.open_radius, self._codes = upper, lower.copy(), list(changes)

    def closer(self, cost: Int, codes: Any) -> None:
        """Take over (n,) costs and attacks that change each node, where they are cheaper than what is known."""
        better = np.flatnonzero(cost < self.radius)
        self.radius[better] = cost[better]
        for t, code in zip(better.tolist(), codes[better], strict=True):
            self._codes[t] = code

    def stronger(self, cost: int, count: int, code: Any) -> None:
        """Take over an attack, if none of its cost is known to change as many nodes."""
        if count > self.most[cost]:
            self.most[cost], self._most_codes[cost] = count, code

    def strongest(self, budget: int) -> Relabelling:
        """The attack within a budget that is known to change the most nodes."""
        return self.change(self._most_codes[int(self.most[: budget + 1].argmax())])

    def unvisited(self, cost: int, *, radii: bool = True, curve: bool = True) -> None:
        """Learn that some attacks of this cost or more were not visited."""
        if radii:
            self.frontier = min(self.frontier, cost)
        if curve:
            self.curve_frontier = min(self.curve_frontier, cost)

    def decide(self, cost: int, code: Any, nodes: Int | None = None, *, radii: bool = True, curve: bool = True) -> None:
        """Retrain on an attack that a walk left undecided; what even the predictor leaves undecided stays open.

        - ``nodes``: the nodes that it is about; all of them by default.
        - ``radii``, ``curve``: what it is about.
        """
        self.decided += 1
        yes, no = self.question.changed(self.change(code), nodes)
        chosen = np.arange(self.radius.size) if nodes is None else nodes
        undecided = ~(yes | no)
        if radii:
            for t in chosen[yes & (cost < self.radius[chosen])].tolist():
                self.radius[t], self._codes[t] = cost, code
            left = chosen[undecided]
            self.open_radius[left] = np.minimum(self.open_radius[left], cost)
        if curve:
            self.stronger(cost, int(yes.sum()), code)
            if undecided.any():
                self.open_most[cost] = max(self.open_most[cost], int(yes.sum() + undecided.sum()))

    def change(self, code: Any) -> Relabelling:
        """The relabelling that a short form stands for."""
        if self._decode is None or code is NOTHING:
            return cast(Relabelling, code)
        key = code.tobytes()
        if key not in self._decoded:
            self._decoded[key] = self._decode(code)
        return self._decoded[key]

    def findings(self, statistics: dict[str, Any]) -> Findings:
        """Radii and curve, as intervals."""
        lower = self.radius_lower
        curve_lower, curve_changes = running_best(self.most, lambda b: self.change(self._most_codes[b]))
        curve_upper = np.maximum(curve_lower, np.maximum.accumulate(self.open_most))
        reach = within_reach(lower, self.most.size - 1)
        # An attack was visited, or it changes no node but those that it is not proved to leave alone.
        left = within_reach(self.beyond, self.most.size - 1)
        left[: self.curve_frontier] = 0
        curve_upper = np.minimum(np.maximum(curve_upper, left), reach)
        return Findings(
            radius_lower=lower,
            radius_upper=self.radius,
            radius_changes=self.changes,
            curve_lower=curve_lower,
            curve_upper=curve_upper,
            curve_changes=curve_changes,
            statistics=statistics,
        )
