"""The squared hinge loss: a support vector machine without a cap, on the kernel ``Q + I/(2C)``.

Its dual is ``max Σ α − ½ α·(Q̃ + I/(2C))α`` over ``α ≥ 0``. So pivoting, error bounds and rational arithmetic of the
hinge loss serve as they are; test rows stay those of ``Q``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Float, Int, Signs
from labelcert.losses.base import Exactly, Loss, forecast, two_norm_bound
from labelcert.losses.hinge import RationalSVM, pivoting_machine
from labelcert.svm import cap, train
from labelcert.svm.exact import ExactSVM
from labelcert.svm.factors import factor, solve
from labelcert.svm.pivoting import FREE, UNIT_ROUNDOFF, Machine


class SquaredHinge(Loss):
    """``max(0, 1 − y f)²``."""

    kind = "squared_hinge"
    formula = "max(0, 1 − yf)²: scikit-learn's LinearSVC"
    ridge = True

    def is_linear(self, Q: Float, y: Float, C: float, movable: Bool, flips: int, *, strict: bool = False) -> bool:
        """Where no margin ever exceeds 1: the model is then kernel ridge regression.

        Margins of that are ``ỹ_i (Hỹ)_i`` with ``H = Q (Q + λI)⁻¹``, ``λ = 1/(2C)``.
        """
        m, lam = y.size, 1.0 / (2.0 * C)
        A = Q + lam * np.eye(m)
        try:
            L = factor(A.copy())
        except np.linalg.LinAlgError:
            return False
        if np.any(y * (Q @ solve(L, y)) > 1.001):  # not even with clean labels, which is quick to see
            return False
        H = solve(L, Q)
        residual = np.linalg.norm(Q - A @ H, axis=0)
        rounding = 4.0 * UNIT_ROUNDOFF * (m + 4) * float(np.linalg.norm(A)) * (1.0 + np.linalg.norm(H, axis=0))
        slack = 1.01 * math.sqrt(m) * float((residual + rounding).max()) / lam
        return slack < 0.5 and cap.always_at_cap(H.T, y, 1.0 / (1.0 - 1.01 * slack), movable, flips)

    def train(self, Q: Float, y: Float, C: float) -> Float:
        """Block principal pivoting on another kernel."""
        return train(with_ridge(Q, C), y, cap_beyond_reach(y.size, C))

    def machine(self, Q: Float, C: float, min_eig: float, rows: Float | None) -> Machine:
        """The diagonal's rounding, two units of it, is covered by larger constants."""
        m = Q.shape[0]
        found = pivoting_machine(with_ridge(Q, C), cap_beyond_reach(m, C), min_eig + 0.999999 / (2.0 * C), rows)
        return found._replace(entry_max=found.entry_max * (m + 8) / (m + 2), gap_factor=1.05 * found.gap_factor)

    def exactly(self, Q: Float, C: float) -> Exactly:
        """Rational arithmetic, on the kernel with a ridge."""
        return RationalSVM(ExactSVM(Q, cap_beyond_reach(Q.shape[0], C), ridge=1 / (2 * Fraction(C))))

    def largest_dual(self, m: int, C: float) -> float:
        """The objective is at most that of ``w = 0``: ``C Σ ξ² ≤ C m``, and ``α = 2Cξ``."""
        return 2.0 * C * math.sqrt(m)

    def one_flip(self, machine: Any, rows: Float, movable: Int) -> Float:
        """A flip moves ``2C max(0, 1 − y f)`` to ``2C max(0, 1 + y f)``, and ``‖w‖² ≤ 2Cm``."""
        m = machine.Q.shape[0]
        C = machine.C / (4.0 * math.sqrt(m))
        f = math.sqrt(2.0 * C * m) * math.sqrt(float(np.diag(machine.Q).max()))
        return two_norm_bound(machine, 2.0 * C, max(4.0 * C, 2.0 * C * (1.0 + f)), rows)

    def response(self, Q: Float, C: float, y: Float, z: Float, state: Signs, rows: Float) -> Float:
        """Labels with a margin below 1 make up for what others do."""
        moved = z + 2.0 * C * y * np.maximum(0.0, 1.0 + y * (Q @ z))
        return forecast(with_ridge(Q, C), np.flatnonzero(state == FREE), moved, rows)


def with_ridge(Q: Float, C: float) -> Float:
    """``Q + I/(2C)``, rounded; read-only, as every kernel that compiled code sees."""
    shifted = Q + np.eye(Q.shape[0]) / (2.0 * C)
    shifted.setflags(write=False)
    return shifted


def cap_beyond_reach(m: int, C: float) -> float:
    """Twice what a dual variable can reach: a cap that changes nothing."""
    return 4.0 * C * math.sqrt(m)
