"""Regressors of scikit-learn: refitted on wrong targets, they move as far as they are said to, and no farther."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import labelcert
from labelcert import InvalidInput, RegressionCertificate, certify_regression, from_sklearn
from labelcert.errors import CertificateFileError

rng = np.random.default_rng(0)
X, T, y = rng.normal(size=(7, 2)), rng.normal(size=(3, 2)), rng.normal(size=7).round(2)
UP, DOWN = rng.random(7).round(2), rng.random(7).round(2)

ESTIMATORS = {
    "ridge": Ridge(alpha=0.5),
    "ridge without intercept": Ridge(alpha=0.5, fit_intercept=False),
    "more features": make_pipeline(StandardScaler(), Ridge(alpha=0.1)),
    "least squares": LinearRegression(),
    "pipeline": make_pipeline(StandardScaler(), LinearRegression()),
    "kernel ridge": KernelRidge(alpha=0.3, kernel="rbf", gamma=0.7),
    "process": GaussianProcessRegressor(RBF() + WhiteKernel(0.1), optimizer=None),
    "centred process": GaussianProcessRegressor(RBF(), alpha=0.2, optimizer=None, normalize_y=True),
    "neighbours": KNeighborsRegressor(3),
    "weighted neighbours": KNeighborsRegressor(3, weights="distance"),
}


def wide(rows: Any) -> Any:
    """Twelve features of two."""
    return np.hstack([rows, rows**2, rows**3, np.sin(rows), np.cos(rows), np.exp(rows)])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_refitting_moves_as_far_and_no_farther(name: str) -> None:
    estimator = ESTIMATORS[name]
    train, test = (wide(X), wide(T)) if name == "more features" else (X, T)
    cert = certify_regression(estimator, train, y, test, change=(DOWN, UP), max_changes=2, threshold=0.0)
    clean = clone(estimator).fit(train, y)
    assert cert.predictions == pytest.approx(clean.predict(test), abs=1e-9)
    ups, downs = (np.zeros((3, 3)) for _ in range(2))
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    linear = isinstance(last, Ridge | LinearRegression)
    own = last if linear else None
    coefficients = np.zeros((len(cert.coefficients), 3))
    for size in (1, 2):
        for some in itertools.combinations(range(7), size):
            for signs in itertools.product((0, 1), repeat=size):
                wrong = y.copy()
                for i, sign in zip(some, signs, strict=True):
                    wrong[i] += UP[i] if sign else -DOWN[i]
                refitted = clone(estimator).fit(train, wrong)
                move = refitted.predict(test) - clean.predict(test)
                ups[:, size] = np.maximum(ups[:, size], move)
                downs[:, size] = np.maximum(downs[:, size], -move)
                if own is not None:
                    now, before = ((m.steps[-1][1] if hasattr(m, "steps") else m).coef_ for m in (refitted, clean))
                    coefficients[:, size] = np.maximum(coefficients[:, size], np.abs(now - before))
    assert cert.shift_up == pytest.approx(np.maximum.accumulate(ups, axis=1), abs=1e-8)
    assert cert.shift_down == pytest.approx(np.maximum.accumulate(downs, axis=1), abs=1e-8)
    assert cert.slack.max() < 1e-7
    assert cert.coefficients.size == (0 if own is None else train.shape[1])
    assert cert.coefficient_shift == pytest.approx(np.maximum.accumulate(coefficients, axis=1), abs=1e-8)
    for t in range(3):
        move = cert.witness(t)
        if move is not None:
            wrong = y.copy()
            wrong[list(move)] = list(move.values())
            assert clone(estimator).fit(train, wrong).predict(test)[t] * cert.predictions[t] <= 1e-9


def test_weights_of_targets() -> None:
    weight = np.arange(1.0, 8.0)
    for estimator in (Ridge(alpha=0.5), LinearRegression(), KernelRidge(alpha=0.3, kernel="rbf")):
        cert = certify_regression(estimator, X, y, T, change=1.0, max_changes=1, sample_weight=weight)
        clean = clone(estimator).fit(X, y, sample_weight=weight).predict(T)
        assert cert.predictions == pytest.approx(clean, abs=1e-9)
        moves = [clone(estimator).fit(X, y + np.eye(7)[i], sample_weight=weight).predict(T) - clean for i in range(7)]
        assert cert.shift[:, 1] == pytest.approx(np.abs(moves).max(axis=0), abs=1e-9)
    with pytest.raises(InvalidInput, match="no sample_weight"):
        certify_regression(KNeighborsRegressor(2), X, y, T, change=1.0, sample_weight=weight)


def test_bounds_hold_in_extended_precision() -> None:
    """The proved errors of the map are no smaller than those of the map itself."""
    long = np.longdouble
    for alpha in (1e-6, 1.0):
        A, B = X.astype(long), T.astype(long)
        mean = (np.ones(7) / 7 @ X).astype(long)
        A, B = (X - np.asarray(mean, dtype=float)).astype(long), (T - np.asarray(mean, dtype=float)).astype(long)
        G = A.T @ A + long(alpha) * np.eye(2, dtype=long)
        inverse = np.array([[G[1, 1], -G[0, 1]], [-G[1, 0], G[0, 0]]]) / (G[0, 0] * G[1, 1] - G[0, 1] * G[1, 0])
        H = B @ inverse @ A.T
        H = H - H.sum(axis=1, keepdims=True) / 7 + long(1) / 7
        cert = certify_regression(Ridge(alpha=alpha), X, y, T, change=1.0, max_changes=7)
        true = np.cumsum(-np.sort(-np.abs(H), axis=1), axis=1)
        assert np.all(cert.shift[:, 1:] >= true)
        assert np.all(cert.shift[:, 1:] <= true + cert.slack[:, None])


def test_diabetes_in_the_words_of_its_columns(tmp_path: Path) -> None:
    frame, target = load_diabetes(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), Ridge(1.0))
    options: dict[str, Any] = {"change": 50.0, "max_changes": 20, "threshold": 150.0}
    cert = certify_regression(model, frame[:400], target[:400], frame[400:], **options)
    with pytest.raises(InvalidInput, match="certify_regression"):
        from_sklearn(model).certify(frame[:400], target[:400], frame[400:])
    assert list(cert.coefficient_frame().index) == list(frame.columns)
    assert cert.coefficient_frame()["radius"]["age"] == "1"
    wrong = target[:400].copy()
    for i, value in (cert.coefficient_witness("age") or {}).items():
        wrong.iloc[i] = value
    fitted = make_pipeline(StandardScaler(), Ridge(1.0)).fit(frame[:400], wrong)
    assert fitted[-1].coef_[0] * cert.coefficients[0] <= 0
    cert.save(tmp_path / "prices.cert")
    again = RegressionCertificate.load(tmp_path / "prices.cert")
    assert again.summary() == cert.summary()
    assert again.to_frame().equals(cert.to_frame())
    (tmp_path / "prices.cert").write_bytes(b"nothing")
    with pytest.raises(CertificateFileError, match="certify_regression"):
        RegressionCertificate.load(tmp_path / "prices.cert")
    assert cert.plot() is not None


def test_regressors_are_classifiers_by_their_sign() -> None:
    labels = np.where(y > 0, 1, -1)
    for estimator in (LinearRegression(), KNeighborsRegressor(3)):
        cert = from_sklearn(estimator).certify(X, labels, T, max_flips=2)
        assert cert.predictions.tolist() == np.where(clone(estimator).fit(X, labels).predict(T) > 0, 1, -1).tolist()


def test_a_time_limit_leaves_moves_open() -> None:
    H = rng.normal(size=(40, 50))
    cert = certify_regression(H=H, y=np.zeros(50), change=1.0, threshold=1.0, time_limit=1e-9)
    assert cert.stopped
    assert not cert.radius_lower.any()
    assert np.isinf(cert.shift).all()
    assert np.isfinite(cert.predictions).all()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"change": -1.0}, "at least 0"),
        ({"change": [1.0, 2.0]}, "one for each of the 3 targets"),
        ({"change": 1.0, "y": [1.0, np.nan, 2.0]}, "missing"),
        ({"change": 1.0, "y": ["a", "b", "c"]}, "numbers"),
        ({"change": 1.0, "H": [[1.0, 2.0]]}, "one column per target"),
        ({"change": 1.0, "H": [[1.0, np.inf, 0.0]]}, "infinite"),
        ({"change": 1.0, "threshold": [0.0, 1.0]}, "threshold"),
        ({"change": 1.0, "max_changes": -1}, "max_changes"),
        ({"change": 1.0, "threat": labelcert.Threat(allowed_flips={0: [1]})}, "about classes"),
        ({"change": 1.0, "threat": labelcert.Threat(annotators=["a"] * 3, costs=[1] * 3)}, "prices instead"),
        ({"change": 1.0, "estimator": Ridge()}, "or H and y"),
    ],
)
def test_what_is_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        certify_regression(**{"H": [[1.0, 0.5, 0.25]], "y": [1.0, 2.0, 3.0], **asked})


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (RandomForestRegressor(), "not linear in its targets"),
        (Ridge(positive=True), "positive"),
        (RidgeCV(), "fit it first"),
        (GaussianProcessRegressor(), "optimizer=None"),
        (KernelRidge(alpha=0.0, kernel="linear"), "singular"),
    ],
)
def test_estimators_that_are_refused(estimator: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        certify_regression(estimator, X, y, T, change=1.0)
    with pytest.raises(InvalidInput, match="linearly dependent"):
        certify_regression(LinearRegression(), np.ones((7, 2)), y, T, change=1.0)
