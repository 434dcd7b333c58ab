"""The steps that prepare a raw graph for an experiment; each takes a graph and returns a new one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import cast

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from labelcert.errors import InvalidInput
from labelcert.graphs.checks import UNLABELED, SparseMatrix
from labelcert.graphs.graph import Graph


def symmetrize(graph: Graph) -> Graph:
    """Make a graph undirected; each pair gets the larger of its two weights (A or Aᵀ if unweighted)."""
    both = graph.adjacency.maximum(graph.adjacency.T)
    return replace(graph, adjacency=both.tocsr(), directed=False)


def drop_self_loops(graph: Graph) -> Graph:
    """Remove the edges from a node to itself."""
    kept = graph.adjacency.tocoo()
    i, j = kept.coords
    off_diagonal = i != j
    entries = (kept.data[off_diagonal], (i[off_diagonal], j[off_diagonal]))
    return replace(graph, adjacency=csr_array(entries, shape=graph.adjacency.shape))


def binarize_features(graph: Graph) -> Graph:
    """Replace positive features by 1 and all others by 0."""
    positive = (graph.features > 0).astype(np.float64)
    return replace(graph, features=cast("SparseMatrix", positive))


def drop_nodes_without_features(graph: Graph) -> Graph:
    """Keep the nodes with at least one non-zero feature."""
    if isinstance(graph.features, np.ndarray):
        return graph.subgraph(graph.features.any(axis=1))
    return graph.subgraph(np.diff(graph.features.indptr) > 0)


def drop_isolated_nodes(graph: Graph) -> Graph:
    """Keep the nodes with at least one edge, in or out; a self-loop counts."""
    has_edge = np.diff(graph.adjacency.indptr) > 0
    has_edge[graph.adjacency.indices] = True
    return graph.subgraph(has_edge)


def largest_component(graph: Graph) -> Graph:
    """Keep the largest (weakly) connected component, the first one among equals; nodes keep their order."""
    if graph.n_nodes == 0:
        return graph
    _, component = connected_components(graph.adjacency, directed=True, connection="weak")
    return graph.subgraph(component == np.argmax(np.bincount(component)))


def two_largest_classes(graph: Graph) -> Graph:
    """Keep the two most frequent classes, then drop isolated nodes.

    The most frequent class becomes 1 and the second 0. Among equals, the class seen first comes first.
    """
    frequent = Counter(graph.labels[graph.labels != UNLABELED].tolist()).most_common(2)
    if len(frequent) < 2:
        raise InvalidInput(
            f"expected at least two classes among the labels of {graph.name!r}, got {len(frequent)}; "
            f"it cannot be made binary"
        )
    first, second = (label for label, _ in frequent)
    kept = graph.subgraph(np.isin(graph.labels, (first, second)))
    binary = replace(
        kept,
        labels=(kept.labels == first).astype(np.int64),
        class_names=(graph.class_names[second], graph.class_names[first]),
    )
    return drop_isolated_nodes(binary)
