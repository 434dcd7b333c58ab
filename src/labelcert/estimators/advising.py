"""What would prove more than an estimator whose proofs end early, and how accurate that is."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier, RidgeClassifierCV
from sklearn.model_selection import StratifiedKFold, cross_val_score

from labelcert.arrays import Float, Values
from labelcert.certification.advice import square_loss
from labelcert.problem import Problem
from labelcert.text import per_cent

FOLDS = 3
ALPHAS = tuple(10.0**power for power in range(-3, 5))

PRODUCTS, STEPS = 4e8, 5e8
"""Multiplications in one second, roughly and on a busy machine: of decompositions, and of an iterative solver."""

ITERATIONS = 200
"""Passes over all features that a solver makes, roughly."""


@dataclass(frozen=True, eq=False)
class Ridge:
    """Says that ridge regression on the same features is exact, beside a linear model that is not.

    Attributes
    ----------
    estimator
        The linear model; None if its accuracy is not to be compared.
    X : (m, d) array
    labels : (m,) array
    """

    estimator: Any
    X: Float
    labels: Values

    def __call__(self, problem: Problem, seconds: float) -> Sequence[str]:
        """One sentence; with accuracies where these take no more than some seconds."""
        m, d = self.X.shape
        folds = min(FOLDS, int(np.bincount(problem.codes).min()))
        products = (folds + 1) * m * d * min(m, d)
        if folds < 2 or products / PRODUCTS > seconds / 2:
            return ["RidgeClassifier has exact radii at every budget, without a search"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alpha = float(RidgeClassifierCV(ALPHAS).fit(self.X, self.labels).alpha_)
            words = (
                f"RidgeClassifier(alpha={alpha:g}) has exact radii at every budget, without a search, and is "
                f"{per_cent(self._accuracy(RidgeClassifier(alpha), folds))} % accurate by cross-validation over the "
                "labels"
            )
            steps = folds * m * d * problem.n_classes * ITERATIONS
            if self.estimator is not None and steps / STEPS <= seconds / 2:
                words += f" ({type(self.estimator).__name__}: {per_cent(self._accuracy(self.estimator, folds))} %)"
        return [words]

    def _accuracy(self, estimator: Any, folds: int) -> float:
        parts = StratifiedKFold(folds, shuffle=True, random_state=0)
        return float(cross_val_score(clone(estimator), self.X, self.labels, cv=parts).mean())


@dataclass(frozen=True)
class SameKernel:
    """Says that the square loss on the same kernel is exact, and which classifier has it.

    Attributes
    ----------
    classifier : str
        The classifier with the square loss, as Python writes it.
    """

    classifier: str

    def __call__(self, problem: Problem, seconds: float) -> Sequence[str]:
        """In the words of kernel machines, for those who know estimators."""
        return [words.replace("loss='square'", self.classifier, 1) for words in square_loss(problem, seconds)]
