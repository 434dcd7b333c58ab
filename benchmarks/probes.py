"""Linear models on embeddings: a certificate beside the fit of the same estimator of scikit-learn."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from benchmarks.child import Row, peak_memory
from benchmarks.linear import blobs
from labelcert.arrays import Float, Int

NODES = 1000


def embeddings(m: int, classes: int, features: int) -> tuple[Float, Int, Float]:
    """Rows of norm 1 around some centres, as text embeddings are: labelled rows, their classes, test rows."""
    X, y, T, _ = blobs(m, NODES, classes, features, 4.0)
    return X / np.linalg.norm(X, axis=1)[:, None], y, T / np.linalg.norm(T, axis=1)[:, None]


def digits() -> tuple[Float, Int, Float]:
    """Scikit-learn's digits, 1,200 of them labelled."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(y.size)
    X, y = X[order] / 16.0, y[order]
    return X[:1200], y[:1200], X[1200:]


def estimator(name: str) -> Any:
    """As scikit-learn has it, but trained until nothing changes, so that refits can be compared."""
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.svm import LinearSVC

    if name == "LogisticRegression":
        return LogisticRegression(tol=1e-9, max_iter=10_000)
    if name == "RidgeClassifier":
        return RidgeClassifier()
    loss = {"LinearSVC": "squared_hinge", "LinearSVC (hinge)": "hinge"}[name]
    return LinearSVC(loss=loss, tol=1e-9, max_iter=100_000, random_state=0)


def replayed(model: Any, X: Float, y: Int, T: Float, cert: Any, most: int) -> tuple[int, int]:
    """How many of some witnesses change their prediction when the estimator is fitted again, and of how many."""
    attacks: dict[tuple[tuple[int, Any], ...], list[int]] = {}
    for t in range(T.shape[0]):
        change = cert.witness(t)
        if change:
            attacks.setdefault(tuple(sorted(change.items())), []).append(t)
    found = tried = 0
    for changes, nodes in list(attacks.items())[:most]:
        z = y.copy()
        for position, label in changes:
            z[position] = label
        found += int((model.fit(X, z).predict(T[nodes]) != cert.predictions[nodes]).sum())
        tried += len(nodes)
    return found, tried


def probe(
    name: str, m: int, features: int, classes: int, flips: int | None, time_limit: float | None, refits: int
) -> list[Row]:
    """One certificate; ``features = 0`` stands for the digits."""
    from labelcert import from_sklearn

    X, y, T = embeddings(m, classes, features) if features else digits()
    model = estimator(name)
    warnings.simplefilter("ignore")
    small = from_sklearn(estimator(name))
    small.certify(X[:700, :5], y[:700] % 2, T[:3, :5], max_flips=2, time_limit=20.0)  # compiled before
    started = time.perf_counter()
    model.fit(X, y)
    fit = time.perf_counter() - started
    asked = {"max_flips": flips} if flips is not None else {}
    started, spent = time.perf_counter(), time.process_time()
    cert = from_sklearn(model).certify(X, y, T, time_limit=time_limit, **asked)
    seconds, cpu, peak = time.perf_counter() - started, time.process_time() - spent, peak_memory()
    words = [f"{flips} flips"] if flips is not None else []
    words += [f"{time_limit:g} s"] if time_limit is not None else []
    found, tried = replayed(model, X, y, T, cert, refits)
    return [
        {
            "model": f"{name}{', digits' if not features else ''}",
            "m": y.size,
            "features": X.shape[1],
            "classes": int(y.max()) + 1,
            "asked": ", ".join(words),
            "fit_seconds": fit,
            "seconds": seconds,
            "cpu_seconds": cpu,
            "exact": bool(cert.exact),
            "median_lower": float(np.median(cert.radius_lower)),
            "median_upper": float(np.median(cert.radius_upper)),
            "without_upper": int((cert.radius_upper > y.size).sum()),
            "replayed": f"{found} of {tried}",
            "peak_bytes": peak,
        }
    ]
