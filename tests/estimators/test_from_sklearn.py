"""Estimators of scikit-learn: the certified model predicts like them, and witnesses replay when they are refitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from labelcert import from_sklearn
from labelcert.errors import InvalidInput

TIGHT = {"tol": 1e-9, "max_iter": 200000}
REGRESSORS = (Ridge, KernelRidge, GaussianProcessRegressor)
LONG = {"tol": 1e-9, "max_iter": 100000}


def falling(distances: Any) -> Any:
    """Weights of neighbours."""
    return np.exp(-distances / 10.0)


def data(name: str, m: int, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    """``X_train, y_train, X_test, y_test`` of a real dataset."""
    X, y = {"cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}[name](return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:m], order[m : m + 60]
    return X[train], y[train], X[test], y[test]


CASES = {
    "logistic, cancer": (make_pipeline(StandardScaler(), LogisticRegression(C=0.1, **TIGHT)), "cancer", 60, 2),
    "logistic without intercept, cancer": (
        make_pipeline(StandardScaler(), LogisticRegression(C=1.0, fit_intercept=False, **TIGHT)),
        "cancer",
        60,
        2,
    ),
    "liblinear, wine": (
        make_pipeline(StandardScaler(), LogisticRegression(C=0.5, solver="liblinear", **TIGHT)),
        "cancer",
        80,
        2,
    ),
    "softmax, wine": (make_pipeline(StandardScaler(), LogisticRegression(C=0.1, **TIGHT)), "wine", 60, 1),
    "squared hinge, cancer": (make_pipeline(StandardScaler(), LinearSVC(C=0.01, **TIGHT)), "cancer", 100, 2),
    "squared hinge, wine": (make_pipeline(StandardScaler(), LinearSVC(C=0.1, **TIGHT)), "wine", 60, 2),
    "hinge, cancer": (make_pipeline(StandardScaler(), LinearSVC(C=0.01, loss="hinge", **TIGHT)), "cancer", 60, 2),
    "squared hinge, digits": (make_pipeline(PCA(20), LinearSVC(C=1e-4, **TIGHT)), "digits", 200, 1),
    "SVC, cancer": (make_pipeline(StandardScaler(), SVC(tol=1e-8)), "cancer", 60, 2),
    "linear SVC, cancer": (make_pipeline(StandardScaler(), SVC(kernel="linear", C=0.1, tol=1e-8)), "cancer", 60, 1),
    "polynomial SVC, cancer": (
        make_pipeline(StandardScaler(), SVC(kernel="poly", gamma="auto", tol=1e-8)),
        "cancer",
        60,
        1,
    ),
    "RidgeClassifier, wine": (make_pipeline(StandardScaler(), RidgeClassifier()), "wine", 100, 2),
    "RidgeClassifier, digits": (
        make_pipeline(StandardScaler(), RidgeClassifier(10.0, fit_intercept=False)),
        "digits",
        500,
        1,
    ),
    "RidgeClassifier, few labels": (make_pipeline(StandardScaler(), RidgeClassifier(10.0)), "digits", 60, 1),
    "Ridge, cancer": (make_pipeline(StandardScaler(), Ridge()), "cancer", 300, 2),
    "KernelRidge, cancer": (make_pipeline(StandardScaler(), KernelRidge(kernel="rbf", gamma=0.01)), "cancer", 300, 2),
    "Gaussian process, cancer": (
        make_pipeline(PCA(3), StandardScaler(), GaussianProcessRegressor(optimizer=None, alpha=0.5, normalize_y=True)),
        "cancer",
        100,
        2,
    ),
    "nearest neighbours, wine": (make_pipeline(StandardScaler(), KNeighborsClassifier(7)), "wine", 100, 2),
    "weighted neighbours, digits": (KNeighborsClassifier(6, weights="distance"), "digits", 500, 2),
    "neighbours with a function, digits": (KNeighborsClassifier(6, weights=falling), "digits", 300, 2),
    "radius neighbours, wine": (
        make_pipeline(StandardScaler(), PCA(2), RadiusNeighborsClassifier(1.5)),
        "wine",
        110,
        2,
    ),
    "propagation, wine": (make_pipeline(StandardScaler(), LabelPropagation(gamma=0.05, **LONG)), "wine", 100, 2),
    "spreading, wine": (make_pipeline(StandardScaler(), LabelSpreading(gamma=0.05, **LONG)), "wine", 100, 2),
    "spreading among neighbours, wine": (
        make_pipeline(StandardScaler(), LabelSpreading(kernel="knn", **LONG)),
        "wine",
        100,
        2,
    ),
    "propagation among neighbours, wine": (
        make_pipeline(StandardScaler(), LabelPropagation(kernel="knn", **LONG)),
        "wine",
        100,
        2,
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("tries", [30, pytest.param(1000, marks=[pytest.mark.long, pytest.mark.timeout(1200)])])
def test_predictions_agree_and_witnesses_replay(name: str, tries: int) -> None:
    estimator, dataset, m, flips = CASES[name]
    X, y, X_test, _ = data(dataset, m)
    signs = isinstance(estimator[-1] if isinstance(estimator, Pipeline) else estimator, REGRESSORS)
    if signs:
        y = 2 * y - 1
    if "propagation" in name or "spreading" in name:
        y[m * 2 // 3 :] = -1  # no label
    labelled = np.flatnonzero(y != -1) if -1 in y and not signs else np.arange(m)

    def refitted(labels: Any) -> Any:
        predicted = clone(estimator).fit(X, labels).predict(X_test)
        return np.where(predicted > 0, 1, -1) if signs else predicted

    model = from_sklearn(estimator)
    cert = model.certify(X, y, X_test, max_flips=flips)
    fitted = refitted(y)
    scores = np.sort(cert.decision_values, axis=-1)
    tied = scores[:, -1] - scores[:, -2] < 1e-9 if scores.ndim == 2 else np.abs(cert.decision_values) < 1e-9
    assert np.mean((cert.predictions == fitted) | tied) >= 0.995  # rounding decides ties, and versions differ
    assert np.array_equal(model.predict(X, y, X_test), cert.predictions)
    attacked = np.flatnonzero((cert.radius_upper <= flips) & (cert.radius_upper > 0))
    assert attacked.size > 0
    # Nodes with one and the same witness are replayed together.
    replayed: dict[Any, Any] = {}
    for t in attacked.tolist():
        change = cert.witness(t)
        assert change
        key = tuple(sorted(change.items()))
        if key not in replayed:
            changed = y.copy()
            changed[labelled[list(change)]] = list(change.values())
            replayed[key] = refitted(changed)
        # A tie counts as a change, and the estimator breaks it in favour of the first class.
        assert replayed[key][t] != fitted[t] or "neighbours" in name
    # No random set of fewer flips does.
    rng = np.random.default_rng(0)
    classes = np.unique(y[labelled])
    for _ in range(tries):
        changed = y.copy()
        size = int(rng.integers(1, flips + 1))
        for i in rng.choice(labelled, size, replace=False).tolist():
            changed[i] = rng.choice(np.setdiff1d(classes, [y[i]]))
        assert not np.any((refitted(changed) != fitted) & (cert.radius_lower > size))


def test_how_far_svc_is_from_what_is_certified() -> None:
    X, y, X_test, _ = data("cancer", 60)
    model = from_sklearn(make_pipeline(StandardScaler(), SVC()))
    assert model.disagreement(X, y, X_test) == 0.0  # type: ignore[attr-defined]
    scaled = StandardScaler().fit(X)
    K, rows = (scaled.transform(A) @ scaled.transform(X).T for A in (X, X_test))
    given = from_sklearn(SVC(kernel="precomputed", C=0.1)).certify(K, y, rows, max_flips=1)
    named = from_sklearn(make_pipeline(StandardScaler(), SVC(kernel="linear", C=0.1))).certify(
        X, y, X_test, max_flips=1
    )
    assert np.array_equal(given.radius_lower, named.radius_lower)
    with pytest.raises(InvalidInput, match="SVC with 3 classes votes among 3 models"):
        model.certify(*data("wine", 60)[:3])


def test_explanations() -> None:
    assert "not regularised" in from_sklearn(LogisticRegression()).explanation
    assert "regularised intercept" in from_sklearn(LogisticRegression(solver="liblinear")).explanation
    assert "loss='squared_hinge'" in from_sklearn(LinearSVC()).explanation


def test_names_of_data_frames() -> None:
    X, y, X_test, _ = data("cancer", 30)
    train = pd.DataFrame(StandardScaler().fit_transform(X), index=[f"patient {i}" for i in range(30)])
    test = pd.DataFrame(StandardScaler().fit_transform(X_test), index=[f"new {i}" for i in range(60)])
    labels = pd.Series(np.where(y == 1, "benign", "malignant"), index=train.index)
    cert = from_sklearn(LogisticRegression()).certify(train, labels, test, max_flips=1)
    assert cert.test_names is not None
    assert cert.label_names is not None
    assert (cert.test_names[0], cert.label_names[3], cert.predictions[0]) == ("new 0", "patient 3", "benign")
    with pytest.raises(InvalidInput, match="different indices"):
        from_sklearn(LogisticRegression()).certify(train, labels.iloc[::-1], test)


@pytest.mark.parametrize(
    ("estimator", "match"),
    [
        (
            DecisionTreeClassifier(),
            "DecisionTreeClassifier cannot be certified: its splits .* these can: CertifiedClassifier",
        ),
        (GaussianProcessRegressor(), "optimizer=None"),
        (Ridge(positive=True), "positive=False"),
        (Ridge(alpha=[1.0, 2.0]), "one number"),
        (SVC(class_weight="balanced"), "class_weight cannot be certified with the hinge loss; use LinearSVC"),
        (LinearSVC(loss="hinge", class_weight={0: 2.0}), "use loss='squared_hinge'"),
        (LogisticRegression(class_weight={0: -1.0}), "positive numbers by class"),
        (RidgeClassifier(alpha=0.0, class_weight="balanced"), "positive alpha"),
        (LogisticRegression(l1_ratio=0.5, solver="saga"), "L2 penalty"),
        (LogisticRegression(C=np.inf), "finite C"),
        (LinearSVC(penalty="l1"), "L2 penalty"),
        (LinearSVC(multi_class="crammer_singer"), "crammer_singer"),
        ("LogisticRegression", "str cannot be certified"),
    ],
    ids=str,
)
def test_what_cannot_be_certified(estimator: Any, match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        from_sklearn(estimator)


@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        ([["a"], ["b"]], [0, 1], "must hold numbers"),
        ([[np.nan], [1.0]], [0, 1], "missing or infinite"),
        ([[0.0], [1.0]], [0, 1, 1], "one label per row"),
        ([[0.0], [1.0]], [1, 1], "at least two classes"),
        ([0.0, 1.0], [0, 1], "one row per point"),
    ],
    ids=["strings", "NaN", "too many labels", "one class", "flat"],
)
def test_bad_data(X: Any, y: Any, match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        from_sklearn(LinearSVC()).certify(X, y, X)


def test_a_transformer_that_looks_at_labels() -> None:
    with pytest.raises(InvalidInput, match=r"'selectkbest' .* looks at the labels"):
        from_sklearn(make_pipeline(SelectKBest(k=2), LinearSVC())).certify(
            [[0.0, 1, 2], [1, 0, 2]], [0, 1], [[0, 0, 0]]
        )
