"""Exact probabilities by a walk over labellings, each weighed by how probable it is."""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.compiling import compiled
from labelcert.engines.base import Question
from labelcert.engines.observing import Visited
from labelcert.labelnoise.rates import rounding_of

MOST_SETS = 22
"""Up to so many labels, what each set of wrong labels does is kept, to know which one to confirm."""


class Weighed:
    """The observer that adds up the probabilities of the relabellings that change each node.

    - ``odds`` (m, K): probability of each class for each label.
    """

    def __init__(self, question: Question, odds: Float) -> None:
        a, codes = question.problem.adversary, question.problem.codes
        self._labels, self._odds = a.labels, odds
        self._own = odds[a.labels, codes[a.labels]]
        fixed = np.setdiff1d(np.arange(codes.size), a.labels)
        self._fixed = float(np.prod(odds[fixed, codes[fixed]]))
        # Where all targets of a label are equally probable, the sets of wrong labels decide.
        other = np.where(a.targets, odds[a.labels], -np.inf).max(axis=1, initial=-np.inf)
        self._other = other
        self._alike = bool(np.all((odds[a.labels] == other[:, None]) | ~a.targets))
        n, nu = question.nodes.size, a.labels.size
        self.changed, self.unchanged = np.zeros(n), np.zeros(n)
        self.visited = 0
        self.by_set = np.zeros(2**nu) if nu <= MOST_SETS else None

    def observe(self, visited: Visited) -> None:
        """Add a batch."""
        flipped = visited.flipped()
        weight = self._weights(visited, flipped)
        add_rows(weight, visited.changed, self.changed)
        add_rows(weight, visited.unchanged, self.unchanged)
        self.visited += weight.size
        if self.by_set is not None:
            sets = flipped @ (np.int64(1) << np.arange(flipped.shape[1]))
            np.add.at(self.by_set, sets, weight * visited.changed.sum(axis=1))

    def unvisited(self, cost: int) -> None:
        """What was not visited counts as neither changed nor unchanged."""

    def _weights(self, visited: Visited, flipped: Bool) -> Float:
        if self._alike:
            return np.asarray(np.where(flipped, self._other, self._own).prod(axis=1)) * self._fixed
        chosen = np.repeat(self._own[None], len(flipped), axis=0)
        for s in np.flatnonzero(flipped.any(axis=1)).tolist():
            change = visited.change(s)
            chosen[s, change.positions] = self._odds[self._labels[change.positions], change.targets]
        return np.asarray(chosen.prod(axis=1)) * self._fixed

    def interval(self) -> tuple[Float, Float]:
        """(n,) proved lower and upper ends of the probability that each node changes.

        All terms are positive, so that each product and the naive sum err by at most one relative rounding per
        operation.
        """
        relative = 1.01 * (self.visited + self._own.size + 3) * 2.0**-53
        slack = rounding_of(self._odds)
        lower = self.changed * (1.0 - relative) - slack
        upper = 1.0 - self.unchanged * (1.0 - relative) + slack
        return np.maximum(lower, 0.0), np.minimum(upper, 1.0)

    def to_confirm(self, count: int) -> tuple[Int, Float] | None:
        """Positions of labels to confirm, best first, and the expected number of changes after each; None: not known.

        Confirming a label removes all relabellings that change it, and divides by the probability that it is right.
        """
        if self.by_set is None:
            return None
        nu = self._own.size
        table = self.by_set.reshape((2,) * nu)  # its axes run from the last label to the first
        left, chosen, expected = list(range(nu))[::-1], list[int](), list[float]()
        right = 1.0
        for _ in range(min(count, nu)):
            sums = np.array([
                np.take(table, 0, axis=k).sum() / own if own > 0 else np.inf
                for k, own in enumerate(self._own[left].tolist())
            ])
            best = int(sums.argmin())
            right *= float(self._own[left[best]])
            if right <= 0:
                break
            table = np.take(table, 0, axis=best)
            chosen.append(left.pop(best))
            expected.append(float(table.sum()) / right)
        return np.array(chosen, dtype=np.int64), np.array(expected)


@compiled()
def add_rows(weight: Float, rows: Bool, out: Float) -> None:
    """Add to each column the weights of the rows that are true there (without a branch, so that it vectorises)."""
    for s in range(rows.shape[0]):
        w = weight[s]
        for t in range(rows.shape[1]):
            out[t] += w * rows[s, t]
