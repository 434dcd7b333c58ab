"""Estimators refitted on every labelling of up to two changed labels, where changes take the last label from a class.

``python -m tests.estimators.test_rare_classes 500`` does so on 500 data sets, and prints what it found.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.semi_supervised import LabelPropagation, LabelSpreading
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from labelcert import CertifiedClassifier, Threat, from_sklearn, verify
from labelcert.errors import InvalidInput
from tests.estimators.test_from_sklearn import REGRESSORS

FLIPS = 2
TIGHT = {"tol": 1e-11, "max_iter": 100_000}
NOISE = 1e-6
"""A lead over the next class that is smaller is not the estimator's word, but rounding."""
HEAVY = {0: 2.0, 1: 0.4, 2: 3.0}
"""Weights of three classes."""

ESTIMATORS: dict[str, Any] = {
    "ridge": RidgeClassifier(0.5),
    "ridge without intercept": RidgeClassifier(0.5, fit_intercept=False),
    "squared hinge": LinearSVC(C=0.7, **TIGHT),
    "squared hinge without intercept": LinearSVC(C=0.7, fit_intercept=False, **TIGHT),
    "hinge": LinearSVC(C=0.7, loss="hinge", **TIGHT),
    "logistic": LogisticRegression(C=2.0, **TIGHT),
    "logistic without intercept": LogisticRegression(C=2.0, fit_intercept=False, **TIGHT),
    "neighbours": KNeighborsClassifier(4),
    "weighted neighbours": KNeighborsClassifier(3, weights="distance"),
    "radius neighbours": RadiusNeighborsClassifier(1.5, outlier_label="most_frequent"),
    "radius neighbours with a label": RadiusNeighborsClassifier(1.1, outlier_label=1),
    "propagation": LabelPropagation(gamma=0.3, **TIGHT),
    "spreading": LabelSpreading(gamma=0.3, **TIGHT),
    "certified hinge": CertifiedClassifier(C=2.0),
    "certified cross-entropy": CertifiedClassifier(loss="cross_entropy", C=2.0),
    "certified square": CertifiedClassifier("linear", loss="square"),
    "SVC": SVC(tol=1e-10),
    "liblinear": LogisticRegression(C=2.0, solver="liblinear", **TIGHT),
    "ridge of ±1": Ridge(0.5, fit_intercept=False),
    "kernel ridge": KernelRidge(kernel="rbf"),
    "balanced ridge": RidgeClassifier(0.5, class_weight="balanced"),
    "ridge with class weights": RidgeClassifier(0.5, class_weight=HEAVY, fit_intercept=False),
    "balanced logistic": LogisticRegression(C=2.0, class_weight="balanced", **TIGHT),
    "logistic with class weights": LogisticRegression(C=2.0, class_weight=HEAVY, fit_intercept=False, **TIGHT),
    "balanced squared hinge": LinearSVC(C=0.7, class_weight="balanced", **TIGHT),
    "squared hinge with class weights": LinearSVC(C=0.7, class_weight=HEAVY, **TIGHT),
    "balanced liblinear": LogisticRegression(C=2.0, solver="liblinear", class_weight="balanced", **TIGHT),
    "Gaussian process": GaussianProcessRegressor(optimizer=None, alpha=0.5, normalize_y=True),
}
TWO_CLASSES = ("SVC", "liblinear", "balanced liblinear")


class Data(NamedTuple):
    """A small problem: points, labels, test points, and a threat."""

    X: Any
    y: Any
    T: Any
    threat: Threat


