"""Labels that are wrong by chance: exact, proved and sampled probabilities, each beside an independent simulation.

``python -m benchmarks.noise [FOLDER]`` prints them; Cora-MLb is read from that folder, or downloaded. The simulation
draws labellings of its own and trains each of them from scratch, with scikit-learn.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import betaincinv

import labelcert
from labelcert import Noise

DRAWN = 400
"""Labellings of the simulation, and intervals that it may miss by chance: one in ten thousand of them."""


def _beside(name: str, asked: Callable[[], Noise], trained: Callable[[Any], Any], drawn: int = DRAWN) -> None:
    """Ask, and count how many intervals the simulation contradicts at a confidence of 99.99 % for each."""
    started = time.perf_counter()
    found = asked()
    seconds = time.perf_counter() - started
    rng = np.random.default_rng(99)
    cumulated = np.cumsum(found.odds, axis=1)
    hits = np.zeros(found.n_test, dtype=np.int64)
    for _ in range(drawn):
        codes = (rng.random((len(cumulated), 1)) > cumulated).sum(axis=1)
        hits += trained(found.classes[codes]) != found.predictions
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), drawn - hits + 1, 5e-5), 0.0)
    high = np.where(hits < drawn, betaincinv(hits + 1, np.maximum(drawn - hits, 1), 1 - 5e-5), 1.0)
    wrong = int(np.sum((found.lower > high) | (found.upper < low)))
    kind = "proved" if found.proved else f"{found.confidence:.0%} confidence"
    print(
        f"{name}: {found.method}, {kind}, {seconds:.1f} s; intervals at most {found.width:.2g} wide; "
        f"{found.expected_changes:.4g} of {found.n_test} predictions change on average"
    )
    print(f"    simulation ({drawn} labellings): {hits.sum() / drawn:.4g} on average, contradicts {wrong} intervals")


def citations(folder: str | None) -> None:
    """Cora-MLb, 20 labels, all other nodes, 5 %: a support vector machine without intercept on a GCN's kernel."""
    from sklearn.svm import LinearSVC

    graph = labelcert.load_dataset("cora-ml-b", data_dir=folder)
    split = labelcert.published_split(graph, seed=0)
    labeled, rest = split.labeled, np.setdiff1d(np.arange(len(graph.labels)), split.labeled)
    model = labelcert.GCN(normalization="row", C=0.1)
    K, rows = model.kernel_blocks(graph, labeled, rest)
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-12 * values.max()
    X = vectors[:, kept] * np.sqrt(values[kept])
    T = rows @ vectors[:, kept] / np.sqrt(values[kept])

    def trained(new: Any) -> Any:
        if len(set(new.tolist())) == 1:
            return np.full(rest.size, new[0])
        svm = LinearSVC(loss="hinge", C=0.1, fit_intercept=False, tol=1e-10, max_iter=1_000_000)
        return svm.fit(X, new).predict(T)

    _beside("Cora-MLb, GCN, 20 labels", lambda: model.noise(graph, labeled, rest, wrong=0.05), trained)


def digits(_: str | None) -> None:
    """Ridge regression on images of digits: 1,500 labels, ten classes."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import RidgeClassifier

    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    arrays = X[:1500], y[:1500], X[1500:]

    def trained(new: Any) -> Any:
        return RidgeClassifier().fit(X[:1500], new).predict(X[1500:])

    model = labelcert.from_sklearn(RidgeClassifier())
    _beside("digits, ridge, 1,500 labels", lambda: model.noise(*arrays, wrong=0.05), trained)


def tumours(_: str | None) -> None:
    """Logistic regression on measurements of tumours: 500 labels."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(y.size)
    X, y = StandardScaler().fit_transform(X)[order], y[order]
    arrays = X[:500], y[:500], X[500:]

    def trained(new: Any) -> Any:
        return LogisticRegression(tol=1e-8, max_iter=1000).fit(X[:500], new).predict(X[500:])

    model = labelcert.from_sklearn(LogisticRegression())
    _beside("tumours, logistic regression, 500 labels", lambda: model.noise(*arrays, wrong=0.05), trained)


if __name__ == "__main__":
    for part in (citations, digits, tumours):
        part(sys.argv[1] if len(sys.argv) > 1 else None)
