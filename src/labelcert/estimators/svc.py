"""``SVC``: a kernel machine whose intercept is not regularised, certified with one that hardly is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from labelcert.arrays import Float, Values
from labelcert.certificate import Certificate
from labelcert.errors import InvalidInput
from labelcert.estimators.advising import SameKernel
from labelcert.estimators.base import KernelMachine, Transform, checked_labels, no_class_weights
from labelcert.estimators.kernels import kernel_between

STRENGTH = 1000.0
"""Squared size of the intercept's feature, as a multiple of the largest squared norm of a training point."""


@dataclass(frozen=True)
class SupportVectorMachine(KernelMachine):
    """``SVC`` of two classes.

    Attributes
    ----------
    estimator
        The estimator itself, for :meth:`disagreement`.
    """

    estimator: Any = None

    def _certified(
        self, X_train: Any, y_train: Any, X_test: Any, weight: Float | None, options: Mapping[str, Any]
    ) -> Certificate:
        classes = np.unique(checked_labels(X_train, y_train))
        if classes.size > 2:
            raise InvalidInput(
                f"SVC with {classes.size} classes votes among {classes.size * (classes.size - 1) // 2} models of two "
                "classes each, which cannot be certified; use LinearSVC, LogisticRegression or RidgeClassifier, "
                "which train one class against the rest"
            )
        return super()._certified(X_train, y_train, X_test, weight, options)

    def _adviser(self, features: Float, labels: Values) -> SameKernel:
        """The square loss on the same kernel."""
        name, own = self.estimator.kernel, self.kernel(features, features)
        bias = float(np.diag(own).max()) * STRENGTH / (1.0 + STRENGTH)
        return SameKernel(f"CertifiedClassifier({name!r}, loss='square', bias={bias:.4g})")

    def disagreement(self, X_train: Any, y_train: Any, X_test: Any) -> float:
        """Share of test points for which the certified model does not predict what the estimator does."""
        from sklearn.base import clone

        features, tested = self.transform(X_train, X_test)
        fitted = clone(self.estimator).fit(features, y_train)
        return float(np.mean(self.predict(X_train, y_train, X_test) != fitted.predict(tested)))


def svc(estimator: Any, transform: Transform) -> SupportVectorMachine:
    """``SVC`` with any kernel."""
    no_class_weights(estimator, "LinearSVC or RidgeClassifier")

    def kernel(A: Float, B: Float) -> Float:
        return _kernel(estimator, A, B)

    return SupportVectorMachine(
        transform,
        kernel,
        float(estimator.C),
        lambda classes: "hinge",
        explanation="The certified model is SVC with an intercept that is slightly regularised: its feature is "
        f"{STRENGTH:g} times as large, squared, as the largest squared norm of a training point. The estimator's own "
        "is not regularised; `disagreement(X_train, y_train, X_test)` measures the difference. Where all support "
        "vectors are at their caps, many intercepts are optimal: the estimator takes the middle one, this model the "
        "one nearest to 0.",
        estimator=estimator,
    )


def _kernel(estimator: Any, A: Float, B: Float) -> Float:
    """The kernel between rows and training points, with a constant more for the intercept."""
    if estimator.kernel == "precomputed":
        return A + STRENGTH * float(np.diag(B).max())
    options = {"gamma": estimator.gamma, "degree": estimator.degree, "coef0": estimator.coef0}
    K = kernel_between(A, B, estimator.kernel, **options)
    own = K if A is B else kernel_between(B, B, estimator.kernel, **options)
    return K + STRENGTH * float(np.diag(own).max())
