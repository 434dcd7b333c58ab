"""The logistic loss, cross-entropy of two classes: Newton's method, and ball arithmetic for doubts."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelcert.arrays import Float, Int, Signs
from labelcert.losses.balls import BallIntercept, BallLogistic, BallSolution
from labelcert.losses.base import Exactly, Loss, two_norm_bound
from labelcert.losses.conjugate import train_logistic
from labelcert.losses.newton import LogisticMachine, new_machine, settle
from labelcert.svm.pivoting import LARGEST_COLD, new_scratch


class Logistic(Loss):
    """``log(1 + exp(−y f))``; with an intercept, what scikit-learn's ``LogisticRegression`` minimises."""

    kind = "logistic"
    formula = "log(1 + exp(−yf)): cross-entropy, one class against the rest"
    rational = False
    may_have_intercept = True

    def train(self, Q: Float, y: Float, C: float) -> Float:
        """Newton's method, from nothing."""
        machine = self.machine(np.ascontiguousarray(Q), C, 0.0, Q)
        scratch = new_scratch(machine.Q.shape[0])
        labels = np.array(y, dtype=np.float64)
        if labels.size > LARGEST_COLD:
            train_logistic(machine, scratch, labels)
        else:
            settle(machine, scratch, labels)
        return scratch.z.copy()

    def machine(self, Q: Float, C: float, min_eig: float, rows: Float | None) -> LogisticMachine:
        """A Newton iteration; an intercept borders the kernel."""
        return new_machine(Q, C, intercept=self.intercept)

    def exactly(self, Q: Float, C: float) -> Exactly:
        """Ball arithmetic in rising precision: an exact tie stays undecided."""
        return LogisticBalls((BallIntercept if self.intercept else BallLogistic)(Q, C))

    def largest_dual(self, m: int, C: float) -> float:
        """``z_i = C y_i σ(−y_i f_i)``."""
        return C

    def one_flip(self, machine: Any, rows: Float, movable: Int) -> Float:
        """A flip moves ``C y σ(−y f)`` to ``−C y σ(y f)``: by C, whatever f is. An intercept can move far."""
        if self.intercept:
            return np.full(rows.shape[0], 1e150)
        return two_norm_bound(machine, machine.C / 4.0, machine.C, rows)

    def response(self, Q: Float, C: float, y: Float, z: Float, state: Signs, rows: Float) -> Float:
        """The first Newton step; with an intercept, the dual variables still add up to 0 after it."""
        m, least = y.size, 1e-12 if self.intercept else 0.0
        share = np.clip(z[:m] * y / C, least, 1.0 - least)
        slopes = C * share * (1.0 - share)
        system = np.eye(m) + Q * slopes  # transposed: (I + DQ)ᵀ
        if self.intercept:
            system = np.block([[system, np.ones((m, 1))], [slopes[None, :], np.zeros((1, 1))]])
        return np.asarray(-np.linalg.solve(system, rows.T)[:m].T * (C * y))


class LogisticBalls(Exactly):
    """Kernel logistic regression in ball arithmetic."""

    def __init__(self, model: BallLogistic) -> None:
        self._model = model

    def solution(self, y: Float, state: Signs, z: Float) -> BallSolution:
        """From what float64 found."""
        return self._model.solution(y, z)
