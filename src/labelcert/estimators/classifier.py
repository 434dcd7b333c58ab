"""A classifier for scikit-learn's tools whose predictions can be certified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from labelcert.arrays import Float, Values
from labelcert.certificate import Certificate
from labelcert.certification import GivenKernel, Names
from labelcert.errors import InvalidInput
from labelcert.estimators.base import KernelMachine, Transform, agreement, certified, remarked, row_names
from labelcert.estimators.kernels import kernel_between
from labelcert.labelnoise import Noise, noise_of
from labelcert.losses import get_loss
from labelcert.rechecking import Recheck, recheck


class CertifiedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A kernel machine with the interface of scikit-learn, and with certificates.

    Parameters
    ----------
    kernel : str or callable
        As in scikit-learn's ``pairwise_kernels``: ``"rbf"``, ``"linear"``, ``"poly"``, and so on, or ``"precomputed"``.
    loss : str
        As in :func:`labelcert.certify`.
    intercept : bool
        Whether there is an intercept that is not regularised; some losses alone can have one.
    C : float
        Regularisation: a larger C means less of it.
    gamma : float, "scale" or "auto"
        Of the kernel; ``"scale"`` is one over the number of features times their variance.
    degree, coef0
        Of the kernel.
    bias : float
        Squared size of a constant feature: a regularised intercept. 0 for none.

    Attributes
    ----------
    classes_ : array

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from labelcert import CertifiedClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CertifiedClassifier(loss="logistic", C=10.0).fit(X[::10], y[::10])
    >>> cert = model.certify(X[5::30], max_flips=1)
    >>> bool((cert.predictions == model.predict(X[5::30])).all())
    True
    """

    def __init__(
        self,
        kernel: str | Callable[..., Any] = "rbf",
        *,
        loss: str = "hinge",
        intercept: bool = False,
        C: float = 1.0,
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 1.0,
        bias: float = 0.0,
    ) -> None:
        self.kernel = kernel
        self.loss = loss
        self.intercept = intercept
        self.C = C
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.bias = bias

    def fit(self, X: Any, y: Any) -> Self:
        """Train on labels ``y``."""
        loss = get_loss(self.loss, intercept=self.intercept)
        self.loss_ = loss.name
        if not self.C > 0:
            raise InvalidInput(f"C must be a positive number, got {self.C!r}")
        if not self.bias >= 0:
            raise InvalidInput(f"bias must be at least 0, got {self.bias!r}")
        names = row_names(X)
        features, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if self.classes_.size < 2:
            raise InvalidInput(f"labels must hold at least two classes, but there is 1 class: {self.classes_[0]!r}")
        self.X_, self.y_, self.names_ = features, labels, names  # the kernel asks for the first
        K = self._kernel(features)
        self.K_ = (K + K.T) / 2
        self.dual_coef_ = loss.train_classes(np.ascontiguousarray(self.K_), codes, self.classes_.size, float(self.C))
        return self

    def decision_function(self, X: Any) -> Float:
        """Scores: one per point of two classes (positive: the second), one per point and class of more."""
        check_is_fitted(self)
        rows = get_loss(self.loss_).rows(self._kernel(validate_data(self, X, dtype=np.float64, reset=False)))
        scores = rows @ self.dual_coef_.T
        return np.asarray(scores[:, 1] if self.classes_.size == 2 else scores)

    def predict(self, X: Any) -> Values:
        """The class with the highest score."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)])

    def certify(self, X_test: Any, **options: Any) -> Certificate:
        """Certify the predictions for test points against changes of the labels that this was fitted on.

        Parameters
        ----------
        X_test
            As for ``predict``.
        **options
            Passed to :func:`labelcert.certify`: ``threat``, ``max_flips``, ``time_limit``, and so on.
        """
        cert = self._certified(X_test, options)
        return remarked(cert, agreement(self, None, None, X_test, cert.predictions))

    def recheck(self, X_test: Any, **options: Any) -> Recheck:
        """Which of the labels that this was fitted on to confirm, so that more predictions survive wrong ones.

        Parameters
        ----------
        X_test
            As for ``predict``.
        **options
            Passed to :func:`labelcert.recheck`: ``flips``, ``confirm`` or ``until``, and so on.
        """
        return recheck(self.certify(X_test, max_flips=0), **options)

    def noise(self, X_test: Any, **options: Any) -> Noise:
        """How probable it is that each prediction changes, where the labels of the fit are wrong by chance.

        Parameters
        ----------
        X_test
            As for ``predict``.
        **options
            Of :func:`labelcert.noise`: ``wrong``, ``time_limit``, ``seed``, and so on.
        """
        found: Any = self._certified(X_test, {**options, "using": noise_of})
        return cast("Noise", found)

    def _certified(self, X_test: Any, options: dict[str, Any]) -> Certificate:
        """The certificate, without what is said about the estimator itself."""
        check_is_fitted(self)
        names = Names(test=row_names(X_test), labels=self.names_, model=" ".join(repr(self).split()))
        rows = self._kernel(validate_data(self, X_test, dtype=np.float64, reset=False))
        model = GivenKernel(self.K_, rows, float(self.C), self.loss_, drops_to=self.loss_)
        return certified(model, self.y_, names, options)

    def _kernel(self, A: Float) -> Float:
        """The kernel between points and those of the fit."""
        return self.kernel_between(A, self.X_)

    def kernel_between(self, A: Float, B: Float) -> Float:
        """The kernel between points and training points, the constant feature included."""
        if self.kernel == "precomputed":
            return A + self.bias
        options = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        return kernel_between(A, B, self.kernel, **options) + self.bias  # type: ignore[arg-type]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def kernel_machine(estimator: CertifiedClassifier, transform: Transform) -> KernelMachine:
    """``CertifiedClassifier`` at the end of a pipeline, or on other data."""
    loss = get_loss(estimator.loss, intercept=estimator.intercept).name
    return KernelMachine(
        transform,
        estimator.kernel_between,
        float(estimator.C),
        lambda classes: loss,
        explanation=f"The certified model is {' '.join(repr(estimator).split())} itself.",
    )
