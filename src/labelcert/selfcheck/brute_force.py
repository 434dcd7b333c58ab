"""The truth about small problems: training on every admissible relabelling in rational arithmetic, or at 300 digits.

That a solution is optimal is not taken from any solver: its optimality conditions are verified in rational numbers,
and for a convex problem they are a proof. Whole numbers do it: every float64 is one, times a power of two. Where the
optimum is not rational, they are verified to 240 digits, and scores are rounded to 200: what is equal then is a tie.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from operator import mul
from typing import Any

import numpy as np
from flint import arb, fmpq

from labelcert.arrays import Bool, Float, Int
from labelcert.losses import get_loss
from labelcert.losses.balls import BallIntercept, BallLogistic, BallSoftmax, BallSoftmaxIntercept, precision
from labelcert.losses.softmax import SoftmaxMachine
from labelcert.problem import REMOVED, Problem
from labelcert.problem.lowering import lowered
from labelcert.selfcheck.cases import Case, label_costs, relabellings
from labelcert.svm.exact import ExactRidge, ExactSVM
from labelcert.svm.pivoting import new_scratch, settle
from labelcert.svm.training import loose_machine

Signed = tuple[int, ...]
"""Labels of one class against the rest: 1 and -1, and 0 for labels that are removed."""


@dataclass(frozen=True, eq=False)
class Truth:
    """What brute force found."""

    radius: list[int]
    curve: list[int]
    relaxed: list[tuple[int, int]]
    """The relaxed radius of each node, and a smaller one that leaves room for rounding."""
    predicted: list[int | None]
    """Clean classes, None for a tie."""
    rows: dict[frozenset[tuple[int, Any]], int]
    """Number of each relabelling, a set of (index, new label)."""
    hits: Bool
    """(R, n) which nodes each relabelling changes."""
    becomes: Bool
    """(R, K, n) which classes, other than the clean one, then have the highest score of each node."""
    tied: bool
    """Whether some relabelling leaves the highest score of some node to several classes."""

    def changed(self, change: dict[int, Any]) -> Bool:
        """(n,) which nodes a relabelling changes; none, if it is not admissible."""
        row = self.rows.get(frozenset(change.items()))
        return np.zeros(self.hits.shape[1], dtype=bool) if row is None else self.hits[row]

    def new_classes(self, change: dict[int, Any], t: int) -> list[int]:
        """What a node becomes by an admissible relabelling; several classes, if they are tied."""
        return [int(c) for c in np.flatnonzero(self.becomes[self.rows[frozenset(change.items())], :, t])]


def brute_force(case: Case) -> Truth:
    """Train one model per class on every admissible relabelling, exactly."""
    problem = case.build()
    budget, n, labels, costs = problem.max_flips, problem.n_test, case.labels.tolist(), label_costs(case)
    changes = list(relabellings(case, costs, budget))  # the clean labels come first
    models = _Models(problem, sorted(set(labels)))
    models.train([[change.get(i, label) for i, label in enumerate(labels)] for change in changes])
    p, cost = models.ranks, np.array([sum(costs[i] for i in change) for change in changes])
    tops = p[0] == p[0].max(axis=0)
    predicted = [int(top.argmax()) if top.sum() == 1 else None for top in tops.T]
    rivals, own = p.copy(), np.full((len(changes), n), -1)
    for t, c in enumerate(predicted):
        if c is not None:
            own[:, t], rivals[:, c, t] = p[:, c, t], -1
    high = rivals.max(axis=1)
    hits = high >= own
    least = _least_lead(problem, case.margin)
    if case.margin:
        for row, t in zip(*np.nonzero(~hits), strict=True):
            hits[row, t] = models.lead(row, t, predicted[t], int(rivals[row, :, t].argmax())) <= least
    curve = [int(hits[cost <= b].sum(axis=1).max()) for b in range(budget + 1)]
    return Truth(
        radius=[int(cost[hits[:, t]].min(initial=sum(costs) + 1)) for t in range(n)],
        curve=curve,
        relaxed=[
            (budget + 1, budget + 1) if c is None else models.relaxed_radius(t, c, cost, least)
            for t, c in enumerate(predicted)
        ],
        predicted=predicted,
        rows={frozenset(change.items()): row for row, change in enumerate(changes)},
        hits=hits,
        becomes=rivals == high[:, None],
        tied=bool(np.any((p == p.max(axis=1, keepdims=True)).sum(axis=1) > 1)),
    )


class _Models:
    """One model per class, each trained once on each of its labellings."""

    def __init__(self, problem: Problem, classes: list[Any]) -> None:
        self._problem, self._classes = problem, classes
        self._number: dict[Signed, int] = {}
        self._softmax: dict[tuple[int, ...], Callable[[list[int]], list[list[fmpq]]]] = {}
        self._trainers: dict[tuple[int, ...], Callable[[Signed], list[fmpq]]] = {}
        self._scores: list[list[fmpq]] = []
        self._used = np.zeros((0, len(classes)), dtype=np.int64)

    def train(self, relabelled: list[list[Any]]) -> None:
        """Train all models on every one of these labels."""
        if self._problem.coupled:
            none = [[fmpq(0)] * self._problem.n_test] * len(self._classes)
            for labels in relabelled:
                left = tuple(i for i, v in enumerate(labels) if v is not REMOVED)
                codes = [self._classes.index(labels[i]) for i in left]
                self._scores += self._together(left)(codes) if left else none
            self._used = np.arange(len(self._scores)).reshape(len(relabelled), len(self._classes))
            return

        def number(y: Signed) -> int:
            if y not in self._number:
                left = tuple(i for i, v in enumerate(y) if v != 0)
                p = self._alone(left)(tuple(y[i] for i in left)) if left else [fmpq(0)] * self._problem.n_test
                for signed, scores in ((y, p), (tuple([-v for v in y]), [-v for v in p])):
                    self._number[signed] = len(self._scores)
                    self._scores.append(scores)
            return self._number[y]

        self._used = np.array([[number(_signs(labels, c)) for c in self._classes] for labels in relabelled])

    def _together(self, left: tuple[int, ...]) -> Callable[[list[int]], list[list[fmpq]]]:
        """What trains on some of the labels, all classes at once."""
        if left not in self._softmax:
            self._softmax[left] = softmax_trainer(_some(self._problem, left))
        return self._softmax[left]

    def _alone(self, left: tuple[int, ...]) -> Callable[[Signed], list[fmpq]]:
        """What trains on some of the labels, one class against the rest."""
        if left not in self._trainers:
            self._trainers[left] = trainer(_some(self._problem, left))
        return self._trainers[left]

    @cached_property
    def ranks(self) -> Int:
        """(R, K, n) scores of all classes after each relabelling, as their places among all scores of the node."""
        places = np.empty((len(self._scores), self._problem.n_test), dtype=np.int64)
        for t in range(self._problem.n_test):
            values = [p[t] for p in self._scores]
            rounded = [int(v.p) / int(v.q) for v in values]
            # Few exact comparisons are left to the second sort, since the first one gets nearly everything right.
            order = sorted(sorted(range(len(values)), key=rounded.__getitem__), key=values.__getitem__)
            higher = [values[i] > values[j] for j, i in pairwise(order)]
            places[order, t] = np.cumsum([0, *higher])
        return places[self._used]

    def lead(self, row: int, t: int, c: int, r: int) -> fmpq:
        """Score of class ``c`` minus that of ``r`` for node ``t``, after one of the relabellings."""
        return self._scores[self._used[row, c]][t] - self._scores[self._used[row, r]][t]

    def relaxed_radius(self, t: int, c: int, cost: Int, least: fmpq) -> tuple[int, int]:
        """The least budget at which class ``c`` of node ``t`` can meet another, and the least at which they come close.

        Scores meet where they differ by ``least``. Close is what rounding may hide: with rows brought to one scale, a
        little of the largest score of any node, and very little of the largest score that the cap admits, since sums
        that cancel are no more accurate than their terms.
        """
        problem = self._problem
        largest = problem.trained_with.largest_dual(problem.m, problem.C)
        close = self._scales[t] * (self._largest / 10**5 + 2 * problem.m * exactly(largest) / 10**12)
        others = [r for r in range(len(self._classes)) if r != c]
        meet = near = problem.max_flips + 1
        for b in range(problem.max_flips, -1, -1):
            within, used = self.ranks[cost <= b, :, t], self._used[cost <= b]
            low = self._scores[used[within[:, c].argmin(), c]][t]
            high = self._scores[used[:, others].flat[within[:, others].argmax()]][t]
            meet = b if low - high <= least else meet
            near = b if low - high <= least + close else near
        return meet, near

    @cached_property
    def _scales(self) -> list[fmpq]:
        return [sum(map(abs, map(exactly, row)), fmpq(0)) for row in self._problem.test_rows.tolist()]

    @cached_property
    def _largest(self) -> fmpq:
        nodes = [t for t, scale in enumerate(self._scales) if scale > 0]
        return max((abs(p[t]) / self._scales[t] for p in self._scores for t in nodes), default=fmpq(0))


def _signs(labels: list[Any], c: Any) -> Signed:
    """Labels of one class against the rest."""
    return tuple([0 if v is REMOVED else 1 if v == c else -1 for v in labels])


def _some(problem: Problem, left: tuple[int, ...]) -> Problem:
    """The problem of the labels that are left."""
    at = list(left)
    K_train, K_test = problem.K_train[np.ix_(at, at)], problem.K_test[:, at]
    return replace(problem, K_train=K_train, K_test=K_test, codes=problem.codes[at], labels=problem.labels[at])


def _least_lead(problem: Problem, margin: float) -> fmpq:
    """The margin in units of the scores here, as certificates round it: what a label alone adds to its class's lead.

    Of two classes there are two scores here, so that the lead is twice the score of the model.
    """
    if margin == 0.0:
        return fmpq(0)
    alone = lowered(problem, np.zeros(problem.n_test, dtype=np.int64), margin)
    entry, own = exactly(-float(alone.K_test[0, problem.m])), exactly(float(alone.K_train[-1, -1]))
    C = exactly(problem.C)
    if problem.loss == "hinge":
        assert own * C <= 1, "a label alone is not at its cap"
        return 2 * C * entry
    if problem.loss == "square":
        return 2 * entry / (2 * C * own + 1)
    if problem.loss == "squared_hinge":
        return 2 * entry / (own + 1 / (2 * C))
    return exactly(margin) * (2 if problem.n_classes == 2 and not problem.coupled else 1)


def exactly(value: float) -> fmpq:
    """A float64 as the rational number that it is."""
    return fmpq(*value.as_integer_ratio())


def whole_numbers(A: Float) -> tuple[list[list[int]], int]:
    """Integers ``N`` and a shift with ``A = N / 2**shift``; on its own, so that the solver's are checked, too."""
    ratios = [[value.as_integer_ratio() for value in row] for row in A.tolist()]
    shift = max(below.bit_length() - 1 for row in ratios for _, below in row)
    return [[above * ((1 << shift) // below) for above, below in row] for row in ratios], shift


def trainer(problem: Problem) -> Callable[[Signed], list[fmpq]]:
    """From labels (±1) to the scores of all test nodes (those of the square loss up to one positive factor)."""
    rows, digits = whole_numbers(problem.K_test)
    Q, shift = whole_numbers(problem.K_train)
    C = Fraction(problem.C)

    if problem.trained_with.kind == "square":
        ridge = ExactRidge(problem.K_train, problem.C, intercept=problem.intercept)
        one = C.denominator << shift
        A = [[2 * C.numerator * v + (one if i == j else 0) for j, v in enumerate(row)] for i, row in enumerate(Q)]
        if problem.intercept:  # the last entry of a solution, and of a row
            A, rows = [[*row, 2 * C.numerator << shift] for row in A], [[*row, 1 << digits] for row in rows]

        def ridge_scores(y: Signed) -> list[fmpq]:
            Z = [int(v) for v in ridge.solve(list(y))]
            image = [_dot(row, Z) for row in A]
            factor = image[0] * y[0]
            right = all(v == factor * label for v, label in zip(image, y, strict=True))
            if not (factor > 0 and right and (not problem.intercept or sum(Z[:-1]) == 0)):
                raise AssertionError("kernel ridge solution is wrong")
            return [fmpq(_dot(row, Z) * one, factor << digits) for row in rows]

        return ridge_scores

    if not problem.trained_with.rational:
        return logistic_trainer(problem)
    if problem.loss == "squared_hinge":
        # On a kernel with 1/(2C) more on its diagonal, with a cap that is out of reach.
        C = 4 * C * math.isqrt(problem.m + 3)
        own = 1 / (2 * Fraction(problem.C))
        Q = [[own.denominator * v for v in row] for row in Q]
        for i in range(problem.m):
            Q[i][i] += own.numerator << shift
        one, svm = own.denominator << shift, ExactSVM(problem.K_train, float(C), ridge=own)
        machine = loose_machine(problem.K_train + np.eye(problem.m) * float(own), float(C))
        C = Fraction(float(C))
    else:
        one, svm = 1 << shift, ExactSVM(problem.K_train, problem.C)
        machine = loose_machine(problem.K_train, problem.C)

    def svm_scores(y: Signed) -> list[fmpq]:
        signs, hint = np.array(y, dtype=float), new_scratch(problem.m)
        settle(machine, hint, signs)
        found = svm.solution(signs, hint.state, hint.z)
        assert found is not None, "too many labels for brute force"
        Z, D = [int(v) for v in found[0]], int(found[1])
        if not is_optimum(Q, one, C, y, Z, D):
            raise AssertionError("the SVM's solution violates its optimality conditions")
        return [fmpq(_dot(row, Z), D << digits) for row in rows]

    return svm_scores


DIGITS = 200
"""Digits of scores that are not rational, relative to the largest dual variable."""


def logistic_trainer(problem: Problem) -> Callable[[Signed], list[fmpq]]:
    """The same for logistic regression, with scores that are rounded to 200 digits."""
    C = problem.C * (2.0 if problem.trained_with.coupled else 1.0)
    intercept = problem.intercept
    model = (BallIntercept if intercept else BallLogistic)(problem.K_train, C)
    start = get_loss("logistic", intercept=intercept)

    def scores(y: Signed) -> list[fmpq]:
        labels = np.array(y, dtype=float)
        z, _ = model.solve(labels, [arb(float(v)) for v in start.train(problem.K_train, labels, C)], 1100)
        with precision(1100):
            b = z.pop() if intercept else arb(0)
            f = [v + b for v in _images(problem.K_train, z)]
            gaps = [arb(C) * label / (1 + (label * v).exp()) - a for label, v, a in zip(y, f, z, strict=True)]
            gaps += [sum(z, arb(0))] if intercept else []
            return _rounded(problem, C, gaps, [v + b for v in _images(problem.K_test, z)])

    return scores


def softmax_trainer(problem: Problem) -> Callable[[list[int]], list[list[fmpq]]]:
    """From labels (class codes) to the scores of all test nodes for each class."""
    m, K, C, intercept = problem.m, problem.n_classes, problem.C, problem.intercept
    model = (BallSoftmaxIntercept if intercept else BallSoftmax)(problem.K_train, C, K)
    machine = SoftmaxMachine.of(problem.K_train, C, K, intercept=intercept)

    def train(labels: list[int]) -> list[list[fmpq]]:
        codes = np.array(labels)
        z, _ = model.solve(codes, [arb(float(v)) for v in machine.train(codes[None])[0].ravel()], 1100)
        with precision(1100):
            size = m + 1 if intercept else m
            blocks = [z[c * size : c * size + m] for c in range(K)]
            b = [z[c * size + m] - z[m] for c in range(K)] if intercept else [arb(0)] * K
            f = [[v + b[c] for v in _images(problem.K_train, block)] for c, block in enumerate(blocks)]
            gaps = [sum(block, arb(0)) for block in blocks] if intercept else []
            for i, label in enumerate(labels):
                for c in range(K):
                    share = 1 / sum(((f[r][i] - f[c][i]).exp() for r in range(K)), arb(0))
                    gaps.append(arb(C) * ((1 if label == c else 0) - share) - blocks[c][i])
            scores = [[v + b[c] for v in _images(problem.K_test, block)] for c, block in enumerate(blocks)]
            return [_rounded(problem, C, gaps, own) for own in scores]

    return train


def _images(K: Float, z: list[Any]) -> list[Any]:
    return [sum((arb(k) * v for k, v in zip(row, z, strict=True)), arb(0)) for row in K.tolist()]


def _rounded(problem: Problem, C: float, gaps: list[Any], scores: list[Any]) -> list[fmpq]:
    """Scores as multiples of a tiny unit, if the optimality conditions hold to many more digits."""
    if not all(abs(gap) < arb(C) * arb(10) ** -(DIGITS + 40) for gap in gaps):
        raise AssertionError("the solution of the logistic loss violates its optimality conditions")
    out = []
    for row, score in zip(problem.K_test.tolist(), scores, strict=True):
        size = C * sum(map(abs, row)) + (1.0 if problem.intercept else 0.0)
        unit = fmpq(*size.as_integer_ratio()) / fmpq(10) ** DIGITS
        if unit == 0:
            out.append(fmpq(0))
            continue
        mantissa, exponent = (int(v) for v in score.mid().man_exp())
        value = fmpq(mantissa) * fmpq(2) ** exponent / unit
        out.append(fmpq((2 * value.p + value.q) // (2 * value.q)) * unit)
    return out


def is_optimum(Q: list[list[int]], unit: int, C: Fraction, y: Signed, Z: list[int], D: int) -> bool:
    """Whether ``z = Z / D`` satisfies the optimality conditions for the kernel ``Q / unit``, in whole numbers.

    Examples
    --------
    >>> is_optimum([[1, 0], [0, 1]], 1, Fraction(1, 2), (1, -1), [1, -1], 2)
    True
    >>> is_optimum([[1, 0], [0, 1]], 1, Fraction(1, 2), (1, -1), [1, -1], 3)
    False
    """
    if not D > 0:
        return False
    one, cap = D * unit, C.numerator * D
    for row, label, v in zip(Q, y, Z, strict=True):
        alpha, margin = label * v * C.denominator, label * _dot(row, Z)
        if not (0 <= alpha <= cap and (alpha == 0 or margin <= one) and (alpha == cap or margin >= one)):
            return False
    return True


def _dot(a: list[int], b: list[int]) -> int:
    return sum(map(mul, a, b))