def data(seed: int, name: str) -> Data:
    """Some 7 labels of three or four classes, the rarest of which has one or two; votes are tied now and then."""
    rng = np.random.default_rng(seed)
    m, K = int(rng.integers(6, 9)), 3 + int(rng.random() < 0.25 and "with class weights" not in name)
    signs = isinstance(ESTIMATORS[name], REGRESSORS)
    if name in TWO_CLASSES or signs:
        K = 2
    y = np.concatenate([np.arange(K), [0], rng.integers(0, K - 1, m - K - 1)])
    X, T = rng.normal(size=(m, 2)) + 2.0 * np.column_stack([y, y % 2]), rng.normal(size=(4, 2)) * 2.0 + 1.5
    if "neighbours" in name:
        X, T = np.rint(X), np.rint(T) + 0.5
    threats = [
        Threat(),
        Threat(),
        Threat(costs=rng.integers(1, 3, m)),
        Threat(trusted=rng.random(m) < 0.3),
        Threat(groups=rng.integers(0, 2, m).tolist(), group_budgets=1),
    ]
    return Data(X, 2 * y - 1 if signs else y, T, threats[seed % len(threats)])


class Refitted:
    """What an estimator predicts after a fit, and where that is more than rounding."""

    def __init__(self, estimator: Any, votes: bool) -> None:
        self._estimator, self._votes = estimator, votes

    def __call__(self, X: Any, y: Any, T: Any) -> tuple[Any, Any]:
        """Of test points: predictions, and which are clear. One class alone is what everybody would predict.

        But for neighbours, which train on one class, too, and predict ``outlier_label`` far from it.
        """
        sure = np.ones(len(T), dtype=bool)
        if np.unique(y).size == 1 and not self._votes and not isinstance(self._estimator, REGRESSORS):
            return np.full(len(T), y[0]), sure
        fitted = clone(self._estimator).fit(X, y)
        predicted = fitted.predict(T)
        if isinstance(self._estimator, REGRESSORS):
            return np.where(predicted > 0, 1, -1), np.abs(predicted) > NOISE
        if self._votes:
            return predicted, sure
        scored = "predict_proba" if hasattr(fitted, "predict_proba") else "decision_function"
        scores = getattr(fitted, scored)(T)
        if scores.ndim == 1:
            sure = np.abs(scores) > NOISE
            if isinstance(fitted, SVC):
                low, high = (scores + moved for moved in optimal_intercepts(fitted, X, y) - fitted.intercept_[0])
                sure &= low * high > 0
            return predicted, sure
        ordered = np.sort(scores, axis=1)
        return predicted, ordered[:, -1] - ordered[:, -2] > NOISE


def optimal_intercepts(fitted: SVC, X: Any, y: Any) -> Any:
    """Least and largest intercept that is optimal: where all support vectors are at their caps, there are many.

    The estimator takes the one in the middle, the certified model the one nearest to 0.
    """
    signs = np.where(y == fitted.classes_[1], 1.0, -1.0)
    weights = np.zeros(len(y))
    weights[fitted.support_] = np.abs(fitted.dual_coef_[0]) / fitted.C
    wanted = signs - (fitted.decision_function(X) - fitted.intercept_[0])  # with it, the margin is 1
    at_most = np.where(signs > 0, weights > 1e-9, weights < 1.0 - 1e-9)
    at_least = np.where(signs > 0, weights < 1.0 - 1e-9, weights > 1e-9)
    ends = [wanted[at_least].max(initial=-np.inf), wanted[at_most].min(initial=np.inf)]
    return np.array([min(ends), max(ends)])


def labellings(data: Data) -> Iterator[tuple[Any, int]]:
    """All admissible labellings within the budget, and what they cost."""
    m, classes = data.y.size, np.unique(data.y)
    threat = data.threat
    costs = np.ones(m, dtype=int) if threat.costs is None else np.asarray(threat.costs)
    free = np.arange(m) if threat.trusted is None else np.flatnonzero(~np.asarray(threat.trusted))
    for size in range(1, FLIPS + 1):
        for chosen in itertools.combinations(free.tolist(), size):
            cost = int(costs[list(chosen)].sum())
            if cost > FLIPS or (threat.groups is not None and len({threat.groups[i] for i in chosen}) < size):
                continue
            for targets in itertools.product(*(classes[classes != data.y[i]] for i in chosen)):
                changed = data.y.copy()
                changed[list(chosen)] = targets
                yield changed, cost


