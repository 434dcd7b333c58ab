"""The truth about small problems: training on every admissible relabelling in rational arithmetic.

That a solution is optimal is not taken from any solver: its optimality conditions are verified in rational numbers,
and for a convex problem they are a proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from labelcert.arrays import Float
from labelcert.problem import Problem
from labelcert.selfcheck.cases import Case, label_costs, relabellings
from labelcert.svm.exact import ExactRidge, ExactSVM
from labelcert.svm.pivoting import new_scratch, settle
from labelcert.svm.training import loose_machine


@dataclass(frozen=True, eq=False)
class Truth:
    """What brute force found.

    Attributes
    ----------
    radius, curve : lists of int
    relaxed : list of (int, int)
        The relaxed radius of each node, and a smaller one that leaves room for rounding.
    predicted : list of int or None
        Clean classes, None for a tie.
    changed_by : dict
        Which nodes each relabelling, a set of (index, new label), changes; also the new top classes of each node.
    """

    radius: list[int]
    curve: list[int]
    relaxed: list[tuple[int, int]]
    predicted: list[int | None]
    changed_by: dict[frozenset[tuple[int, Any]], tuple[list[bool], list[set[Any]]]]


def brute_force(case: Case) -> Truth:
    """Train one model per class on every admissible relabelling, exactly."""
    problem = case.build()
    Q = [[Fraction(v) for v in row] for row in problem.K_train.tolist()]
    rows = [[Fraction(v) for v in row] for row in problem.K_test.tolist()]
    trained: dict[tuple[float, ...], list[Fraction]] = {}
    train = _trainer(problem, Q, rows)
    classes = sorted(set(case.labels.tolist()))
    n, m, K, budget = len(rows), problem.m, len(classes), problem.max_flips
    C = Fraction(problem.C)

    def scores(labels: list[Any]) -> list[list[Fraction]]:
        out = []
        for c in classes:
            y = tuple(1.0 if label == c else -1.0 for label in labels)
            if y not in trained:
                opposite = trained.get(tuple(-v for v in y))
                trained[y] = train(np.array(y)) if opposite is None else [-p for p in opposite]
            out.append(trained[y])
        return out

    labels = case.labels.tolist()
    clean = scores(labels)
    tops = [[c for c in range(K) if clean[c][t] == max(clean[k][t] for k in range(K))] for t in range(n)]
    predicted = [top[0] if len(top) == 1 else None for top in tops]
    costs = label_costs(case)
    never = sum(costs) + 1
    radius = [0 if c is None else never for c in predicted]
    most = [0] * (budget + 1)
    least = [[[clean[c][t]] * (budget + 1) for t in range(n)] for c in range(K)]
    largest = [[[clean[c][t]] * (budget + 1) for t in range(n)] for c in range(K)]
    changed_by = {}
    for change in relabellings(case, costs, budget):
        p = scores([change.get(i, label) for i, label in enumerate(labels)])
        cost = sum(costs[i] for i in change)
        hits, news = [], []
        for t, c in enumerate(predicted):
            high = max(p[r][t] for r in range(K) if r != c)
            hits.append(True if c is None else high >= p[c][t])
            news.append({classes[r] for r in range(K) if r != c and p[r][t] == high})
            if hits[-1]:
                radius[t] = min(radius[t], cost)
            for k in range(K):
                least[k][t][cost] = min(least[k][t][cost], p[k][t])
                largest[k][t][cost] = max(largest[k][t][cost], p[k][t])
        changed_by[frozenset(change.items())] = hits, news
        most[cost] = max(most[cost], sum(hits))
    relaxed = [
        (budget + 1, budget + 1)
        if c is None
        else _relaxed_radius(
            [min(least[c][t][: b + 1]) for b in range(budget + 1)],
            [max(max(largest[r][t][: b + 1]) for r in range(K) if r != c) for b in range(budget + 1)],
            max(abs(p[t]) for p in trained.values()) / 10**5 + 2 * m * C * sum(map(abs, rows[t])) / 10**12,
        )
        for t, c in enumerate(predicted)
    ]
    curve = [max(most[: b + 1]) for b in range(budget + 1)]
    return Truth(radius=radius, curve=curve, relaxed=relaxed, predicted=predicted, changed_by=changed_by)


def _relaxed_radius(low: list[Fraction], high: list[Fraction], close: Fraction) -> tuple[int, int]:
    """The least budget at which the scores of two classes can meet, and the least at which they come close.

    Close is what rounding may hide: a little of the largest score, and very little of the largest score that the cap
    admits, since sums that cancel are no more accurate than their terms.
    """
    budgets = range(len(low))
    meet = next((b for b in budgets if low[b] <= high[b]), len(low))
    return meet, next((b for b in budgets if low[b] - high[b] <= close), len(low))


def _trainer(
    problem: Problem, Q: list[list[Fraction]], rows: list[list[Fraction]]
) -> Callable[[Float], list[Fraction]]:
    C = Fraction(problem.C)
    m = problem.m
    svm = ExactSVM(problem.K_train, problem.C)
    ridge = ExactRidge(problem.K_train, problem.C)
    machine = loose_machine(problem.K_train, problem.C)

    def scores(y: Float) -> list[Fraction]:
        labels = [int(v) for v in y]
        if problem.loss == "square":
            direction = [Fraction(int(v)) for v in ridge.solve(labels)]
            A = [[2 * C * Q[i][j] + (i == j) for j in range(m)] for i in range(m)]
            image = [_dot(A[i], direction) for i in range(m)]
            factor = image[0] * labels[0]
            if not (factor > 0 and all(image[i] == factor * labels[i] for i in range(m))):
                raise AssertionError("kernel ridge solution is wrong")
            return [_dot(row, direction) / factor for row in rows]
        hint = new_scratch(m)
        settle(machine, hint, y)
        Z = [int(v) for v in svm.train(y, hint.state, hint.z) or ()]
        z = _scale_to_optimum(Q, C, labels, Z)
        return [_dot(row, z) for row in rows]

    return scores


def _scale_to_optimum(Q: list[list[Fraction]], C: Fraction, y: list[int], Z: list[int]) -> list[Fraction]:
    """The multiple of ``Z`` that satisfies the optimality conditions, verified; they fix the scale.

    Some label is at its cap or has margin exactly 1: candidates for the scale come from these.
    """
    m = len(y)
    direction = [Fraction(v) for v in Z]
    f = [_dot(Q[i], direction) for i in range(m)]
    scales = {C / abs(v) for v in direction if v} | {1 / (y[i] * f[i]) for i in range(m) if y[i] * f[i] > 0}
    for s in scales:
        alpha = [y[i] * s * direction[i] for i in range(m)]
        margin = [y[i] * s * f[i] for i in range(m)]
        if all(0 <= a <= C and (a == 0 or g <= 1) and (a == C or g >= 1) for a, g in zip(alpha, margin, strict=True)):
            return [s * v for v in direction]
    raise AssertionError("no multiple of the solution satisfies the optimality conditions")


def _dot(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((x * v for x, v in zip(a, b, strict=True)), Fraction(0))
