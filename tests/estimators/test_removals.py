"""Estimators whose training rows are removed: against fits on all rows that can be left."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from labelcert import InvalidInput, Threat, from_sklearn

REMOVAL = Threat(removable=True, changes=False)


def points(classes: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(classes)
    X, T = rng.normal(size=(13, 3)), rng.normal(size=(7, 3))
    scores = 2 * X[:, 0] + rng.normal(size=13)
    return X, np.where(scores > 0, 1, -1) if classes == 2 else np.argsort(np.argsort(scores)) // 5, T


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(tol=1e-10, max_iter=10_000),
        LinearSVC(tol=1e-10, max_iter=100_000, random_state=0),
        RidgeClassifier(fit_intercept=False),
        KernelRidge(alpha=0.5, kernel="rbf"),
    ],
    ids=repr,
)
def test_fits_on_the_rows_that_are_left(estimator: Any, classes: int) -> None:
    if isinstance(estimator, KernelRidge) and classes > 2:
        return
    X, y, T = points(classes)
    cert = from_sklearn(estimator).certify(X, y, T, threat=REMOVAL, max_flips=2)

    def fitted(left: Any) -> Any:
        found = clone(estimator).fit(X[left], y[left]).predict(T)
        return np.sign(found) if isinstance(estimator, KernelRidge) else found

    clean, radius = fitted(np.arange(13)), np.full(7, 3)
    for size in (1, 2):
        for out in combinations(range(13), size):
            radius[(fitted(np.setdiff1d(np.arange(13), out)) != clean) & (radius > size)] = size
    assert cert.radius_lower.tolist() == radius.tolist()


def test_budgets_end_before_a_class_is_dropped() -> None:
    X, y, T = points(3)
    fewest = int(np.unique(y, return_counts=True)[1].min())
    model = from_sklearn(LinearSVC())
    assert model.certify(X, y, T, threat=REMOVAL).max_flips < fewest
    with pytest.raises(InvalidInput, match="where labels may be removed"):
        model.certify(X, y, T, threat=REMOVAL, max_flips=fewest)


def test_models_that_are_linear_maps_alone() -> None:
    X, y, T = points(2)
    for estimator in (KNeighborsClassifier(3), RidgeClassifier()):
        with pytest.raises(InvalidInput, match="what it would be without a label"):
            from_sklearn(estimator).certify(X, y, T, threat=REMOVAL)
