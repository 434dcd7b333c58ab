"""Models with smooth losses, trained again in floats, with error bounds that cover all rounding.

The models minimise ``½ ‖w‖² + C Σ loss``. At the optimum ``z = h(f)`` with ``f = Q z``, where h is minus the derivative
of the loss and has a derivative between −L and 0 (of several classes together: a matrix between −L and 0). For any z
with the residual ``r = z − h(Q z)``, the error ``e = z − z*`` obeys ``e + D Q e = r`` with D between 0 and L. With
``u = Q e``, the product with u gives ``eᵀQe + uᵀDu = uᵀr``, so that ``√(uᵀDu)`` is at most half of ``√(rᵀQr)``, and

    ``|e − r| ≤ √L · √(rᵀQr) / 2``    and    ``|e| ≤ |r| · (1 + √(L λ) / 2)``,    λ the largest eigenvalue of Q.

A label that changes adds a term c to the residual of the old solution. So scores move by ``c k_i``, up to
``|c| ‖φ_i‖ √L |k| / 2``, and what several labels move is at most the sum. None of this asks whether test rows lie in
the range of the kernel.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from fractions import Fraction

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.verification.arithmetic import Whole, optimal_dual, whole
from labelcert.verification.machines import COARSE_BITS, LARGEST_EXACT, SAFE, UNIT, Trained, Trainer, check_kernel
from labelcert.verification.statement import Statement

EXP_ERROR = 2.0**-46
"""Relative error of :func:`exponential`."""

STEPS = 60
"""Most Newton steps; what has not converged by then has a large error bound, and decides nothing."""

GOOD = 1e-13
"""A residual of this share of the largest dual variable is not worth another step."""


class SmoothTrainer(Trainer):
    """One class against the rest, with a smooth loss.

    Scores and their errors are floats, so that the unit of :class:`Trained` is 1.
    """

    batch = 20_000_000
    steepest: float
    """L, an upper bound on how fast a dual variable follows its score."""
    most: float
    """How large a dual variable may be beside an optimal model."""

    def __init__(self, statement: Statement, pace: Callable[[], None] = lambda: None) -> None:
        self.problems, self.unchecked, self._pace = [], [], pace
        self.about = "positive semidefinite, by exact elimination"
        self._Q, self._R, self._C = statement.K_train, statement.K_test, self._cap(statement)
        self._classes = statement.n_classes
        self.largest_dual = 2.0 * self._C
        self._scale = Fraction(1)
        check_kernel(self, self._Q, pace)
        self._prepare()
        self._norm = float(np.sqrt((self._Q**2).sum())) * SAFE
        self._factor = SAFE * (1.0 + 0.5 * float(np.sqrt(self.steepest * self._norm)))
        self._lengths = np.sqrt((self._R**2).sum(axis=1)) * SAFE + 1e-300
        # What a label takes off a score when it leaves its class, and when it enters it, for each unit of its weight.
        slack = 0.5 * float(np.sqrt(self.steepest)) * np.sqrt(np.maximum(np.diag(self._Q), 0.0))[None, :]
        brackets = np.stack([-self._R, self._R]) + slack * self._lengths[:, None] * SAFE
        brackets = np.maximum(brackets, 0.0)
        self._fine = 2.0 ** (COARSE_BITS - np.ceil(np.log2(max(float(brackets.max(initial=0.0)), 1e-280))))
        self._reach = np.ceil(brackets * self._fine * SAFE).astype(np.int64)

    def _cap(self, statement: Statement) -> float:
        return statement.C

    @abstractmethod
    def _prepare(self) -> None:
        """Set ``steepest`` and ``most``."""

    @abstractmethod
    def _dual(self, f: Float, y: Float) -> tuple[Float, Float, Float]:
        """``h(f)``, minus its derivative, and how far h can be off by rounding."""

    @abstractmethod
    def _weights(self, f: Float, error: Float, y: Float) -> Float:
        """Upper bounds on how far h moves where a label changes."""

    def only(self, nodes: Int) -> SmoothTrainer:
        """Rows and reach of these nodes."""
        part = copy(self)
        part._R, part._lengths, part._reach = self._R[nodes], self._lengths[nodes], self._reach[:, nodes]
        return part

    def coarse(self, numbers: Whole | Float) -> Int:
        """Scores in units of weights (of ``most``) times reach, rounded down."""
        units = np.floor(np.asarray(numbers, dtype=np.float64) * (self._fine * 2.0**COARSE_BITS / self.most) - 1.0)
        return np.asarray(np.clip(units, -(2.0**61), 2.0**61), dtype=np.int64)

    def train(self, Y: Float) -> Trained:
        """Newton's method, then a bound on what is left."""
        Z = np.zeros_like(Y)
        F, g = Z @ self._Q, UNIT * 1.01 * (self._Q.shape[0] + 3)
        eye = np.eye(self._Q.shape[0])
        left, damping = np.arange(len(Y)), np.ones(len(Y))
        size = np.full(len(Y), np.inf)
        for _ in range(STEPS):
            self._pace()
            h, slope, _ = self._dual(F[left], Y[left])
            residual = Z[left] - h
            now = np.abs(residual).max(axis=1)
            damping[left] = np.where(now < size[left], np.minimum(1.0, 2 * damping[left]), damping[left] / 4)
            size[left] = now
            going = now > GOOD * self.most
            if not going.any():
                break
            left, residual, slope = left[going], residual[going], slope[going]
            move = np.linalg.solve(eye + slope[:, :, None] * self._Q[None], residual[..., None])[..., 0]
            Z[left] -= damping[left, None] * move
            F[left] = Z[left] @ self._Q
        Z, F = self._polished(Z, F, Y)
        off = g * (np.abs(Z) @ np.abs(self._Q)) * SAFE + 1e-300
        h, _, rounding = self._dual(F, Y)
        residual = np.abs(Z - h) * SAFE + UNIT * np.abs(Z) + rounding + self.steepest * off
        length = np.sqrt((residual**2).sum(axis=1)) * SAFE
        value = Z @ self._R.T
        spread = np.sqrt(np.maximum(np.diag(self._Q), 0.0))[None, :] * np.sqrt(self._norm)
        # |f − f*| of a label is at most ‖φ‖·‖Σ e φ‖, and ‖Σ e φ‖² = eᵀQe ≤ λ |e|².
        error_f = off + spread * (self._factor * length)[:, None] * SAFE
        error = self._lengths[None, :] * (self._factor * length)[:, None]
        error = SAFE * (error + 2 * g * (np.abs(Z) @ np.abs(self._R.T)) + 8 * UNIT * np.abs(value)) + 1e-300
        weight = np.minimum(self._weights(F, error_f, Y) / self.most * SAFE, 1.0) * 2.0**COARSE_BITS
        return Trained(value, error, np.ceil(weight).astype(np.int64), Y.astype(np.int64))  # type: ignore[arg-type]

    def _polished(self, Z: Float, F: Float, Y: Float) -> tuple[Float, Float]:
        """One look at ``h(Q z)`` in place of z where that is closer."""
        h, _, _ = self._dual(F, Y)
        F_h = h @ self._Q
        again = np.abs(h - self._dual(F_h, Y)[0]).max(axis=1) < np.abs(Z - h).max(axis=1)
        return np.where(again[:, None], h, Z), np.where(again[:, None], F_h, F)

    def exact(self, y: Float) -> tuple[Whole, int] | None:
        """Out of reach: logarithms and exponentials."""
        return None


