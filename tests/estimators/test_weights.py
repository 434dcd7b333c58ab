"""Weights of labels: estimators refitted with them on every labelling of up to two changes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from labelcert import CertifiedEstimator, Threat, from_sklearn, verify
from labelcert.errors import InvalidInput

NOISE = 1e-6
TIGHT = {"tol": 1e-11, "max_iter": 100_000}
ESTIMATORS: dict[str, Any] = {
    "logistic": LogisticRegression(C=2.0, **TIGHT),
    "logistic with class weights": LogisticRegression(C=2.0, class_weight={0: 3.0, 1: 0.5}, **TIGHT),
    "liblinear": LogisticRegression(C=2.0, solver="liblinear", **TIGHT),
    "squared hinge": LinearSVC(C=0.7, **TIGHT),
    "ridge": RidgeClassifier(0.5),
    "ridge without intercept": RidgeClassifier(0.5, fit_intercept=False),
    "ridge with class weights": RidgeClassifier(0.5, class_weight={0: 3.0, 1: 0.5}),
    "ridge of ±1": Ridge(0.5),
    "kernel ridge": KernelRidge(kernel="rbf", alpha=0.5),
}
TWO_CLASSES = ("liblinear", "ridge of ±1", "kernel ridge")


def data(seed: int, name: str) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    K = 2 if name in TWO_CLASSES else 2 + seed % 2
    d = 2 + 7 * (seed % 3 == 2)  # more features than labels now and then
    y = np.concatenate([np.repeat(np.arange(K), 3), rng.integers(0, K, 8 - 2 * K)])
    X, T = rng.normal(size=(y.size, d)), rng.normal(size=(5, d)) * 1.5
    X[:, 0] += y
    return X, (2 * y - 1 if name in ("ridge of ±1", "kernel ridge") else y), T, rng.integers(1, 9, y.size) / 2.0


def predicted(estimator: Any, X: Any, y: Any, T: Any, weight: Any) -> tuple[Any, Any]:
    """Predictions after a fit, and which of them are more than rounding."""
    fitted = clone(estimator).fit(X, y, sample_weight=weight)
    if isinstance(estimator, Ridge | KernelRidge):
        scores = fitted.predict(T)
        return np.where(scores > 0, 1, -1), np.abs(scores) > NOISE
    scores = fitted.decision_function(T)
    lead = np.abs(scores) if scores.ndim == 1 else np.diff(np.sort(scores, axis=1)[:, -2:], axis=1)[:, 0]
    return fitted.predict(T), lead > NOISE


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("seeds", [3, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_every_labelling_of_two_changes(name: str, seeds: int) -> None:
    estimator = ESTIMATORS[name]
    for seed in range(seeds):
        X, y, T, weight = data(seed, name)
        cert = from_sklearn(estimator).certify(X, y, T, max_flips=2, sample_weight=weight)
        clean, sure = predicted(estimator, X, y, T, weight)
        assert np.array_equal(cert.predictions[sure], clean[sure])
        radius, most = np.full(len(T), 3), np.zeros(3, dtype=int)
        for size in (1, 2):
            for chosen in itertools.combinations(range(y.size), size):
                for targets in itertools.product(*(np.setdiff1d(y, y[i]) for i in chosen)):
                    changed = y.copy()
                    changed[list(chosen)] = targets
                    other, clear = predicted(estimator, X, changed, T, weight)
                    hit = (other != clean) & clear & sure
                    radius[hit] = np.minimum(radius[hit], size)
                    most[size] = max(most[size], hit.sum())
        assert np.array_equal(cert.radius_lower[sure], radius[sure]), (seed, name)
        assert np.all(most <= cert.collective_upper)


def test_many_labels_keep_their_proofs() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    X, T = rng.normal(size=(400, 3)) + y[:, None], rng.normal(size=(30, 3)) + 0.5
    weight = rng.integers(1, 9, 400) / 2.0
    cert = from_sklearn(LogisticRegression(C=0.1)).certify(X, y, T, max_flips=2, sample_weight=weight)
    assert cert.engine == "influence"
    assert cert.run.weights == "sample_weight"
    assert (cert.radius_lower >= 2).mean() > 0.8
    assert "predicts the same for all 30 test points" in cert.run.remarks[0]


def test_weights_within_a_pipeline_and_a_time_limit() -> None:
    X, y, T, weight = data(0, "logistic")
    model = CertifiedEstimator(make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced")))
    cert = model.fit(X, y).certify(T, max_flips=4, time_limit=0.3, threat=Threat(trusted=np.arange(y.size) < 2))
    assert cert.run.weights == "class_weight='balanced'"
    assert np.all(cert.radius_lower <= cert.radius_upper)
    assert "a changed label weighs what its new class does" in cert.run.model.lower()
    weighted = CertifiedEstimator(make_pipeline(StandardScaler(), RidgeClassifier())).fit(X, y, sample_weight=weight)
    cert = weighted.certify(T, max_flips=2)
    assert np.array_equal(cert.predictions, weighted.predict(T))


def test_what_is_refused() -> None:
    X, y, T, weight = data(0, "logistic")

    def ask(estimator: Any, weight: Any = weight, **options: Any) -> Any:
        return from_sklearn(estimator).certify(X, y, T, max_flips=1, sample_weight=weight, **options)

    with pytest.raises(InvalidInput, match="one positive number per row"):
        ask(RidgeClassifier(), weight=np.zeros(y.size))
    with pytest.raises(InvalidInput, match="cannot be certified with the hinge loss"):
        ask(SVC())
    with pytest.raises(InvalidInput, match="KNeighborsClassifier has no sample_weight"):
        ask(KNeighborsClassifier(3))
    with pytest.raises(InvalidInput, match="cannot be certified together"):
        ask(LogisticRegression(class_weight="balanced"))
    with pytest.raises(InvalidInput, match=r"class_weight names 7, but the labels are \[0, 1\]"):
        ask(LogisticRegression(class_weight={7: 2.0}))
    with pytest.raises(InvalidInput, match="leave out engine: with weights, models are trained on features"):
        ask(LogisticRegression(), engine="milp")
    cert = ask(LogisticRegression())
    with pytest.raises(InvalidInput, match="verify does not train models whose labels have weights"):
        verify(cert, labels=y, X_train=X, X_test=T)
