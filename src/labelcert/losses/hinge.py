"""The hinge loss: a support vector machine, retrained by block principal pivoting."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelcert.arrays import Bool, Float, Int, Signs
from labelcert.losses.base import Exactly, Loss, forecast
from labelcert.losses.solutions import Rational
from labelcert.stopping import go_on
from labelcert.svm import cap, train
from labelcert.svm.exact import ExactSVM
from labelcert.svm.factors import any_factor, solve
from labelcert.svm.pivoting import FREE, UNIT_ROUNDOFF, Machine


class Hinge(Loss):
    """``max(0, 1 − y f)``."""

    kind = "hinge"
    formula = "max(0, 1 − yf): a support vector machine, as in the paper"
    defined_anywhere = False

    def is_linear(self, Q: Float, y: Float, C: float, movable: Bool, flips: int, *, strict: bool = False) -> bool:
        """Where every label is at its cap, whatever the adversary does."""
        return cap.always_at_cap(Q, y, C, movable, flips, strict=strict)

    def train(self, Q: Float, y: Float, C: float) -> Float:
        """Block principal pivoting, from nothing."""
        return train(Q, y, C)

    def machine(self, Q: Float, C: float, min_eig: float, rows: Float | None) -> Machine:
        """A tableau, with a small ridge where the kernel is nearly singular."""
        return pivoting_machine(Q, C, min_eig, rows)

    def exactly(self, Q: Float, C: float) -> Exactly:
        """Rational arithmetic, from the states of the labels."""
        return RationalSVM(ExactSVM(Q, C))

    def largest_dual(self, m: int, C: float) -> float:
        """The cap of every dual variable."""
        return C

    def one_flip(self, machine: Any, rows: Float, movable: Int) -> Float:
        """The solution is a proximal map of the loss, hence firmly non-expansive.

        Flipping label i moves ``w`` into a ball with centre ``w − ½ c φ_i`` and radius ``½ ‖c φ_i‖``, where
        ``|c| ≤ 2C``. So the score of node t moves by at most ``C (|k_ti| + √Q_ii ‖φ_t‖)``, where only the part of
        ``φ_t`` in the span of the labels counts: its squared norm is ``k_t · Q⁻¹ k_t``.
        """
        if machine.gap_ridge > 0.0:
            return np.full(rows.shape[0], 1e150)
        lengths = np.sqrt(np.diag(machine.Q)[movable] * machine.gap_factor)
        return np.asarray(1.01 * machine.C * (np.abs(rows[:, movable]) + lengths).max(axis=1, initial=0.0))

    def response(self, Q: Float, C: float, y: Float, z: Float, state: Signs, rows: Float) -> Float:
        """Labels between 0 and their cap make up for what others do."""
        moved = z + C * y * (y * (Q @ z) > -1.0)
        return forecast(Q, np.flatnonzero(state == FREE), moved, rows)


class RationalSVM(Exactly):
    """A support vector machine in rational arithmetic."""

    def __init__(self, svm: ExactSVM) -> None:
        self._svm = svm

    def solution(self, y: Float, state: Signs, z: Float) -> Rational | None:
        """From the states that float64 found."""
        found = self._svm.solution(y, state, z)
        return None if found is None else Rational(*found)


def pivoting_machine(Q: Float, C: float, min_eig: float, rows: Float | None) -> Machine:
    """A support vector machine for compiled walks, with the constants that its error bounds need.

    Without test rows, the constants hold for any of norm at most 1, and are much larger.
    """
    largest = float(max(Q.max(), -Q.min()))  # and no copy of the matrix
    diagonal = float(np.diag(Q).max())
    well = min_eig >= 1e-9 * largest
    gap_ridge = 0.0 if well else 2.0**-46 * diagonal
    return Machine(
        Q=Q,
        C=C,
        ridge=0.0 if well else 2.0**-40 * diagonal,
        min_eig=min_eig,
        entry_max=largest,
        row_norm=1.01 * float(np.sqrt(np.einsum("ij,ij->i", Q, Q).max())),
        gap_ridge=gap_ridge,
        gap_factor=_any_gap_factor(gap_ridge + min_eig) if rows is None else _gap_factor(Q, rows, gap_ridge, min_eig),
    )


def _any_gap_factor(floor: float) -> float:
    """The same for any row, from a lower bound on the smallest eigenvalue of the matrix."""
    return 1.01 / floor if floor > 0.0 else 0.0


def _gap_factor(Q: Float, rows: Float, ridge: float, min_eig: float) -> float:
    """Proved upper bound on ``k·(Q + ridge·I)⁻¹·k`` over all rows."""
    return float(np.max(lengths_of(Q, rows, ridge, min_eig)))


def lengths_of(Q: Float, rows: Float, ridge: float, min_eig: float) -> Float:
    """(n,) proved upper bounds on ``k·(Q + ridge·I)⁻¹·k``, the squared length of each row.

    For any x, with r = k − Ax: ``k·A⁻¹k = 2k·x − x·Ax + r·A⁻¹r`` and ``r·A⁻¹r ≤ ‖r‖²/λ_min(A)``.
    """
    m = Q.shape[0]
    floor = ridge + min_eig
    if floor <= 0.0:
        return np.zeros(rows.shape[0])  # the zero kernel: no margin ever reaches 1, so the gap is never asked for
    A = Q + ridge * np.eye(m) if ridge else Q
    X = _any_solution(A, rows.T)
    AX = A @ X
    u = 4.0 * UNIT_ROUNDOFF * (m + 4)
    absolute = np.abs(A) @ np.abs(X)
    residual = np.linalg.norm(np.abs(rows.T - AX) + u * (np.abs(rows.T) + absolute), axis=0)
    quadratic = 2 * np.sum(rows.T * X, axis=0) - np.sum(X * AX, axis=0)
    rounding = u * (2 * np.sum(np.abs(rows.T * X), axis=0) + np.sum(np.abs(X) * absolute, axis=0))
    return np.asarray(1.01 * (quadratic + rounding + residual**2 / (0.999 * floor)))


def _any_solution(A: Float, right: Float) -> Float:
    """Solves a system, nearly; a small solution of a nearly singular one, where that is affordable."""
    if A.shape[0] > 200:
        L, out = any_factor(A, 0.0), np.empty(right.shape)
        for start in range(0, right.shape[1], 512):
            go_on()
            out[:, start : start + 512] = solve(L, right[:, start : start + 512])
        if np.isfinite(out).all():
            return out
    return np.asarray(np.linalg.lstsq(A, right, rcond=None)[0], dtype=np.float64)