class SquaredHingeTrainer(SmoothTrainer):
    """``max(0, 1 − y f)²``: the dual of a support vector machine without a cap on the kernel ``Q + I / (2C)``."""

    def _prepare(self) -> None:
        self.steepest = 2.0 * self._C
        length = float(np.sqrt(2.0 * self._C * self._Q.shape[0] * max(0.0, float(np.diag(self._Q).max()))))
        self.most = 2.0 * self._C * (2.0 + length) * SAFE

    def _dual(self, f: Float, y: Float) -> tuple[Float, Float, Float]:
        room = np.maximum(0.0, 1.0 - y * f)
        h = 2.0 * self._C * y * room
        return h, np.where(room > 0, 2.0 * self._C, 0.0), 4 * UNIT * np.abs(h) + 4 * UNIT * self._C

    def _weights(self, f: Float, error: Float, y: Float) -> Float:
        return np.asarray(2.0 * self._C * np.maximum(2.0, 1.0 + np.abs(f) + error))

    def exact(self, y: Float) -> tuple[Whole, int] | None:
        """With a cap that no optimal dual variable reaches."""
        m = y.size
        if m > LARGEST_EXACT:
            return None
        Q, e_Q = whole(self._Q)
        C, e_C = whole(self._C)
        # 2C·(Q + I / (2C)) = 2C·Q + I: the dual variables are those of this kernel over 2C.
        kernel = 2 * int(C) * Q
        kernel[np.diag_indices(m)] += 1 << (e_Q + e_C)
        one = 1 << (e_Q + e_C)
        limit = int(np.ceil(self.most / (2.0 * self._C))) + 1
        guess = self._guess(y) / (2.0 * self._C * limit)
        alpha, scale = optimal_dual(kernel, limit, one, y, guess)
        R, e_R = whole(self._R)
        numbers = 2 * int(C) * (R @ (alpha * y.astype(np.int64)))
        return numbers, scale << (e_R + e_C)

    def _guess(self, y: Float) -> Float:
        """Dual variables, roughly; 0 where a label is beyond its margin."""
        Z = np.zeros((1, y.size))
        for _ in range(STEPS):
            F = Z @ self._Q
            h, slope, _ = self._dual(F, y[None, :])
            Z = Z - np.linalg.solve(np.eye(y.size) + slope[0][:, None] * self._Q, (Z - h)[0])[None, :]
        return np.asarray(np.maximum(0.0, y * h[0]))


