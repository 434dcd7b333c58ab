"""Where scores are linear in the labels: what the best purchase within a budget takes off a margin, exactly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labelcert.arrays import Int
from labelcert.verification.arithmetic import Whole, whole
from labelcert.verification.machines import LinearTrainer
from labelcert.verification.statement import Statement


def always_at_cap(statement: Statement, pace: Callable[[], None] = lambda: None) -> bool:
    """Whether every label of every model stays at its cap, whatever the adversary does (hinge loss).

    All labels at their caps are optimal where ``C·y_i (Q y)_i ≤ 1`` for all i. The largest left side is a sum of the
    best gains that the budget buys; that it is below 1 also makes the optimum unique.
    """
    Q, e_Q = whole(statement.K_train)
    cap, e_C = whole(statement.C)
    one = 1 << (e_Q + e_C)
    affordable = np.searchsorted(np.cumsum(np.sort(statement.costs[statement.movable])), statement.budget, side="right")
    for c in range(statement.n_classes):
        member = statement.codes == c
        togglable = np.where(member, statement.allowed.any(axis=1), statement.allowed[:, c])
        y = np.where(member, 1, -1).astype(object)
        signed = Q * y[:, None] * y[None, :] * int(cap)
        for i in range(statement.m):
            pace()
            others = np.flatnonzero(togglable & (np.arange(statement.m) != i))
            for sign, flips in ((1, affordable), (-1, affordable - 1)) if togglable[i] else ((1, affordable),):
                if flips < 0:
                    continue
                terms = sign * signed[i]
                terms[i] = signed[i, i]
                gains = sorted((max(0, -2 * int(v)) for v in terms[others]), reverse=True)
                if int(terms.sum()) + sum(gains[:flips]) >= one:
                    return False
    return True


def proved_radii(
    statement: Statement, machine: LinearTrainer, predicted: Int, pace: Callable[[], None] = lambda: None
) -> Int:
    """(n,) lower ends of radii up to the budget plus 1, each the truth unless a margin is within its doubt of zero."""
    budget = statement.budget
    radius = np.where(predicted < 0, 0, budget + 1).astype(np.int64)
    W = machine.coefficients
    y = np.stack([np.where(statement.codes == c, 1.0, -1.0) for c in range(statement.n_classes)])
    models = machine.train(y)
    for rival in range(statement.n_classes):
        nodes = np.flatnonzero((predicted != rival) & (predicted >= 0))
        own = predicted[nodes]
        gains = np.zeros((statement.m, nodes.size), dtype=object)
        for i in statement.movable.tolist():
            pace()
            source, w = int(statement.codes[i]), 2 * W[nodes, i]
            lost = np.where(own == source, w, 0) - (w if source == rival else 0)
            for target in np.flatnonzero(statement.allowed[i]).tolist():
                gain = lost - np.where(own == target, w, 0) + (w if target == rival else 0)
                gains[i] = np.maximum(gains[i], gain)
        margin = (
            models.value[own, nodes]
            - models.value[rival, nodes]
            - models.error[own, nodes]
            - models.error[rival, nodes]
        )
        falls = ~(margin[None, :] > best_spending(statement, gains)).astype(bool)
        radius[nodes] = np.minimum(radius[nodes], np.where(falls.any(axis=0), falls.argmax(axis=0), budget + 1))
    return radius


def best_spending(statement: Statement, gains: Whole) -> Whole:
    """(B + 1, n) the largest total gain within each budget, from (m, n) gains of single labels."""
    budget, n = statement.budget, gains.shape[1]
    best = np.zeros((budget + 1, n), dtype=object)
    for group in range(-1, statement.caps.size):
        cap = budget if group < 0 else min(budget, int(statement.caps[group]))
        members = [i for i in statement.movable.tolist() if statement.groups[i] == group]
        own = _spending(gains[members], statement.costs[members], cap)
        if group < 0:
            best = own
            continue
        spent = [0, *(b for b in range(1, cap + 1) if np.any(own[b] > own[b - 1]))]
        old = best.copy()
        for b in spent:
            best[b:] = np.maximum(best[b:], old[: budget + 1 - b] + own[b])
    return best


def _spending(gains: Whole, costs: Int, cap: int) -> Whole:
    """The same without groups."""
    n = gains.shape[1]
    if np.unique(costs).size <= 1:
        order = -np.sort(-gains, axis=0)
        total = np.concatenate([np.zeros((1, n), dtype=object), np.cumsum(order, axis=0)])
        unit = int(costs[0]) if costs.size else 1
        return np.asarray(total[np.minimum(np.arange(cap + 1) // unit, len(total) - 1)])
    best = np.zeros((cap + 1, n), dtype=object)
    for gain, cost in zip(gains, costs.tolist(), strict=True):
        if cost <= cap:
            best[cost:] = np.maximum(best[cost:], best[: cap + 1 - cost] + gain)
    return best
