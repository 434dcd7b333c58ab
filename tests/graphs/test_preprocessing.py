from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from labelcert.errors import InvalidInput
from labelcert.graphs import Graph
from labelcert.graphs.preprocessing import (
    binarize_features,
    drop_isolated_nodes,
    drop_nodes_without_features,
    drop_self_loops,
    largest_component,
    symmetrize,
    two_largest_classes,
)

#   0 -> 1 -> 2 (loop)     3 <- 4     5
ADJACENCY = np.zeros((6, 6))
ADJACENCY[[0, 1, 2, 4], [1, 2, 2, 3]] = [1, 3, 1, 1]
FEATURES = np.array([[0.0, 0.5], [0, 0], [-1, 0], [0, 2], [0, 0], [1, 1]])


@pytest.fixture(params=["dense", "sparse"])
def directed(request: pytest.FixtureRequest) -> Graph:
    features = FEATURES if request.param == "dense" else sp.csr_array(FEATURES)
    return Graph(ADJACENCY, features, [0, 1, 1, 2, 2, 2], directed=True, class_names=("a", "b", "c"))


def test_symmetrize(directed: Graph) -> None:
    graph = symmetrize(directed)
    assert not graph.directed
    np.testing.assert_array_equal(graph.adjacency.toarray(), np.maximum(ADJACENCY, ADJACENCY.T))
    assert graph.n_edges == 4
    assert symmetrize(graph).fingerprint() == graph.fingerprint()


def test_self_loops(directed: Graph) -> None:
    graph = drop_self_loops(directed)
    np.testing.assert_array_equal(graph.adjacency.toarray(), ADJACENCY - np.diag(np.diag(ADJACENCY)))
    assert graph.directed


def test_features(directed: Graph) -> None:
    binary = binarize_features(directed)
    dense = binary.features if isinstance(binary.features, np.ndarray) else binary.features.toarray()
    np.testing.assert_array_equal(dense, FEATURES > 0)
    assert type(binary.features) is type(directed.features)
    assert drop_nodes_without_features(directed).labels.tolist() == [0, 1, 2, 2]


def test_components(directed: Graph) -> None:
    assert largest_component(directed).labels.tolist() == [0, 1, 1]
    assert drop_isolated_nodes(directed).n_nodes == 5
    empty = directed.subgraph([])
    assert largest_component(empty).n_nodes == 0


def test_two_largest_classes(directed: Graph) -> None:
    graph = two_largest_classes(symmetrize(directed))
    assert graph.class_names == ("b", "c")
    assert graph.labels.tolist() == [0, 0, 1, 1]
    with pytest.raises(InvalidInput, match="at least two classes among the labels of 'graph', got 1"):
        two_largest_classes(directed.subgraph([3, 4]))
