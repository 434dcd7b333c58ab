"""What it costs to take models over: bounds from below, exact where no purchase reaches two models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.engines.voting.rules import Ballots, Condition

CELLS = 4_000_000
"""Entries of tables that are held at a time."""

ROUNDS = 60
"""Steps of the multipliers behind the curve."""

WIDENED = 1e-9
"""More than all roundings of the curve's sums of positive numbers come to, relative and absolute."""

NEVER, FAR = np.iinfo(np.int64).max // 4, 1 << 40
"""Stands for a cost that nobody can pay, and what no real cost reaches."""


@dataclass(frozen=True, eq=False)
class Reach:
    """What can be bought, and which models each purchase takes over.

    Attributes
    ----------
    prices : (I,) array
        In ascending order.
    touches : (I, k) array
    own : (n, I) array, optional
        What it costs to change the vote for each test point, where that is known to be more.
    """

    prices: Int
    touches: Bool
    own: Int | None = None

    @classmethod
    def of(cls, prices: Int, touches: Bool, own: Int | None = None) -> Reach:
        """Sorted, without purchases that reach nothing."""
        some = np.flatnonzero(touches.any(axis=1))
        order = some[np.argsort(prices[some], kind="stable")]
        return cls(prices[order].astype(np.int64), touches[order], None if own is None else own[:, order])

    def at(self, nodes: Int) -> Reach:
        """The same for some test points."""
        return self if self.own is None else replace(self, own=self.own[nodes])

    @property
    def takeable(self) -> Bool:
        """(k,) which models can be taken over at all."""
        return np.asarray(self.touches.any(axis=0))

    @cached_property
    def alone(self) -> bool:
        """Whether each purchase reaches one model, and no model is reached by two."""
        return bool((self.touches.sum(axis=1) == 1).all() and (self.touches.sum(axis=0) <= 1).all())

    def added(self, gains: Int) -> Int:
        """(n, I) the gains (n, k) of all models that each purchase reaches; small numbers, which floats hold."""
        return np.rint(gains.astype(np.float64) @ self.touches.T.astype(np.float64)).astype(np.int64)

    def least(self, one: Condition) -> Int:
        """(n,) the least that can be spent on models whose gains reach a need: a lower bound; exact if `alone`."""
        out = np.where(one.need <= 0, 0, NEVER).astype(np.int64)
        open_ = np.flatnonzero((one.need > 0) & (one.need <= 3 * self.touches.shape[1]))
        if open_.size and self.prices.size:
            part = Condition(one.gains[open_], one.need[open_])
            out[open_] = self.at(open_)._one_each(part) if self.alone else self._in_part(part)
        return out

    def _one_each(self, one: Condition) -> Int:
        """Each purchase reaches one model. Of those that gain as much as each other, the cheapest are bought first."""
        gains = one.gains[:, self.touches.argmax(axis=1)]
        high = gains.max(axis=1, initial=1)
        prices = self.prices if self.own is None else self.own
        of_high, of_one = _cheapest(gains == high[:, None], prices), _cheapest(gains == 1, prices)
        of_one[high == 1, 1:] = NEVER  # they are counted once
        best, rows = np.full(one.need.size, NEVER), np.arange(one.need.size)
        for x in range(of_high.shape[1]):
            rest = np.maximum(one.need - x * high, 0)
            enough = rest < of_one.shape[1]
            paid = of_high[:, x] + of_one[rows, np.where(enough, rest, 0)]
            best = np.where(enough, np.minimum(best, paid), best)
            if np.all(x * high >= one.need):
                break
        return np.minimum(best, NEVER)

    def _in_part(self, one: Condition) -> Int:
        """Purchases reach several models, and may reach the same: together they gain at most what each gains alone.

        The last one may be bought in part; the cost is rounded up, since prices are whole.
        """
        adds, need, rows = self.added(one.gains), one.need, np.arange(one.need.size)
        order = np.argsort(-adds / self.prices, axis=1, kind="stable")
        gain = np.take_along_axis(adds, order, axis=1)
        total, paid = np.cumsum(gain, axis=1), np.cumsum(self.prices[order], axis=1)
        reached = total >= need[:, None]
        at = reached.argmax(axis=1)
        last, price = gain[rows, at], self.prices[order][rows, at]
        missing = need - (total[rows, at] - last)
        partly = -(-missing * price // np.maximum(last, 1))
        return np.where(reached.any(axis=1), paid[rows, at] - price + partly, NEVER)


class Costs(NamedTuple):
    """Lower bounds of costs, and what each purchase adds towards a change.

    Attributes
    ----------
    least : (n,) array
        No attack that costs less changes a prediction.
    share : (n, I) array
        Purchases that change a prediction have shares that add up to 1 or more; none is more than 1. Nothing where
        nobody asked.
    """

    least: Int
    share: Float


def costs_of(ballots: Ballots, own: Int, reach: Reach, *, shares: bool) -> Costs:
    """What it costs to change predictions ``own`` (n,), whichever way."""
    n, k = own.size, ballots.ranks.shape[1]
    least, share = np.full(n, NEVER), np.zeros((n, reach.prices.size if shares else 0))
    for some in _blocks(n, max(k, reach.prices.size) * ballots.classes):
        part = ballots.of(some)
        for way in part.ways(own[some]):
            models = Condition(np.ones((some.size, k), dtype=np.int64), way.least)
            every, here = [models, *way.conditions], reach.at(some)
            paid = np.array([here.least(one) for one in every])
            least[some] = np.minimum(least[some], paid.max(axis=0))
            if shares:
                possible = paid.max(axis=0) < NEVER
                hardest = np.where(possible, paid.argmax(axis=0), 0)
                for c, one in enumerate(every):
                    at = np.flatnonzero(possible & (hardest == c) & (one.need > 0))
                    adds = np.minimum(reach.added(one.gains[at]) / one.need[at, None], 1.0)
                    share[some[at]] = np.maximum(share[some[at]], adds)
    return Costs(least, share)


def most_changed(found: Costs, prices: Int, budget: int) -> int:
    """An upper bound on how many predictions one attack within a budget changes.

    A prediction t that changes has shares that add up to 1 or more. So, for any multipliers λ_t between 0 and 1,
    purchases S change at most Σ_t (1 − λ_t) + Σ_{i∈S} Σ_t λ_t share_ti of them. The second sum is largest for purchases
    with the largest sums for their price, of which the last may be bought in part. The multipliers follow subgradients;
    whatever they are, the bound holds.
    """
    share = found.share[found.least <= budget]
    if share.shape[0] == 0:
        return 0
    best, λ = float(share.shape[0]), np.ones(share.shape[0])
    for step in range(ROUNDS):
        worth = λ @ share
        bought = _spent(worth, prices, budget)
        best = min(best, float((1.0 - λ).sum() + worth @ bought))
        slope = share @ bought - 1.0
        λ = np.clip(λ - 0.5 * slope / (1.0 + step) ** 0.7, 0.0, 1.0)
    return min(share.shape[0], int(np.floor(best * (1.0 + WIDENED) + WIDENED)))


def _spent(worth: Float, prices: Int, budget: int) -> Float:
    """(I,) how much of each purchase a knapsack buys, if the last one may be bought in part."""
    order = np.argsort(-worth / prices, kind="stable")
    before = np.cumsum(prices[order]) - prices[order]
    bought = np.zeros(worth.size)
    bought[order] = np.clip((budget - before) / prices[order], 0.0, 1.0)
    return bought


def _cheapest(mask: Bool, prices: Int) -> Int:
    """(n, I + 1) what the cheapest x of the purchases in a mask cost together, for each x."""
    total = np.cumsum(np.sort(np.where(mask, np.minimum(prices, FAR), FAR), axis=1), axis=1)
    return np.hstack([np.zeros((mask.shape[0], 1), dtype=np.int64), np.where(total >= FAR, NEVER, total)])


def _blocks(n: int, cells: int) -> Iterator[Int]:
    """Points in blocks whose tables fit into memory."""
    size = max(1, CELLS // max(1, cells))
    for first in range(0, n, size):
        yield np.arange(first, min(n, first + size))
