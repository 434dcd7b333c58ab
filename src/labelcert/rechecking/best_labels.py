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

from labelcert.arrays import Bool, Float, Int, Words
from labelcert.engines.control import Control
from labelcert.memory import require_memory
from labelcert.rechecking.attacks import AttackList, bits

_TOGETHER = 1e7
"""Pairs of a label, and an attack or a node, that are looked at together."""

_SETS = 4096
"""Attacks whose labels are unpacked together."""

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
    def gains(self, alive: Bool, hits: Bool) -> tuple[Float, Float]:
        """What is saved if each (L, N) row of attacks is removed, and how promising that is where it is nothing."""


class EachAlone(Goal):
    """The weight of nodes that no attack overturns."""

    def value(self, alive: Bool) -> float:
        """Nodes that no remaining attack overturns."""
        return float(self.weights[~self.attacks.overturned[alive].any(axis=0)].sum())

    def gains(self, alive: Bool, hits: Bool) -> tuple[Float, Float]:
        """By how many of its attacks each node loses."""
        left = self.attacks.overturned[alive].astype(np.float32)  # whole numbers: sums of them are exact
        there = left.sum(axis=0)
        share = self.weights / np.maximum(there, 1.0).astype(np.float64) ** 2
        before = np.float64(self.weights[there == 0].sum())
        saved, promise = np.empty(len(hits)), np.empty(len(hits))
        step = max(1, int(_TOGETHER / max(1, left.size // max(1, left.shape[0]) + left.shape[0])))
        for first in range(0, len(hits), step):
            some = slice(first, first + step)
            gone = hits[some][:, alive].astype(np.float32) @ left
            mended = (gone == there) & (there > 0)
            saved[some] = before + mended @ self.weights
            promise[some] = gone @ share
        return np.round(saved, 12), promise  # the same for the same nodes, in whatever order they are added up


class AllAtOnce(Goal):
    """The weight of nodes that survive the strongest attack."""

    def value(self, alive: Bool) -> float:
        """All but what the strongest remaining attack overturns."""
        return self.total - float(self.attacks.strongest[alive].max(initial=0.0))

    def gains(self, alive: Bool, hits: Bool) -> tuple[Float, Float]:
        """By the strongest attack that is left, and the share of the strongest ones that are removed."""
        strongest = self.attacks.strongest
        top = alive & (strongest == strongest[alive].max(initial=0.0))
        order = np.flatnonzero(alive)[np.argsort(-strongest[alive], kind="stable")]
        kept = ~hits[:, order]
        left = np.where(kept.any(axis=1), strongest[order][kept.argmax(axis=1)] if order.size else 0.0, 0.0)
        return self.total - left, (hits @ top.astype(np.float64)) / max(1, int(top.sum()))


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
        self._useful, self._hits = _hits(goal.attacks.sets, costs.size)
        self._row = np.full(costs.size, -1)
        self._row[self._useful] = np.arange(self._useful.size)
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
        found = np.zeros(self._costs.size)
        found[self._useful] = self._goal.gains(self._alive([]), self._hits)[0] - self.value([])
        found[np.abs(found) < 1e-12] = 0.0
        return found

    def greedy(self, chosen: list[int], budget: float, among: Int) -> list[int]:
        """One label after the other: the one that saves the most for its price, or promises the most."""
        order, left = list(chosen), budget - self.price(chosen)
        among = self._useful[np.isin(self._useful, among)]
        while True:
            alive = self._alive(order)
            useful = among[(self._costs[among] <= left + 1e-9) & ~np.isin(among, order)]
            useful = useful[(self._hits[self._row[useful]] & alive).any(axis=1)]
            if not useful.size or (order and self._control.over()):
                return order
            value, promise = self._goal.gains(alive, self._hits[self._row[useful]])
            saved, costs = value - round(self._goal.value(alive), 12), self._costs[useful]
            best = int(useful[np.lexsort((useful, -promise / costs, -saved / costs))[0]])
            order.append(best)
            left -= float(self._costs[best])

    def branch(self, budget: float, start: list[int], reached: float) -> tuple[list[int], float]:
        """The best choice, and a bound on what any choice saves."""
        # Labels in many attacks first: leaving one of them out loses the most.
        order = self._useful[np.argsort(-self._hits.sum(axis=1), kind="stable")].tolist()
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
            hits = self._hits[self._row[i]]
            rest = unsure - hits
            stack.append((depth + 1, chosen, left, hit, rest))
            if self._costs[i] <= left + 1e-9:
                stack.append((depth + 1, [*chosen, i], left - float(self._costs[i]), hit | hits, rest))
        return best, best_value

    def _alive(self, chosen: list[int]) -> Bool:
        alive = np.ones(self._goal.attacks.strongest.size, dtype=bool)
        for i in self._row[chosen][self._row[chosen] >= 0].tolist() if chosen else []:
            alive &= ~self._hits[i]
        return alive


def _hits(sets: Words, count: int) -> tuple[Int, Bool]:
    """The labels that are in any set, of so many; and for each of them, which sets it is in."""
    useful = np.flatnonzero(bits(np.bitwise_or.reduce(sets, axis=0)[None], count)[0])
    require_memory(
        int(useful.size) * len(sets) + count * min(len(sets), _SETS),
        f"which of {len(sets):,} attacks {useful.size:,} labels are in",
        "ask for fewer flips, about fewer test nodes, or trust some labels",
    )
    hits = np.zeros((useful.size, len(sets)), dtype=bool)
    for first in range(0, len(sets), _SETS):
        some = slice(first, first + _SETS)
        hits[:, some] = bits(sets[some], count)[:, useful].T
    return useful, hits
