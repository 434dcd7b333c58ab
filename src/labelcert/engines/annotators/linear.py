"""Radii and curve against owners of annotators, where scores are linear in the labels.

Sums over annotators bound all radii, at any size, and settle them where items have one vote. Elsewhere sets are tried,
all at once while they are few, and one node at a time beyond: in a search that leaves out sets whose bound is too low.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.engines.annotators.gains import Gains, buyers
from labelcert.engines.base import Attacks, Question, within_reach
from labelcert.engines.control import Control
from labelcert.engines.linear.spending import Spending, first_row

SET_WORK = 3e11
"""Products of entries that trying all sets of one price may take."""

NODE_SETS = 20_000
"""Sets that the search for one node tries at most."""

BATCH = 256
"""Sets of the search that are tried at a time."""

CLOSE = 20
"""Sets within rounding of a change that are looked at exactly, for one node at one price."""

CLOSE_SETS = 500
"""Sets within rounding of a change of some node that are looked at exactly, where all are tried on all nodes."""

ON_CURVE = 20
"""Attacks that are tried on all nodes at each price, for the lower end of the curve."""


class LinearOwners:
    """One question, answered as far as time and effort allow.

    Attributes
    ----------
    lower : (n,) array
        Lower ends of radii. The upper ends are in ``attacks``.
    curve_upper : (B + 1,) array
    """

    def __init__(self, question: Question, control: Control) -> None:
        self.gains = Gains(question)
        self._question, self._control, self._a = question, control, self.gains.adversary
        self._budget, self._n = question.budget, question.nodes.size
        self.attacks = Attacks(question)
        self.lower = np.where(question.contrary, 0, question.budget + 1).astype(np.int64)
        self.curve_upper = np.full(question.budget + 1, self._n)
        self.sets = self.trainings = 0

    def run(self) -> None:
        """Sums over annotators, then sets of them."""
        self._by_sums()
        tried = 0
        if not self.gains.exact or self._control.collective:
            tried = self._by_price()
        if not self.gains.exact:
            self._by_search(tried)
        self._on_curve()
        self.curve_upper = np.minimum(self.curve_upper, within_reach(self.lower, self._budget))

    def alone(self) -> dict[int, tuple[Bool, Bool]]:
        """Of each annotator, (n,) which nodes change provably, and which possibly."""
        buyable = self._a.buyable.tolist()
        sure, maybe = self.of_sets(self._a.members([(k,) for k in buyable]))
        return {k: (sure[:, i], maybe[:, i]) for i, k in enumerate(buyable)}

    def of_sets(self, sets: Bool) -> tuple[Bool, Bool]:
        """(n, s) which nodes change provably, and which possibly, by each of (s, A) sets of annotators."""
        sure, maybe = (np.zeros((self._n, len(sets)), dtype=bool) for _ in range(2))
        for start in range(0, len(sets), BATCH):
            part = slice(start, start + BATCH)
            maybe[:, part] = True
            if not self._control.over():
                sure[:, part], maybe[:, part] = self.gains.tried(sets[part], np.arange(self._n))
        for t, i in np.argwhere(maybe & ~sure)[:CLOSE_SETS].tolist():
            hits = None if self._control.over() else self.gains.hits_exactly(t, sets[i])
            if hits is not None:
                sure[t, i] = maybe[t, i] = hits
        clean = self._question.contrary[:, None]
        return sure | clean, maybe | clean

    @property
    def _open(self) -> Int:
        return np.flatnonzero((self.lower <= self._budget) & (self.lower < self.attacks.radius))

    def _by_sums(self) -> None:
        """Lower ends, and attacks by the annotators whose sums are largest."""
        sure_at = np.full(self._n, self._a.never)
        chosen: list[Int | None] = [None] * self._n
        for c in np.unique(self.gains.predicted).tolist():
            nodes = np.flatnonzero((self.gains.predicted == c) & ~self._question.contrary)
            for r in self.gains.rivals(c):
                spending = Spending(self.gains.shares(nodes, c, r)[self._a.buyable], buyers(self._a), self._budget)
                left = self.gains.margins(nodes, c, r) - spending.best
                slack = self.gains.slack(spending.best, nodes)
                sure = first_row((left < -slack) | ((left == 0) & (slack == 0)))
                maybe = first_row(~(left > slack))
                for k, t in enumerate(nodes.tolist()):
                    self.lower[t] = min(self.lower[t], spending.cost(int(maybe[k]), k))
                    cost, positions = spending.attack(int(sure[k]), k)
                    if positions is not None and cost < sure_at[t]:
                        sure_at[t], chosen[t] = cost, positions
        self.lower = np.where(self._question.contrary, 0, np.maximum(self.lower, 1))
        for t in np.flatnonzero(self.lower <= self._budget).tolist():
            if self._control.over():
                return
            if self.gains.exact and sure_at[t] != self.lower[t]:
                found = self.gains.exact_radius(t, self._budget)
                if found is not None:
                    self.lower[t], chosen[t] = found
            positions = chosen[t]
            if positions is not None:
                self._attack(t, self._owners(positions))

    def _owners(self, positions: Int) -> Bool:
        owners = np.zeros(self._a.prices.size, dtype=bool)
        owners[self._a.buyable[positions]] = True
        return owners

    def _attack(self, t: int, owners: Bool) -> bool:
        """Whether these annotators provably change a node, in a way that is remembered where it is the cheapest."""
        for change in self.gains.attacks(t, owners):
            yes, _ = self._question.changed(change, np.array([t]))
            if len(change) and yes[0]:
                cost = self._a.cost(change)
                if cost < self.attacks.radius[t]:
                    self.attacks.radius[t], self.attacks.radius_changes[t] = cost, change
                return True
        return False

    def _by_price(self) -> int:
        """Try all sets, price by price, while they are few; the largest price up to which all were tried."""
        counts = self._a.count_sets_by_price(self._budget)
        most, of_a_set = 0, self._question.problem.n_classes * self._a.labels.size + 50.0
        self.curve_upper[0] = int(self._question.contrary.sum())
        for price in range(1, self._budget + 1):
            every = np.arange(self._n)
            open_ = self._open
            if counts[price] * of_a_set * max(open_.size, 1) > SET_WORK or self._control.over():
                return price - 1
            on_all = counts[price] * of_a_set * self._n <= SET_WORK and most < self._n
            most = self._all_sets(price, every if on_all else open_, most)
            if self._control.over():
                return price - 1
            self.curve_upper[price] = most if on_all else self._n
            most = most if on_all else self._n
            if not self._open.size and most >= self._n:
                return price
        return self._budget

    def _all_sets(self, price: int, nodes: Int, most: int) -> int:
        """Try all sets of one price on some nodes; the most nodes that one of them may change."""
        hit: dict[int, Bool] = {}
        doubtful: dict[int, list[Bool]] = {}
        for sets in self._batches(self._a.sets_of(price)):
            if self._control.over():
                return most
            sure, maybe = self.gains.tried(sets, nodes)
            maybe |= self._question.contrary[nodes][:, None]
            most = max(most, int(maybe.sum(axis=0).max(initial=0)))
            for k in np.flatnonzero(maybe.any(axis=1)).tolist():
                t = int(nodes[k])
                if sure[k].any():
                    hit.setdefault(t, sets[int(sure[k].argmax())])
                doubtful.setdefault(t, []).extend(sets[maybe[k] & ~sure[k]][: CLOSE + 1])
        for t in self._open.tolist():
            if self.lower[t] > price:
                continue
            if t in hit:
                self._attack(t, hit[t])
            elif self.lower[t] == price and self._passed(t, doubtful.get(t, [])):
                self.lower[t] = price + 1
        return most

    def _passed(self, t: int, sets: list[Bool]) -> bool:
        """Whether no set of some that may change a node does; one that does becomes an attack."""
        passed = len(sets) <= CLOSE
        for owners in sets[:CLOSE]:
            hits = self.gains.hits_exactly(t, owners)
            if hits is False:
                continue
            passed = False
            if self._attack(t, owners):
                return False
        return passed

    def _batches(self, sets: Iterator[tuple[int, ...]]) -> Iterator[Bool]:
        while some := list(itertools.islice(sets, BATCH)):
            self.sets += len(some)
            yield self._a.members(some)

    def _by_search(self, tried: int) -> None:
        """Beyond the prices at which all sets were tried: sets whose sums are large enough, one node at a time."""
        for t in self._open.tolist():
            for price in range(max(tried + 1, int(self.lower[t])), self._budget + 1):
                if self._control.over() or not self._searched(t, price):
                    break

    def _searched(self, t: int, price: int) -> bool:
        """Whether no set within a price changes a node; otherwise there may be an attack."""
        seen = 0
        node, doubtful = np.array([t]), list[Bool]()
        for sets in self._batches(self._promising(t, price)):
            sure, maybe = self.gains.tried(sets, node)
            doubtful += list(sets[maybe[0] & ~sure[0]])
            seen += len(sets)
            if sure.any():
                self._attack(t, sets[int(sure[0].argmax())])
                if self.attacks.radius[t] <= price:
                    return False
            if seen > NODE_SETS or self._control.over():
                self._attack(t, sets[0])
                return False
        if not self._passed(t, doubtful):
            return False
        self.lower[t] = max(self.lower[t], price + 1)
        return True

    def _promising(self, t: int, price: int) -> Iterator[tuple[int, ...]]:
        """Sets within a price whose sums suffice against some rival, those with the largest sums early."""
        c, node, prices = int(self.gains.predicted[t]), np.array([t]), self._a.prices
        for r in self.gains.rivals(c):
            shares = self.gains.shares(node, c, r)[:, 0]
            margin = float(self.gains.margins(node, c, r)[0])
            enough = margin - float(self.gains.slack(np.array([abs(margin) + shares.sum()]), node)[0])
            order = self._a.buyable[np.argsort(-(shares / np.maximum(prices, 1))[self._a.buyable], kind="stable")]
            yield from _sets(order.tolist(), shares, prices, price, enough)

    def _on_curve(self) -> None:
        """Try attacks on all nodes: those on single nodes, and everything that their annotators can do at once."""
        by_price: dict[int, list[int]] = {}
        for t, change in enumerate(self.attacks.radius_changes):
            if change is not None and len(change):
                by_price.setdefault(self._a.cost(change), []).append(t)
        for price, nodes in sorted(by_price.items()):
            if price > self._budget:
                continue
            for t in nodes[:: max(1, len(nodes) // ON_CURVE)]:
                if self._control.over():
                    return
                change = self.attacks.radius_changes[t]
                if change is None:
                    continue
                self.attacks.enter(change)
                owners = np.isin(np.arange(self._a.prices.size), self._a.owners(change))
                for other in itertools.islice(self.gains.attacks(t, owners, short=False), 2):
                    self.attacks.enter(other)


def _sets(order: list[int], worth: Float, prices: Int, price: int, enough: float) -> Iterator[tuple[int, ...]]:
    """Sets of annotators within a price that are worth enough; by their order, which is by worth for the price."""

    def extended(k: int, left: int, total: float, chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        bound, free = total, float(left)
        for a in order[k:]:
            if free <= 0:
                break
            part = min(1.0, free / float(prices[a]))
            bound, free = bound + part * float(worth[a]), free - part * float(prices[a])
        if not bound >= enough:
            return
        if k == len(order) or left == 0:
            yield chosen
            return
        a = order[k]
        if prices[a] <= left:
            yield from extended(k + 1, left - int(prices[a]), total + float(worth[a]), (*chosen, a))
        yield from extended(k + 1, left, total, chosen)

    return extended(0, price, 0.0, ())
