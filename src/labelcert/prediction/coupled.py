"""More than two classes in one coupled problem: cross-entropy of the softmax."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from labelcert.arrays import Float, Index, Int
from labelcert.losses.balls import BallSoftmax, BallSoftmaxIntercept
from labelcert.losses.softmax import SoftmaxMachine
from labelcert.losses.solutions import Solution
from labelcert.prediction.highest import Highest
from labelcert.prediction.one_vs_rest import OneVsRest
from labelcert.prediction.predictor import Predictor
from labelcert.prediction.scoring import EXACT_LIMIT
from labelcert.problem import Problem
from labelcert.stopping import Stopped
from labelcert.svm.pivoting import UNIT_ROUNDOFF

_KEEP = 2000
"""Trainings that are remembered."""


class Softmax(Highest):
    """One model for all classes.

    Attributes
    ----------
    machine : SoftmaxMachine
    Z : (K, m) array
        The clean solution.
    inverse : (Km, Km) array or None
        From which trainings on similar labels start; None where it would be large.
    """

    enumerated = "relabellings"

    def __init__(self, problem: Problem, *, linear: bool) -> None:
        self._trained: OrderedDict[bytes, tuple[Float, float]] = OrderedDict()
        self._exact: OrderedDict[bytes, list[Solution]] = OrderedDict()
        self._balls: BallSoftmax | None = None
        intercept = problem.intercept
        self.machine = SoftmaxMachine.of(problem.K_train, problem.C, problem.n_classes, intercept=intercept)
        self.Z = self.machine.train(problem.codes[None])[0][0]
        self.inverse = self.machine.inverse(self.Z)
        super().__init__(problem, linear=linear)

    def of(self, problem: Problem) -> Predictor:
        """Of two classes, one model each."""
        return super().of(problem) if problem.coupled else OneVsRest(problem, linear=False)

    def train(self, codes: Int) -> tuple[Float, float]:
        """(K, m) what multiplies the scaled rows, and an error bound for all scores."""
        key = codes.tobytes()
        found = self._trained.get(key)
        if found is None:
            try:
                Z, error = self.machine.train(codes[None], self.Z, self.inverse)
            except Stopped:
                return np.zeros_like(self.Z), np.inf
            found = Z[0], float(score_errors(Z, error)[0])
            self._remember(self._trained, key, found, _KEEP)
        return found

    def _all_scores(self, codes: Int, nodes: Index, classes: Sequence[int] | None = None) -> tuple[Float, Float]:
        Z, tau = self.train(codes)
        chosen = list(range(self.problem.n_classes) if classes is None else classes)
        return Z[chosen] @ self.scorer.rows[nodes].T, np.full(len(chosen), tau)

    def _solutions_of(self, codes: Int, classes: Sequence[int]) -> list[Solution | None]:
        if self.problem.m * self.problem.n_classes > EXACT_LIMIT:
            return [None] * len(classes)
        key = codes.tobytes()
        known = self._exact.get(key)
        if known is None:
            if self._balls is None:
                kind = BallSoftmaxIntercept if self.machine.intercept else BallSoftmax
                self._balls = kind(self.problem.K_train, self.problem.C, self.problem.n_classes)
            known = list[Solution](self._balls.solutions(codes, self.train(codes)[0]))
            self._remember(self._exact, key, known, _KEEP)
        return [known[c] for c in classes]


def score_errors(Z: Float, error: Float) -> Float:
    """(B,) error bounds on the scores of rows of norm at most 1, from those on solutions (B, K, m)."""
    norm = np.linalg.norm(Z, axis=2).max(axis=1)
    return np.asarray(1.01 * (error + UNIT_ROUNDOFF * (Z.shape[2] + 4) * norm) + 1e-290)
