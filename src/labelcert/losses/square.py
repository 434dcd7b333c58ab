"""The square loss: kernel ridge regression, whose scores are linear in the labels. Nothing is ever retrained."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.losses.base import Loss
from labelcert.svm.factors import factor, solve


class NothingTrained(Loss):
    """Rows that somebody gave are multiplied by the labels: nothing is trained, and there is no kernel."""

    kind = "linear"
    formula = "none: scores are given as linear maps of the labels"
    always_linear = True

    def train(self, Q: Float, y: Float, C: float) -> Float:
        """Scores multiply the labels themselves."""
        return y

    def _nothing(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"scores of the {self.name} loss are linear: nothing is retrained")

    machine = exactly = one_flip = response = _nothing

    def largest_dual(self, m: int, C: float) -> float:
        """What multiplies the rows are the labels."""
        return 1.0


class NothingKnown(NothingTrained):
    """Models are trained by somebody else's function, and their votes are counted."""

    kind = "unknown"
    formula = "unknown: a function of the user trains"


class Square(NothingTrained):
    """``(1 − y f)²``."""

    kind = "square"
    formula = "(1 − yf)²: kernel ridge regression"
    ridge = True
    may_have_intercept = True

    def train(self, Q: Float, y: Float, C: float) -> Float:
        """One linear system, with ``λ = 1/(2C)``; an intercept borders it."""
        A = Q.copy()
        A[np.diag_indices(y.shape[0])] += 1 / (2 * C)
        if not self.intercept:
            return solve(factor(A), y)  # in blocks: with many labels a time limit or Ctrl-C comes between them
        return np.asarray(np.linalg.solve(self.bordered(A), np.concatenate([y, np.zeros((1, *y.shape[1:]))])))

    def train_classes(self, Q: Float, codes: Int, n_classes: int, C: float) -> Float:
        """One factorisation for all classes."""
        return self.train(Q, np.where(codes[:, None] == np.arange(n_classes), 1.0, -1.0), C).T
