"""Graphs that need no download: the karate club and scikit-learn's bundled tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.spatial import KDTree

from labelcert.checking import whole_number
from labelcert.errors import InvalidInput
from labelcert.graphs.graph import Graph

BUNDLED = ("iris", "wine", "breast-cancer", "digits")
"""Names of scikit-learn's bundled tables."""


def karate(*, weighted: bool = False) -> Graph:
    """Return Zachary's karate club: 34 members, identity features, class 1 = the club of "Mr. Hi".

    Parameters
    ----------
    weighted : bool
        Whether to weight an edge by the number of contexts in which its two members met; otherwise by 1.

    Examples
    --------
    >>> graph = karate()
    >>> graph
    Graph('karate', 34 nodes, 78 edges, 34 features, 2 classes)
    >>> graph.class_names[graph.labels[0]]
    'Mr. Hi'
    """
    import networkx as nx

    club = nx.karate_club_graph()
    nodes = sorted(club.nodes)
    return Graph(
        adjacency=nx.to_scipy_sparse_array(club, nodelist=nodes, weight="weight" if weighted else None),
        features=np.eye(len(nodes)),
        labels=np.array([int(club.nodes[v]["club"] == "Mr. Hi") for v in nodes]),
        class_names=("Officer", "Mr. Hi"),
        name="karate",
    )


def bundled_table(name: str, *, standardize: bool = True) -> Graph:
    """Return one of scikit-learn's bundled tables as a graph without edges.

    Parameters
    ----------
    name : {"iris", "wine", "breast-cancer", "digits"}
        The table.
    standardize : bool
        Whether to scale every feature to mean 0 and variance 1.
    """
    if name not in BUNDLED:
        raise InvalidInput(f"expected one of {', '.join(BUNDLED)}, got {name!r}")
    from sklearn import datasets as bundled

    table: Any = getattr(bundled, f"load_{name.replace('-', '_')}")()
    X = np.asarray(table.data, dtype=np.float64)
    if standardize:
        spread = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    class_names = tuple(str(c) for c in table.target_names)
    return Graph(csr_array((len(X), len(X))), X, table.target, class_names=class_names, name=name)


def neighbor_table(name: str, *, neighbors: int = 10, standardize: bool = True) -> Graph:
    """Return one of scikit-learn's bundled tables as a nearest-neighbour graph.

    Parameters
    ----------
    name, standardize
        As for `bundled_table`; features are scaled before neighbours are sought.
    neighbors : int
        Number k of nearest neighbours that each node is joined to.
    """
    table = bundled_table(name, standardize=standardize)
    return nearest_neighbor_graph(
        np.asarray(table.features), table.labels, neighbors=neighbors, class_names=table.class_names, name=f"{name}-knn"
    )


def nearest_neighbor_graph(
    features: ArrayLike, labels: ArrayLike, *, neighbors: int = 10, class_names: Sequence[str] = (), name: str = "knn"
) -> Graph:
    """Join every row of a table to its k nearest rows (Euclidean); either direction makes an edge.

    Parameters
    ----------
    features : array, shape (n, d)
        The table.
    labels : array of int, shape (n,)
        Classes; -1 for an unlabelled row.
    neighbors : int
        Number k of nearest other rows, 1 ≤ k < n.
    class_names, name
        As for `Graph`.

    Examples
    --------
    >>> nearest_neighbor_graph([[0.0], [1.0], [5.0]], [0, 0, 1], neighbors=1)
    Graph('knn', 3 nodes, 2 edges, 1 features, 2 classes)
    """
    table = Graph(
        adjacency=csr_array((len(np.asarray(features)),) * 2),
        features=features,  # type: ignore[arg-type]
        labels=labels,  # type: ignore[arg-type]
        class_names=tuple(class_names),
        name=name,
    )
    n = table.n_nodes
    whole_number("neighbors", neighbors, 1, n - 1, f"the graph has {n} nodes")
    X = table.features if isinstance(table.features, np.ndarray) else table.features.toarray()
    nearest: Any = KDTree(X).query(X, k=neighbors + 1)[1]
    rows = np.repeat(np.arange(n), neighbors)
    # Among more than k + 1 identical rows, a row need not be among its own nearest ones.
    columns = np.concatenate([found[found != row][:neighbors] for row, found in enumerate(nearest)])
    joined = csr_array((np.ones(n * neighbors), (rows, columns)), shape=(n, n))
    return replace(table, adjacency=joined.maximum(joined.T))
