"""Linear classifiers: logistic regression and linear support vector machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from labelcert.errors import InvalidInput
from labelcert.estimators.base import LinearModel, Transform, as_chosen, class_weights, no_class_weights
from labelcert.estimators.kernels import linear
from labelcert.losses import get_loss


def logistic_regression(estimator: Any, transform: Transform) -> LinearModel:
    """``LogisticRegression`` with an L2 penalty."""
    class_weight, said = class_weights(estimator)
    ridge = estimator.penalty in ("l2", "deprecated") and not getattr(estimator, "l1_ratio", None)
    if not ridge or not np.isfinite(estimator.C):
        raise InvalidInput(
            "only LogisticRegression with its L2 penalty can be certified; use penalty='l2' and a finite C"
        )
    if estimator.solver == "liblinear":
        squared = estimator.intercept_scaling**2 if estimator.fit_intercept else 0.0
        return LinearModel(
            transform,
            lambda A, B: A @ B.T + squared,
            float(estimator.C),
            lambda classes: "logistic",
            explanation="The certified model is LogisticRegression with solver='liblinear' itself: one class against "
            "the rest, with its regularised intercept. The estimator solves the same problem up to its tolerance."
            + said,
            constant=squared**0.5,
            class_weight=class_weight,
            one_sided=True,
        )
    intercept = bool(estimator.fit_intercept)

    return LinearModel(
        transform,
        linear,
        float(estimator.C),
        lambda classes: get_loss("logistic" if classes == 2 else "cross_entropy", intercept=intercept).name,
        explanation="The certified model is LogisticRegression itself: cross-entropy over all classes"
        + (" with an intercept that is not regularised." if intercept else " without an intercept.")
        + f" The estimator solves the same problem up to its tolerance.{said}",
        class_weight=class_weight,
    )


def logistic_regression_cv(estimator: Any, transform: Transform) -> LinearModel:
    """``LogisticRegressionCV`` with the C that it chose."""
    chosen = np.unique(getattr(estimator, "C_", []))
    if chosen.size != 1:
        raise InvalidInput(
            "LogisticRegressionCV is certified with the one C that it chose for all classes; fit it first, on the same "
            "labels"
        )
    if not estimator.refit:
        raise InvalidInput("LogisticRegressionCV(refit=False) averages several models; use refit=True")
    plain = LogisticRegression()
    kept = {name: value for name, value in estimator.get_params().items() if name in plain.get_params()}
    ratio = max(share or 0.0 for share in np.ravel(getattr(estimator, "l1_ratio_", 0.0)))
    model = logistic_regression(plain.set_params(**kept, C=float(chosen[0]), l1_ratio=ratio), transform)
    return replace(model, explanation=f"{model.explanation} {as_chosen('C', chosen[0])}")


def linear_svc(estimator: Any, transform: Transform) -> LinearModel:
    """``LinearSVC``, whose intercept is regularised."""
    if estimator.loss == "hinge":
        no_class_weights(estimator, "loss='squared_hinge'")
    class_weight, said = class_weights(estimator)
    if estimator.penalty != "l2":
        raise InvalidInput("only LinearSVC with its L2 penalty can be certified; use penalty='l2'")
    if estimator.multi_class != "ovr":
        raise InvalidInput("LinearSVC(multi_class='crammer_singer') cannot be certified; use multi_class='ovr'")
    squared = estimator.intercept_scaling**2 if estimator.fit_intercept else 0.0
    return LinearModel(
        transform,
        lambda A, B: A @ B.T + squared,
        float(estimator.C),
        lambda classes: estimator.loss,
        explanation=f"The certified model is LinearSVC itself, with loss={estimator.loss!r}: one class against the rest"
        + (", with its regularised intercept." if squared else ", without an intercept.")
        + f" The estimator solves the same problem up to its tolerance.{said}",
        constant=squared**0.5,
        class_weight=class_weight,
        one_sided=True,
    )
