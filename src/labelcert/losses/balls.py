"""Kernel logistic regression and its softmax in ball arithmetic (Arb): as precise as it takes.

A Newton iteration in rising precision starts from what float64 found. The residual of the last iterate, evaluated with
all rounding errors, bounds its distance from the optimum, as in :mod:`~labelcert.losses.newton`. So the iteration need
not be believed.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx

from labelcert.arrays import Float, Int
from labelcert.losses.solutions import LAST_LEVEL, NOTHING, ExactRow, Interval, Solution

BITS = (128, 256, 512, 1024)
"""Precision of each level."""

MOST_STEPS = 150
"""Newton steps per level; more than a few are taken only where float64 did not converge."""

assert len(BITS) == LAST_LEVEL + 1

_PRECISION = threading.RLock()
"""The precision is a property of the process."""


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work with this many bits; one thread at a time."""
    with _PRECISION:
        before = ctx.prec
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec = before


class BallModel(ABC):
    """One kernel and constant, ready to be trained on any labels.

    The solution is a vector of k blocks of m numbers, which the kernel multiplies block by block. With an intercept,
    it is the last entry of each block, and the others add up to 0.

    Parameters
    ----------
    Q : (m, m) array
    C : float
    steepest : float
        Bound on the derivative of each of the functions ``h`` in ``z = h(Qz)``, as a multiple of C.
    blocks : int
    """

    intercept = False

    def __init__(self, Q: Float, C: float, steepest: float, blocks: int = 1) -> None:
        self.m = Q.shape[0]
        self.blocks = blocks
        self.Q = arb_mat([[arb(float(v)) for v in row] for row in Q])
        self.C = arb(float(C))
        self._steepest = arb(steepest)

    @abstractmethod
    def losses(self, f: list[Any], labels: Float) -> Any:
        """The sum of the losses of all labels."""

    @abstractmethod
    def target(self, f: list[Any], labels: Float) -> tuple[list[Any], list[list[Any]]]:
        """``h(f) / C``, and the derivative of ``−h / C`` as a (k, k) list of vectors over the labels."""

    def solve(self, labels: Float, z: list[Any], bits: int) -> tuple[list[Any], Any]:
        """An approximate solution without errors of its own, and a bound on its 2-norm distance from the optimum."""
        with precision(bits):
            found = self._newton(self.C, labels, z, bits)
            if found is None:  # from far away: raise the constant step by step
                z = [arb(0)] * len(z)
                for power in range(-60, 1, 2):
                    found = self._newton(self.C * arb(2) ** power, labels, z, bits)
                    if found is None:
                        break
                    z = found
            z = z if found is None else found
            return z, self._distance(*self._residual(self.C, z, labels)).upper()

    def _distance(self, r: list[Any], slopes: list[list[Any]]) -> Any:
        """Bound on the distance from the optimum, from a residual."""
        spread = _dot(r, self._image(r)).abs_upper().sqrt()
        return _norm(r) + (self.C * self._steepest).sqrt() * spread / 2

    def _newton(self, C: Any, labels: Float, z: list[Any], bits: int) -> list[Any] | None:
        """Newton's method, with steps shortened so that the residual falls; None where that does not converge."""
        z = [v.mid() for v in z]
        r, slopes = self._residual(C, z, labels)
        for _ in range(MOST_STEPS):
            size = _norm(r)
            if size <= arb(2) ** (30 - bits) * _norm(z):
                return z
            step = self._step(r, slopes)
            if step is None:
                return None
            before = self._objective(C, z, labels)
            for halvings in range(60):
                part = arb(2) ** -halvings
                new = [(a - part * e).mid() for a, e in zip(z, step, strict=True)]
                r, slopes = self._residual(C, new, labels)
                # The objective falls on the way; close to the optimum, that is below its last digit.
                if self._objective(C, new, labels) < before or _norm(r) <= (1 - part / 10) * size:
                    break
            else:
                return None
            z = new
        return None

    def _parts(self, z: list[Any]) -> tuple[list[Any], list[Any]]:
        """All dual variables, and the intercepts (0 where there are none)."""
        if not self.intercept:
            return z, [arb(0)] * self.blocks
        size = self.m + 1
        blocks = [z[c * size : (c + 1) * size] for c in range(self.blocks)]
        return [v for block in blocks for v in block[:-1]], [block[-1] for block in blocks]

    def _margins(self, z: list[Any]) -> list[Any]:
        own, b = self._parts(z)
        return [f + b[k // self.m] for k, f in enumerate(self._image(own))]

    def _objective(self, C: Any, z: list[Any], labels: Float) -> Any:
        own, _ = self._parts(z)
        return _dot(own, self._image(own)) / 2 + C * self.losses(self._margins(z), labels)

    def _sizes(self) -> tuple[Any, Any]:
        """Upper bounds on the largest diagonal entry and on the largest eigenvalue (a row's sum) of the kernel."""
        rows = [float(sum((abs(self.Q[i, j]) for j in range(self.m)), arb(0)).upper()) for i in range(self.m)]
        diagonal = max(float(self.Q[i, i].upper()) for i in range(self.m))
        return arb(1.01 * diagonal), arb(1.01 * max(rows))

    def _image(self, z: list[Any]) -> list[Any]:
        out: list[Any] = []
        for start in range(0, len(z), self.m):
            block = self.Q * arb_mat(self.m, 1, z[start : start + self.m])
            out += [block[i, 0] for i in range(self.m)]
        return out

    def _residual(self, C: Any, z: list[Any], labels: Float) -> tuple[list[Any], list[list[Any]]]:
        h, slopes = self.target(self._margins(z), labels)
        own, _ = self._parts(z)
        r = [a - C * b for a, b in zip(own, h, strict=True)]
        if self.intercept:
            parts = [slice(c * self.m, (c + 1) * self.m) for c in range(self.blocks)]
            r = [v for part in parts for v in (*r[part], sum(own[part], arb(0)))]
        return r, [[[C * v for v in slope] for slope in row] for row in slopes]

    def _step(self, r: list[Any], slopes: list[list[Any]]) -> list[Any] | None:
        """``e`` with ``e + DQe = r``, nearly; None where the system cannot be solved in this precision."""
        m, size = self.m, len(r)
        A = arb_mat(size, size)
        for a, row in enumerate(slopes):
            for b, slope in enumerate(row):
                for i in range(m):
                    for j in range(m):
                        A[a * m + i, b * m + j] = (slope[i] * self.Q[i, j]).mid()
        for i in range(size):
            A[i, i] += 1
        try:
            e = A.solve(arb_mat(size, 1, [v.mid() for v in r]))
        except ZeroDivisionError:
            return None
        return [e[i, 0] for i in range(size)]


class BallLogistic(BallModel):
    """Two classes: ``h_i(f) = C y_i σ(−y_i f_i)``, whose derivative is at most C/4."""

    def __init__(self, Q: Float, C: float) -> None:
        super().__init__(Q, C, 0.25)

    def losses(self, f: list[Any], labels: Float) -> Any:
        """Labels are signs, 1 or -1."""
        return sum((_softplus(-int(y) * v) for y, v in zip(labels.tolist(), f, strict=True)), arb(0))

    def target(self, f: list[Any], labels: Float) -> tuple[list[Any], list[list[Any]]]:
        """Labels are signs, 1 or -1."""
        h, slope = [], []
        for y, v in zip(labels.tolist(), f, strict=True):
            x = int(y) * v
            share = (-x).exp() / (1 + (-x).exp()) if float(x.mid()) > 0 else 1 / (1 + x.exp())
            h.append(share * int(y))
            slope.append(share * (1 - share))
        return h, [[slope]]

    def solution(self, y: Float, z: Float) -> BallSolution:
        """The solution for labels ``y`` (±1); ``z`` is an approximate one."""
        return BallSolution(BallTraining(self, y, z))


class BallIntercept(BallLogistic):
    """Two classes and an intercept."""

    intercept = True

    def _step(self, r: list[Any], slopes: list[list[Any]]) -> list[Any] | None:
        (d,) = slopes[0]
        plain, border = super()._step(r[:-1], slopes), super()._step(d, slopes)
        if plain is None or border is None:
            return None
        beta = (sum(plain, arb(0)) - r[-1]) / sum(border, arb(0))
        return [*(a - beta * b for a, b in zip(plain, border, strict=True)), beta]

    def _distance(self, r: list[Any], slopes: list[list[Any]]) -> Any:
        """First from the solution for the same intercept, then from that intercept to the best one."""
        (d,), m = slopes[0], self.m
        inner = super()._distance(r[:-1], slopes).upper()
        v = super()._step(d, slopes)
        if v is None:
            return arb.pos_inf()
        u = [1 - f.mid() for f in self._image([a.mid() for a in v])]
        v = [a * b for a, b in zip(d, u, strict=True)]
        fall = sum(v, arb(0)) ** 2 / (_dot(v, u) + _dot(v, self._image(v)))
        shift = (arb(1).exp() * (abs(r[-1]) + arb(m).sqrt() * inner) / fall).upper()
        diagonal, largest = self._sizes()
        moved = shift * (1 + (m * self.C * diagonal).sqrt() / 4) + (largest * diagonal).sqrt() * _norm(r[:-1])
        if not (fall > 0 and moved < 1):
            return arb.pos_inf()
        return inner + shift * (1 + (1 + (self.C * largest).sqrt() / 4) * arb(1).exp() * _norm(d))


class BallSoftmax(BallModel):
    """K classes in one problem: ``h(f) = C (one-hot − softmax)``, whose derivative is at most C/2."""

    def __init__(self, Q: Float, C: float, n_classes: int) -> None:
        super().__init__(Q, C, 0.5, n_classes)

    def losses(self, f: list[Any], labels: Float) -> Any:
        """Labels are positions of classes."""
        m, total = self.m, arb(0)
        for i, label in enumerate(labels):
            own = f[int(label) * m + i]
            top = max((f[c * m + i] for c in range(self.blocks)), key=lambda v: float(v.mid())).mid()
            total += sum(((f[c * m + i] - top).exp() for c in range(self.blocks)), arb(0)).log() + top - own
        return total

    def target(self, f: list[Any], labels: Float) -> tuple[list[Any], list[list[Any]]]:
        """Labels are positions of classes."""
        m, K = self.m, self.blocks
        p: list[list[Any]] = [[None] * m for _ in range(K)]
        for i in range(m):
            values = [f[c * m + i] for c in range(K)]
            top = max(values, key=lambda v: float(v.mid())).mid()
            powers = [(v - top).exp() for v in values]
            total = sum(powers, arb(0))
            for c in range(K):
                p[c][i] = powers[c] / total
        h = [(1 if labels[i] == c else 0) - p[c][i] for c in range(K) for i in range(m)]

        def slope(a: int, b: int) -> list[Any]:
            return [p[a][i] * ((1 if a == b else 0) - p[b][i]) for i in range(m)]

        return h, [[slope(a, b) for b in range(K)] for a in range(K)]

    def solutions(self, codes: Int, Z: Float) -> list[BallSolution]:
        """The solution of each class, for labels ``codes``; ``Z`` (K, m) is an approximate one."""
        training = BallTraining(self, codes.astype(np.float64), Z.ravel())
        return [BallSolution(training, c) for c in range(self.blocks)]


class BallSoftmaxIntercept(BallSoftmax):
    """With an intercept for each class. Only their differences matter, and only those of scores are known."""

    intercept = True

    def _step(self, r: list[Any], slopes: list[list[Any]]) -> list[Any] | None:
        m, K, size = self.m, self.blocks, self.m + 1
        A = arb_mat(K * size, K * size)
        for a in range(K):
            for i in range(m):
                for b in range(K):
                    for j in range(m):
                        A[a * size + i, b * size + j] = (slopes[a][b][i] * self.Q[i, j]).mid()
                    A[a * size + i, b * size + m] = slopes[a][b][i].mid()
                A[a * size + i, a * size + i] += 1
                A[a * size + m, a * size + i] = arb(1)
            for b in range(K):
                A[a * size + m, b * size + m] = arb(1)
        try:
            e = A.solve(arb_mat(K * size, 1, [v.mid() for v in r]))
        except ZeroDivisionError:
            return None
        return [e[i, 0] for i in range(K * size)]

    def _distance(self, r: list[Any], slopes: list[list[Any]]) -> Any:
        """First from the solution for the same intercepts, then from these to the best ones."""
        m, K = self.m, self.blocks
        rest, sums = self._parts(r)
        inner = super()._distance(rest, slopes).upper()

        def times(x: list[Any]) -> list[Any]:
            return [sum((slopes[a][b][i] * x[b * m + i] for b in range(K)), arb(0)) for a in range(K) for i in range(m)]

        E = [[arb(1 if c == k else -1 if c == k + 1 else 0) for c in range(K) for _ in range(m)] for k in range(K - 1)]
        U = []
        for column in E:
            v = BallModel._step(self, times(column), slopes)
            if v is None:
                return arb.pos_inf()
            U.append([(a - b).mid() for a, b in zip(column, self._image([x.mid() for x in v]), strict=True)])
        DU = [times(u) for u in U]
        QDU = [self._image(v) for v in DU]
        low = [
            [_dot(E[x], DU[y]) + _dot(E[y], DU[x]) - _dot(U[x], DU[y]) - _dot(DU[x], QDU[y]) for y in range(K - 1)]
            for x in range(K - 1)
        ]
        # E is not orthonormal, but no vector becomes more than twice as long by it.
        fall = _smallest_eigenvalue(low) / 4
        if not fall > 0:
            return arb.pos_inf()
        shift = (arb(1).exp() * (_norm(sums) + arb(m).sqrt() * inner) / fall).upper()
        diagonal, largest = self._sizes()
        moved = shift * (1 + (m * self.C * diagonal / 2).sqrt() / 2) + (largest * diagonal).sqrt() * _norm(rest)
        if not moved < arb(1) / 4:
            return arb.pos_inf()
        return inner + shift * (1 + (1 + (self.C * largest / 2).sqrt() / 2) * self.C * arb(m).sqrt() / 2)


def _smallest_eigenvalue(A: list[list[Any]]) -> Any:
    """A lower bound on the smallest eigenvalue of a symmetric matrix of balls: what can be taken off its diagonal."""
    size = len(A)
    guess = float(np.linalg.eigvalsh(np.array([[float(v.mid()) for v in row] for row in A]))[0])
    if not guess > 0.0:
        return arb(0)
    off = arb(0.9 * guess)
    L = [[A[i][j] - (off if i == j else 0) for j in range(size)] for i in range(size)]
    for k in range(size):  # elimination without exchanges: positive definite if all pivots are positive
        if not L[k][k] > 0:
            return arb(0)
        for i in range(k + 1, size):
            factor = L[i][k] / L[k][k]
            for j in range(k + 1, size):
                L[i][j] = L[i][j] - factor * L[k][j]
    return off


class BallTraining:
    """One training, at whatever precision was asked for so far."""

    def __init__(self, model: BallModel, labels: Float, z: Float) -> None:
        self.m = z.size // model.blocks
        self._model, self._labels = model, labels
        self._known: list[tuple[list[Any], Any]] = []
        self._start = [arb(float(v)) for v in z]

    def at(self, level: int) -> tuple[list[Any], Any]:
        """An approximate solution, and a bound on its distance from the optimum."""
        with _PRECISION:
            while len(self._known) <= level:
                start = self._known[-1][0] if self._known else self._start
                self._known.append(self._model.solve(self._labels, start, BITS[len(self._known)]))
            return self._known[level]


class BallSolution(Solution):
    """One block of a training's solution."""

    def __init__(self, training: BallTraining, block: int = 0) -> None:
        self._training, self._block = training, block

    def score(self, row: ExactRow, level: int) -> Interval | None:
        """The product with the approximate solution, wider by the row's norm times the error."""
        if not any(row.numbers):
            return NOTHING
        z, error = self._training.at(level)
        m = self._training.m
        with precision(BITS[level]):
            own = z[self._block * m : (self._block + 1) * m]
            product = sum((arb(k) * v for k, v in zip(row.numbers, own, strict=True)), arb(0))
            wide = error * sum((arb(k) * k for k in row.numbers), arb(0)).sqrt()
            low, high = (product - wide).lower(), (product + wide).upper()
            if not (low.is_finite() and high.is_finite()):
                return None
            return _fraction(low) / 2**row.shift, _fraction(high) / 2**row.shift

    def rounded(self) -> tuple[Float, float]:
        """From the first level."""
        z, error = self._training.at(0)
        m = self._training.m
        own = z[self._block * m : (self._block + 1) * m]
        return np.array([float(v.mid()) for v in own]), 1.01 * float(error.upper()) + 1e-290


def _softplus(x: Any) -> Any:
    """``log(1 + exp(x))``, without a loss of digits for large x."""
    return x + (-x).exp().log1p() if float(x.mid()) > 0 else x.exp().log1p()


def _dot(a: list[Any], b: list[Any]) -> Any:
    return sum((x * y for x, y in zip(a, b, strict=True)), arb(0))


def _norm(values: list[Any]) -> Any:
    return sum((v * v for v in values), arb(0)).abs_upper().sqrt()


def _fraction(value: Any) -> Fraction:
    mantissa, exponent = (int(v) for v in value.man_exp())
    return Fraction(mantissa) * Fraction(2) ** exponent
