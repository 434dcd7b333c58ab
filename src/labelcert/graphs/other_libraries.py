"""Conversion from and to the graphs of networkx, SciPy and PyTorch Geometric.

What comes from there is returned as arguments of :class:`.Graph`, which makes itself of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csr_array

from labelcert.arrays import Float, Int
from labelcert.errors import InvalidInput, MissingExtra
from labelcert.graphs.checks import UNLABELED, SparseMatrix, reason
from labelcert.graphs.class_coding import encode_classes

if TYPE_CHECKING:
    from labelcert.graphs.graph import Graph


def fields_from_networkx(
    source: Any, features: str | Sequence[str] | None, label: str | None, weight: str | None
) -> dict[str, Any]:
    """What makes up the graph but its name: see :meth:`.Graph.from_networkx`."""
    import networkx as nx

    if not isinstance(source, nx.Graph) or source.is_multigraph():
        raise InvalidInput(
            f"expected a networkx Graph or DiGraph, got {type(source).__name__}; "
            f"merge parallel edges of a multigraph first, for example with networkx.Graph(source)"
        )
    nodes = list(source.nodes)
    if not nodes:
        raise InvalidInput("expected a graph with at least one node, got an empty one")
    labels, class_names = encode_classes(
        (source.nodes[v].get(label) if label is not None else None for v in nodes),
        place=lambda i: f"the attribute {label!r} of node {nodes[i]!r}",
    )
    _check_weights(source, weight)
    return {
        "adjacency": nx.to_scipy_sparse_array(source, nodelist=nodes, weight=weight, dtype=np.float64),
        "features": _node_features(source, nodes, features),
        "labels": labels,
        "class_names": class_names,
        "node_names": tuple(str(v) for v in nodes),
        "directed": source.is_directed(),
    }


def to_networkx(graph: Graph) -> Any:
    """Convert to networkx, with `weight` on edges and with `features` and, if known, `label` on nodes.

    Examples
    --------
    >>> from labelcert.graphs import karate
    >>> club = to_networkx(karate())
    >>> club.number_of_edges(), club.nodes[0]["label"]
    (78, 'Mr. Hi')
    """
    import networkx as nx

    result = nx.DiGraph(name=graph.name) if graph.directed else nx.Graph(name=graph.name)
    keys: Sequence[Any] = graph.node_names if graph.node_names is not None else range(graph.n_nodes)
    X = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    for key, row, label in zip(keys, X, graph.labels, strict=True):
        attributes = {} if label == UNLABELED else {"label": graph.class_names[label]}
        result.add_node(key, features=row.copy(), **attributes)
    entries = graph.adjacency.tocoo()
    for i, j, weight in zip(*entries.coords, entries.data, strict=True):
        result.add_edge(keys[i], keys[j], weight=float(weight))
    return result


def to_scipy(graph: Graph) -> tuple[SparseMatrix, Float | SparseMatrix, Int]:
    """Return adjacency, features and labels as copies that may be changed.

    Examples
    --------
    >>> from labelcert.graphs import karate
    >>> adjacency, features, labels = to_scipy(karate())
    >>> adjacency.shape, features.shape, labels.shape
    ((34, 34), (34, 34), (34,))
    """
    return graph.adjacency.copy(), graph.features.copy(), graph.labels.copy()


def arrays_from_pyg(data: Any) -> tuple[SparseMatrix, Any, Any]:
    """Adjacency, features and labels, the latter None where there are none: see :meth:`.Graph.from_pyg`."""
    edges = getattr(data, "edge_index", None)
    if edges is None or getattr(data, "num_nodes", None) is None:
        raise InvalidInput(
            f"expected a PyTorch Geometric Data with edge_index and num_nodes, got {type(data).__name__}; a HeteroData "
            "becomes one with to_homogeneous(), and data with adj_t was made by ToSparseTensor, which is to be left out"
        )
    n = int(data.num_nodes)
    pairs = _numpy(edges)
    if pairs.ndim != 2 or pairs.shape[0] != 2 or (pairs.size and pairs.dtype.kind not in "iu"):
        raise InvalidInput(
            f"expected an edge_index of whole numbers with shape (2, e), got shape {pairs.shape} and type "
            f"{pairs.dtype}; give one row of sources and one of targets"
        )
    outside = pairs[(pairs < 0) | (pairs >= n)]
    if outside.size:
        raise InvalidInput(f"expected node indices in 0..{n - 1} in edge_index, got {outside[0]}; correct it")
    rows, columns = pairs.astype(np.int64)
    weights = getattr(data, "edge_weight", None)
    values = np.ones(len(rows)) if weights is None else _edge_weights(_numpy(weights), len(rows))
    adjacency = csr_array((values, (rows, columns)), shape=(n, n))
    adjacency.sum_duplicates()
    if weights is None:
        adjacency.data[:] = 1.0
    x, y = (None if (part := getattr(data, name, None)) is None else _numpy(part) for name in ("x", "y"))
    if y is not None and y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    return adjacency, x, y


def to_pyg(graph: Graph) -> Any:
    """Convert to a PyTorch Geometric `Data` with `edge_index`, `edge_weight`, dense `x` and `y` (-1 = unlabelled).

    Examples
    --------
    >>> to_pyg(graph)  # doctest: +SKIP
    Data(x=[34, 34], edge_index=[2, 156], y=[34], edge_weight=[156])
    """
    try:
        import torch  # type: ignore[import-not-found, unused-ignore]
        from torch_geometric.data import Data
    except ImportError:
        raise MissingExtra("torch_geometric", "pyg", "conversion to PyTorch Geometric") from None
    entries = graph.adjacency.tocoo()
    X = graph.features.copy() if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    return Data(
        x=torch.from_numpy(X),
        edge_index=torch.from_numpy(np.stack(entries.coords).astype(np.int64)),
        edge_weight=torch.from_numpy(entries.data.copy()),
        y=torch.from_numpy(graph.labels.copy()),
    )


def _numpy(tensor: Any) -> Any:
    if not hasattr(tensor, "detach"):
        return np.asarray(tensor)
    dense = tensor if str(getattr(tensor, "layout", "torch.strided")) == "torch.strided" else tensor.to_dense()
    return dense.detach().cpu().numpy()


def _edge_weights(weights: Any, n_edges: int) -> Float:
    if weights.size != n_edges or weights.dtype.kind not in "biuf":
        raise InvalidInput(
            f"expected one real number in edge_weight for each of the {n_edges} edges, got shape {weights.shape} "
            f"and type {weights.dtype}; give one weight per column of edge_index"
        )
    return np.asarray(weights, dtype=np.float64).ravel()


def _check_weights(source: Any, weight: str | None) -> None:
    edges = () if weight is None else source.edges.data(weight, default=1)
    for u, v, value in edges:
        try:
            if isinstance(value, str | bytes):
                raise TypeError("text")
            float(value)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput(
                f"expected a number in the attribute {weight!r} of every edge, got {value!r} between {u!r} and "
                f"{v!r}; convert it, or drop the attribute for a weight of 1"
            ) from None


def _node_features(source: Any, nodes: list[Any], features: str | Sequence[str] | None) -> Any:
    if features is None:
        return sp.eye_array(len(nodes), format="csr")
    attributes = [features] if isinstance(features, str) else list(features)
    for v in nodes:
        missing = next((a for a in attributes if a not in source.nodes[v]), None)
        if missing is not None:
            raise InvalidInput(
                f"expected the attribute {missing!r} on every node, but node {v!r} has none; "
                f"set it, or choose other features"
            )
    try:
        rows = [np.concatenate([np.atleast_1d(source.nodes[v][a]) for a in attributes]) for v in nodes]
        if any(row.dtype.kind in "cmM" for row in rows):
            raise TypeError("real numbers are needed, not complex ones or dates")
        return np.array(rows, dtype=np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(
            f"expected numbers, equally many on every node, in the attributes {attributes}: {reason(error)}; "
            f"convert them, or choose other features"
        ) from error
