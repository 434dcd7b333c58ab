from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

from labelcert.graphs import Graph

collect_ignore = ["golden/generate.py"]


def _random_graph(n: int = 8, d: int = 4, *, seed: int = 0, density: float = 0.35, sparse: bool = False) -> Graph:
    """A small graph with an isolated node, a node without features and two nodes that are twins."""
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) < density, 1).astype(float)
    A[:, n - 1] = 0.0
    A = A + A.T
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8)
    X[: n // 2] = np.abs(X[: n // 2])
    X[n - 2] = 0.0
    if n > 5:
        A[2], A[:, 2] = A[1], A[:, 1]
        A[1, 2] = A[2, 1] = A[1, 1] = A[2, 2] = 0.0
        X[2] = X[1]
    labels = rng.permutation(np.arange(n) % 2)
    return Graph(sp.csr_array(A), sp.csr_array(X) if sparse else X, labels)


@pytest.fixture
def random_graph() -> Callable[..., Graph]:
    return _random_graph
