"""Estimators whose training rows are removed: against fits on all rows that can be left."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
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
        RidgeClassifier(alpha=0.3),
        Ridge(alpha=3.0),
        KernelRidge(alpha=0.5, kernel="rbf"),
    ],
    ids=repr,
)
def test_fits_on_the_rows_that_are_left(estimator: Any, classes: int) -> None:
    regressor = isinstance(estimator, KernelRidge | Ridge)
    if regressor and classes > 2:
        return
    X, y, T = points(classes)
    cert = from_sklearn(estimator).certify(X, y, T, threat=REMOVAL, max_flips=2)

    def fitted(left: Any) -> Any:
        found = clone(estimator).fit(X[left], y[left]).predict(T)
        return np.sign(found) if regressor else found

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
    with pytest.raises(InvalidInput, match="what it would be without a label"):
        from_sklearn(KNeighborsClassifier(3)).certify(X, y, T, threat=REMOVAL)


@pytest.mark.parametrize("classes", [2, 3])
def test_an_intercept_lasts_until_all_rows_are_gone(classes: int) -> None:
    """A class may lose its last label; one class alone is predicted everywhere, and without any label, all is tied."""
    rng = np.random.default_rng(3)
    X, T, y = rng.normal(size=(6, 2)) + 5.0, rng.normal(size=(5, 2)) + 5.0, np.arange(6) % classes
    model = RidgeClassifier(alpha=0.1)
    cert = from_sklearn(model).certify(X, y, T, threat=REMOVAL)
    clean, radius = clone(model).fit(X, y).predict(T), np.full(5, 6)
    for size in range(1, 6):
        for out in combinations(range(6), size):
            left = np.setdiff1d(np.arange(6), out)
            one = np.unique(y[left]).size == 1
            found = np.full(5, y[left[0]]) if one else clone(model).fit(X[left], y[left]).predict(T)
            radius[(found != clean) & (radius > size)] = size
    assert cert.max_flips == 6
    assert cert.exact
    assert cert.radius_lower.tolist() == radius.tolist()
    assert cert.collective_lower[6] == 5


def test_more_rows_than_rational_arithmetic_takes() -> None:
    rng = np.random.default_rng(5)
    X, T = rng.normal(size=(320, 4)) + 2.0, rng.normal(size=(5, 4)) + 2.0
    y = np.where(X[:, 0] + 2 * rng.normal(size=320) > 2.0, "a", "b")
    cert = from_sklearn(RidgeClassifier()).certify(X, y, T, threat=REMOVAL, max_flips=1)
    clean = RidgeClassifier().fit(X, y).predict(T)
    single = [RidgeClassifier().fit(np.delete(X, i, 0), np.delete(y, i)).predict(T) != clean for i in range(320)]
    assert cert.exact
    assert cert.radius_lower.tolist() == np.where(np.any(single, axis=0), 1, 2).tolist()
