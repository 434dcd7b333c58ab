"""Models with smooth losses, trained again in floats, with error bounds that cover all rounding.

The models minimise ``½ ‖w‖² + C Σ loss``. At the optimum ``z = h(f)`` with ``f = Q z``, where h is minus the derivative
of the loss and has a derivative between −L and 0 (of several classes together: a matrix between −L and 0). For any z
with the residual ``r = z − h(Q z)``, the error ``e = z − z*`` obeys ``e + D Q e = r`` with D between 0 and L. With
``u = Q e``, the product with u gives ``eᵀQe + uᵀDu = uᵀr``, so that ``√(uᵀDu)`` is at most half of ``√(rᵀQr)``, and

    ``|e − r| ≤ √L · √(rᵀQr) / 2``    and    ``|e| ≤ |r| · (1 + √(L λ) / 2)``,    λ the largest eigenvalue of Q.

A label that changes adds a term c to the residual of the old solution. So scores move by ``c k_i``, up to
``|c| ‖φ_i‖ √L |k| / 2``, and what several labels move is at most the sum. None of this asks whether test rows lie in
the range of the kernel.

Intercepts that are not regularised: ``f = Q z + b``, and the dual variables of each class add up to 0. For a fixed b,
the above bounds how far z is from its solution z(b). What is left, ``g(b) = Σ z_i(b)``, is the gradient of a concave
function of b, and ``−g' = S = Eᵀ (D⁻¹ + Q)⁻¹ E``, where E repeats a number for all labels. While no f moves by more
than 1/4, D keeps half of itself, and so does S. If s is the least eigenvalue of S (beside that of intercepts that are
all alike), the best b is at most ``2 |g(b)| / s`` away. For every U,
``S ≥ EᵀDU + UᵀDE − UᵀDU − UᵀDQDU``, which is S itself where ``U = (I + QD)⁻¹ E``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from fractions import Fraction

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.verification.arithmetic import Whole, optimal_dual, whole
from labelcert.verification.grams import Gram, Kernel, OfFeatures
from labelcert.verification.machines import COARSE_BITS, LARGEST_EXACT, SAFE, UNIT, Known, Trained, Trainer
from labelcert.verification.statement import Statement

EXP_ERROR = 2.0**-46
"""Relative error of :func:`exponential`."""

STEPS = 60
"""Most Newton steps; what has not converged by then has a large error bound, and decides nothing."""

GOOD = 1e-14
"""A residual of this share of the largest dual variable is not worth another step."""

ROUNDING = 1e-11
"""Objectives that differ by less than this share are alike."""

DENSE = 64
"""Systems of so many unknowns are solved directly, larger ones by conjugate gradients."""

INTERCEPT = "_intercept"
"""The end of the name of a loss whose models have an intercept that is not regularised."""

UNBOUNDED = 1 << 40
"""In coarse units: how far a change of a label may move a score, where nothing bounds it."""


class SmoothTrainer(Trainer):
    """Models with a smooth loss: one class against the rest, or all classes together.

    Dual variables, margins and labels of N labellings are (N, k, m) arrays, where k models are trained together. Scores
    and their errors are floats, so that the unit of :class:`Trained` is 1.
    """

    batch = 8_000_000
    steepest: float
    """L, an upper bound on how fast dual variables follow their margins."""
    most: float
    """How large a dual variable may be beside an optimal model."""

    def __init__(self, statement: Statement, pace: Callable[[], None] = lambda: None) -> None:
        self.problems, self.unchecked, self._pace = [], [], pace
        self.about = "positive semidefinite, by exact elimination"
        self.intercept = statement.loss.endswith(INTERCEPT)
        self._Q: Gram = Kernel(statement.K_train) if statement.features is None else OfFeatures(statement.features[0])
        self._R, self._R_off, self.rounded = statement.K_test, statement.rows_off, statement.features is not None
        self._C = self._cap(statement)
        self.largest_dual = 2.0 * self._C
        self._scale = Fraction(1)
        self._Q.check(self, pace)
        self._prepare(statement)
        self._known = Known()
        self._widest = float(np.sqrt(max(0.0, float(self._Q.diagonal.max())))) * SAFE
        self._norm = self._Q.norm
        self._factor = SAFE * (1.0 + 0.5 * float(np.sqrt(self.steepest * self._norm)))
        self._lengths = np.sqrt(((np.abs(self._R) + self._R_off) ** 2).sum(axis=1)) * SAFE + 1e-300
        # What a label takes off a score when it leaves its class, and when it enters it, for each unit of its weight.
        slack = 0.5 * float(np.sqrt(self.steepest)) * np.sqrt(np.maximum(self._Q.diagonal, 0.0))[None, :]
        brackets = np.stack([-self._R, self._R]) + self._R_off + slack * self._lengths[:, None] * SAFE
        brackets = np.maximum(brackets, 0.0)
        self._fine = 2.0 ** (COARSE_BITS - np.ceil(np.log2(max(float(brackets.max(initial=0.0)), 1e-280))))
        self._reach = np.ceil(brackets * self._fine * SAFE).astype(np.int64)

    def _cap(self, statement: Statement) -> float:
        return statement.C

    @abstractmethod
    def _prepare(self, statement: Statement) -> None:
        """Set ``steepest`` and ``most``."""

    @abstractmethod
    def _dual(self, f: Float, y: Float) -> tuple[Float, Float]:
        """``h(f)``, and how far it can be off by rounding."""

    @abstractmethod
    def _loss(self, f: Float, y: Float) -> Float:
        """(N,) C times the sum of losses, roughly."""

    @abstractmethod
    def _slopes(self, f: Float, y: Float) -> Float:
        """What :meth:`_root` multiplies with."""

    def _root(self, s: Float, v: Float) -> Float:
        """``S v``, where ``S Sᵀ`` is minus the derivative of h."""
        return s * v

    def _back(self, s: Float, v: Float) -> Float:
        """``Sᵀ v``."""
        return s * v

    def _weights(self, f: Float, error: Float, y: Float) -> Float:
        """Upper bounds on how far h moves where a label changes."""
        return np.full(f.shape, self._C)

    def only(self, nodes: Int) -> SmoothTrainer:
        """Rows and reach of these nodes."""
        part = copy(self)
        part._R, part._lengths, part._reach = self._R[nodes], self._lengths[nodes], self._reach[:, nodes]
        part._R_off = self._R_off[nodes]
        return part

    def coarse(self, numbers: Whole | Float) -> Int:
        """Scores in units of weights (of ``most``) times reach, rounded down."""
        units = np.floor(np.asarray(numbers, dtype=np.float64) * (self._fine * 2.0**COARSE_BITS / self.most) - 1.0)
        return np.asarray(np.clip(units, -(2.0**61), 2.0**61), dtype=np.int64)

    def drop(self, trained: Trained, sign: int) -> Int:
        """No bound is known where an intercept follows."""
        found = super().drop(trained, sign)
        return np.full_like(found, UNBOUNDED) if self.intercept else found

    def train(self, Y: Float) -> Trained:
        """Each class against the rest."""
        value, error, weight = self._together(Y[:, None, :])
        return Trained(value[:, 0], error, weight[:, 0], Y.astype(np.int64))  # type: ignore[arg-type]

    def _together(self, Y: Float) -> tuple[Float, Float, Int]:
        """Scores (N, k, n), bounds on their errors (N, n), and weights (N, k, m) of labels."""
        Z, b = self._solved(Y)
        m = Z.shape[-1]
        (F, off), g = self._Q.bounded(Z), UNIT * 1.01 * (m + 3)
        off = (off + 2 * UNIT * (np.abs(b) + np.abs(F))) * SAFE + 1e-300
        h, rounding = self._dual(F + b, Y)
        # What is off in one class moves the shares of all: the norm of the derivative bounds that.
        residual = np.abs(Z - h) * SAFE + UNIT * np.abs(Z) + rounding
        length = (_norm(residual) + self.steepest * _norm(off)) * SAFE
        moved, shift = self._factor * length, np.zeros(len(Y))
        if self.intercept:
            uneven = (_norm(Z.sum(axis=2, keepdims=True)) + g * np.abs(Z).sum(axis=(1, 2)) + np.sqrt(m) * moved) * SAFE
            shift = 2.0 * SAFE * uneven / self._least_fall(self._slopes(F + b, Y))
            reach = SAFE * (1.0 + 0.5 * np.sqrt(m * self.steepest) * self._widest)
            far = reach * shift + np.sqrt(self._norm) * self._widest * length + _norm(off)
            shift = np.where(far < 0.25, shift, np.inf)
            moved = moved + shift * self._factor * self.steepest * np.sqrt(m) * SAFE
        value = Z @ self._R.T
        error = SAFE * (self._lengths * moved[:, None] + shift[:, None])
        rows_off = 2 * g * np.abs(self._R) + 1.01 * self._R_off
        error = error + SAFE * (np.abs(Z) @ rows_off.T + 8 * UNIT * np.abs(value)).max(axis=1)
        # |f − f*| of a label is at most ‖φ‖·‖Σ e φ‖, and ‖Σ e φ‖² = eᵀQe ≤ λ |e|².
        spread = np.sqrt(np.maximum(self._Q.diagonal, 0.0)) * np.sqrt(self._norm)
        error_f = off + (spread * moved[:, None])[:, None, :] * SAFE
        weight = np.minimum(self._weights(F, error_f, Y) / self.most * SAFE, 1.0) * 2.0**COARSE_BITS
        return value + b, error + 8 * UNIT * np.abs(b).max(axis=1) + 1e-300, np.ceil(weight).astype(np.int64)

    def _solved(self, Y: Float) -> tuple[Float, Float]:
        """Dual variables and intercepts, by Newton's method; nobody believes them."""
        start = self._known.near(Y)
        X = np.zeros((*Y.shape[:2], Y.shape[2] + 1)) if start is None else start  # intercepts come last
        best, step, stride = X.copy(), np.zeros_like(X), np.ones(len(Y))
        size, least = np.full(len(Y), np.inf), np.full(len(Y), np.inf)
        left = np.arange(len(Y))
        for _ in range(STEPS):
            self._pace()
            missed = X[left]
            image = self._Q @ missed[..., :-1]
            F = image + missed[..., -1:]
            value = 0.5 * (image * missed[..., :-1]).sum(axis=(1, 2)) + self._loss(F, Y[left])
            missed[..., :-1] -= self._dual(F, Y[left])[0]
            missed[..., -1] = X[left, :, :-1].sum(axis=2) if self.intercept else 0.0
            now = _norm(missed)
            alike = ROUNDING * np.abs(value)  # as good as the best one: then residuals tell more
            better = (value < least[left] - alike) | ((value <= least[left] + alike) & (now < size[left]))
            at = left[better]
            best[at], size[at], least[at], stride[at] = X[at], now[better], value[better], 1.0
            stride[left[~better]] /= 4
            if at.size:
                step[at] = self._step(self._slopes(F[better], Y[at]), missed[better])
            left = left[(size[left] > GOOD * self.most) & (stride[left] > 1e-6)]
            if not left.size:
                break
            X[left] = best[left] - stride[left, None, None] * step[left]
        Z, b = best[..., :-1], best[..., -1:]
        again = self._dual((self._Q @ Z) + b, Y)[0]
        closer = _norm(again - self._dual((self._Q @ again) + b, Y)[0]) < _norm(Z - again)
        Z = np.where(closer[:, None, None] & (not self.intercept), again, Z)
        self._known.remember(Y, best)
        return Z, b

    def _step(self, s: Float, missed: Float) -> Float:
        """Newton's step, for residuals and, behind them, sums that are to be 0."""
        step = np.zeros_like(missed)
        step[..., :-1] = self._inverse(s, missed[..., :-1])
        if self.intercept:
            k = missed.shape[1]
            # Each intercept moves the dual variables, and they move the sums.
            units = [np.eye(k)[c][None, :, None] + 0.0 * s for c in range(k)]
            borders = np.stack([self._inverse(s, self._root(s, self._back(s, one))) for one in units])
            system = np.einsum("cnkm->nkc", borders) + (1.0 if k > 1 else 1e-290)  # all alike, they mean nothing
            step[..., -1:] = np.linalg.solve(system, step[..., :-1].sum(axis=2, keepdims=True) - missed[..., -1:])
            step[..., :-1] -= np.einsum("cnkm,nc->nkm", borders, step[..., -1])
        return step

    def _inverse(self, s: Float, right: Float) -> Float:
        """(N, k, m) e with ``e + S Sᵀ Q e = r``: ``e = r − S v``, where ``(I + Sᵀ Q S) v = Sᵀ Q r``."""

        def product(v: Float) -> Float:
            return v + self._back(s, self._Q @ self._root(s, v))

        start = self._back(s, self._Q @ right)
        N, size = len(s), s[0].size
        if size <= DENSE:
            unit = np.broadcast_to(np.eye(size).reshape(size, 1, *s.shape[1:]), (size, *s.shape))
            system = np.stack([product(one) for one in unit], axis=-1).reshape(N, size, size)
            found: Float = np.asarray(np.linalg.solve(system, start.reshape(N, size, 1)))
            return np.asarray(right - self._root(s, found.reshape(s.shape)))
        v: Float = np.zeros_like(start)
        p, rest = start.copy(), start.copy()
        square = (rest * rest).sum(axis=(1, 2))
        enough = square * 1e-16 + 1e-290
        for _ in range(4 * size):
            if np.all(square <= enough):
                break
            image = product(p)
            step = square / np.maximum((p * image).sum(axis=(1, 2)), 1e-290)
            v += step[:, None, None] * p
            rest -= step[:, None, None] * image
            before, square = square, (rest * rest).sum(axis=(1, 2))
            p = rest + (square / np.maximum(before, 1e-290))[:, None, None] * p
            self._pace()
        return np.asarray(right - self._root(s, v))

    def _least_fall(self, s: Float) -> Float:
        """(N,) lower bounds on s, the least eigenvalue of S."""
        k = s.shape[1]
        E = np.stack([np.eye(k)[c][None, :, None] + 0.0 * s for c in range(k)])
        U = np.stack([one - self._Q @ self._inverse(s, self._root(s, self._back(s, one))) for one in E])
        DU = np.stack([self._root(s, self._back(s, one)) for one in U])
        A = np.einsum("dnkm->nkd", DU)
        rest = np.einsum("cnkm,dnkm->ncd", DU, U + self._Q @ DU)
        S = A + A.transpose(0, 2, 1) - (rest + rest.transpose(0, 2, 1)) / 2
        size = np.abs(S).sum(axis=(1, 2)) + np.abs(rest).sum(axis=(1, 2))
        rounding = 1e-9 * size + 1e-14 * s.shape[2] * self._norm * (DU * DU).sum(axis=(0, 2, 3))
        # Intercepts that are all alike mean nothing. Slopes are known to a relative error far below a tenth.
        found = 0.9 * np.linalg.eigvalsh(S + (size[:, None, None] if k > 1 else 0.0))[:, 0] - rounding
        return np.asarray(np.maximum(found, 1e-290))

    def exact(self, y: Float) -> tuple[Whole, int] | None:
        """Out of reach: logarithms and exponentials."""
        return None


