"""The models of a certificate, trained again: scores as whole numbers, with bounds on their errors.

Training starts from scratch, in plain NumPy, and need not be right: how far its scores can be from those of the optimal
model follows from the duality gap of what it returned, which is computed in whole numbers. Where that is not enough to
decide, the model is solved exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.verification.arithmetic import Elimination, Whole, optimal_dual, root, shifted, shifted_up, whole
from labelcert.verification.statement import LINEAR, Statement

LARGEST_EXACT = 256
"""Most labels for which linear systems are solved exactly."""

TOO_MANY_LABELS = f"more than {LARGEST_EXACT} labels: exact elimination would take too long"

SHARE_BITS = 60
"""Dual variables are rounded to multiples of ``C · 2**-60``."""

GOOD_GAP = 1e-13
"""A duality gap, as a share of the cap, that needs no more work."""

SAFE = 1.0 + 1e-9
"""Covers the rounding of a few products and roots of numbers that are bounds already."""

UNIT = 2.0**-53
"""Half the distance from 1 to the next float64."""

NORM_BITS = 192
"""Bits that norms have beyond those of the test rows."""

ROOM = 500_000
"""Labels of solutions that are kept to start others from."""

FEW = 48
"""Most labels for which systems of many labellings are solved side by side."""

GUESSES = 20
"""How often it is guessed which labels are free."""

STRIDES = (1.0, 0.5, 0.2, 0.05)
"""How far to go to what a guess leads to: the best of these."""

FEW_SWEEPS = 10
"""Sweeps after which it is nearly always right to guess which labels are free."""

COARSE_BITS = 26
"""Bounds over many attacks at once are products of factors with this many bits, rounded up: their sums fit 64 bits."""


@dataclass(frozen=True, eq=False)
class Trained:
    """N models, of one class or of several, under N labellings.

    Attributes
    ----------
    value : (N, n) whole numbers
        Scores, in units of the machine.
    error : (N, n) whole numbers
        How far they can be from the true ones.
    weight : (N, m) array
        What a flip of each label can move, in coarse units: see :meth:`Trainer.drop`.
    y : (N, m) array
    """

    value: Whole
    error: Whole
    weight: Int
    y: Int

    def __getitem__(self, rows: Any) -> Trained:
        return Trained(self.value[rows], self.error[rows], self.weight[rows], self.y[rows])


class Known:
    """Solutions of the first labellings that were trained on: similar ones start there."""

    def __init__(self) -> None:
        self._labels: list[Float] = []
        self._solutions: list[Float] = []
        self._room = ROOM

    def near(self, Y: Float) -> Float | None:
        """For each of N labellings, the solution of the most similar one, or of its negative; None without any."""
        if not self._labels:
            return None
        overlap = Y.reshape(len(Y), -1) @ np.concatenate(self._labels).T
        at = np.abs(overlap).argmax(axis=1)
        sign = np.where(overlap[np.arange(len(Y)), at] < 0, -1.0, 1.0)
        found = np.concatenate(self._solutions)[at]
        return np.asarray(sign.reshape(-1, *[1] * (found.ndim - 1)) * found)

    def remember(self, Y: Float, solutions: Float) -> None:
        """Keep solutions, while there is room."""
        if self._room > 0:
            self._room -= Y.size
            self._labels.append(Y.reshape(len(Y), -1))
            self._solutions.append(solutions)


class Trainer(ABC):
    """Scores of all test rows under any labels.

    Attributes
    ----------
    unit : int
        Coarse numbers are scores divided by this: see :meth:`coarse`.
    problems : list of str
        What is wrong with the kernel.
    unchecked : list of str
        What was not checked about it.
    about : str
        How the kernel was checked.
    largest_dual : float
        How large a dual variable is, about.
    """

    batch = 2_000_000
    """Entries of the matrices that are trained on side by side."""
    intercept = False
    """Whether scores contain a number that no row of the kernel explains."""
    rounded = False
    """Whether the rows of test nodes are known up to rounding alone."""
    unit: int
    problems: list[str]
    unchecked: list[str]
    about: str
    largest_dual: float
    _scale: Fraction
    """A score is a whole number times this."""
    _reach: Int
    """(2, n, m) coarse: what a flip can add to a score, and take off it, for each label's sign."""

    @abstractmethod
    def train(self, Y: Float) -> Trained:
        """Train on (N, m) labels, ±1."""

    @abstractmethod
    def only(self, nodes: Int) -> Trainer:
        """The same machine for some test nodes alone."""

    def classes(self, codes: Int, K: int) -> list[Trained]:
        """Train the models of all K classes on (N, m) labellings: each class against the rest."""
        Y = np.stack([np.where(codes == c, 1.0, -1.0) for c in range(K)])
        sign = Y[..., 0]  # a model and its negative are trained once
        distinct, where = np.unique((Y * sign[..., None]).reshape(-1, codes.shape[1]), axis=0, return_inverse=True)
        found = self.train(distinct)
        out = []
        for c, rows in enumerate(where.reshape(sign.shape)):
            one, s = found[rows], sign[c].astype(np.int64)[:, None]
            out.append(Trained(s * one.value, one.error, one.weight, s * one.y))
        return out

    @abstractmethod
    def exact(self, y: Float) -> tuple[Whole, int] | None:
        """(n,) scores times a positive scale, and that scale; None where that is out of reach."""

    def drop(self, trained: Trained, sign: int) -> Int:
        """(N, n, m) coarse upper bounds: how much a flip of each label can lower ``sign`` times each score.

        Flips of several labels lower it by no more than the sum.
        """
        direction = (trained.y * sign > 0).astype(np.int64)[:, None, :]
        return np.asarray(trained.weight[:, None, :] * np.where(direction, self._reach[1], self._reach[0]))

    def shown(self, numbers: Whole) -> Float:
        """Scores, in units of :attr:`Trained.value`, as floats to be looked at."""
        return np.array([float(v * self._scale) for v in numbers.ravel()]).reshape(numbers.shape)

    def shown_exactly(self, score: Fraction) -> float:
        """A score of :meth:`exact`, over its scale, as a float to be looked at."""
        return float(score * self._scale)

    def coarse(self, numbers: Whole) -> Int:
        """Scores in coarse units, rounded down, within 62 bits."""
        limit = 1 << 62
        return np.asarray(np.clip(numbers // self.unit, -limit, limit), dtype=np.int64)


class SVMTrainer(Trainer):
    """The support vector machine without bias.

    With ``‖w − w̃‖² ≤ gap``, a score is off by at most ``‖k‖·√gap``, where ``‖k‖² = k·Q⁺k``. Flipping labels S moves
    the optimal w into the ball with centre ``w̃ − ½ Σ_S c_i φ_i`` and radius at most ``½ Σ_S |c_i| ‖φ_i‖ + √gap``, where
    ``c_i = z_i + C y_i [y_i f_i > −1]``: the solution is a proximal map of the loss, hence firmly non-expansive.
    """

    about = "positive semidefinite, and test rows in its range, by exact elimination"

    def __init__(self, statement: Statement, pace: Callable[[], None] = lambda: None) -> None:
        self._floats, self._pace = (statement.K_train, statement.C), pace
        self.largest_dual = 2.0 * statement.C
        self._Q, self._e_Q = whole(statement.K_train)
        self._R, self._e_R = whole(statement.K_test)
        cap, self._e_C = whole(statement.C)
        self._C = int(cap)
        self._scale = Fraction(1, 1 << (self._e_C + self._e_R + SHARE_BITS))
        self.problems, self.unchecked = [], []
        if statement.m > LARGEST_EXACT:
            self.unchecked.append(TOO_MANY_LABELS)
            return
        elimination = Elimination(self._Q, self._R.T, pace)
        if not elimination.semidefinite:
            self.problems.append("K_train is not positive semidefinite")
        if not elimination.solvable.all():
            self.problems.append("test rows are outside of the range of K_train, so that their scores are not unique")
        # ‖k‖² = k·x with Q x = k: whole numbers over elimination.scale, times 2**(e_Q - 2 e_R).
        squares = (self._R * elimination.solution.T).sum(axis=1)
        by = self._e_Q - 2 * self._e_R + 2 * (self._e_R + NORM_BITS)
        norms = [root(-(-shifted_up(int(s), by) // elimination.scale)) for s in squares]
        self._norms = np.array(norms, dtype=object)
        self._norm_by = self._e_R + NORM_BITS
        lengths = np.array([root(int(v), self._e_Q % 2) for v in np.diag(self._Q)], dtype=object)
        together = shifted_up(
            self._norms[:, None] * lengths[None, :], self._e_R - self._norm_by - (self._e_Q + self._e_Q % 2) // 2
        )
        # Twice what a flip moves is C·weight·(±k + ‖k‖‖φ‖): weight and bracket get 26 bits each.
        brackets = np.stack([together - self._R, together + self._R])
        largest = max(1, int(brackets.max(initial=0)))
        by = max(0, largest.bit_length() - COARSE_BITS)
        self._reach = shifted_up(brackets, -by).astype(np.int64)
        self.unit = self._C << (by + SHARE_BITS - COARSE_BITS - 1)

    def only(self, nodes: Int) -> SVMTrainer:
        """Rows, norms and reach of these nodes."""
        part = copy(self)
        part._R, part._norms, part._reach = self._R[nodes], self._norms[nodes], self._reach[:, nodes]
        return part

    def train(self, Y: Float) -> Trained:
        """Approximate shares of the cap, then everything about them in whole numbers."""
        K, C = self._floats
        shares = np.rint(approximate_shares(C * K, Y, pace=self._pace) * 2.0**SHARE_BITS).astype(np.int64)
        y, full = Y.astype(np.int64), 1 << SHARE_BITS
        Z = (y * shares).astype(object)
        margin_by = self._e_C + self._e_Q + SHARE_BITS
        excess = y * self._C * (Z @ self._Q) - (1 << margin_by)
        A = shares.astype(object)
        gap = self._C * np.maximum(A * excess, (A - full) * excess).sum(axis=1)
        gap_by = 2 * self._e_C + self._e_Q + 2 * SHARE_BITS
        roots = np.array([root(int(g), gap_by % 2) for g in gap], dtype=object)
        unit_by = self._e_C + self._e_R + SHARE_BITS
        error = shifted_up(roots[:, None] * self._norms[None, :], unit_by - (gap_by + gap_by % 2) // 2 - self._norm_by)
        moved = shares + np.where(excess > -(2 << margin_by), full, 0)
        weight = -(-moved // (1 << (SHARE_BITS - COARSE_BITS)))
        return Trained(self._C * (Z @ self._R.T), error, weight, y)

    def exact(self, y: Float) -> tuple[Whole, int] | None:
        """By the criss-cross method."""
        if y.size > LARGEST_EXACT:
            return None
        K, C = self._floats
        guess = approximate_shares(C * K, y[None, :], pace=self._pace)[0]
        one = 1 << (self._e_Q + self._e_C)
        alpha, scale = optimal_dual(self._Q, self._C, one, y, guess, self._pace)
        return (self._R @ (alpha * y.astype(np.int64))) << SHARE_BITS, scale


class LinearTrainer(Trainer):
    """Scores that are linear in the labels: kernel ridge regression, or an SVM whose labels are all at their caps."""

    about = "positive semidefinite, by exact elimination"

    def __init__(self, statement: Statement, pace: Callable[[], None] = lambda: None) -> None:
        self.problems, self.unchecked, self._pace = [], [], pace
        self.largest_dual = 2.0 * statement.C
        R, e_R = whole(statement.K_test)
        cap, e_C = whole(statement.C)
        self._doubt: Whole | int = 0
        self._nodes, self._exact = np.arange(statement.n), dict[str, tuple[Whole, int]]()  # of all nodes
        if statement.loss == LINEAR:
            self.about = "none: scores are a given map of the labels"
        else:
            check_kernel(self, statement.K_train, pace)
        self.intercept = statement.loss == "square_intercept"
        self.ridge = self.intercept or statement.loss == "square"
        if not self.ridge:  # the C of a linear map is 1
            self._W = R * int(cap)
            self._scale = Fraction(1, 1 << (e_R + e_C))
        else:
            self._prepare_ridge(statement, R, e_R, int(cap), e_C, pace)
        largest = max(1, int(np.abs(self._W).max(initial=0)) * 2)
        by = max(0, largest.bit_length() - COARSE_BITS)
        # A flip of a label with sign y adds -2·y·W: the most that it adds, and takes off.
        gains = np.stack([np.maximum(0, -2 * self._W), np.maximum(0, 2 * self._W)])
        self._reach = shifted_up(gains, -by).astype(np.int64)
        self.unit = 1 << by

    def only(self, nodes: Int) -> LinearTrainer:
        """Coefficients and doubts of these nodes."""
        part = copy(self)
        part._W, part._reach, part._nodes = self._W[nodes], self._reach[:, nodes], self._nodes[nodes]
        if self.ridge:
            part._doubt = np.asarray(self._doubt)[nodes]
        return part

    @property
    def coefficients(self) -> Whole:
        """(n, m) whole numbers whose products with the labels are the scores, up to :attr:`doubt`."""
        return np.asarray(self._W)

    def train(self, Y: Float) -> Trained:
        """One matrix product: the labels times the map."""
        y = Y.astype(np.int64)
        value = y.astype(object) @ self._W.T
        error = np.zeros_like(value) + self._doubt
        return Trained(value, error, np.ones(y.shape, dtype=np.int64), y)

    def exact(self, y: Float) -> tuple[Whole, int] | None:
        """From the exact coefficients."""
        if np.all(np.equal(self._doubt, 0)):
            return self._W @ y.astype(np.int64), 1
        if y.size > LARGEST_EXACT:
            return None
        if not self._exact:
            matrix, right, by = self._system
            found = Elimination(matrix, right, self._pace)
            W, scale = found.solution.T, found.scale
            if self.intercept:  # the last row is what one more intercept does: as much of it as makes all sums 1
                ones = W[-1]
                W = W[:-1] * ones.sum() - ones * (W[:-1].sum(axis=1) - (scale << self._one))[:, None]
                scale *= ones.sum()
            self._exact["W"] = shifted(W, max(0, by)), shifted(scale, max(0, -by))
        W, scale = self._exact["W"]
        return W[self._nodes] @ y.astype(np.int64), scale

    def _prepare_ridge(
        self, statement: Statement, R: Whole, e_R: int, cap: int, e_C: int, pace: Callable[[], None]
    ) -> None:
        """Coefficients ``k (Q + λI)⁻¹``, λ = 1/(2C): approximate, and off by at most their residual over λ.

        With an intercept, some number is added to all entries of ``(Q + λI)w − k``, and each row of coefficients adds
        up to 1. They do so exactly here, so that errors have no sum, nor does what matters of the residual.
        """
        Q, e_Q = whole(statement.K_train)
        # Up to the factor 2C, the coefficients solve (2C·Q + I) w = k. With an intercept, without that factor.
        eye = np.zeros(Q.shape, dtype=object)
        np.fill_diagonal(eye, 1 << (e_Q + e_C))
        A = 2 * cap * Q + eye
        floats = 2 * statement.C * statement.K_train + np.eye(statement.m)
        K_test, unit = statement.K_test, 2 * Fraction(statement.C)
        if self.intercept:
            R, e_R, K_test, unit = 2 * cap * R, e_R + e_C, 2 * statement.C * K_test, Fraction(1)
        W = np.linalg.solve(floats, K_test.T).T
        if self.intercept:
            ones = np.linalg.solve(floats, np.ones(statement.m))
            W -= np.outer((W.sum(axis=1) - 1.0) / ones.sum(), ones)
        numbers, e_W = whole(np.where(np.isfinite(W), W, 0.0))
        if self.intercept:
            numbers[:, -1] += (1 << e_W) - numbers.sum(axis=1)
        # A⁻¹ has norm at most 1 where Q is positive semidefinite, so the residual bounds the error.
        by = max(e_W + e_Q + e_C, e_R)
        norms = []
        for one, row in zip(numbers, R, strict=True):
            pace()
            residual = shifted(row, by - e_R) - shifted(one @ A, by - e_W - e_Q - e_C)
            square, total = int((residual * residual).sum()), int(residual.sum()) if self.intercept else 0
            norms.append(root(square - total * total // statement.m))
        self._W = shifted(numbers, by - e_W)
        self._system = A, R.T, by + e_Q + e_C - e_R  # the last one: from the solution's units to those of scores
        self._doubt = np.array([root(statement.m) * v for v in norms], dtype=object)
        self._scale = unit / (1 << by)
        if self.intercept:
            ones = np.full((statement.m, 1), 1 << (e_R + e_Q), dtype=object)
            # In units that make the sum of coefficients whole.
            self._one = e_R - e_C
            self._system = A, np.hstack([R.T << e_Q, ones]), by - self._one


def definite(K: Float) -> bool:
    """Whether a symmetric matrix is positive definite, proved by a factorisation in floats.

    Rump (2006): if the factorisation of ``K − c·I`` runs through, for a c above ``γ·tr(K)/(1 − γ)``, γ the unit of
    rounding times m + 2, then all rounding errors together do not make up for c.
    """
    m, diagonal = K.shape[0], np.diag(K)
    if not m or diagonal.min() <= 0 or diagonal.max() > 1e100:
        return False
    c = 2.0 * (m + 3) * UNIT * float(diagonal.sum()) * 1.01
    lowered = K.copy()
    lowered[np.diag_indices(m)] -= c  # itself off by half a unit of each entry, which the factor of 2 covers
    try:
        np.linalg.cholesky(lowered)
    except np.linalg.LinAlgError:
        return False
    return True


def check_kernel(machine: Trainer, K: Float, pace: Callable[[], None]) -> None:
    """Whether a kernel is positive semidefinite: by a factorisation with proved rounding, or exactly."""
    if definite(K):
        machine.about = "positive definite, by a factorisation with proved rounding"
    elif K.shape[0] > LARGEST_EXACT:
        machine.unchecked.append(TOO_MANY_LABELS)
    elif not Elimination(whole(K)[0], np.zeros((K.shape[0], 0), dtype=object), pace).semidefinite:
        machine.problems.append("K_train is not positive semidefinite")


def approximate_shares(
    K: Float, Y: Float, good: float = GOOD_GAP, pace: Callable[[], None] = lambda: None, known: Known | None = None
) -> Float:
    """(N, m) dual variables as shares of the cap, roughly: sweeps over single labels, then guesses of who is free.

    Parameters
    ----------
    K : (m, m) array
        The kernel times the cap.
    Y : (N, m) array
    good : float
        A duality gap, as a share of the cap, that needs no more work.
    """
    start = None if known is None else known.near(Y)
    best = np.zeros(Y.shape)
    if start is not None:
        changed = np.where(Y * start < 0, 1.0, Y * start)  # labels that changed are at the cap
        best = _guessed(K, Y, _swept(K, Y, changed, FEW_SWEEPS, pace), good, pace)
    left = np.flatnonzero(~(_gaps(K, Y, best) <= good))
    for sweeps in (FEW_SWEEPS, 30, 100, 300):
        if not left.size:
            break
        a = _guessed(K, Y[left], _swept(K, Y[left], best[left], sweeps, pace), good, pace)
        better = _gaps(K, Y[left], a) < _gaps(K, Y[left], best[left])
        best[left[better]] = a[better]
        left = left[_gaps(K, Y[left], best[left]) > good]
    if known is not None:
        known.remember(Y, Y * best)
    return best


def _swept(K: Float, Y: Float, a: Float, sweeps: int, pace: Callable[[], None]) -> Float:
    """Each label in turn gets its best share, the others given."""
    diagonal = np.maximum(np.diag(K), 1e-300)
    a, f = a.copy(), (Y * a) @ K
    for _ in range(sweeps):
        pace()
        for i in range(K.shape[0]):
            step = np.clip(a[:, i] + (1.0 - Y[:, i] * f[:, i]) / diagonal[i], 0.0, 1.0) - a[:, i]
            a[:, i] += step
            f += (step * Y[:, i])[:, None] * K[i]
    return a


def _guessed(K: Float, Y: Float, a: Float, good: float, pace: Callable[[], None]) -> Float:
    """Hold shares that only their bounds hold back, solve for all others, go as far there as pays, look again."""
    a = a.copy()
    left = np.arange(len(Y))
    for _ in range(GUESSES):
        y, now = Y[left], a[left]
        margin = y * ((y * now) @ K) - 1.0
        on = ~(_gap(now, margin) <= good)
        if not on.any():
            break
        pace()
        left, y, now, margin = left[on], y[on], now[on], margin[on]
        free = ~(((now <= 0) & (margin >= 0)) | ((now >= 1) & (margin <= 0)))
        solved = _free(K, y, free, 1.0 - y * ((y * np.where(free, 0.0, now)) @ K))
        step = np.where(free & np.isfinite(solved), solved - now, 0.0)
        least, best = np.full(len(left), np.inf), now.copy()
        for t in STRIDES:
            there = np.clip(now + t * step, 0.0, 1.0)
            z = y * there
            value = 0.5 * ((z @ K) * z).sum(axis=1) - there.sum(axis=1)
            better = value < least
            least[better], best[better] = value[better], there[better]
        a[left] = best
    return a


def _free(K: Float, Y: Float, free: Bool, right: Float) -> Float:
    """(N, m) shares of free labels with which their margins are 1, the others given."""
    N, m = Y.shape
    safe = 1e-14 * np.trace(K)
    out = np.zeros((N, m))
    if m > FEW:
        for k in range(N):
            at = np.flatnonzero(free[k])
            out[k, at] = _solved_twice(K[np.ix_(at, at)], (Y[k] * right[k])[at, None], safe)[:, 0] * Y[k, at]
        return out
    # A label that is not free is one equation of its own.
    signed = np.where(free, Y, 0.0)
    system = K[None] * signed[:, :, None] * signed[:, None, :] + np.where(free, 0.0, 1.0)[:, :, None] * np.eye(m)
    return _solved_twice(system, np.where(free, right, 0.0)[..., None], safe)[..., 0]


def _solved_twice(system: Float, right: Float, safe: float) -> Float:
    """With a little on the diagonal, most of which is taken out again; NaN where that does not help."""
    safer = system + safe * np.eye(system.shape[-1])
    try:
        solved = np.linalg.solve(safer, right)
        return np.asarray(solved + np.linalg.solve(safer, right - system @ solved))
    except np.linalg.LinAlgError:
        return np.full_like(right, np.nan)


def _gaps(K: Float, Y: Float, a: Float) -> Float:
    """(N,) duality gaps, as float64 has them."""
    return _gap(a, Y * ((Y * a) @ K) - 1.0)


def _gap(a: Float, margin: Float) -> Float:
    return np.asarray(np.maximum(a * margin, (a - 1.0) * margin).sum(axis=1))
