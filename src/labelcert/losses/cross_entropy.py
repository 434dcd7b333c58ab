"""Cross-entropy of the softmax over all classes: one coupled problem, which is what networks minimise."""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float, Int, Signs
from labelcert.losses.base import Exactly
from labelcert.losses.logistic import Logistic
from labelcert.losses.newton import LogisticMachine
from labelcert.losses.softmax import SoftmaxMachine


class CrossEntropy(Logistic):
    """``−log softmax(f)_y`` with one weight vector per class.

    Of two classes, the weight vectors are each other's negative. So their difference is that of the logistic loss with
    twice the constant, and its sign decides. With intercepts, scikit-learn's
    ``LogisticRegression`` minimises it.
    """

    kind = "cross_entropy"
    formula = "−log softmax: cross-entropy of all classes in one problem"
    coupled = True

    def train_classes(self, Q: Float, codes: Int, n_classes: int, C: float) -> Float:
        """Train all classes together."""
        if n_classes == 2:
            return super().train_classes(Q, codes, n_classes, C)
        return np.asarray(SoftmaxMachine.of(Q, C, n_classes, intercept=self.intercept).train(codes[None])[0][0])

    def machine(self, Q: Float, C: float, min_eig: float, rows: Float | None) -> LogisticMachine:
        """Two classes: the logistic loss with twice the constant."""
        return super().machine(Q, 2.0 * C, min_eig, rows)

    def exactly(self, Q: Float, C: float) -> Exactly:
        """Two classes: the logistic loss with twice the constant."""
        return super().exactly(Q, 2.0 * C)

    def largest_dual(self, m: int, C: float) -> float:
        """Of the difference of two classes."""
        return 2.0 * C

    def response(self, Q: Float, C: float, y: Float, z: Float, state: Signs, rows: Float) -> Float:
        """Two classes: the logistic loss with twice the constant."""
        return super().response(Q, 2.0 * C, y, z, state, rows)
