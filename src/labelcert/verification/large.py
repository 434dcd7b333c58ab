"""Support vector machines with many labels, trained again in floats, with error bounds that cover all rounding.

The bounds are those of :class:`~labelcert.verification.machines.SVMTrainer`: the duality gap of what training returned,
and the norms of test rows. A factorisation proves that the kernel is positive definite, and bounds the norms:
where ``ρ = k − Q x``, and no eigenvalue of Q is below μ, ``√(k·Q⁻¹k) ≤ √(x·Qx) + |ρ| / √μ``.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from fractions import Fraction

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.verification.arithmetic import Whole, solved_as_guessed, whole
from labelcert.verification.machines import (
    COARSE_BITS,
    LARGEST_EXACT,
    SAFE,
    UNIT,
    Known,
    SVMTrainer,
    Trained,
    Trainer,
    approximate_shares,
    definite,
)
from labelcert.verification.statement import Statement

FLOORS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
"""Smallest eigenvalues to try, as shares of the largest entry."""


GOOD = 1e-11
"""A duality gap, as a share of the cap, that rounding hides anyway."""


class LargeSVMTrainer(SVMTrainer):
    """The support vector machine without bias, on a kernel that is provably definite.

    Scores and their errors are floats, so that the unit of :class:`Trained` is 1.
    """

    batch = 8_000_000
    about = "positive definite, by a factorisation with proved rounding"

    def __init__(self, statement: Statement, pace: Callable[[], None] = lambda: None) -> None:
        self.problems, self.unchecked = [], []
        self._K, self._cap = statement.K_train, statement.C
        self._rows = self._all_rows = statement.K_test
        self.largest_dual = 2.0 * statement.C
        self._scale = Fraction(1)
        self._pace, self._known = pace, Known()
        self._g = UNIT * 1.01 * (statement.m + 3)
        pace()
        self._nodes, self._wholes = np.arange(statement.n), dict[str, tuple[Whole, int]]()  # of all nodes
        self._row_norms = self._bounded_norms()
        pace()
        self._label_norms = np.sqrt(np.maximum(np.diag(self._K), 0.0)) * SAFE
        together = self._row_norms[:, None] * self._label_norms[None, :]
        brackets = np.maximum(np.stack([together - self._rows, together + self._rows]) * SAFE, 0.0)
        self._fine = 2.0 ** (COARSE_BITS - np.ceil(np.log2(max(float(brackets.max(initial=0.0)), 1e-280))))
        self._reach = np.ceil(brackets * self._fine * SAFE).astype(np.int64)

    def _bounded_norms(self) -> Float:
        """(n,) upper bounds on the norms of test rows."""
        K, eye = self._K, np.eye(len(self._K))
        shares = [share for share in FLOORS if definite(K - share * float(np.abs(K).max()) * eye)]
        # What subtracting rounds off is far below what a factorisation leaves room for.
        floor = self._floor = max(shares) * float(np.abs(K).max()) / 2
        X = np.linalg.solve(K, self._rows.T)
        KX = K @ X
        off = self._g * (np.abs(K) @ np.abs(X)) * SAFE
        square = (X * KX).sum(axis=0) + SAFE * ((1 + self._g) * np.abs(X) * off + self._g * np.abs(X * KX)).sum(axis=0)
        rest = np.abs(self._rows.T - KX) * SAFE + off + 1e-300
        missed = np.sqrt((rest**2).sum(axis=0)) / np.sqrt(floor)
        return np.asarray((np.sqrt(np.maximum(square, 0.0)) + missed) * SAFE + 1e-300)

    def only(self, nodes: Int) -> LargeSVMTrainer:
        """Rows, norms and reach of these nodes."""
        part = copy(self)
        part._rows, part._row_norms, part._reach = self._rows[nodes], self._row_norms[nodes], self._reach[:, nodes]
        part._nodes = self._nodes[nodes]
        return part

    def coarse(self, numbers: Whole | Float) -> Int:
        """Scores in units of weights times reach, rounded down."""
        unit = 0.5 * self._cap * 2.0**-COARSE_BITS / self._fine
        units = np.floor(np.asarray(numbers, dtype=np.float64) / unit - 1.0)
        return np.asarray(np.clip(units, -(2.0**61), 2.0**61), dtype=np.int64)

    def train(self, Y: Float) -> Trained:
        """Approximate shares of the cap, and their duality gap."""
        a = approximate_shares(self._cap * self._K, Y, GOOD, self._pace, self._known)
        Z = self._cap * Y * a
        excess = Y * (Z @ self._K) - 1.0
        off = self._g * (np.abs(Z) @ np.abs(self._K)) * SAFE + 4 * UNIT
        # Products and their sum are off by less than a share of 1e-9, since no part of the gap is negative beside off.
        parts = np.maximum(a * excess, (a - 1.0) * excess) * SAFE + off
        gap = self._cap * parts.sum(axis=1) * SAFE
        moved_by = np.fmin(np.sqrt(gap), self._by_system(a, excess, off))
        value = Z @ self._rows.T
        rounding = 2 * self._g * (np.abs(Z) @ np.abs(self._rows.T)) + 8 * UNIT * np.abs(value)
        error = (moved_by[:, None] * self._row_norms[None, :] + rounding) * SAFE + 1e-300
        moved = a + np.where(excess + off > -2.0, 1.0, 0.0)
        weight = np.ceil(moved * 2.0**COARSE_BITS * SAFE).astype(np.int64)
        return Trained(value, error, weight, Y.astype(np.int64))  # type: ignore[arg-type]

    def _by_system(self, a: Float, excess: Float, off: Float) -> Float:
        """(N,) how far models can be from optimal ones, where a linear system says it; infinite elsewhere.

        With the free labels at a margin of 1, dual variables move by no more than ``|r| / μ``, and models by no more
        than ``|r| / √μ``, where r is what these margins miss, and μ is below all eigenvalues. If all others stay
        strictly at their bounds, and these strictly between, that is the optimum.
        """
        free = (a > 0.0) & (a < 1.0)
        missed = np.sqrt((np.where(free, np.abs(excess) + off, 0.0) ** 2).sum(axis=1))[:, None] * SAFE
        far = missed / np.sqrt(self._floor) * SAFE
        inside = self._cap * np.minimum(a, 1.0 - a) > missed / self._floor * SAFE
        beyond = np.where(a <= 0.0, excess, -excess) - off > far * self._label_norms * SAFE
        return np.where(np.where(free, inside, beyond).all(axis=1), far[:, 0], np.inf)

    def exact(self, y: Float) -> tuple[Whole, int] | None:
        """One linear system, where the guess of the free labels is right."""
        if y.size > LARGEST_EXACT:
            return None
        if not self._wholes:
            self._wholes.update(Q=whole(self._K), C=whole(self._cap), R=whole(self._all_rows))
        (Q, e_Q), (C, e_C), (R, e_R) = (self._wholes[name] for name in "QCR")
        signs = y.astype(np.int64).astype(object)
        guess = approximate_shares(self._cap * self._K, y[None, :], pace=self._pace, known=self._known)[0]
        found = solved_as_guessed(Q * signs[:, None] * signs[None, :], int(C), 1 << (e_Q + e_C), guess, self._pace)
        return None if found is None else (R[self._nodes] @ (found[0] * signs), found[1] << (e_C + e_R))


def hinge_of(statement: Statement, pace: Callable[[], None]) -> Trainer:
    """In whole numbers up to a few labels, and where nothing else shows that the kernel is one."""
    K = statement.K_train
    if statement.m > SMALL and definite(K - FLOORS[-1] * float(np.abs(K).max()) * np.eye(statement.m)):
        return LargeSVMTrainer(statement, pace)
    return SVMTrainer(statement, pace)


SMALL = 48
"""Most labels for which training is in whole numbers."""
