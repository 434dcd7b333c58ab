"""Estimators of scikit-learn that can be certified. A new one is one function and one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labelcert.errors import InvalidInput
from labelcert.estimators.base import Certifiable, Transform
from labelcert.estimators.linear_maps import gaussian_process, kernel_ridge, label_propagation, neighbours, ridge
from labelcert.estimators.linear_models import linear_svc, logistic_regression
from labelcert.estimators.pipelines import transform_with, unwrapped
from labelcert.estimators.svc import svc

ADAPTERS: dict[str, Callable[[Any, Transform], Certifiable]] = {
    "GaussianProcessRegressor": gaussian_process,
    "KNeighborsClassifier": neighbours,
    "KernelRidge": kernel_ridge,
    "LabelPropagation": label_propagation,
    "LabelSpreading": label_propagation,
    "LinearSVC": linear_svc,
    "LogisticRegression": logistic_regression,
    "RadiusNeighborsClassifier": neighbours,
    "Ridge": ridge,
    "RidgeClassifier": ridge,
    "SVC": svc,
}
"""How each class of scikit-learn is certified."""


def from_sklearn(estimator: Any) -> Certifiable:
    """A scikit-learn estimator, or a pipeline that ends with one, as a model that can be certified.

    Parameters
    ----------
    estimator
        Fitted or not: only its parameters count, since a certificate is about all trainings on changed labels. The
        transformers of a pipeline must not look at labels.

    Returns
    -------
    Certifiable
        With ``certify(X_train, y_train, X_test, ...)``, ``predict(X_train, y_train, X_test)`` and ``explanation``.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> model = from_sklearn(LogisticRegression(C=0.5))
    >>> cert = model.certify([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"], [[0.5], [2.6]], max_flips=1)
    >>> cert.predictions.tolist(), cert.radius_lower.tolist()
    (['no', 'yes'], [1, 1])
    """
    steps, last = unwrapped(estimator)
    kinds = [kind.__name__ for kind in type(last).__mro__ if kind.__module__.startswith("sklearn.")]
    adapter = next((ADAPTERS[name] for name in kinds if name in ADAPTERS), None)
    if adapter is None:
        raise InvalidInput(
            f"{type(last).__name__} cannot be certified; these can: {', '.join(sorted(ADAPTERS))}. "
            "LogisticRegression is the nearest one to most classifiers"
        )
    return adapter(last, transform_with(steps))


__all__ = ["Certifiable", "from_sklearn"]