@threadpool_limits.wrap(limits=1)
@config_context(assume_finite=True, skip_parameter_validation=True)
def compared(seed: int, name: str) -> tuple[int, int, int, int]:
    """How many nodes survive one change, have a witness and are open, and labellings with fewer classes: none wrong."""
    given, estimator = data(seed, name), ESTIMATORS[name]
    X, y, T, threat = given
    options = {"threat": threat, "max_flips": FLIPS}
    if isinstance(estimator, CertifiedClassifier):
        cert = clone(estimator).fit(X, y).certify(T, **options)
    else:
        cert = from_sklearn(estimator).certify(X, y, T, **options)
    refitted = Refitted(estimator, votes="neighbours" in name)
    clean, sure = refitted(X, y, T)
    assert np.array_equal(cert.predictions[sure], clean[sure])
    fewer = 0
    for changed, cost in labellings(given):
        fewer += np.unique(changed).size < np.unique(y).size
        predicted, clear = refitted(X, changed, T)
        other = (predicted != clean) & clear & sure
        assert not np.any(other & (cert.radius_lower > cost)), (seed, name, changed - y)
        assert other.sum() <= cert.collective_upper[cost], (seed, name, changed - y)
    witnesses = 0
    for t in np.flatnonzero(sure & (cert.radius_upper <= FLIPS) & (cert.radius_upper > 0)):
        changed = y.copy()
        change = cert.witness(t)
        changed[list(change)] = list(change.values())
        predicted, clear = refitted(X, changed, T)
        assert predicted[t] != clean[t] or not clear[t], (seed, name, t, changed - y)
        witnesses += 1
    open_ = np.flatnonzero(sure & (cert.radius_lower < np.minimum(cert.radius_upper, FLIPS + 1)))
    return int((cert.radius_lower > 1)[sure].sum()), witnesses, open_.size, int(fewer)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("seeds", [1, pytest.param(500, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_every_labelling_of_two_changes(name: str, seeds: int) -> None:
    found = np.sum([compared(seed, name) for seed in range(seeds)], axis=0)
    assert found[1] > 0


def test_what_is_said_about_classes_that_are_dropped() -> None:
    X, y = np.array([[0.0], [1.0], [2.0], [3.0], [9.0]]), np.array(list("aabbc"))
    cert = from_sklearn(LinearSVC()).certify(X, y, X, max_flips=1)
    assert "from a budget of 1 on, a class can lose all of its labels" in cert.run.remarks[-1]
    verdict = verify(cert, cert.K_train, y, cert.K_test)
    assert verdict.complete
    trusted = Threat(trusted=y == "c")
    cert = from_sklearn(LinearSVC()).certify(X, y, X, max_flips=1, threat=trusted)
    assert not any("lose" in remark for remark in cert.run.remarks)
    assert "everything that the certificate claims is proved" in verify(cert, cert.K_train, y, cert.K_test).summary
    with pytest.raises(InvalidInput, match="max_flips must be at most 0 with a margin"):
        from_sklearn(LinearSVC()).certify(X, y, X, max_flips=1, margin=0.1)
    with pytest.raises(TypeError, match="got 'flips'"):
        from_sklearn(LinearSVC()).certify(X, y, X, flips=1)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(f"{'estimator':33}{'survive 1':>10}{'witnesses':>10}{'open':>6}{'labellings with fewer classes':>31}")
    for name in sys.argv[2:] or ESTIMATORS:
        totals = np.sum([compared(seed, name) for seed in range(count)], axis=0)
        print(f"{name:33}{totals[0]:>10,}{totals[1]:>10,}{totals[2]:>6,}{totals[3]:>31,}", flush=True)
