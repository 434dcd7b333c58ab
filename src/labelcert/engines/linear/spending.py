"""What a budget buys where every label has a gain of its own: a sort for equal costs, a knapsack for others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Bool, Int
from labelcert.compiling import compiled
from labelcert.engines.base import WORK_LIMIT_SECONDS, Question, Work
from labelcert.problem import Adversary

Numbers = npt.NDArray[Any]
"""Floats, or exact numbers as objects."""

KNAPSACK_SECONDS = 1e-8
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
        taken = []
        for shelf in reversed(self._shelves):
            spent = int(shelf.spent[step, node])
            step -= spent
            for sort in reversed(shelf.sorts):
                number = int(sort.number[spent, node])
                taken.append(sort.order[:number, node])
                spent -= number * sort.cost
        flips = np.sort(np.concatenate([*taken, np.zeros(0, dtype=np.int64)]))
        return int(self._adversary.costs[flips].sum()), flips

    def cost(self, step: int, node: int) -> int:
        """Cost of a step."""
        return step * self.unit if step < self.best.shape[0] and self._order is not None else self.attack(step, node)[0]

    def by_budget(self) -> Numbers:
        """(B + 1, n) largest gain for each budget."""
        return self.best[np.minimum(np.arange(self._budget + 1) // self.unit, self.best.shape[0] - 1)]

    def _by_sorting(self, gains: Numbers, unit: int) -> None:
        usable = gains
        a = self._adversary
        if a.group_caps.size:
            usable = gains.copy()
        for group, cap in enumerate(a.group_caps.tolist()):
            members = np.flatnonzero(a.groups == group)
            ranked = np.argsort(-gains[members], axis=0, kind="stable")
            np.put_along_axis(usable, members[ranked[cap // unit :]], 0 * gains[:1], axis=0)
        order = largest(usable, self._budget // unit)
        self.best = _totals(usable, order)
        self._order: Int | None = order

    def _by_knapsack(self, gains: Numbers) -> None:
        """Of labels with one price in one group, the largest gains come first: how many of them is all to decide."""
        a, budget = self._adversary, self._budget
        best = np.repeat(_totals(gains, np.zeros((0, gains.shape[1]), dtype=np.int64)), budget + 1, axis=0)
        self._shelves = []
        for group in range(-1, a.group_caps.size):
            cap = budget if group < 0 else min(budget, int(a.group_caps[group]))
            own, sorts = best[: cap + 1] * 0, []
            for cost in np.unique(a.costs[a.groups == group]).tolist():
                members = np.flatnonzero((a.groups == group) & (a.costs == cost))
                order = members[largest(gains[members], cap // cost)]
                own, number = _combined(own, _totals(gains, order), cost)
                sorts.append(_Sort(cost, order, number))
            best, spent = _combined(best, own, 1)
            self._shelves.append(_Shelf(spent, sorts))
        self.best = best
        self._order = None


class _Sort(NamedTuple):
    """Labels of one price in one group: best first, and how many of them to take for each amount spent there."""

    cost: int
    order: Int
    number: npt.NDArray[np.int32]


class _Shelf(NamedTuple):
    """One group: what to spend inside of it for each total, and its labels by price."""

    spent: npt.NDArray[np.int32]
    sorts: list[_Sort]


def _totals(gains: Numbers, order: Int) -> Numbers:
    """(k + 1, n) what the first labels of an order gain together; those that put the margin up are left out."""
    taken = np.take_along_axis(gains, order, axis=0)
    taken = np.where(taken > 0, taken, 0 * taken)
    return np.concatenate([np.zeros((1, gains.shape[1]), dtype=gains.dtype), np.cumsum(taken, axis=0)])


def _combined(old: Numbers, offers: Numbers, cost: int) -> tuple[Numbers, npt.NDArray[np.int32]]:
    """``best[b] = max_j old[b - j·cost] + offers[j]``, and the smallest such j."""
    best, number = old.copy(), np.zeros(old.shape, dtype=np.int32)
    for j in range(1, min(len(offers), (len(old) - 1) // cost + 1)):
        if not np.any(offers[j] > offers[j - 1]):  # more would buy nothing more
            continue
        offer = old[: len(old) - j * cost] + offers[j]
        better = offer > best[j * cost :]
        best[j * cost :] = np.where(better, offer, best[j * cost :])
        number[j * cost :][better] = j
    return best, number


def largest(values: Numbers, count: int) -> Int:
    """(count, n) rows of the largest values of each column, in descending order; equal values in the order of rows.

    Examples
    --------
    >>> largest(np.array([[1.0], [3.0], [2.0], [3.0]]), 3)[:, 0].tolist()
    [1, 3, 2]
    """
    count = min(count, values.shape[0])
    if values.dtype == object or count == 0 or 4 * count > values.shape[0]:
        return np.argsort(-values, axis=0, kind="stable")[:count].astype(np.int64)
    rows = np.ascontiguousarray(values.T)
    smallest = np.partition(rows, rows.shape[1] - count, axis=1)[:, rows.shape[1] - count].copy()
    return _largest(rows, smallest, count).T


@compiled(allocates=True)
def _largest(values, smallest_of, count):  # type: ignore[no-untyped-def]
    n, size = values.shape
    out = np.empty((n, count), dtype=np.int64)
    chosen = np.empty(count)
    for t in range(n):
        smallest = smallest_of[t]
        above = 0
        for i in range(size):
            if values[t, i] > smallest:
                above += 1
        found, ties = 0, count - above
        for i in range(size):
            value = values[t, i]
            if value > smallest or (value == smallest and ties > 0):
                if value == smallest:
                    ties -= 1
                out[t, found] = i
                chosen[found] = -value
                found += 1
        out[t] = out[t][np.argsort(chosen, kind="mergesort")]
    return out


def uniform(costs: Int) -> bool:
    """Whether all labels cost the same, so that the largest gains are the best buy."""
    return costs.size == 0 or bool(np.all(costs == costs[0]))


def bytes_per_node(adversary: Adversary, budget: int) -> float:
    """Memory that :class:`Spending` takes for one node."""
    cells = 4.0 * (adversary.labels.size + 1)
    if not uniform(adversary.costs):
        cells += (budget + 1.0) * (6 + len(_sorts(adversary)) + adversary.group_caps.size)
    return 8.0 * cells


def _sorts(adversary: Adversary) -> list[tuple[int, int, int]]:
    """Group, cost and number of the labels that differ in neither."""
    pairs, counts = np.unique(np.stack([adversary.groups, adversary.costs]), axis=1, return_counts=True)
    return [(int(g), int(c), int(k)) for (g, c), k in zip(pairs.T, counts, strict=True)]


def knapsack_work(question: Question, times: int) -> Work:
    """What sorting costs; with different costs it is a knapsack, ``times`` over."""
    return spending_work(question.problem.adversary, question.budget, question.nodes.size, times)


def spending_work(adversary: Adversary, budget: int, n: int, times: int) -> Work:
    """The same, for n nodes."""
    a = adversary
    if uniform(a.costs):
        return Work("sorting")
    cells = float((np.minimum(a.group_caps, budget) + 1.0).sum()) * (budget + 1)
    for group, cost, count in _sorts(a):
        cap = budget if group < 0 else min(budget, int(a.group_caps[group]))
        cells += min(count, cap // cost) * (cap + 1.0)
    seconds = times * cells * n * KNAPSACK_SECONDS
    reason = f"{times} knapsacks of {a.labels.size} labels and budgets up to {budget} for {n} nodes"
    if seconds <= WORK_LIMIT_SECONDS:
        return Work(reason, seconds)
    return Work(reason, seconds, "divide the costs by a common unit, or give a smaller max_flips")
