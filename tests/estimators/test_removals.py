"""Estimators whose training rows are removed: against fits on all rows that can be left."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.svm import LinearSVC

from labelcert import InvalidInput, Threat, from_sklearn, verify
from labelcert.engines import neighbours as neighbours_engine
from labelcert.problem import Problem

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


def test_what_is_refused_of_neighbours() -> None:
    X, y, T = points(2)
    with pytest.raises(InvalidInput, match="what it would be without a label"):
        from_sklearn(KNeighborsClassifier(3, weights="distance")).certify(X, y, T, threat=REMOVAL)
    refused: list[tuple[str, Any, str]] = [
        ("engine", "enumerate", "not apply"),
        ("margin", 0.5, "no margin"),
        ("scheduler", "processes", "on threads"),
    ]
    for option, value, why in refused:
        with pytest.raises(InvalidInput, match=why):
            from_sklearn(KNeighborsClassifier(3)).certify(X, y, T, threat=REMOVAL, **{option: value})
    with pytest.raises(InvalidInput, match="n_neighbors=14"):
        from_sklearn(KNeighborsClassifier(14)).certify(X, y, T, threat=REMOVAL)
    for label in (None, 5):
        with pytest.raises(InvalidInput, match="outlier_label"):
            from_sklearn(RadiusNeighborsClassifier(1e-3, outlier_label=label)).certify(X, y, T, threat=REMOVAL)
    cert = from_sklearn(KNeighborsClassifier(3)).certify(X, y, T, threat=REMOVAL, max_flips=2)
    with pytest.raises(InvalidInput, match="fit the estimator again"):
        verify(cert, H=np.zeros((7, 13)))


NONE = -99
"""In place of a prediction that the estimator refuses to make."""


def refitted(estimator: Any, X: Any, codes: Any, T: Any) -> Any:
    """What it predicts once fitted on the rows that are left, point by point where it refuses some."""
    left = codes >= 0
    found = []
    for some in [T, *T[:, None]]:
        try:
            found.append(clone(estimator).fit(X[left], codes[left]).predict(np.atleast_2d(some)))
        except ValueError:
            found.append(np.full(len(np.atleast_2d(some)), NONE))
        if found[0][0] != NONE or len(found[0]) == 1:
            return found[0]
    return np.concatenate(found[1:])


def neighbours(rng: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """A small problem, half of them with many rows that are as far away as each other."""
    m, K, budget = int(rng.integers(4, 7)), int(rng.integers(2, 4)), 2
    grid = rng.random() < 0.5
    X, T = (rng.integers(0, 3, (k, 2)) * 1.0 if grid else rng.normal(size=(k, 2)) for k in (m, 4))
    y, estimator = rng.permutation(np.arange(m) % K), KNeighborsClassifier(int(rng.integers(1, m + 1)))
    if rng.random() < 0.4:
        outlier = None if rng.random() < 0.3 else int(rng.integers(0, K))
        estimator = RadiusNeighborsClassifier(10.0 if outlier is None else 1.0, outlier_label=outlier)
    threat: dict[str, Any] = {"removable": True, "changes": bool(rng.random() < 0.5)}
    if rng.random() < 0.3:
        threat["removable"] = np.append(rng.random(m - 1) < 0.7, True)
    if rng.random() < 0.3:
        threat["trusted"] = np.append(rng.random(m - 1) < 0.3, False)
    if rng.random() < 0.3:
        threat["costs"] = rng.integers(1, 3, m)
    if rng.random() < 0.3:
        threat |= {"groups": [0, *rng.integers(0, 2, m - 1).tolist()], "group_budgets": {0: 1}}
    return X, y, T, estimator, {"threat": Threat(**threat), "max_flips": budget}


@pytest.mark.filterwarnings("ignore:Outlier label")
@pytest.mark.parametrize("few", [0, 20_000], ids=["counted", "asked"])
def test_neighbours_on_the_rows_that_are_left(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ties of distances, fewer rows than votes, vanishing classes: nothing is claimed that a fit contradicts."""
    monkeypatch.setattr(neighbours_engine, "FEW_ASKED", few - 1)
    changed = 0
    for seed in range(16 if few == 0 else 5):
        X, y, T, estimator, asked = neighbours(np.random.default_rng(seed))
        cert = from_sklearn(estimator).certify(X, y, T, **asked)
        problem = Problem.linear(y, **asked)
        clean, radius, most = refitted(estimator, X, y, T), np.full(4, 3), np.zeros(3, dtype=int)
        for size in (1, 2):
            for change in problem.adversary.relabellings(size, 2):
                codes = problem.relabelled(change)
                codes[codes == problem.n_classes] = -1
                hit, cost = refitted(estimator, X, codes, T) != clean, problem.adversary.cost(change)
                radius = np.where(hit, np.minimum(radius, cost), radius)
                most[cost:] = np.maximum(most[cost:], hit.sum())
        assert cert.predictions.tolist() == clean.tolist()
        assert np.all(np.minimum(cert.radius_lower, 3) <= radius)
        assert np.all(np.minimum(cert.radius_upper, 3) >= radius)
        assert np.all((cert.collective_lower <= most) & (most <= cert.collective_upper))
        if X[0, 0] % 1.0:  # all distances differ
            assert np.minimum(cert.radius_lower, 3).tolist() == np.minimum(cert.radius_upper, 3).tolist()
        changed += int((cert.radius_upper <= 2).sum())
    assert changed > 8


def test_many_rows_of_neighbours() -> None:
    """Radii beyond the first table, each with a witness that a fit confirms."""
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(300, 2)), rng.normal(size=(20, 2)) * 0.5
    y = (X[:, 0] + 0.8 * rng.normal(size=300) > 0).astype(int)
    cert = from_sklearn(KNeighborsClassifier(7)).certify(X, y, T, threat=REMOVAL)
    assert cert.exact or cert.radius_lower.tolist() == cert.radius_upper.tolist()
    assert cert.radius_lower.max() > 16
    for t, point in enumerate(T):
        gone = sorted(cert.witness(t))
        left = np.setdiff1d(np.arange(300), gone)
        assert len(gone) == cert.radius_lower[t]
        assert KNeighborsClassifier(7).fit(X[left], y[left]).predict([point])[0] != cert.predictions[t]
        order = np.argsort(np.linalg.norm(X - point, axis=1))
        own = y[order] == cert.predictions[t]
        # Rows of the other class are kept, of course; so the lead falls to nothing with rows of the own class alone.
        votes = np.flatnonzero(~own)[:4]
        assert len(gone) == max(0, int(own[: votes[3]].sum()) - 3)


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
