"""The worst accuracy that wrong labels can bring about."""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Int
from labelcert.engines.base import Question
from labelcert.engines.observing import Visited
from labelcert.prediction import OPEN
from labelcert.problem import NOTHING, Relabelling

EFFORT = 2000
"""Predictions whose new class is looked up, of relabellings that may be the worst."""


class WorstAccuracy:
    """How many predictions stay right, or become right, under the worst attack within each budget.

    An attack can also mend predictions. With two classes, a changed prediction becomes the other one. With more, or if
    scores are nearly tied, the predictor is asked for the new class, as long as the attack may be the worst one and not
    too many were looked up; otherwise the lower end counts the prediction as wrong, and the upper end as right. A
    shared highest score counts as wrong.

    - ``question``: of n nodes and budgets 0..B. Nodes without a clean prediction are not among them.
    - ``true`` (n,): the true class of each of its nodes, as a position in ``Problem.classes``.
    """

    def __init__(self, question: Question, true: Int) -> None:
        self._question, self._true = question, true
        self._right = question.predicted == true
        self._two = question.problem.n_classes == 2
        n, budget = question.nodes.size, question.budget
        # Of attacks that cost exactly so much.
        self._lower, self._upper = np.full(budget + 1, n, dtype=np.int64), np.full(budget + 1, n, dtype=np.int64)
        self._changes: list[Relabelling] = [NOTHING] * (budget + 1)
        self._effort = EFFORT

    @property
    def lower(self) -> Int:
        """(B + 1,) predictions that are right at least, whatever the attack."""
        return np.minimum.accumulate(np.minimum(self._lower, self._upper))

    @property
    def upper(self) -> Int:
        """(B + 1,) predictions that are right at most, under the worst attack that is known."""
        return np.minimum.accumulate(self._upper)

    @property
    def changes(self) -> list[Relabelling]:
        """B + 1 attacks that realise ``upper``."""
        return [self._changes[int(self._upper[: b + 1].argmin())] for b in range(self._upper.size)]

    def observe(self, visited: Visited) -> None:
        """Count what is right under each relabelling; look closer at those that may be the worst."""
        mended = ~self._right & visited.changed & ~visited.close & self._two
        lower = (self._right & visited.unchanged | mended).sum(axis=1)
        upper = np.where(self._right, ~visited.changed, ~visited.unchanged).sum(axis=1)
        for cost in np.unique(visited.cost).tolist():
            rows = np.flatnonzero(visited.cost == cost)
            least = rows[upper[rows].argmin()]
            self._enter(visited, int(least), self._right.size, int(upper[least]))
            for s in rows[np.argsort(lower[rows], kind="stable")].tolist():
                if lower[s] >= self._upper[: cost + 1].min():
                    break
                if upper[s] > lower[s] and self._effort > 0:
                    self._enter(visited, s, *self._looked_up(visited, s, lower[s], upper[s]))
                else:
                    self._enter(visited, s, lower[s], upper[s])
                    if self._effort <= 0:
                        break

    def unvisited(self, cost: int) -> None:
        """Attacks that were not visited may do anything."""
        self._lower[cost:] = 0

    def _enter(self, visited: Visited, s: int, lower: int, upper: int) -> None:
        cost = visited.cost[s]
        self._lower[cost] = min(self._lower[cost], lower)
        if upper < self._upper[cost]:
            self._upper[cost], self._changes[cost] = upper, visited.change(s)

    def _looked_up(self, visited: Visited, s: int, lower: int, upper: int) -> tuple[int, int]:
        """Both ends for one relabelling, with the new classes of its changed predictions, as far as they are known."""
        predictor, nodes = self._question.predictor, self._question.nodes
        codes = self._question.problem.relabelled(visited.change(s))
        maybe = ~self._right & visited.changed[s] & (visited.close[s] | (not self._two))
        for t in np.flatnonzero(maybe).tolist():
            self._effort -= 1
            found = predictor.predicts(codes, int(nodes[t]))
            lower += found == self._true[t]
            upper -= found not in (OPEN, self._true[t])
        return lower, upper