class SquaredHingeTrainer(SmoothTrainer):
    """``max(0, 1 − y f)²``: the dual of a support vector machine without a cap on the kernel ``Q + I / (2C)``."""

    def _prepare(self, statement: Statement) -> None:
        self.steepest = 2.0 * self._C
        length = float(np.sqrt(2.0 * self._C * statement.m * max(0.0, float(self._Q.diagonal.max()))))
        self.most = 2.0 * self._C * (2.0 + length) * SAFE

    def _dual(self, f: Float, y: Float) -> tuple[Float, Float]:
        h = 2.0 * self._C * y * np.maximum(0.0, 1.0 - y * f)
        return h, 4 * UNIT * np.abs(h) + 4 * UNIT * self._C

    def _loss(self, f: Float, y: Float) -> Float:
        return np.asarray(self._C * (np.maximum(0.0, 1.0 - y * f) ** 2).sum(axis=(1, 2)))

    def _slopes(self, f: Float, y: Float) -> Float:
        return np.where(y * f < 1.0, np.sqrt(2.0 * self._C), 0.0)

    def _weights(self, f: Float, error: Float, y: Float) -> Float:
        return np.asarray(2.0 * self._C * np.maximum(2.0, 1.0 + np.abs(f) + error))

    def exact(self, y: Float) -> tuple[Whole, int] | None:
        """With a cap that no optimal dual variable reaches."""
        m = y.size
        if m > LARGEST_EXACT or not isinstance(self._Q, Kernel):
            return None
        Q, e_Q = whole(self._Q.matrix)
        C, e_C = whole(self._C)
        # 2C·(Q + I / (2C)) = 2C·Q + I: the dual variables are those of this kernel over 2C.
        kernel = 2 * int(C) * Q
        kernel[np.diag_indices(m)] += 1 << (e_Q + e_C)
        one = 1 << (e_Q + e_C)
        limit = int(np.ceil(self.most / (2.0 * self._C))) + 1
        Z = self._solved(y[None, None, :])[0][0, 0]
        alpha, scale = optimal_dual(kernel, limit, one, y, np.maximum(0.0, y * Z) / (2.0 * self._C * limit), self._pace)
        R, e_R = whole(self._R)
        numbers = 2 * int(C) * (R @ (alpha * y.astype(np.int64)))
        return numbers, scale << (e_R + e_C)


