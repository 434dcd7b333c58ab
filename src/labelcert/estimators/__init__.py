"""Estimators of scikit-learn that can be certified. A new one is one function and one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from labelcert.errors import InvalidInput
from labelcert.estimators.base import Certifiable, Transform
from labelcert.estimators.classifier import kernel_machine
from labelcert.estimators.linear_maps import (
    gaussian_process,
    kernel_ridge,
    label_propagation,
    neighbours,
    ridge,
    ridge_cv,
)
from labelcert.estimators.linear_models import linear_svc, logistic_regression, logistic_regression_cv
from labelcert.estimators.pipelines import Steps, unwrapped
from labelcert.estimators.regressors import by_sign, certify_regression
from labelcert.estimators.svc import svc

ADAPTERS: dict[str, Callable[[Any, Transform], Certifiable]] = {
    "CertifiedClassifier": kernel_machine,
    "GaussianProcessRegressor": gaussian_process,
    "KNeighborsClassifier": neighbours,
    "KNeighborsRegressor": by_sign,
    "KernelRidge": kernel_ridge,
    "LabelPropagation": label_propagation,
    "LabelSpreading": label_propagation,
    "LinearRegression": by_sign,
    "LinearSVC": linear_svc,
    "LogisticRegression": logistic_regression,
    "LogisticRegressionCV": logistic_regression_cv,
    "RadiusNeighborsClassifier": neighbours,
    "Ridge": ridge,
    "RidgeCV": ridge_cv,
    "RidgeClassifier": ridge,
    "RidgeClassifierCV": ridge_cv,
    "SVC": svc,
}
"""How each class of scikit-learn is certified."""


_TREES = (
    "its splits jump when labels change, so that no proof covers them",
    'CertifiedClassifier(kernel="rbf") or KNeighborsClassifier()',
)

NEAREST = {
    "BaseDecisionTree": _TREES,
    "BaseForest": _TREES,
    "BaseGradientBoosting": _TREES,
    "BaseHistGradientBoosting": _TREES,
    "BaseSearchCV": (
        "it chooses its parameters by the labels, which changed labels would choose otherwise",
        "its best_estimator_, as it is",
    ),
    "CalibratedClassifierCV": ("it fits a calibration to the labels, too", "the estimator inside it"),
    "BaseEnsemble": ("it combines models that are trained on samples of the labels", "its estimator alone"),
    "_BaseHeterogeneousEnsemble": ("it combines models of several kinds", "one of its estimators alone"),
    "OneVsRestClassifier": ("wrappers are not looked into", "the estimator inside it, which handles classes itself"),
    "OneVsOneClassifier": ("its models vote pair by pair", "the estimator inside it"),
    "SGDClassifier": ("its result depends on the order of its steps", "LinearSVC() or LogisticRegression()"),
    "Perceptron": ("its result depends on the order of its steps", 'LinearSVC(loss="hinge")'),
    "PassiveAggressiveClassifier": ("its result depends on the order of its steps", 'LinearSVC(loss="hinge")'),
    "BaseMultilayerPerceptron": (
        "a network of finite width has no unique optimum",
        "labelcert.MLP, the network of infinite width, on a Graph without edges, or CertifiedClassifier()",
    ),
    "NuSVC": ("its nu ties the regularisation to the number of errors", "SVC(C=...)"),
    "GaussianProcessClassifier": ("it approximates its posterior", "GaussianProcessRegressor(optimizer=None) on ±1"),
    "_BaseNB": ("its variances and priors are counted per class", "LogisticRegression()"),
    "LinearDiscriminantAnalysis": ("its covariance is counted per class", "RidgeClassifier()"),
    "QuadraticDiscriminantAnalysis": ("its covariances are counted per class", 'SVC(kernel="poly", degree=2)'),
    "NearestCentroid": ("its centroids are means per class", "KNeighborsClassifier()"),
    "SelfTrainingClassifier": ("it trains on its own predictions", "LabelSpreading()"),
    "DummyClassifier": ("it only counts labels", "RidgeClassifier(alpha=...) with a large alpha"),
}
"""Why kinds of estimators cannot be certified, and what comes nearest; the first that fits counts."""


def from_sklearn(estimator: Any) -> Certifiable:
    """A scikit-learn estimator, or a pipeline that ends with one, as a model that can be certified.

    Parameters
    ----------
    estimator
        Fitted or not: only its parameters count, since a certificate is about all trainings on changed labels. The
        transformers of a pipeline must not look at labels. Those that chose a parameter by cross-validation
        (``RidgeClassifierCV``) are certified with the one that they chose, and so must be fitted.

    Returns
    -------
    Certifiable
        With ``certify(X_train, y_train, X_test, ...)``, ``predict(X_train, y_train, X_test)`` and ``explanation``.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from labelcert import from_sklearn
    >>> model = from_sklearn(LogisticRegression(C=0.5))
    >>> cert = model.certify([[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"], [[0.5], [2.6]], max_flips=1)
    >>> cert.predictions.tolist(), cert.radius_lower.tolist()
    (['no', 'yes'], [1, 1])
    """
    if isinstance(estimator, type):
        raise InvalidInput(
            f"expected an estimator, got the class {estimator.__name__}; give an instance: {estimator.__name__}()"
        )
    return adapted(estimator)


def adapted(estimator: Any, *, fitted: bool = False) -> Certifiable:
    """The same, with the transformers of a pipeline as they were ``fitted``, or fitted anew without labels."""
    steps, last = unwrapped(estimator)
    kinds = [k.__name__ for k in type(last).__mro__ if k.__module__.partition(".")[0] in ("sklearn", "labelcert")]
    kind = next((name for name in kinds if name in ADAPTERS or name in NEAREST), "")
    if kind not in ADAPTERS:
        reason, nearest = NEAREST.get(kind, ("", "LogisticRegression()"))
        because = f": {reason}" if reason else ""
        raise InvalidInput(
            f"{type(last).__name__} cannot be certified{because}. The nearest model that can be is {nearest}, and an "
            f"ensemble of any classifier can be: CertifiedEnsemble({type(last).__name__}()); "
            f"these can: {', '.join(sorted(ADAPTERS))}"
        )
    return replace(ADAPTERS[kind](last, Steps(steps, fitted)), whole=estimator)


__all__ = ["Certifiable", "certify_regression", "from_sklearn"]
