"""The truth about small problems: training on every admissible relabelling in rational arithmetic.

That a solution is optimal is not taken from any solver: its optimality conditions are verified in rational numbers,
and for a convex problem they are a proof. Whole numbers do it: every float64 is one, times a power of two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np
from flint import fmpq

from labelcert.problem import Problem
from labelcert.selfcheck.cases import Case, label_costs, relabellings
from labelcert.svm.exact import ExactRidge, ExactSVM, to_integers
from labelcert.svm.pivoting import new_scratch, settle
from labelcert.svm.training import loose_machine

Signed = tuple[int, ...]
"""Labels of one class against the rest: 1 and -1."""


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
    models = _Models(problem, case)
    n, K, budget = problem.n_test, len(models.classes), problem.max_flips
    labels = case.labels.tolist()
    clean = models.scores(labels, 0)
    tops = [[c for c in range(K) if clean[c][t] == max(clean[k][t] for k in range(K))] for t in range(n)]
    predicted = [top[0] if len(top) == 1 else None for top in tops]
    costs = label_costs(case)
    radius = [0 if c is None else sum(costs) + 1 for c in predicted]
    most = [0] * (budget + 1)
    changed_by = {}
    for change in relabellings(case, costs, budget):
        cost = sum(costs[i] for i in change)
        p = models.scores([change.get(i, label) for i, label in enumerate(labels)], cost)
        hits: list[bool] = []
        news: list[set[Any]] = []
        for t, c in enumerate(predicted):
            high = max(p[r][t] for r in range(K) if r != c)
            hits.append(c is None or bool(high >= p[c][t]))
            news.append({models.classes[r] for r in range(K) if r != c and p[r][t] == high} if hits[-1] else set())
            if hits[-1]:
                radius[t] = min(radius[t], cost)
        changed_by[frozenset(change.items())] = hits, news
        most[cost] = max(most[cost], sum(hits))
    relaxed = [
        (budget + 1, budget + 1) if c is None else models.relaxed_radius(t, c, budget) for t, c in enumerate(predicted)
    ]
    curve = [max(most[: b + 1]) for b in range(budget + 1)]
    return Truth(radius=radius, curve=curve, relaxed=relaxed, predicted=predicted, changed_by=changed_by)


class _Models:
    """The models of all classes; each is trained once on each of its labellings."""

    def __init__(self, problem: Problem, case: Case) -> None:
        self._problem = problem
        self._train = trainer(problem)
        self._trained: dict[Signed, list[fmpq]] = {}
        self.classes = sorted(set(case.labels.tolist()))
        self._cheapest: list[dict[Signed, int]] = [{} for _ in self.classes]

    def scores(self, labels: list[Any], cost: int) -> list[list[fmpq]]:
        """Scores of all test nodes, class by class, after a relabelling of some cost."""
        out = []
        for c, seen in zip(self.classes, self._cheapest, strict=True):
            y = tuple([1 if label == c else -1 for label in labels])
            seen[y] = min(seen.get(y, cost), cost)
            if y not in self._trained:
                self._trained[y] = p = self._train(y)
                self._trained[tuple([-v for v in y])] = [-v for v in p]
            out.append(self._trained[y])
        return out

    def relaxed_radius(self, t: int, c: int, budget: int) -> tuple[int, int]:
        """The least budget at which the scores of two classes can meet, and the least at which they come close.

        Close is what rounding may hide: with rows brought to one scale, a little of the largest score of any node, and
        very little of the largest score that the cap admits, since sums that cancel are no more accurate than their
        terms.
        """
        problem = self._problem
        close = self._scales[t] * (self._largest / 10**5 + 2 * problem.m * exactly(problem.C) / 10**12)
        low = self._extremes(t, [c], budget, min)
        high = self._extremes(t, [r for r in range(len(self.classes)) if r != c], budget, max)
        budgets = range(budget + 1)
        meet = next((b for b in budgets if low[b] <= high[b]), budget + 1)
        return meet, next((b for b in budgets if low[b] - high[b] <= close), budget + 1)

    @cached_property
    def _scales(self) -> list[fmpq]:
        return [sum(map(abs, map(exactly, row)), fmpq(0)) for row in self._problem.K_test.tolist()]

    @cached_property
    def _largest(self) -> fmpq:
        nodes = [t for t, scale in enumerate(self._scales) if scale > 0]
        return max((abs(p[t]) / self._scales[t] for p in self._trained.values() for t in nodes), default=fmpq(0))

    def _extremes(self, t: int, classes: list[int], budget: int, pick: Callable[..., fmpq]) -> list[fmpq]:
        """The least (or largest) score of a node by some classes, within each budget."""
        best: dict[int, fmpq] = {}
        for c in classes:
            for y, cost in self._cheapest[c].items():
                value = self._trained[y][t]
                best[cost] = pick(best.get(cost, value), value)
        return list(accumulate((best.get(b, best[0]) for b in range(budget + 1)), pick))


def exactly(value: float) -> fmpq:
    """A float64 as the rational number that it is.

    Examples
    --------
    >>> exactly(0.75)
    3/4
    """
    return fmpq(*value.as_integer_ratio())


def trainer(problem: Problem) -> Callable[[Signed], list[fmpq]]:
    """From labels (±1) to the scores of all test nodes (those of the square loss up to one positive factor)."""
    rows, digits = to_integers(problem.K_test)
    Q, shift = to_integers(problem.K_train)
    C = Fraction(problem.C)

    if problem.loss == "square":
        ridge = ExactRidge(problem.K_train, problem.C)
        one = C.denominator << shift
        A = [[2 * C.numerator * v + (one if i == j else 0) for j, v in enumerate(row)] for i, row in enumerate(Q)]

        def ridge_scores(y: Signed) -> list[fmpq]:
            Z = [int(v) for v in ridge.solve(list(y))]
            image = [_dot(row, Z) for row in A]
            factor = image[0] * y[0]
            if not (factor > 0 and all(v == factor * label for v, label in zip(image, y, strict=True))):
                raise AssertionError("kernel ridge solution is wrong")
            return [fmpq(_dot(row, Z) * one, factor << digits) for row in rows]

        return ridge_scores

    svm = ExactSVM(problem.K_train, problem.C)
    machine = loose_machine(problem.K_train, problem.C)

    def svm_scores(y: Signed) -> list[fmpq]:
        signs, hint = np.array(y, dtype=float), new_scratch(problem.m)
        settle(machine, hint, signs)
        found = svm.solution(signs, hint.state, hint.z)
        assert found is not None, "too many labels for brute force"
        Z, D = [int(v) for v in found[0]], int(found[1])
        if not is_optimum(Q, shift, C, y, Z, D):
            raise AssertionError("the SVM's solution violates its optimality conditions")
        return [fmpq(_dot(row, Z), D << digits) for row in rows]

    return svm_scores


def is_optimum(Q: list[list[int]], shift: int, C: Fraction, y: Signed, Z: list[int], D: int) -> bool:
    """Whether ``z = Z / D`` satisfies the optimality conditions for the kernel ``Q / 2**shift``, in whole numbers.

    Examples
    --------
    >>> is_optimum([[1, 0], [0, 1]], 0, Fraction(1, 2), (1, -1), [1, -1], 2)
    True
    >>> is_optimum([[1, 0], [0, 1]], 0, Fraction(1, 2), (1, -1), [1, -1], 3)
    False
    """
    if not D > 0:
        return False
    one, cap = D << shift, C.numerator * D
    for row, label, v in zip(Q, y, Z, strict=True):
        alpha, margin = label * v * C.denominator, label * _dot(row, Z)
        if not (0 <= alpha <= cap and (alpha == 0 or margin <= one) and (alpha == cap or margin >= one)):
            return False
    return True


def _dot(a: list[int], b: list[int]) -> int:
    return sum(map(mul, a, b))