class LogisticTrainer(SmoothTrainer):
    """``log(1 + exp(−y f))``; with two classes, cross-entropy is the same with twice the constant."""

    def _cap(self, statement: Statement) -> float:
        return statement.C * (2.0 if statement.loss == "cross_entropy" else 1.0)

    def _prepare(self) -> None:
        self.steepest, self.most = 0.25 * self._C, self._C * SAFE

    def _dual(self, f: Float, y: Float) -> tuple[Float, Float, Float]:
        e = exponential(-np.abs(f))
        share = np.where(y * f > 0, e, 1.0) / (1.0 + e)  # σ(−y f)
        return self._C * y * share, self._C * e / (1.0 + e) ** 2, self._C * (share * (4 * EXP_ERROR) + 1e-300)

    def _weights(self, f: Float, error: Float, y: Float) -> Float:
        return np.full(f.shape, self._C)


class SoftmaxTrainer(SmoothTrainer):
    """``−log softmax(f)_y`` of more than two classes: all models come from one training."""

    def _prepare(self) -> None:
        # A change of a label moves C from one class to another: in each class by C.
        self.steepest, self.most = 0.5 * self._C, self._C * SAFE

    def _dual(self, f: Float, y: Float) -> tuple[Float, Float, Float]:
        """Of (N, K, m) scores, with y the classes as 0 and 1; the derivative is not needed here."""
        e = exponential(f - f.max(axis=1, keepdims=True))
        p: Float = np.asarray(e / e.sum(axis=1, keepdims=True), dtype=np.float64)
        h: Float = self._C * (y - p)
        return h, p, self._C * p * (8 * EXP_ERROR) + 4 * UNIT * self._C

    def _weights(self, f: Float, error: Float, y: Float) -> Float:
        return np.full(f.shape, self._C)

    def classes(self, codes: Int, K: int) -> list[Trained]:
        """Newton's method for all classes together, one labelling at a time."""
        one_hot = np.stack([(codes == c).astype(np.float64) for c in range(K)], axis=1)
        Z = np.stack([self._solved(y) for y in one_hot])
        g = UNIT * 1.01 * (self._Q.shape[0] + 3)
        F = Z @ self._Q
        off = g * (np.abs(Z) @ np.abs(self._Q)) * SAFE + 1e-300
        h, _, rounding = self._dual(F, one_hot)
        # What is off in one class moves the shares of all: the norm of the derivative bounds that, class by class.
        residual = np.abs(Z - h) * SAFE + UNIT * np.abs(Z) + rounding
        length = np.sqrt((residual**2).sum(axis=(1, 2))) + self.steepest * np.sqrt((off**2).sum(axis=(1, 2)))
        value = Z @ self._R.T
        error = self._lengths[None, None, :] * (self._factor * length * SAFE)[:, None, None]
        error = SAFE * (error + 2 * g * (np.abs(Z) @ np.abs(self._R.T)) + 8 * UNIT * np.abs(value)) + 1e-300
        weight = np.full(codes.shape, 2**COARSE_BITS, dtype=np.int64)
        signs = np.where(one_hot > 0, 1, -1)
        return [Trained(value[:, c], error[:, c], weight, signs[:, c]) for c in range(K)]  # type: ignore[arg-type]

    def drop(self, trained: Trained, sign: int) -> Int:
        """Half of what a change of a label moves the lead of one class over another, up to ``C (|k| + slack)``.

        It moves C from one class to another, so that the residual is √2 C long, and the lead by at most twice this.
        """
        reach = np.maximum(self._reach[0], self._reach[1])
        return np.asarray(trained.weight[:, None, :] * reach[None])

    def _solved(self, y: Float) -> Float:
        """(K, m) dual variables of one labelling."""
        K, m = y.shape
        Z = np.zeros((K, m))
        damping, before = 1.0, np.inf
        for _ in range(STEPS):
            self._pace()
            h, p, _ = (a[0] for a in self._dual((Z @ self._Q)[None], y[None]))
            residual = Z - h
            size = float(np.abs(residual).max())
            damping, before = (min(1.0, 2 * damping) if size < before else damping / 4), size
            if size <= GOOD * self.most:
                break
            D = self._C * (p[:, None, :] * np.eye(K)[:, :, None] - p[:, None, :] * p[None, :, :])
            system = np.einsum("abi,ij->aibj", D, self._Q).reshape(K * m, K * m) + np.eye(K * m)
            Z = Z - damping * np.linalg.solve(system, residual.ravel()).reshape(K, m)
        return Z

    def train(self, Y: Float) -> Trained:
        """Classes are not trained alone."""
        raise NotImplementedError


def exponential(x: Float) -> Float:
    """``exp`` of numbers up to 0 from products and sums alone, which every machine rounds alike.

    ``exp(x) = 2**k · exp(r)`` with ``|r| ≤ 0.35``, and Taylor's polynomial of degree 14 for the latter, whose remainder
    is below 2e-19. The remaining errors are those of some twenty operations: together below ``EXP_ERROR``.
    """
    x = np.maximum(x, -700.0)
    k = np.rint(x * 1.4426950408889634)
    # ln 2 in two parts: the first has so few bits that its products with k are exact.
    r = (x - k * 0.693145751953125) - k * 1.4286068203094173e-06
    total = np.ones_like(r)
    for n in range(14, 0, -1):
        total = 1.0 + total * r / n
    return np.ldexp(total, k.astype(np.int64))
