"""What would prove more than an estimator whose proofs end early."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from labelcert import CertifiedClassifier, from_sklearn
from labelcert.certification import advice
from labelcert.estimators.advising import Ridge
from labelcert.problem import Problem
from labelcert.text import per_cent

TOO_MANY = 120  # labels, for all of 30 flips to be decided in any time


def clouds(m: int = 36) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    y = np.arange(m) % 2
    return rng.normal(size=(m, 3)) + y[:, None], y, rng.normal(size=(8, 3)) + 0.5


@pytest.fixture
def _time_for_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much as a longer run would leave."""
    monkeypatch.setattr(advice, "SHARE", 1.0)


@pytest.mark.usefixtures("_time_for_advice")
@pytest.mark.parametrize("weights", [None, "balanced"])
def test_ridge_regression_beside_linear_models(weights: Any) -> None:
    X, y, T = clouds()
    estimator = LogisticRegression(class_weight=weights)
    model = from_sklearn(make_pipeline(StandardScaler(), estimator))
    assert model.certify(X, y, T, max_flips=1).run.advice == ()
    X, y, T = clouds(TOO_MANY)
    [said] = model.certify(X, y, T, max_flips=30, time_limit=3.0, workers=1).run.advice
    found = re.fullmatch(
        r"RidgeClassifier\(alpha=(.*)\) has exact radii at every budget, without a search, and is (.*) % accurate by "
        r"cross-validation over the labels \(LogisticRegression: (.*) %\)",
        said,
    )
    assert found is not None
    scaled, parts = StandardScaler().fit_transform(X), StratifiedKFold(3, shuffle=True, random_state=0)
    ridge, own = RidgeClassifier(float(found[1])), estimator
    for shown, one in ((found[2], ridge), (found[3], own)):
        assert shown == per_cent(cross_val_score(one, scaled, y, cv=parts).mean())
    assert np.array_equal(
        *(getattr(from_sklearn(ridge).certify(X, y, T), f"radius_{end}") for end in ("lower", "upper"))
    )


def test_accuracies_only_where_there_is_time() -> None:
    X, y, _ = clouds()
    problem = Problem.linear(y)
    adviser = Ridge(LinearSVC(), X, y)
    assert "%" in adviser(problem, 10.0)[0]
    assert "LinearSVC" not in adviser(problem, 2e-4)[0]
    assert adviser(problem, 1e-9) == ["RidgeClassifier has exact radii at every budget, without a search"]
    assert Ridge(None, X[:3], y[:3])(Problem.linear(y[:3]), 10.0) == adviser(problem, 1e-9)


@pytest.mark.usefixtures("_time_for_advice")
def test_the_same_kernel_with_the_square_loss() -> None:
    X, y, T = clouds(TOO_MANY)
    [said] = from_sklearn(SVC()).certify(X, y, T, max_flips=30, time_limit=3.0, workers=1).run.advice
    start = "CertifiedClassifier('rbf', loss='square', bias=1000) with C="
    assert said.startswith(start)
    C = float(said.removeprefix(start).split()[0])
    cert = CertifiedClassifier("rbf", loss="square", bias=1000, C=C).fit(X, y).certify(T)
    assert np.array_equal(cert.radius_lower, cert.radius_upper)
