"""What sets of annotators take off margins, where scores are linear in the labels.

For predicted class c and rival r, each label has a best move among those that a set of annotators can make, whatever
happens to other labels (see :mod:`labelcert.engines.linear.radii`). So one product of matrices tells what many sets do
to many nodes.

Where items have several votes, the gain of a set is no sum over its members. It is bounded by one: if a move takes at
least q votes, each vote that takes part in it is worth at most a q-th of its gain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import scipy.sparse

from labelcert.arrays import Bool, Float, Int
from labelcert.engines.base import Question
from labelcert.engines.linear.radii import margin_errors, moves
from labelcert.engines.linear.spending import Spending, first_row
from labelcert.problem import Adversary, Problem, Relabelling
from labelcert.problem.owners import OwnerAdversary, VotedRelabelling

SHARES = 1e-9
"""Covers the rounding of sums of shares, as a part of them."""

CHUNK_CELLS = 4e6
"""Cells of tables over sets, labels and classes that are held at a time."""


class Gains:
    """The margins of one question, and what annotators take off them.

    Attributes
    ----------
    exact : bool
        Whether gains of sets are sums over their members: one vote an item.
    """

    def __init__(self, question: Question) -> None:
        self.question = question
        self.adversary = cast(OwnerAdversary, question.problem.adversary)
        self.exact = self.adversary.ballots.lone and self.adversary.ballots.aggregate is None
        problem = question.problem
        self._source = problem.codes[self.adversary.labels]
        self._rows = question.predictor.scorer.rows[question.nodes]
        entries = self._rows[:, self.adversary.labels]
        self._up, self._down = np.maximum(entries, 0.0), np.maximum(-entries, 0.0)
        self.errors = margin_errors(question)
        self.predicted = question.predicted
        self._exact_rows: dict[int, list[Any] | None] = {}

    def rivals(self, c: int) -> list[int]:
        """All classes but one."""
        return [r for r in range(self.question.problem.n_classes) if r != c]

    def margins(self, nodes: Int, c: int, r: int) -> Float:
        """(k,) clean margins of nodes predicted as ``c``, in units of two entries."""
        codes = self.question.problem.codes
        side = (codes == c).astype(np.float64) - (codes == r)
        return np.asarray(self._rows[nodes] @ side)

    def tried(self, sets: Bool, nodes: Int) -> tuple[Bool, Bool]:
        """(k, s) which nodes a set of annotators, of (s, A), provably changes, and which it may change."""
        sure, maybe = (np.zeros((nodes.size, len(sets)), dtype=bool) for _ in range(2))
        for part, may in self._attainable(sets):
            for c in np.unique(self.predicted[nodes]).tolist():
                own = np.flatnonzero(self.predicted[nodes] == c)
                for r in self.rivals(c):
                    yes, perhaps = self._against(sets[part], may, nodes[own], c, r)
                    sure[own, part] |= yes
                    maybe[own, part] |= perhaps
        return sure, maybe

    def _against(self, sets: Bool, may: Bool, nodes: Int, c: int, r: int) -> tuple[Bool, Bool]:
        most, least = self._best(may, c, r)
        gain = self._up[nodes] @ most.T + self._down[nodes] @ least.T
        margins, error = self.margins(nodes, c, r)[:, None], self.errors[nodes][:, None]
        left = margins - gain
        sure, maybe = (left < -error) | ((left == 0) & (error == 0)), ~(left > error)
        if self.adversary.wrong_votes is not None:
            shares = (sets @ self.shares(nodes, c, r)).T
            left, slack = margins - shares, self.slack(shares.T, nodes).T.reshape(nodes.size, -1)
            maybe &= ~(left > slack)
            sure &= self.exact & ((left < -slack) | ((left == 0) & (slack == 0)))
        return sure, maybe

    def relief(self, sets: Bool, nodes: Int, weights: Float) -> Float:
        """(ν,) how much closer to surviving sets of annotators each label brings nodes, if it is confirmed.

        What it takes from a set's gain, for what that has beyond the margin; ``weights`` (k, s) of nodes and sets.
        """
        total = np.zeros(self.adversary.labels.size)
        for part, may in self._attainable(sets):
            for c in np.unique(self.predicted[nodes]).tolist():
                at = self.predicted[nodes] == c
                own = nodes[at]
                largest = 2.0 * np.maximum(self._up[own], self._down[own]).max(axis=1, initial=0.0)[:, None]
                for r in self.rivals(c):
                    most, least = self._best(may, c, r)
                    gain = self._up[own] @ most.T + self._down[own] @ least.T
                    beyond = gain - self.margins(own, c, r)[:, None]
                    each = np.where(beyond >= 0, weights[at][:, part] / np.maximum(beyond + largest, 1e-300), 0.0)
                    total += (self._up[own] * (each @ most)).sum(axis=0) + (self._down[own] * (each @ least)).sum(
                        axis=0
                    )
        return total

    def savable(self, sets: Bool, count: int) -> Bool:
        """(n,) nodes that so many confirmed labels may save from every set, whichever these are."""
        found = np.ones(self.predicted.size, dtype=bool)
        kept = max(0, self.adversary.labels.size - count)
        for _, may in self._attainable(sets):
            for c in np.unique(self.predicted).tolist():
                for r in self.rivals(c):
                    most, least = self._best(may, c, r)
                    own = np.flatnonzero((self.predicted == c) & found)
                    margins = self.margins(own, c, r) + self.errors[own] + SHARES * np.abs(self._rows[own]).sum(axis=1)
                    for t, margin in zip(own.tolist(), margins.tolist(), strict=True):
                        gains = self._up[t] * most + self._down[t] * least
                        found[t] &= bool((np.partition(gains, max(kept - 1, 0))[:, :kept].sum(axis=1) <= margin).all())
        return found

    def _attainable(self, sets: Bool) -> Iterator[tuple[slice, Bool]]:
        """Some of the sets at a time, and (s, ν, K) what labels may become for them."""
        a, K = self.adversary, self.question.problem.n_classes
        step = max(1, int(CHUNK_CELLS / max(1, a.labels.size * K, a.ballots.m * K)))
        for start in range(0, len(sets), step):
            part = slice(start, start + step)
            yield part, a.attainable(sets[part])

    def _best(self, may: Bool, c: int, r: int) -> tuple[Float, Float]:
        """(s, ν) the largest multiples of positive and of negative entries that moves take off."""
        return _best(may.any(axis=2), may[:, :, c], may[:, :, r], self._source == c, self._source == r)

    def shares(self, nodes: Int, c: int, r: int) -> Float:
        """(A, k) upper bounds on what each annotator adds to the gain of any set, for nodes predicted as ``c``."""
        a, ballots = self.adversary, self.adversary.ballots
        where = np.full(ballots.m, -1)
        where[a.labels] = np.arange(a.labels.size)
        votes = np.flatnonzero((np.append(a.prices, 0)[ballots.who] > 0) & (where[ballots.item] >= 0))
        at = where[ballots.item[votes]]
        share = np.where(a.targets[at], 1.0 / ballots.fewest[votes], 0.0)
        own, rival = self._source[at] == c, self._source[at] == r
        most, least = _best(share.max(axis=1), share[:, c], share[:, r], own, rival)
        shape = (a.prices.size, a.labels.size)
        if a.wrong_votes is None:
            up, down = (scipy.sparse.csr_array((part, (ballots.who[votes], at)), shape=shape) for part in (most, least))
            return np.asarray(up @ self._up[nodes].T + down @ self._down[nodes].T)
        total = np.zeros((a.prices.size, nodes.size))
        for k in a.buyable:
            cast = ballots.who[votes] == k
            each = self._up[nodes][:, at[cast]] * most[cast] + self._down[nodes][:, at[cast]] * least[cast]
            total[k] = -np.sort(-each, axis=1)[:, : a.wrong_votes].sum(axis=1)
        return total

    def slack(self, gains: Float, nodes: Int) -> Float:
        """How far sums of shares may be off, for (…, k) sums."""
        votes = self.adversary.ballots.item.size / max(1, self.question.problem.m)
        error = self.errors[nodes] * (1.0 if self.exact else 1.0 + votes)
        return np.asarray(error if self.exact else error + SHARES * np.abs(gains))

    def hits_exactly(self, t: int, owners: Bool) -> bool | None:
        """Whether a set of annotators changes node ``t``, in exact arithmetic; None where that is out of reach."""
        row = self._exact_row(t)
        if row is None or (self.adversary.wrong_votes is not None and not self.exact):
            return None
        limited, c = self._limited(owners), int(self.predicted[t])
        return any(self._exact_margin(row, c, r) - sum(self._exactly(row, limited, c, r)) <= 0 for r in self.rivals(c))

    def exact_radius(self, t: int, budget: int) -> tuple[int, Int | None] | None:
        """The radius of node ``t`` with one vote an item, and positions of annotators; None where out of reach."""
        row, a = self._exact_row(t), self.adversary
        if row is None:
            return None
        c = int(self.predicted[t])
        found: tuple[int, Int | None] = (budget + 1, None)
        for r in self.rivals(c):
            margin = self._exact_margin(row, c, r)
            totals = dict.fromkeys(a.buyable.tolist(), 0 * margin)
            for who, gain in self._by_owner(self._exactly(row, self.question.problem, c, r)).items():
                if who in totals:
                    totals[who] = sum(gain, start=0 * margin)
            spending = Spending(np.array(list(totals.values()), dtype=object)[:, None], buyers(a), budget)
            step = int(first_row(margin - spending.best <= 0)[0])
            cost, chosen = spending.attack(step, 0)
            if chosen is not None and cost < found[0]:
                found = (cost, chosen)
        return found

    def _exact_row(self, t: int) -> list[Any] | None:
        if t not in self._exact_rows:
            self._exact_rows[t] = self.question.predictor.scorer.exact_weights(int(self.question.nodes[t]))
        return self._exact_rows[t]

    def _exact_margin(self, row: list[Any], c: int, r: int) -> Any:
        codes = self.question.problem.codes.tolist()
        return sum((v if k == c else -v) for v, k in zip(row, codes, strict=True) if k in (c, r))

    def _exactly(self, row: list[Any], problem: Problem, c: int, r: int) -> list[Any]:
        """What each label takes off the margin at most, within the limits on votes."""
        best = moves(problem, c, r)
        entries = (row[i] for i in self.adversary.labels.tolist())
        gains = [
            (up if v > 0 else down) * v
            for v, up, down in zip(entries, best.most.tolist(), best.least.tolist(), strict=True)
        ]
        if self.adversary.wrong_votes is None:
            return gains
        return [gain for own in self._by_owner(gains).values() for gain in own]

    def _by_owner(self, gains: list[Any]) -> dict[int, list[Any]]:
        """The largest gains of each annotator, as many as votes may be wrong, where items have one vote."""
        a, by = self.adversary, dict[int, list[Any]]()
        for i, gain in zip(a.labels.tolist(), gains, strict=True):
            by.setdefault(int(a.ballots.who[i]), []).append(gain)
        return {who: sorted(own, reverse=True)[: a.wrong_votes] for who, own in by.items()}

    def _limited(self, owners: Bool) -> Problem:
        problem = self.question.problem
        return replace(problem, adversary=replace(self.adversary, targets=self.adversary.attainable(owners[None])[0]))

    def attacks(self, t: int, owners: Bool, *, short: bool = True) -> Iterator[VotedRelabelling]:
        """How a set of annotators may change node ``t``, against each rival: most likely to do so first.

        With no more labels than it takes, if it should be ``short``.
        """
        found: list[tuple[float, Relabelling, Float]] = []
        limited, c = self._limited(owners), int(self.predicted[t])
        entries = self._rows[t, self.adversary.labels]
        for r in self.rivals(c):
            best = moves(limited, c, r)
            gain = np.maximum(best.most * entries, best.least * entries)
            order = np.argsort(-gain, kind="stable")
            order = order[gain[order] > 0]
            left = float(self.margins(np.array([t]), c, r)[0]) - np.cumsum(gain[order])
            enough = np.flatnonzero(left < -self.errors[t])
            for last in ([int(enough[0]) + 1] if short and enough.size else []) + [order.size]:
                positions = np.sort(order[:last])
                change = best.change(positions, entries[positions] > 0)
                found.append((left[-1] if left.size else np.inf, change, gain[positions]))
        for _, change, gains in sorted(found, key=lambda one: one[0]):
            yield self._voted(change, gains, owners)

    def _voted(self, change: Relabelling, gain: Float, owners: Bool) -> VotedRelabelling:
        """With the votes that make it: where these are limited, the moves that gain most for a vote."""
        a = self.adversary
        whole = a.voted(change, owners)
        if whole is not None:
            return whole
        left = np.full(a.prices.size, a.wrong_votes)
        kept = list[int]()
        for k in np.argsort(-gain, kind="stable").tolist():
            i, target = int(a.labels[change.positions[k]]), int(change.targets[k])
            for chosen, _ in a.ballots.ways(i, target, owners):
                if np.all(left[a.ballots.who[chosen]] > 0):
                    left[a.ballots.who[chosen]] -= 1
                    kept.append(k)
                    break
        at = np.array(sorted(kept), dtype=np.int64)
        found = a.voted(Relabelling(change.positions[at], change.targets[at]), owners)
        none = np.zeros(0, dtype=np.int64)
        return VotedRelabelling(none, none, none, none) if found is None else found


def buyers(adversary: OwnerAdversary) -> Adversary:
    """Annotators as if they were labels: who may buy each of them."""
    prices = adversary.prices[adversary.buyable]
    return Adversary(
        m=prices.size,
        labels=np.arange(prices.size),
        costs=prices,
        groups=np.full(prices.size, -1),
        group_caps=np.zeros(0, dtype=np.int64),
        never=int(prices.sum()) + 1,
        targets=np.ones((prices.size, 2), dtype=bool),
    )


def _best(any_: Any, to_own: Any, to_rival: Any, own: Bool, rival: Bool) -> tuple[Float, Float]:
    """Largest multiples of positive and of negative entries that moves take off, of labels of either class or others.

    Moves into any class, into the predicted one and into its rival may be possible in part.
    """
    most = np.where(own, np.maximum(2.0 * to_rival, any_), np.where(rival, 0.0, to_rival))
    least = np.where(rival, np.maximum(2.0 * to_own, any_), np.where(own, 0.0, to_own))
    return most, least
