"""Bounds over all attacks of a subtree, evaluated in whole numbers.

In units of the cap, a label's dual variable is ``z = s·a`` with a in [0, 1], and ``g = s·f`` is its margin. Its sign s
after poisoning is its own (*kept*) or the other one (*flipped*). An optimal (a, g) lies on a staircase: a = 0 and
g ≥ 1, or g = 1, or a = 1 and g ≤ 1. With ranges for a and g, it lies in the hull of at most four corners.

For any multipliers β, ``c·z + d·f = (c + Qβ)·z + (d − β)·f`` since ``f = Qz``. The right side separates over labels,
so that its minimum over the hulls is a sum: the best kept corner of each label, and the best flips that the budget
buys. It is a lower bound, whoever chose β.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from labelcert.arrays import Bool, Int, Values
from labelcert.certificate.proofs import Block, RangeProof
from labelcert.verification.arithmetic import Whole, choose, root, shifted, shifted_up, whole
from labelcert.verification.statement import Statement

KEPT, FLIPPED = 0, 1
LOW, HIGH, LEAST, MOST = range(4)

BITS = 100
"""Ranges are whole multiples of ``2**-100``, rounded outwards."""

ONE = 1 << BITS


class ExactModel:
    """One class against the rest: the kernel times the cap, signs, and what the adversary can toggle.

    Attributes
    ----------
    kernel : (m, m) whole numbers, times ``2**-by``
    signs : (m, 2) whole numbers
        Of the kept and of the flipped label.
    toggles : (m,) array
        Labels that can enter or leave the class.
    """

    def __init__(self, statement: Statement, c: int) -> None:
        Q, e_Q = whole(statement.K_train)
        cap, e_C = whole(statement.C)
        self.kernel, self.by = Q * int(cap), e_Q + e_C
        member = statement.codes == c
        y = np.where(member, 1, -1).astype(object)
        self.signs: Whole = np.stack([y, -y], axis=1)
        self.toggles = np.where(member, statement.allowed.any(axis=1), statement.allowed[:, c])


@dataclass(frozen=True, eq=False)
class Multiplied:
    """K multipliers, ready to be evaluated: ``on_z = c + Qβ`` and ``on_f = d − β``, times ``2**-by``.

    Attributes
    ----------
    on_z, on_f : (m, K) whole numbers
    by : int
    label, side : (K,) arrays
        A label whose side is given; -1: none.
    """

    on_z: Whole
    on_f: Whole
    by: int
    label: Int
    side: Int


class Region:
    """Ranges of one model for all attacks of a subtree.

    Attributes
    ----------
    ends : list of four (m, 2) arrays of whole numbers
        Low and high end of g, least and most of a; for the kept and for the flipped label.
    gone : (m, 2) array
        Sides that no attack of the subtree has.
    """

    def __init__(self, statement: Statement, model: ExactModel, budget: int, ends: list[Whole], gone: Bool) -> None:
        self._statement, self.model, self.budget, self.ends, self.gone = statement, model, budget, ends, gone
        # Labels that cannot be toggled cost more than there is.
        self.costs = np.where(model.toggles, statement.costs, budget + 1).astype(np.int64)

    @classmethod
    def at_budget(cls, statement: Statement, model: ExactModel, budget: int, proof: RangeProof) -> Region:
        """From a stored proof: what follows from one clean training, then its blocks."""
        region = cls._around(statement, model, budget, proof.shares)
        for block in proof.blocks:
            region.tighten(block)
        return region

    @classmethod
    def _around(cls, statement: Statement, model: ExactModel, budget: int, shares: Values) -> Region:
        """Flipping labels moves the model into a ball: see :class:`~labelcert.verification.machines.SVMTrainer`."""
        m, kernel, y = statement.m, model.kernel, model.signs[:, KEPT]
        limit = np.append(statement.caps, budget)[statement.groups]  # group -1 is the last entry
        gone = np.zeros((m, 2), dtype=bool)
        gone[:, FLIPPED] = ~model.toggles | (statement.costs > np.minimum(limit, budget))
        A, e_A = whole(np.clip(shares, 0.0, 1.0))
        by = model.by + e_A
        f = kernel @ (y * A)
        excess = y * f - (1 << by)
        gap = int(np.maximum(A * excess, (A - (1 << e_A)) * excess).sum())
        weight = choose(model.toggles, A + choose(excess > -(2 << by), 1 << e_A, 0), 0)
        flips = int(np.searchsorted(np.cumsum(np.sort(statement.costs[model.toggles])), budget, side="right"))
        moved = kernel * (y * weight)[None, :]
        pairs = _largest(np.abs(kernel) * weight[:, None] * weight[None, :], flips)
        inner = int(_largest(pairs[None, :], flips)[0]) + 4 * gap
        spread = np.array([root(int(v) * inner) for v in np.diag(kernel)], dtype=object)
        # All of these times 2**-(by + 1).
        low = 2 * f - _largest(moved, flips) - spread
        high = 2 * f + _largest(-moved, flips) + spread
        reach = shifted(np.abs(kernel).sum(axis=1), by + 1 - model.by)
        low, high = np.maximum(low, -reach), np.minimum(high, reach)
        lows = np.minimum(model.signs * low[:, None], model.signs * high[:, None])
        highs = np.maximum(model.signs * low[:, None], model.signs * high[:, None])
        none = np.zeros((m, 2), dtype=object)
        ends = [shifted(lows, BITS - by - 1), shifted_up(highs, BITS - by - 1), none, none + ONE]
        return cls(statement, model, budget, ends, gone)

    def copy(self) -> Region:
        """One that can be changed on its own."""
        ends = [end.copy() for end in self.ends]
        return Region(self._statement, self.model, self.budget, ends, self.gone.copy())

    def states(self) -> tuple[Bool, Bool, Bool]:
        """(m, 2) which steps of the staircase can occur: a = 0, g = 1, a = 1."""
        low, high, least, most = self.ends
        sound = ~self.gone & (low <= high).astype(bool) & (least <= most).astype(bool)
        zero = sound & (high >= ONE).astype(bool) & (least <= 0).astype(bool)
        free = sound & (low <= ONE).astype(bool) & (high >= ONE).astype(bool)
        cap = sound & (low <= ONE).astype(bool) & (most >= ONE).astype(bool)
        return zero, free, cap

    @property
    def possible(self) -> Bool:
        """(m, 2) whether a label can be kept, flipped."""
        zero, free, cap = self.states()
        return zero | free | cap

    @property
    def empty(self) -> bool:
        """Whether some label can neither be kept nor flipped: then there is no attack."""
        return not bool(self.possible.any(axis=1).all())

    def multiplied(self, beta: Values, cost: Whole, by: int, block: Block | None = None) -> Multiplied:
        """Prepare (K, m) multipliers for ``cost·z``, with (m, K) or (m, 1) costs times ``2**-by``.

        With a block, each multiplier is about the end of a range that the block names, and the cost is its price.
        """
        B, e_B = whole(beta.T)
        K = B.shape[1]
        cost_f = np.zeros_like(B)
        label, side = np.full(K, -1, dtype=np.int64), np.zeros(K, dtype=np.int64)
        cost = np.repeat(cost, K, axis=1) if cost.shape[1] != K else cost.copy()
        if block is not None:
            label, side = self.given(block)
            for k in np.flatnonzero((block.empty == 0) & (label >= 0)).tolist():
                unit = self.model.signs[label[k], side[k]] * (-1 if block.end[k] in (HIGH, MOST) else 1)
                if block.end[k] in (LEAST, MOST):
                    cost[label[k], k] += unit << by
                else:
                    cost_f[label[k], k] += unit
        common = max(by, self.model.by + e_B)
        on_z = shifted(cost, common - by) + shifted(self.model.kernel @ B, common - self.model.by - e_B)
        on_f = shifted(cost_f, common) - shifted(B, common - e_B)
        return Multiplied(on_z, on_f, common, label, side)

    def given(self, block: Block) -> tuple[Int, Int]:
        """(K,) the labels of a block, and their sides; raises ``ValueError`` where there is no such thing."""
        label, side = block.label.astype(np.int64), block.side.astype(np.int64)
        known = (label >= -1) & (label < self._statement.m) & np.isin(side, (KEPT, FLIPPED))
        if not np.all(known & np.isin(block.end, (LOW, HIGH, LEAST, MOST))):
            raise ValueError("a multiplier is about a label, a side or an end that does not exist")
        return label, side

    def least(self, mu: Multiplied, side: int) -> Whole:
        """(m, K) least contribution of each label on one side, times ``2**-(by + BITS)``; 0 where it is impossible."""
        low, high, least, most = (end[:, side] for end in self.ends)
        zero, free, cap = (state[:, side] for state in self.states())
        start, stop = choose(zero, 0, least), choose(cap, ONE, most)
        corners = (
            (zero | free, start, choose(zero, high, ONE)),
            (zero | free, start, choose(zero, np.maximum(low, ONE), ONE)),
            (cap | free, stop, choose(cap, np.minimum(high, ONE), ONE)),
            (cap | free, stop, choose(cap, low, ONE)),
        )
        s = self.model.signs[:, side, None]
        found: Whole = np.zeros_like(mu.on_z)
        known = np.zeros(s.shape[0], dtype=bool)
        for present, a, g in corners:
            value = s * (a[:, None] * mu.on_z + g[:, None] * mu.on_f)
            found = np.where((present & known)[:, None], np.minimum(found, value), found)
            found = np.where((present & ~known)[:, None], value, found)
            known = known | present
        return found

    def evaluate(self, mu: Multiplied) -> tuple[Whole, Bool]:
        """(K,) lower bounds times ``2**-(by + BITS)``, and whether no attack is left."""
        K = mu.on_z.shape[1]
        possible = np.repeat(self.possible[:, :, None], K, axis=2)
        given = np.flatnonzero(mu.label >= 0)
        possible[mu.label[given], 1 - mu.side[given], given] = False
        kept, flipped = self.least(mu, KEPT), self.least(mu, FLIPPED)
        return separable_bound(self.costs, self.budget, kept, flipped, possible[:, KEPT], possible[:, FLIPPED])

    def tighten(self, block: Block, row: tuple[Whole, int] | None = None) -> None:
        """Apply the bounds of a block, as often as it says; with a row, for attacks whose score there is at most 0."""
        if row is None:
            price, by = np.zeros((self._statement.m, block.label.size), dtype=object), 0
        else:
            prices, e_price = whole(block.price)
            prices = np.maximum(prices, 0)
            price, by = row[0][:, None] * prices[None, :], row[1] + e_price
        mu = self.multiplied(block.beta, price, by, block)
        for _ in range(block.passes):
            values, nothing = self.evaluate(mu)
            bounds = shifted(values, -mu.by)
            for k in range(block.label.size):
                at = mu.label[k], mu.side[k]
                if at[0] < 0 or not (nothing[k] or not block.empty[k] or values[k] > 0):
                    continue
                if nothing[k] or block.empty[k]:
                    self.gone[at] = True
                elif block.end[k] in (LOW, LEAST):
                    self.ends[block.end[k]][at] = max(self.ends[block.end[k]][at], bounds[k])
                else:
                    self.ends[block.end[k]][at] = min(self.ends[block.end[k]][at], -bounds[k])
            if self.empty:
                break


def separable_bound(
    costs: Int, budget: int, kept: Whole, moved: Whole, may_keep: Bool, may_move: Bool
) -> tuple[Whole, Bool]:
    """The least of a sum over labels, each kept or moved, with moves within a budget (fractions of a move allowed).

    Parameters
    ----------
    costs : (m,) array
    budget : int
    kept, moved : (m, K) whole numbers
    may_keep, may_move : (m, K) arrays

    Returns
    -------
    bounds, nothing : (K,) arrays
        And whether nothing is possible.
    """
    forced = ~may_keep
    left = budget - np.where(forced, costs[:, None], 0).sum(axis=0)
    nothing = (left < 0) | ~(may_keep | may_move).all(axis=0)
    total = np.where(forced, moved, kept).sum(axis=0)
    choice = may_keep & may_move & (costs[:, None] <= left[None, :])
    gains = np.where(choice, np.maximum(0, kept - moved), 0)
    most = np.array([_most_gain(gains[:, k], costs, int(left[k])) for k in range(left.size)], dtype=object)
    return np.where(nothing, 0, total - most), np.asarray(nothing)


def _most_gain(gains: Whole, costs: Int, budget: int) -> int:
    useful = np.flatnonzero(gains > 0)
    if not useful.size or budget <= 0:
        return 0
    prices = costs[useful]
    if np.all(prices == prices[0]):
        return int(np.sort(gains[useful])[::-1][: budget // int(prices[0])].sum())
    total = 0
    for i in sorted(useful, key=lambda i: Fraction(int(gains[i]), int(costs[i])), reverse=True):
        paid = min(int(costs[i]), budget)
        total += -(-int(gains[i]) * paid // int(costs[i]))
        budget -= paid
    return total


def _largest(values: Whole, count: int) -> Whole:
    """Sum of the ``count`` largest positive entries of each row."""
    return np.asarray((-np.sort(-np.maximum(values, 0), axis=1))[:, :count].sum(axis=1) + 0 * values[:, 0])
