"""Random problems with a Gaussian kernel."""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float, Int


def gaussian(m: int, n: int, *, seed: int = 0, dims: int = 5) -> tuple[Float, Int, Float]:
    """``(K_train, labels, K_test)`` of a Gaussian kernel on random points, both classes present."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(m + n, dims))
    squared = np.sum((points[:, None] - points[None]) ** 2, axis=2)
    K = np.exp(-0.5 * squared / dims)
    labels = rng.integers(0, 2, m)
    labels[0], labels[-1] = 0, 1
    return K[:m, :m], labels, K[m:, :m]