class LogisticTrainer(SmoothTrainer):
    """``log(1 + exp(−y f))``; with two classes, cross-entropy is the same with twice the constant."""

    def _cap(self, statement: Statement) -> float:
        return statement.C * (2.0 if statement.loss.startswith("cross_entropy") else 1.0)

    def _prepare(self, statement: Statement) -> None:
        self.steepest, self.most = 0.25 * self._C, self._C * SAFE

    def _dual(self, f: Float, y: Float) -> tuple[Float, Float]:
        e = exponential(-np.abs(f))
        share = np.where(y * f > 0, e, 1.0) / (1.0 + e)  # σ(−y f)
        return self._C * y * share, self._C * (share * (4 * EXP_ERROR) + 1e-300)

    def _loss(self, f: Float, y: Float) -> Float:
        return np.asarray(self._C * np.logaddexp(0.0, -y * f).sum(axis=(1, 2)))

    def _slopes(self, f: Float, y: Float) -> Float:
        e = exponential(-np.abs(f))
        return np.asarray(np.sqrt(self._C * e) / (1.0 + e))


class SoftmaxTrainer(SmoothTrainer):
    """``−log softmax(f)_y`` of more than two classes: all models come from one training."""

    def _prepare(self, statement: Statement) -> None:
        # A change of a label moves C from one class to another: in each class by C.
        self.steepest, self.most = 0.5 * self._C, self._C * SAFE

    def _dual(self, f: Float, y: Float) -> tuple[Float, Float]:
        """With y as ±1."""
        p = self._slopes(f, y) ** 2 / self._C
        return self._C * ((y > 0) - p), self._C * p * (8 * EXP_ERROR) + 8 * UNIT * self._C

    def _loss(self, f: Float, y: Float) -> Float:
        own = np.where(y > 0, f, 0.0).sum(axis=1)
        return np.asarray(self._C * (np.logaddexp.reduce(f, axis=1) - own).sum(axis=1))

    def _slopes(self, f: Float, y: Float) -> Float:
        e = exponential(f - f.max(axis=1, keepdims=True))
        return np.asarray(np.sqrt(self._C * e / e.sum(axis=1, keepdims=True)))

    def _root(self, s: Float, v: Float) -> Float:
        return np.asarray(s * v - s * s * (s * v).sum(axis=1, keepdims=True) / self._C)

    def _back(self, s: Float, v: Float) -> Float:
        return np.asarray(s * (v - (s * s * v).sum(axis=1, keepdims=True) / self._C))

    def classes(self, codes: Int, K: int) -> list[Trained]:
        """All classes together."""
        Y = np.stack([np.where(codes == c, 1.0, -1.0) for c in range(K)], axis=1)
        value, error, weight = self._together(Y)
        signs = Y.astype(np.int64)
        return [Trained(value[:, c], error, weight[:, c], signs[:, c]) for c in range(K)]  # type: ignore[arg-type]

    def drop(self, trained: Trained, sign: int) -> Int:
        """Half of what a change of a label moves the lead of one class over another, up to ``C (|k| + slack)``.

        It moves C from one class to another, so that the residual is √2 C long, and the lead by at most twice this.
        """
        if self.intercept:
            return super().drop(trained, sign)
        reach = np.maximum(self._reach[0], self._reach[1])
        return np.asarray(trained.weight[:, None, :] * reach[None])


def _norm(values: Float) -> Float:
    """(N,) Euclidean norms."""
    return np.asarray(np.sqrt((values * values).sum(axis=(1, 2))))


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
