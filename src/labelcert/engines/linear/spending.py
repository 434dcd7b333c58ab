"""What a budget buys where every label has a gain of its own: a sort for equal costs, a knapsack for others."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Bool, Int
from labelcert.engines.base import WORK_LIMIT_SECONDS, Question, Work
from labelcert.engines.bitsets import positions_of, words_for
from labelcert.problem import Adversary

Numbers = npt.NDArray[Any]
"""Floats, or exact numbers as objects."""

KNAPSACK_SECONDS = 3e-8
"""Rough time of one cell of a knapsack table."""


def first_row(hit: Bool) -> Int:
    """First row that holds in each column; the number of rows where none does."""
    return np.where(hit.any(axis=0), hit.argmax(axis=0), hit.shape[0])


class Spending:
    """Largest total gain for every amount spent, for several nodes at once.

    Attributes
    ----------
    best : (R, n) array
        ``best[r]`` is the largest gain of the r-th affordable step; non-decreasing in r. Floats or exact numbers.

    Parameters
    ----------
    gains : (ν, n) array
        What changing each label takes off each node's margin, at best.
    """

    def __init__(self, gains: Numbers, adversary: Adversary, budget: int) -> None:
        self._adversary = adversary
        self._budget = budget
        costs = adversary.costs
        self.unit = int(costs[0]) if costs.size and uniform(costs) else 1
        if uniform(costs):
            self._by_sorting(gains, self.unit)
        else:
            self._by_knapsack(gains)

    def attack(self, step: int, node: int) -> tuple[int, Int | None]:
        """Cost and flips of a step; ``(budget + 1, None)`` for the step after the last."""
        if step >= self.best.shape[0]:
            return self._budget + 1, None
        if self._order is not None:
            return step * self.unit, np.sort(self._order[:step, node])
        flips = positions_of(self._sets[step, node])
        return int(self._adversary.costs[flips].sum()), flips

    def cost(self, step: int, node: int) -> int:
        """Cost of a step."""
        return step * self.unit if step < self.best.shape[0] and self._order is not None else self.attack(step, node)[0]

    def by_budget(self) -> Numbers:
        """(B + 1, n) largest gain for each budget."""
        return self.best[np.minimum(np.arange(self._budget + 1) // self.unit, self.best.shape[0] - 1)]

    def _by_sorting(self, gains: Numbers, unit: int) -> None:
        usable = gains.copy()
        a = self._adversary
        for group, cap in enumerate(a.group_caps.tolist()):
            members = np.flatnonzero(a.groups == group)
            ranked = np.argsort(-gains[members], axis=0, kind="stable")
            np.put_along_axis(usable, members[ranked[cap // unit :]], 0 * gains[:1], axis=0)
        order = np.argsort(-usable, axis=0, kind="stable")[: self._budget // unit]
        taken = np.take_along_axis(usable, order, axis=0)
        taken = np.where(taken > 0, taken, 0 * taken)
        zero = 0 * gains.sum(axis=0, keepdims=True)
        self.best = np.concatenate([zero, np.cumsum(taken, axis=0)])
        self._order: Int | None = order

    def _by_knapsack(self, gains: Numbers) -> None:
        a, budget = self._adversary, self._budget
        n = gains.shape[1]
        words = words_for(a.labels.size)
        zero = 0 * gains[:1]
        best = np.repeat(zero, budget + 1, axis=0)
        sets = np.zeros((budget + 1, n, words), dtype=np.uint64)
        for group in range(-1, a.group_caps.size):
            cap = budget if group < 0 else min(budget, int(a.group_caps[group]))
            own = np.repeat(zero, cap + 1, axis=0)
            own_sets = np.zeros((cap + 1, n, words), dtype=np.uint64)
            for position in np.flatnonzero(a.groups == group):
                cost = int(a.costs[position])
                if cost > cap:
                    continue
                bit = np.zeros(words, dtype=np.uint64)
                bit[position >> 6] = np.uint64(1) << np.uint64(position & 63)
                offer = own[: cap + 1 - cost] + gains[position]
                better = offer > own[cost:]
                offer_sets = own_sets[: cap + 1 - cost] | bit
                own[cost:] = np.where(better, offer, own[cost:])
                own_sets[cost:] = np.where(better[..., None], offer_sets, own_sets[cost:])
            if group < 0:  # nothing was bought before
                best, sets = own, own_sets
                continue
            old, old_sets = best, sets
            best, sets = best.copy(), sets.copy()
            # Spending more inside a group pays only where that buys more.
            for cost in np.flatnonzero(np.r_[True, np.any(own[1:] > own[:-1], axis=1)]).tolist():
                offer = old[: budget + 1 - cost] + own[cost]
                better = offer > best[cost:]
                offer_sets = old_sets[: budget + 1 - cost] | own_sets[cost]
                best[cost:] = np.where(better, offer, best[cost:])
                sets[cost:] = np.where(better[..., None], offer_sets, sets[cost:])
        self.best = best
        self._sets = sets
        self._order = None


def uniform(costs: Int) -> bool:
    """Whether all labels cost the same, so that the largest gains are the best buy."""
    return costs.size == 0 or bool(np.all(costs == costs[0]))


def bytes_per_node(adversary: Adversary, budget: int) -> float:
    """Memory that :class:`Spending` takes for one node."""
    nu = adversary.labels.size
    words = words_for(nu)
    return 8.0 * (4 * (nu + 1) + 3 * (budget + 1) * (words + 1) * (not uniform(adversary.costs)))


def knapsack_work(question: Question, times: int) -> Work:
    """What sorting costs; with different costs it is a knapsack, ``times`` over."""
    a, budget, n = question.problem.adversary, question.budget, question.nodes.size
    if uniform(a.costs):
        return Work("sorting")
    cells = float(a.labels.size) * (budget + 1) * max(1, n) * (1 + a.labels.size // 64)
    cells += float((a.group_caps + 1).sum()) * (budget + 1) * n
    seconds = times * cells * KNAPSACK_SECONDS
    reason = f"{times} knapsacks of {a.labels.size} labels and budgets up to {budget} for {n} nodes"
    if seconds <= WORK_LIMIT_SECONDS:
        return Work(reason, seconds)
    return Work(reason, seconds, "divide the costs by a common unit, or give a smaller max_flips")
