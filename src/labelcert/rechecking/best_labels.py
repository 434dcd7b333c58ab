"""Which labels to confirm: greedily first, then by branch and bound with bounds that are proved.

A choice is judged by :class:`Goal`. Branch and bound decides label by label whether it is confirmed. A set of labels
none of which will be confirmed stays an attack for good, so what such sets overturn is lost on this branch: the rest is
a bound on what any choice there can save.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.engines.control import Control
from labelcert.rechecking.attacks import AttackList, bits

MOST_BRANCHES = 200_000
LONGEST_SECONDS = 20.0
"""Branches that are looked at, and how long, before the best choice until then is kept, with its proved gap."""


class Goal(ABC):
    """What confirming labels is for.

    Parameters
    ----------
    attacks : AttackList
    weights : (n,) array
        What each node counts.
    """

    def __init__(self, attacks: AttackList, weights: Float) -> None:
        self.attacks, self.weights = attacks, weights
        self.total = float(weights.sum())

    @abstractmethod
    def value(self, alive: Bool) -> float:
        """What is saved if these attacks remain: the larger the better."""

    @abstractmethod
    def progress(self, alive: Bool, hit: Bool) -> float:
        """How promising it is to remove some of the attacks that remain, where that saves nothing yet."""


class EachAlone(Goal):
    """The weight of nodes that no attack overturns."""

    def value(self, alive: Bool) -> float:
        """Nodes that no remaining attack overturns."""
        return float(self.weights[~self.attacks.overturned[alive].any(axis=0)].sum())

    def progress(self, alive: Bool, hit: Bool) -> float:
        """The share of its attacks that each node loses."""
        there = self.attacks.overturned[alive].sum(axis=0)
        gone = self.attacks.overturned[alive & hit].sum(axis=0)
        return float((self.weights * gone / np.maximum(there, 1) ** 2).sum())


class AllAtOnce(Goal):
    """The weight of nodes that survive the strongest attack."""

    def value(self, alive: Bool) -> float:
        """All but what the strongest remaining attack overturns."""
        return self.total - float(self.attacks.strongest[alive].max(initial=0.0))

    def progress(self, alive: Bool, hit: Bool) -> float:
        """The share of the strongest attacks that are removed."""
        strongest = self.attacks.strongest
        top = alive & (strongest == strongest[alive].max(initial=0.0))
        return float((top & hit).sum() / max(1, top.sum()))


@dataclass(frozen=True, eq=False)
class Chosen:
    """Labels to confirm, by their positions among those that the adversary may change.

    Attributes
    ----------
    order : list of int
        Best first.
    value : float
        What is saved then.
    bound : float
        No choice of the same price saves more.
    """

    order: list[int]
    value: float
    bound: float


def choose(search: LabelSearch, budget: float) -> Chosen:
    """The labels that save the most for a price."""
    order = search.greedy([], budget, search.everything)
    best = search.value(order)
    found, bound = search.branch(budget, order, best)
    if search.value(found) > best:
        # The same labels, in an order that saves as much as possible early.
        order = search.greedy([], budget, np.array(sorted(found), dtype=np.int64))
    while order and search.value(order[:-1]) >= search.value(order):
        order.pop()  # it would secure nothing
    return Chosen(order, search.value(order), max(bound, search.value(order)))


def choose_until(search: LabelSearch, wanted: float, most: float) -> Chosen:
    """The labels that save so much for the lowest price that is found, or all that can be saved.

    Greedy choices give a price that is enough; lower ones are tried by halving.
    """
    order = search.greedy([], most, search.everything)
    enough = next((k for k in range(len(order) + 1) if search.value(order[:k]) >= wanted - 1e-12), None)
    if enough is None:
        return choose(search, most)
    best, low, high = None, 0.0, search.price(order[:enough])
    while low < high:
        middle = (low + high) / 2 if search.unit is None else search.unit * ((low + high) // (2 * search.unit))
        chosen = choose(search, middle)
        if chosen.value >= wanted - 1e-12:
            best, high = chosen, min(middle, search.price(chosen.order))
        else:
            low = middle + (high * 1e-3 if search.unit is None else search.unit)
    return choose(search, high) if best is None else best


class LabelSearch:
    """Choices of labels, and what they save.

    Parameters
    ----------
    goal : Goal
    costs : (ν,) array
        What confirming each label costs.
    control : Control
    """

    def __init__(self, goal: Goal, costs: Float, control: Control) -> None:
        self._goal, self._costs, self._control = goal, costs, control
        self._hits: Bool = np.ascontiguousarray(bits(goal.attacks.sets, costs.size).T)
        self._sizes = self._hits.sum(axis=0)

    @property
    def unit(self) -> float | None:
        """What all prices are multiples of; None where they are not whole numbers."""
        return 1.0 if bool((self._costs == np.floor(self._costs)).all()) else None

    @property
    def everything(self) -> Int:
        """(ν,) all labels that can be confirmed."""
        return np.arange(self._costs.size)

    def price(self, chosen: list[int]) -> float:
        """What confirming some labels costs."""
        return float(self._costs[chosen].sum())

    def safe(self, chosen: list[int]) -> Bool:
        """(n,) nodes that no listed attack overturns once some labels are confirmed."""
        return np.asarray(~self._goal.attacks.overturned[self._alive(chosen)].any(axis=0))

    def value(self, chosen: list[int]) -> float:
        """What is saved once some labels are confirmed."""
        return self._goal.value(self._alive(chosen))

    def alone(self) -> Float:
        """(ν,) what confirming each label saves, if it is the only one."""
        nothing, found = self.value([]), np.zeros(self._costs.size)
        for i in np.flatnonzero(self._hits.any(axis=1)).tolist():
            found[i] = self.value([i]) - nothing
        return found

    def greedy(self, chosen: list[int], budget: float, among: Int) -> list[int]:
        """One label after the other: the one that saves the most for its price, or promises the most."""
        order, left = list(chosen), budget - self.price(chosen)
        while True:
            alive = self._alive(order)
            now = self._goal.value(alive)
            useful = [
                i
                for i in among.tolist()
                if i not in order and self._costs[i] <= left + 1e-9 and (alive & self._hits[i]).any()
            ]
            if not useful:
                return order
            ranked = [
                (
                    (self._goal.value(alive & ~self._hits[i]) - now) / self._costs[i],
                    self._goal.progress(alive, self._hits[i]) / self._costs[i],
                    -i,
                )
                for i in useful
            ]
            best = useful[max(range(len(useful)), key=ranked.__getitem__)]
            order.append(best)
            left -= float(self._costs[best])

    def branch(self, budget: float, start: list[int], reached: float) -> tuple[list[int], float]:
        """The best choice, and a bound on what any choice saves."""
        # Labels in many attacks first: leaving one of them out loses the most.
        useful = np.flatnonzero(self._hits.any(axis=1))
        order = useful[np.argsort(-self._hits[useful].sum(axis=1), kind="stable")].tolist()
        best, best_value, bound, branches = list(start), reached, reached, 0
        end = time.monotonic() + LONGEST_SECONDS
        count = self._goal.attacks.strongest.size
        # Each entry: how many labels are decided, those to confirm, attacks that are hit, labels left unhit per attack.
        stack: list[tuple[int, list[int], float, Bool, Int]] = [
            (0, [], budget, np.zeros(count, dtype=bool), self._sizes.copy())
        ]
        while stack:
            depth, chosen, left, hit, unsure = stack.pop()
            lost = ~hit & (unsure == 0)
            possible = self._goal.value(lost)
            if possible <= best_value + 1e-9:
                continue
            branches += 1
            if branches > MOST_BRANCHES or (branches % 64 == 0 and (self._control.over() or time.monotonic() > end)):
                bound = max([bound, possible, *(self._goal.value(~h & (u == 0)) for _, _, _, h, u in stack)])
                return best, bound
            now = self._goal.value(~hit)
            if now > best_value:
                best, best_value = list(chosen), now
            affordable = depth < len(order) and left + 1e-9 >= min(self._costs[order[depth:]])
            if not affordable:
                continue
            i = order[depth]
            rest = unsure - self._hits[i]
            stack.append((depth + 1, chosen, left, hit, rest))
            if self._costs[i] <= left + 1e-9:
                stack.append((depth + 1, [*chosen, i], left - float(self._costs[i]), hit | self._hits[i], rest))
        return best, best_value

    def _alive(self, chosen: list[int]) -> Bool:
        alive = np.ones(self._goal.attacks.strongest.size, dtype=bool)
        for i in chosen:
            alive &= ~self._hits[i]
        return alive
