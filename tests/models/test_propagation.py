from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from labelcert.errors import InvalidInput
from labelcert.models.propagation import (
    convolution_matrix,
    mean_aggregation_matrix,
    pagerank_iterations,
    propagate,
    without_self_loops,
)

A = sp.csr_array(np.array([[5.0, 1.0, 0.0, 0.0], [1.0, 0.0, 2.0, 0.0], [0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]))
OFF = A.toarray() - np.diag(A.diagonal())


def test_self_loops_are_replaced_by_one_of_weight_one() -> None:
    np.testing.assert_array_equal(without_self_loops(A).toarray(), OFF)
    np.testing.assert_array_equal(convolution_matrix(A, normalization="none").toarray(), OFF + np.eye(4))


@pytest.mark.parametrize("beta", [0.0, 0.25, 1.0, 3.0])
def test_normalisations(beta: float) -> None:
    B = beta * OFF + np.eye(4)
    d = B.sum(axis=1)
    row = convolution_matrix(A, normalization="row", edge_weight=beta).toarray()
    symmetric = convolution_matrix(A, normalization="symmetric", edge_weight=beta).toarray()
    np.testing.assert_allclose(row, B / d[:, None])
    np.testing.assert_allclose(symmetric, B / np.sqrt(np.outer(d, d)))


def test_mean_aggregation_keeps_an_isolated_node() -> None:
    S = mean_aggregation_matrix(A).toarray()
    np.testing.assert_allclose(S[3], [0, 0, 0, 1])
    np.testing.assert_allclose(S.sum(axis=1), [2, 2, 2, 1])


@pytest.mark.parametrize("matrix", [convolution_matrix, mean_aggregation_matrix])
def test_negative_edges_are_refused(matrix: object) -> None:
    assert callable(matrix)
    with pytest.raises(InvalidInput, match="need non-negative edge weights, but the smallest is -2"):
        matrix(sp.csr_array(np.array([[0.0, -2.0], [-2.0, 0.0]])))


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 1.0])
def test_propagation_is_the_recursion_and_its_limit(alpha: float) -> None:
    S = convolution_matrix(A, normalization="symmetric")
    P = np.eye(4)
    for _ in range(10):
        P = (1 - alpha) * S.toarray() @ P + alpha * np.eye(4)
    np.testing.assert_allclose(propagate(S, np.eye(4), alpha=alpha, iterations=10), P, atol=1e-15)
    if alpha > 0:
        limit = alpha * np.linalg.inv(np.eye(4) - (1 - alpha) * S.toarray())
        reached = propagate(S, np.eye(4), alpha=alpha, iterations=pagerank_iterations(alpha))
        np.testing.assert_allclose(reached, limit, atol=1e-14)
