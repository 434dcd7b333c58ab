"""Which labels to confirm where scores are linear in the labels, at any number of them: by what each label gains.

A margin is lost once the largest gains that the budget pays for reach it. Confirming a label takes its gain away, and
the next largest one takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.engines.linear.radii import margin_errors, moves
from labelcert.engines.linear.spending import uniform
from labelcert.problem import Problem
from labelcert.rechecking.best_labels import Chosen

MOST_GAINS = 50_000_000
"""Gains that are kept in memory."""


def applies(problem: Problem) -> bool:
    """Whether all labels cost the same, no group has a budget of its own, and all gains fit into memory."""
    a = problem.adversary
    pairs = problem.n_test * (problem.n_classes - 1)
    return bool(
        a.labels.size
        and problem.n_test
        and uniform(a.costs)
        and a.group_caps.size == 0
        and pairs * a.labels.size <= MOST_GAINS
    )


@dataclass(frozen=True, eq=False)
class Leads:
    """Every node against every rival.

    Attributes
    ----------
    node : (P,) array
    margin, error : (P,) arrays
        What must be gained, and how far that may be off.
    gains : (P, ν) array
        What changing each label takes off.
    flips : int
        How many labels the budget pays for.
    """

    node: Int
    margin: Float
    error: Float
    gains: Float
    flips: int

    @classmethod
    def of(cls, question: Question) -> Leads:
        """All margins of a question whose scores are linear."""
        problem, a = question.problem, question.problem.adversary
        errors, segments = margin_errors(question), question.segments
        node, margin, error, gains = [], [], [], []
        for c in range(problem.n_classes):
            columns = np.arange(segments[c], segments[c + 1])
            rows = question.predictor.scorer.rows[question.nodes[columns]]
            for r in range(problem.n_classes):
                if r == c or columns.size == 0:
                    continue
                best = moves(problem, c, r)
                side = (problem.codes == c).astype(np.float64) - (problem.codes == r)
                entries = rows[:, a.labels]
                node.append(columns)
                margin.append(rows @ side)
                error.append(errors[columns])
                gains.append(np.maximum(np.maximum(best.most * entries, best.least * entries), 0.0))
        return cls(
            np.concatenate(node),
            np.concatenate(margin),
            np.concatenate(error),
            np.concatenate(gains),
            int(question.budget // a.costs[0]),
        )

    def safe(self) -> Bool:
        """(P,) margins that surely survive."""
        return np.asarray(self._largest(0) < self.margin - self.error)

    def savable(self, skipped: int) -> Bool:
        """(P,) margins that may survive once the ``skipped`` largest gains are taken away."""
        return np.asarray(self._largest(skipped) <= self.margin + self.error)

    def _largest(self, skipped: int) -> Float:
        """(P,) what the budget buys of the gains behind the largest ones."""
        if skipped + self.flips >= self.gains.shape[1]:
            ranked = -np.sort(-self.gains, axis=1)
        else:
            ranked = -np.sort(
                np.partition(-self.gains, skipped + self.flips, axis=1)[:, : skipped + self.flips], axis=1
            )
        return np.asarray(ranked[:, skipped : skipped + self.flips].sum(axis=1))


def choose_by_gains(
    question: Question, weights: Float, costs: Int, budget: int, control: Control, until: float | None = None
) -> Chosen:
    """Labels to confirm, one after the other, each the one that saves the most nodes for its price, or promises to."""
    leads = Leads.of(question)
    n = question.nodes.size
    most = int(np.searchsorted(np.cumsum(np.sort(costs)), budget, side="right"))
    bound = float(weights[_all_safe(leads.node, leads.savable(most), n)].sum())
    order: list[int] = []
    left = budget
    while not control.over():
        reached = float(weights[_all_safe(leads.node, leads.safe(), n)].sum())
        if until is not None and reached >= until - 1e-12:
            break
        worth, promise = _each(leads, weights, n)
        may = (costs <= left) & ((worth > 0) | (promise > 0))
        may[order] = False
        if not may.any():
            break
        ranked = np.lexsort((np.arange(costs.size), -promise / costs, -worth / costs))
        best = int(next(i for i in ranked if may[i]))
        order.append(best)
        left -= int(costs[best])
        leads.gains[:, best] = 0.0
        control.report(budget - left, budget)
    value = float(weights[_all_safe(leads.node, leads.safe(), n)].sum())
    return Chosen(order, value, max(bound, value))


def _each(leads: Leads, weights: Float, n: int) -> tuple[Float, Float]:
    """(ν,) the weight of nodes that each label would save now, and how far it would bring the others."""
    b, nu = leads.flips, leads.gains.shape[1]
    worth, promise = np.zeros(nu), np.zeros(nu)
    top = np.argsort(-leads.gains, axis=1, kind="stable")[:, : b + 1]
    largest = np.take_along_axis(leads.gains, top, axis=1)
    total = largest[:, :b].sum(axis=1)
    following = largest[:, b] if largest.shape[1] > b else np.zeros(len(largest))
    goal = leads.margin - leads.error
    unsafe = np.flatnonzero(~(total < goal))
    missing = np.bincount(leads.node[unsafe], minlength=n)
    for k in range(min(b, nu)):
        less = largest[unsafe, k] - following[unsafe]
        deficit = total[unsafe] - goal[unsafe]
        share = np.where(less > deficit, 1.0, less / np.maximum(deficit, 1e-300))
        np.add.at(promise, top[unsafe, k], weights[leads.node[unsafe]] * np.clip(share, 0.0, 1.0))
    # A node is saved where one label mends all of its leads.
    mends = [
        (unsafe[m], top[unsafe[m], k])
        for k in range(min(b, nu))
        for m in [_mended(largest, total, following, leads, unsafe, k)]
    ]
    pairs = np.concatenate([leads.node[p] * np.int64(nu) + i for p, i in mends] or [np.zeros(0, dtype=np.int64)])
    keys, counts = np.unique(pairs, return_counts=True)
    whole = counts == missing[keys // nu]
    np.add.at(worth, keys[whole] % nu, weights[keys[whole] // nu])
    return worth, promise


def _mended(largest: Float, total: Float, following: Float, leads: Leads, unsafe: Int, k: int) -> Bool:
    after = total[unsafe] - largest[unsafe, k] + following[unsafe]
    return np.asarray(after < leads.margin[unsafe] - leads.error[unsafe])


def _all_safe(node: Int, safe: Bool, n: int) -> Bool:
    """(n,) nodes all of whose leads survive."""
    return np.asarray(np.bincount(node[~safe], minlength=n) == 0)
