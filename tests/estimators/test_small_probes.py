"""Linear models on small data against refits of the estimator itself on every labelling within the budget.

``python -m tests.estimators.test_small_probes 2000`` checks that many problems.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from typing import Any
from unittest import mock

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from labelcert import Certificate, Threat, from_sklearn
from labelcert.certification import certify_on_features
from labelcert.errors import InvalidInput
from labelcert.estimators import base

CLEAR = 1e-4
"""Refits are not more accurate: a smaller lead, as a share of the typical one, may be either."""

TIGHT = {"tol": 1e-10, "max_iter": 100000}


def estimator(rng: np.random.Generator) -> Any:
    """One of those that the losses stand for."""
    C, intercept = float(rng.choice([0.1, 1.0, 4.0])), bool(rng.random() < 0.5)
    options: dict[str, Any] = {"C": C, "fit_intercept": intercept}
    if rng.random() < 0.2:
        options["class_weight"] = {0: 2.0, 1: 1.0, 2: 0.5}
    kind = int(rng.integers(4))
    if kind == 0:
        return LogisticRegression(**options, **TIGHT)
    if kind == 1:
        return OneVsRestClassifier(LogisticRegression(C=C, fit_intercept=False, **TIGHT))
    return LinearSVC(**options, **TIGHT, loss="hinge" if kind == 2 else "squared_hinge", dual=True, random_state=0)


def problem(seed: int) -> tuple[Any, Any, Any, Any, Threat, int]:
    """Fewer features than labels, or more; each class keeps a label that nobody can change."""
    rng = np.random.default_rng([290, seed])
    m, d, classes = int(rng.integers(4, 8)), int(rng.choice([1, 2, 3, 12])), int(rng.integers(2, 4))
    X, T = rng.normal(size=(m, d)), rng.normal(size=(5, d))
    if rng.random() < 0.2:
        X[1] = X[0]
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, size=m - classes)])
    return estimator(rng), X, y, T, Threat(trusted=np.arange(m) < classes), int(rng.integers(1, 3))


def leads(model: Any, X: Any, y: Any, T: Any, own: Any) -> Any:
    """(n,) how far some classes are ahead of all others after a refit, as a share of the typical score."""
    scores = clone(model).fit(X, y).decision_function(T)
    if scores.ndim == 1:
        scores = np.stack([-scores, scores], axis=1)
    scores = scores / max(float(np.median(np.abs(scores))), 1e-3)
    mine = scores[np.arange(own.size), own]
    scores[np.arange(own.size), own] = -np.inf
    return mine - scores.max(axis=1)


def certified(model: Any, X: Any, y: Any, T: Any, **options: Any) -> Certificate:
    """One model for each class has no estimator of its own."""
    if isinstance(model, OneVsRestClassifier):
        return certify_on_features(X, y, T, model.estimator.C, loss="logistic", **options)
    return from_sklearn(model).certify(X, y, T, **options)


def check(seed: int) -> str:
    """``"right"``, ``"refused"``, or what refits say otherwise."""
    model, X, y, T, threat, flips = problem(seed)
    # Few labels are trained on their kernel; here, half of the models are trained on their features.
    with mock.patch.object(base, "FEW_LABELS", 0 if seed % 4 else base.FEW_LABELS):
        try:
            cert = certified(model, X, y, T, threat=threat, max_flips=flips)
        except InvalidInput:
            return "refused"
    own, m, classes = cert.predictions, y.size, int(y.max()) + 1
    known = leads(model, X, y, T, own)
    never = flips + 1
    first, last = np.where(known < CLEAR, 0, never), np.where(known < -CLEAR, 0, never)
    for size in range(1, flips + 1):
        for changed in itertools.combinations(range(classes, m), size):
            for shifts in itertools.product(range(1, classes), repeat=size):
                z = y.copy()
                z[list(changed)] = (z[list(changed)] + shifts) % classes
                lead = leads(model, X, z, T, own)
                first = np.minimum(first, np.where(lead < CLEAR, size, never))
                last = np.minimum(last, np.where(lead < -CLEAR, size, never))
    wrong = (cert.radius_lower > last) | (np.minimum(cert.radius_upper, never) < first)
    if wrong.any():
        return f"{seed}: {model}: {cert.radius_lower} to {cert.radius_upper}, by refits {first} to {last}"
    return "right"


def test_no_radius_is_wrong() -> None:
    found = [check(seed) for seed in range(24)]
    assert [one for one in found if one not in ("right", "refused")] == []
    assert found.count("right") > 12


if __name__ == "__main__":
    verdicts = Counter(check(seed) for seed in range(int(sys.argv[1])))
    for verdict, times in verdicts.most_common():
        print(f"{times:6d}  {verdict}")
    sys.exit(len(verdicts.keys() - {"right", "refused"}))
