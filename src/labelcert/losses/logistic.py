"""The logistic loss, cross-entropy of two classes: Newton's method, and ball arithmetic for doubts."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelcert.arrays import Float, Int, Signs
from labelcert.losses.balls import BallIntercept, BallLogistic, BallSolution
from labelcert.losses.base import Exactly, Loss, two_norm_bound
from labelcert.losses.newton import LogisticMachine, new_machine, settle
from labelcert.svm.pivoting import new_scratch


class Logistic(Loss):
    """``log(1 + exp(−y f))``."""

    name = "logistic"
    formula = "log(1 + exp(−yf)): cross-entropy, one class against the rest"
    rational = False

    def train(self, Q: Float, y: Float, C: float) -> Float:
        """Newton's method."""
        machine = self.machine(np.ascontiguousarray(Q), C, 0.0, Q)
        scratch = new_scratch(machine.Q.shape[0])
        settle(machine, scratch, np.array(y, dtype=np.float64))
        return scratch.z.copy()

    def machine(self, Q: Float, C: float, min_eig: float, rows: Float) -> LogisticMachine:
        """A Newton iteration."""
        return new_machine(Q, C)

    def exactly(self, Q: Float, C: float) -> Exactly:
        """Ball arithmetic in rising precision: an exact tie stays undecided."""
        return LogisticBalls(BallLogistic(Q, C))

    def largest_dual(self, m: int, C: float) -> float:
        """``z_i = C y_i σ(−y_i f_i)``."""
        return C

    def one_flip(self, machine: Any, rows: Float, movable: Int) -> Float:
        """A flip moves ``C y σ(−y f)`` to ``−C y σ(y f)``: by C, whatever f is."""
        return two_norm_bound(machine, machine.C / 4.0, machine.C, rows)

    def response(self, Q: Float, C: float, y: Float, z: Float, state: Signs, rows: Float) -> Float:
        """The first Newton step."""
        share = np.clip(z * y / C, 0.0, 1.0)
        slopes = C * share * (1.0 - share)
        system = np.eye(y.size) + Q * slopes  # transposed: (I + DQ)ᵀ
        return np.asarray(-np.linalg.solve(system, rows.T).T * (C * y))


class LogisticIntercept(Logistic):
    """The same with an intercept that is not regularised, as in scikit-learn's ``LogisticRegression``."""

    name = "logistic_intercept"
    formula = "the same with an unregularised intercept: scikit-learn's LogisticRegression"
    intercept = True

    def machine(self, Q: Float, C: float, min_eig: float, rows: Float) -> LogisticMachine:
        """A bordered kernel."""
        return new_machine(Q, C, intercept=True)

    def exactly(self, Q: Float, C: float) -> Exactly:
        """Ball arithmetic."""
        return LogisticBalls(BallIntercept(Q, C))

    def one_flip(self, machine: Any, rows: Float, movable: Int) -> Float:
        """Nothing is known: the intercept can move far."""
        return np.full(rows.shape[0], 1e150)

    def response(self, Q: Float, C: float, y: Float, z: Float, state: Signs, rows: Float) -> Float:
        """The first Newton step, after which the dual variables still add up to 0."""
        share = np.clip(z[:-1] * y / C, 1e-12, 1.0 - 1e-12)
        slopes = C * share * (1.0 - share)
        m = y.size
        system = np.zeros((m + 1, m + 1))
        system[:m, :m] = np.eye(m) + Q * slopes
        system[m, :m], system[:m, m] = slopes, 1.0  # transposed, as above
        return np.asarray(-np.linalg.solve(system, rows.T)[:m].T * (C * y))


class LogisticBalls(Exactly):
    """Kernel logistic regression in ball arithmetic."""

    def __init__(self, model: BallLogistic) -> None:
        self._model = model

    def solution(self, y: Float, state: Signs, z: Float) -> BallSolution:
        """From what float64 found."""
        return self._model.solution(y, z)
