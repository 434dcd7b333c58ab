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
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from labelcert import from_sklearn
from labelcert.errors import InvalidInput

TIGHT = {"tol": 1e-9, "max_iter": 200000}


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
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_predictions_agree_and_witnesses_replay(name: str) -> None:
    estimator, dataset, m, flips = CASES[name]
    X, y, X_test, _ = data(dataset, m)
    model = from_sklearn(estimator)
    cert = model.certify(X, y, X_test, max_flips=flips)
    fitted = clone(estimator).fit(X, y).predict(X_test)
    assert np.mean(cert.predictions == fitted) >= 0.995
    assert np.array_equal(model.predict(X, y, X_test), cert.predictions)
    attacked = np.flatnonzero(cert.radius_upper <= flips)
    assert attacked.size > 0
    # Nodes with one and the same witness are replayed together.
    replayed: dict[Any, Any] = {}
    for t in attacked.tolist():
        change = cert.witness(t)
        assert change is not None
        key = tuple(sorted(change.items()))
        if key not in replayed:
            changed = y.copy()
            changed[list(change)] = list(change.values())
            replayed[key] = clone(estimator).fit(X, changed).predict(X_test)
        assert replayed[key][t] != fitted[t]
    # No random set of fewer flips does.
    rng = np.random.default_rng(0)
    for _ in range(20):
        changed = y.copy()
        i = int(rng.integers(m))
        changed[i] = rng.choice(np.setdiff1d(np.unique(y), [y[i]]))
        moved = clone(estimator).fit(X, changed).predict(X_test) != fitted
        assert not np.any(moved & (cert.radius_lower > 1))


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
        (DecisionTreeClassifier(), "DecisionTreeClassifier cannot be certified; these can: LinearSVC"),
        (LogisticRegression(class_weight="balanced"), "class_weight"),
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
