"""Problems that several tests share."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelcert import Threat
from labelcert.selfcheck import Case


def gaussian(m: int, n: int, *, seed: int = 0, dims: int = 5) -> tuple[Any, Any, Any]:
    """``(K_train, labels, K_test)`` of a Gaussian kernel on random points, both classes present."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(m + n, dims))
    squared = np.sum((points[:, None] - points[None]) ** 2, axis=2)
    K = np.exp(-0.5 * squared / dims)
    labels = rng.integers(0, 2, m)
    labels[0], labels[-1] = 0, 1
    return K[:m, :m], labels, K[m:, :m]


def blobs(m: int, n: int, *, classes: int = 4, seed: int = 0) -> tuple[Any, Any, Any]:
    """``(K_train, labels, K_test)`` of a Gaussian kernel on points around one centre per class."""
    rng = np.random.default_rng(seed)
    codes = np.arange(m + n) % classes
    points = rng.normal(size=(classes, 3))[codes] + 0.8 * rng.normal(size=(m + n, 3))
    squared = np.sum((points[:, None] - points[None]) ** 2, axis=2)
    K = np.exp(-squared / 3)
    return K[:m, :m], codes[:m], K[m:, :m]


def small_cap(K: Any) -> float:
    """A C so small that every label stays at its cap, whatever the labels: scores are linear in them."""
    return float(0.99 / np.abs(K).sum(axis=1).max())


def hand_made(K: Any, labels: Any, rows: Any, C: float, **options: Any) -> Case:
    """A case for the self-check; ``loss``, ``threat`` and ``max_flips`` as in :func:`labelcert.certify`."""
    return Case(
        kind="hand-made",
        K_train=np.array(K, dtype=float),
        labels=np.array(labels),
        K_test=np.array(rows, dtype=float),
        C=C,
        loss=options.get("loss", "hinge"),
        threat=options.get("threat", Threat()),
        max_flips=options.get("max_flips"),
    )
