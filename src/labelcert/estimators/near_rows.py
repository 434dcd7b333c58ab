"""The rows around each test point, as far as they may matter to an estimator of nearest neighbours that loses some."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelcert.arrays import Bool, Float
from labelcert.errors import InvalidInput
from labelcert.memory import require_memory
from labelcert.prediction.neighbours import NOBODY, Neighbourhoods
from labelcert.problem import Problem

SHARED = ("algorithm", "leaf_size", "metric", "p", "metric_params", "n_jobs")
"""What the search for neighbours takes from an estimator."""

ROUNDING = 1e-11
"""Distances that differ by no more than this share may be equal but for rounding."""

OF_SQUARES = 1e-13
"""The same for squares of Euclidean distances, which may be differences of large numbers."""


def rows_around(estimator: Any, X: Float, T: Float, problem: Problem) -> Neighbourhoods:
    """For ``KNeighborsClassifier`` and ``RadiusNeighborsClassifier``, whose rows have one vote each."""
    from sklearn.neighbors import NearestNeighbors, RadiusNeighborsClassifier

    finder = NearestNeighbors(**{name: getattr(estimator, name) for name in SHARED}).fit(X)
    slack = _slack(finder, X, T)
    m, n = X.shape[0], T.shape[0]
    if isinstance(estimator, RadiusNeighborsClassifier):
        return _within(estimator, finder, T, problem, slack)
    k = int(estimator.n_neighbors)
    if k > m:
        raise InvalidInput(f"n_neighbors={k} is more than the {m} rows that there are; use a smaller one")
    reach = min(m, k + problem.adversary.most_flips(problem.max_flips))
    width = min(m, reach + 1)
    while True:
        require_memory(40 * n * width, f"the {width:,} nearest rows of {n:,} test points", "give a smaller max_flips")
        distance, index = finder.kneighbors(T, n_neighbors=width)
        breaks = np.diff(distance**2, axis=1) > slack(distance[:, :-1], distance[:, 1:])
        ends = np.hstack([breaks, np.full((n, 1), width == m)])
        ends[:, : reach - 1] = False
        if ends.any(axis=1).all():
            break
        width = min(m, 2 * width)
    last = ends.argmax(axis=1)
    band = np.hstack([np.zeros((n, 1), dtype=np.int64), np.cumsum(breaks, axis=1)])
    index = np.where(np.arange(width) <= last[:, None], index, -1)
    clean = problem.codes[finder.kneighbors(T, n_neighbors=k, return_distance=False)]
    votes = np.stack([(clean == c).sum(axis=1) for c in range(problem.n_classes)], axis=1)
    edge: Bool = np.zeros(index.shape, dtype=bool)
    return Neighbourhoods(index, band, edge, k, bool(last.min() == m - 1), NOBODY, votes.argmax(axis=1))


def _within(estimator: Any, finder: Any, T: Float, problem: Problem, slack: Any) -> Neighbourhoods:
    """All rows within a radius, and those that may be."""
    outlier, radius = NOBODY, float(estimator.radius)
    if estimator.outlier_label is not None:
        found = np.flatnonzero(problem.classes == estimator.outlier_label)
        if found.size == 0:
            raise InvalidInput(
                "where rows may be removed, outlier_label must be None or one of the labels, "
                f"{problem.classes.tolist()}, got {estimator.outlier_label!r}"
            )
        outlier = int(found[0])
    wider = np.sqrt(radius**2 + slack(np.full(1, radius), np.full(1, radius)).max())
    distance, index = finder.radius_neighbors(T, radius=wider, sort_results=True)
    n, width = T.shape[0], max(1, max(map(len, index)))
    require_memory(40 * n * width, f"up to {width:,} rows around {n:,} test points", "use a smaller radius")
    rows, far = np.full((n, width), -1, dtype=np.int64), np.full((n, width), np.inf)
    for t, (own, away) in enumerate(zip(index, distance, strict=True)):
        rows[t, : len(own)], far[t, : len(own)] = own, away
    band = np.broadcast_to(np.arange(width), rows.shape).copy()
    inside = far <= radius
    edge = (rows >= 0) & (np.abs(far**2 - radius**2) <= slack(np.minimum(far, radius), np.full_like(far, radius)))
    left = np.where(inside, problem.codes[rows], problem.n_classes)
    votes = np.stack([(left == c).sum(axis=1) for c in range(problem.n_classes)], axis=1)
    lonely = ~inside.any(axis=1)
    if lonely.any() and outlier == NOBODY:
        raise InvalidInput(
            f"test point {int(lonely.argmax())} has no neighbour within radius={estimator.radius}; use a larger one, "
            "or set outlier_label"
        )
    predicted = np.where(lonely, outlier, votes.argmax(axis=1)).astype(np.int64)
    return Neighbourhoods(rows, band, edge, 0, True, outlier, predicted)


def _slack(finder: Any, X: Float, T: Float) -> Any:
    """How far squares of two distances may be apart that are equal but for rounding: (n, w) of (n, w) arrays."""
    euclidean = finder.effective_metric_ in ("euclidean", "sqeuclidean", "l2")
    norms = (X**2).sum(axis=1).max(initial=0.0) + (T**2).sum(axis=1)[:, None] if euclidean else 1.0

    def apart(near: Float, far: Float) -> Float:
        return np.asarray(ROUNDING * far**2 + OF_SQUARES * norms)

    return apart
