"""The graph, with node features and node labels, that every certificate starts from.

Throughout the package, n is the number of nodes, d the number of features and K the number of classes.
"""

from __future__ import annotations

import copy
import hashlib
import html
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from labelcert.arrays import Float, Int, Text
from labelcert.checking import in_short, unmasked
from labelcert.errors import InvalidInput
from labelcert.files import write_archive
from labelcert.graphs import checks
from labelcert.graphs.checks import UNLABELED, SparseMatrix, as_indices, assembled_csr, canonical_csr, first_asymmetry
from labelcert.graphs.other_libraries import arrays_from_pyg, fields_from_networkx


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A graph with node features and node labels; validated on construction, immutable afterwards.

    `adjacency` and `features` may be dense or SciPy sparse matrices. Both are copied to read-only float64. Every
    access to a sparse matrix returns a new object over the same read-only arrays, so that SciPy's in-place
    methods (`setdiag`, `resize`) do not change the graph.

    Parameters
    ----------
    adjacency : csr_array, shape (n, n)
        Non-negative edge weights, 1 for an unweighted edge. Symmetric unless `directed`.
    features : ndarray or csr_array, shape (n, d)
        Finite node features; d may be 0.
    labels : ndarray of int64, shape (n,)
        Classes 0..K-1, and -1 for an unlabelled node.
    class_names : tuple of str, length K
        Names of the classes. Defaults to the numbers 0..K-1.
    node_names : tuple of str, length n, or None
        Distinct names of the nodes; None if nodes are known by their index only.
    name : str
        Name of the graph, for reports.
    directed : bool
        Whether `adjacency` may be asymmetric; entry (i, j) is then the edge from i to j.
    notes : tuple of str
        What was decided when it was read from tables; certificates say it.

    Examples
    --------
    >>> import numpy as np
    >>> from labelcert import Graph
    >>> graph = Graph([[0, 1, 0], [1, 0, 1], [0, 1, 0]], np.eye(3), [0, 1, -1], class_names=("cat", "dog"))
    >>> graph
    Graph('graph', 3 nodes, 2 edges, 3 features, 2 classes, 1 unlabelled)
    >>> graph.n_edges, graph.class_names[graph.labels[1]]
    (2, 'dog')
    """

    adjacency: SparseMatrix
    features: Float | SparseMatrix
    labels: Int
    class_names: tuple[str, ...] = ()
    node_names: tuple[str, ...] | None = None
    name: str = "graph"
    directed: bool = False
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        adjacency = checks.checked_adjacency(self.adjacency, directed=self.directed)
        n = int(adjacency.shape[0])
        labels = checks.checked_labels(self.labels, n)
        for field, value in (
            ("adjacency", adjacency),
            ("features", checks.checked_features(self.features, n)),
            ("labels", labels),
            ("class_names", checks.checked_class_names(self.class_names, labels)),
            ("node_names", checks.checked_node_names(self.node_names, n)),
        ):
            object.__setattr__(self, field, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copied and unpickled graphs are validated and made read-only again.
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    @property
    def n_nodes(self) -> int:
        """Number of nodes n."""
        return int(self.adjacency.shape[0])

    @property
    def n_edges(self) -> int:
        """Number of edges: unordered pairs of nodes, or ordered ones if directed; a self-loop counts once."""
        if self.directed:
            return int(self.adjacency.nnz)
        loops = int(np.count_nonzero(self.adjacency.diagonal()))
        return (int(self.adjacency.nnz) + loops) // 2

    @property
    def edges(self) -> Int:
        """(E, 2) pairs of different nodes, each pair once; directions are left out."""
        pairs = np.sort(np.column_stack(self.adjacency.nonzero()).astype(np.int64), axis=1)
        return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0).reshape(-1, 2)

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return int(self.features.shape[1])

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.class_names)

    def __repr__(self) -> str:
        facts = [f"{value} {what}" for what, value in self._facts().items() if value or what != "unlabelled"]
        return f"Graph({', '.join([repr(self.name), *facts])})"

    def _facts(self) -> dict[str, int]:
        kind = "directed edges" if self.directed else "edges"
        unlabeled = int(np.count_nonzero(self.labels == UNLABELED))
        counts = {"nodes": self.n_nodes, kind: self.n_edges, "features": self.n_features, "classes": self.n_classes}
        return {**counts, "unlabelled": unlabeled}

    def _repr_html_(self) -> str:
        sizes = np.bincount(self.labels[self.labels >= 0], minlength=self.n_classes)
        named = {f"class {name}": size for name, size in zip(self.class_names, sizes, strict=True)}
        facts = {what: value for what, value in self._facts().items() if what != "classes"}
        cells = [f"<tr><td>{html.escape(key)}</td><td>{value}</td></tr>" for key, value in {**facts, **named}.items()]
        return f"<div><strong>Graph</strong> {html.escape(self.name)}<table>{''.join(cells)}</table></div>"

    def names(self, nodes: ArrayLike) -> list[str]:
        """Return the names of nodes (indices or a boolean mask); their indices as text if the graph has no names.

        Examples
        --------
        >>> import numpy as np
        >>> from labelcert import Graph
        >>> Graph([[0, 1], [1, 0]], np.eye(2), [0, 1], node_names=("ann", "bob")).names([1, 0])
        ['bob', 'ann']
        >>> Graph([[0, 1], [1, 0]], np.eye(2), [0, 1]).names([1])
        ['1']
        """
        index = as_indices(nodes, n_nodes=self.n_nodes).tolist()
        return [str(i) for i in index] if self.node_names is None else [self.node_names[i] for i in index]

    def indices(self, nodes: ArrayLike, *, what: str = "nodes") -> Int:
        """Return the indices of distinct nodes, given by their names, indices, or a boolean mask.

        Examples
        --------
        >>> import numpy as np
        >>> from labelcert import Graph
        >>> Graph([[0, 1], [1, 0]], np.eye(2), [0, 1], node_names=("ann", "bob")).indices(["bob"]).tolist()
        [1]
        """
        given = np.asarray(unmasked(what, nodes))
        names = given.tolist() if given.ndim == 1 and given.dtype.kind in "OU" else []
        if not names or not all(isinstance(name, str) for name in names):
            return as_indices(nodes, n_nodes=self.n_nodes, what=what)
        unknown = [name for name in names if name not in self.positions()]
        if unknown:
            some = ", ".join(list(self.positions())[:3])
            raise InvalidInput(
                f"{what}: {self.name!r} has no node {in_short(unknown[0])}; its nodes are called {some}, ..."
            )
        return as_indices([self.positions()[name] for name in names], n_nodes=self.n_nodes, what=what)

    def positions(self) -> dict[str, int]:
        """Return the index of each node by its name (see `names`); computed once, not to be changed.

        Examples
        --------
        >>> import numpy as np
        >>> from labelcert import Graph
        >>> Graph([[0, 1], [1, 0]], np.eye(2), [0, 1], node_names=("ann", "bob")).positions()
        {'ann': 0, 'bob': 1}
        """
        return self._positions

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names(range(self.n_nodes)))}

    def named_labels(self, nodes: ArrayLike) -> Text:
        """Return the names of the classes of nodes (indices or a boolean mask); '' for an unlabelled node."""
        index = as_indices(nodes, n_nodes=self.n_nodes)
        # The label of an unlabelled node is -1, which picks the last entry.
        return np.array([*self.class_names, ""], dtype=np.str_)[self.labels[index]]

    def subgraph(self, nodes: ArrayLike) -> Graph:
        """Return the subgraph induced by `nodes` (indices or a boolean mask), in the given order, with all classes.

        Examples
        --------
        >>> from labelcert.graphs import karate
        >>> karate().subgraph([0, 1, 33])
        Graph('karate', 3 nodes, 1 edges, 34 features, 2 classes)
        """
        index = as_indices(nodes, n_nodes=self.n_nodes, what="nodes of the subgraph")
        return replace(
            self,
            adjacency=self.adjacency[index][:, index],
            features=self.features[index],
            labels=self.labels[index],
            node_names=None if self.node_names is None else tuple(self.node_names[i] for i in index),
        )

    def fingerprint(self) -> str:
        """Return the SHA-256 of adjacency, features and labels, independent of their storage and of all names.

        Examples
        --------
        >>> import numpy as np
        >>> import scipy.sparse as sp
        >>> from labelcert import Graph
        >>> sparse = Graph(np.zeros((2, 2)), sp.eye_array(2), [0, 1], name="another name")
        >>> sparse.fingerprint() == Graph(np.zeros((2, 2)), np.eye(2), [0, 1]).fingerprint()
        True
        """
        digest = hashlib.sha256()
        for matrix in (self.adjacency, canonical_csr(self.features)):
            digest.update(np.array(matrix.shape, dtype="<i8").tobytes())
            digest.update(matrix.indptr.astype("<i8").tobytes())
            digest.update(matrix.indices.astype("<i8").tobytes())
            digest.update(matrix.data.astype("<f8").tobytes())
        digest.update(self.labels.astype("<i8").tobytes())
        return digest.hexdigest()

    def to_npz(self, path: str | os.PathLike[str]) -> Path:
        """Write the graph to one npz without pickled content, replacing `path` in one step.

        The arrays are `adj_indptr`, `adj_indices`, `adj_shape` and, if any weight is not 1, `adj_data`; features
        as CSR (`x_indptr`, `x_indices`, `x_data`, `x_shape`) or dense (`x`); `labels`; and `class_names`,
        `node_names`, `name`, `directed` and `notes`.

        Examples
        --------
        >>> import tempfile
        >>> from labelcert.graphs import Graph, karate
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Graph.from_npz(karate().to_npz(f"{folder}/club.npz"))
        Graph('karate', 34 nodes, 78 edges, 34 features, 2 classes)
        """
        arrays: dict[str, Any] = {
            "adj_indptr": self.adjacency.indptr,
            "adj_indices": self.adjacency.indices,
            "adj_shape": np.array(self.adjacency.shape, dtype=np.int64),
            "labels": self.labels,
            "class_names": np.array(self.class_names, dtype=np.str_),
            "name": np.array(self.name),
            "directed": np.array(self.directed),
        }
        if np.any(self.adjacency.data != 1.0):
            arrays["adj_data"] = self.adjacency.data
        if isinstance(self.features, np.ndarray):
            arrays["x"] = self.features
        else:
            arrays |= {f"x_{part}": getattr(self.features, part) for part in ("indptr", "indices", "data")}
            arrays["x_shape"] = np.array(self.features.shape, dtype=np.int64)
        if self.notes:
            arrays["notes"] = np.array(self.notes, dtype=np.str_)
        if self.node_names is not None:
            arrays["node_names"] = np.array(self.node_names, dtype=np.str_)
        write_archive(path, arrays)
        return Path(path)

    @classmethod
    def from_pyg(cls, data: Any, *, class_names: Sequence[str] = (), name: str = "graph") -> Graph:
        """Convert a PyTorch Geometric `Data` with `edge_index` and, optionally, `x`, `y` and `edge_weight`.

        The graph is undirected if every edge comes in both directions with the same weight, and directed otherwise.
        Repeated edges count once; if edges are weighted, their weights add up. Its masks say which nodes are labelled
        and tested: ``model.certify(graph, data.train_mask, data.test_mask)``.

        Examples
        --------
        >>> Graph.from_pyg(data)  # doctest: +SKIP
        Graph('graph', 2708 nodes, 5278 edges, 1433 features, 7 classes)
        """
        adjacency, x, y = arrays_from_pyg(data)
        directed = first_asymmetry(adjacency) is not None
        return cls.from_scipy(adjacency, x, y, class_names=class_names, name=name, directed=directed)

    @classmethod
    def from_features(cls, X_train: ArrayLike, y_train: ArrayLike, X_test: ArrayLike, *, name: str = "table") -> Graph:
        """From rows without edges, as for scikit-learn: the first ones are labelled, the others have no label.

        Models that ignore edges take it: ``MLP``, ``CNN``, ``RBF`` and ``Linear``.

        Examples
        --------
        >>> from labelcert import Graph
        >>> Graph.from_features([[0.0], [1.0]], ["no", "yes"], [[0.4], [0.9]])
        Graph('table', 4 nodes, 0 edges, 1 features, 2 classes, 2 unlabelled)
        """
        train, test = np.asarray(X_train, dtype=np.float64), np.asarray(X_test, dtype=np.float64)
        if train.ndim != 2 or test.ndim != 2 or train.shape[1] != test.shape[1]:
            raise InvalidInput(
                f"X_train and X_test must have one row per point and the same columns, got shapes {train.shape} and "
                f"{test.shape}"
            )
        values = np.asarray(y_train)
        if values.shape != (len(train),):
            raise InvalidInput(
                f"y_train must hold one label per row of X_train ({len(train)}), got shape {values.shape}"
            )
        classes, codes = np.unique(values, return_inverse=True)
        rows, labels = np.concatenate([train, test]), np.concatenate([codes, np.full(len(test), UNLABELED)])
        return cls.from_scipy(sp.csr_array((len(rows),) * 2), rows, labels, class_names=[*map(str, classes)], name=name)

    @classmethod
    def from_networkx(
        cls,
        source: Any,
        *,
        features: str | Sequence[str] | None = None,
        label: str | None = "label",
        weight: str | None = None,
        name: str | None = None,
    ) -> Graph:
        """Convert a networkx graph; nodes keep their order and are named after their keys.

        Parameters
        ----------
        source : networkx.Graph or networkx.DiGraph
            The graph, which must not be a multigraph.
        features : str or sequence of str, optional
            A node attribute that holds a vector, or several that each hold a number. Defaults to the identity matrix.
        label : str, optional
            Node attribute with the class (any text or number); nodes without it are unlabelled.
        weight : str, optional
            Edge attribute with the weight; an edge without it has weight 1. By default, all weights are 1.
        name : str, optional
            Name of the graph. Defaults to the name of the networkx graph.

        Examples
        --------
        >>> import networkx as nx
        >>> from labelcert import Graph
        >>> source = nx.Graph([("ann", "bob"), ("bob", "cleo")])
        >>> source.nodes["ann"]["label"] = "cat"
        >>> Graph.from_networkx(source, name="friends")
        Graph('friends', 3 nodes, 2 edges, 3 features, 1 classes, 2 unlabelled)
        """
        found = fields_from_networkx(source, features, label, weight)
        return cls(**found, name=name or source.name or "graph")

    @classmethod
    def from_scipy(
        cls,
        adjacency: Any,
        features: Any = None,
        labels: Any = None,
        *,
        class_names: Sequence[str] = (),
        node_names: Sequence[str] | None = None,
        name: str = "graph",
        directed: bool = False,
    ) -> Graph:
        """Build a graph from sparse or dense matrices; features default to the identity matrix, nodes to unlabelled.

        Arguments are as for `Graph`.

        Examples
        --------
        >>> import scipy.sparse as sp
        >>> from labelcert import Graph
        >>> Graph.from_scipy(sp.eye_array(4).tocsr()[[1, 0, 3, 2]])
        Graph('graph', 4 nodes, 2 edges, 4 features, 0 classes, 4 unlabelled)
        """
        n = int(np.shape(adjacency)[0]) if np.ndim(adjacency) or sp.issparse(adjacency) else 0
        return cls(
            adjacency=adjacency,
            features=sp.eye_array(n, format="csr") if features is None else features,
            labels=np.full(n, UNLABELED) if labels is None else labels,
            class_names=tuple(class_names),
            node_names=None if node_names is None else tuple(node_names),
            name=name,
            directed=directed,
        )

    @classmethod
    def from_npz(cls, path: str | os.PathLike[str], *, name: str | None = None, directed: bool | None = None) -> Graph:
        """Read a graph from an npz as `to_npz` writes it; pickled content is refused.

        Parameters
        ----------
        path : path
            The file. Only `adj_indptr`, `adj_indices`, `adj_shape` and `labels` are required; features default
            to the identity matrix.
        name : str, optional
            Name of the graph. Defaults to the name in the file, else to the file name, with its suffix, so that
            the graph is not taken for the dataset of that name.
        directed : bool, optional
            Defaults to the value in the file, else to whether the adjacency matrix is asymmetric.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> from labelcert import Graph
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = f"{folder}/edge.npz"
        ...     np.savez(path, adj_indptr=[0, 1, 2], adj_indices=[1, 0], adj_shape=[2, 2], labels=[0, -1])
        ...     Graph.from_npz(path)
        Graph('edge.npz', 2 nodes, 1 edges, 2 features, 1 classes, 1 unlabelled)
        """
        source = Path(path)
        arrays = checks.read_npz(source)
        missing = [key for key in ("adj_indptr", "adj_indices", "adj_shape", "labels") if key not in arrays]
        if missing:
            raise InvalidInput(
                f"expected the arrays adj_indptr, adj_indices, adj_shape and labels in {source}, but "
                f"{', '.join(missing)} is missing (found: {', '.join(sorted(arrays)) or 'nothing'}); write "
                f"the file with Graph.to_npz"
            )
        indices, indptr, shape = (arrays[f"adj_{part}"] for part in ("indices", "indptr", "shape"))
        weights = arrays.get("adj_data", np.ones(indices.size))
        adjacency = assembled_csr(weights, indices, indptr, shape, what=f"the adjacency in {source}")
        if directed is None:
            stored = checks.scalar_of(arrays, "directed", "biu", source)
            square = adjacency.shape[0] == adjacency.shape[1]
            directed = square and first_asymmetry(adjacency) is not None if stored is None else bool(stored)
        return cls(
            adjacency=adjacency,
            features=checks.features_from_arrays(arrays, adjacency.shape[0], source),
            labels=arrays["labels"],
            class_names=checks.names_of(arrays, "class_names", source) or (),
            node_names=checks.names_of(arrays, "node_names", source),
            name=name or checks.scalar_of(arrays, "name", "U", source) or source.name,
            directed=directed,
            notes=checks.names_of(arrays, "notes", source) or (),
        )


class _OwnHeader:
    """Field that returns a sparse matrix as a new object over the same arrays, and a dense one as it is."""

    def __init__(self, field: str) -> None:
        self._key = f"_{field}"

    def __get__(self, graph: Graph | None, _: type[Graph] | None = None) -> Any:
        if graph is None:
            return self
        value = vars(graph)[self._key]
        return copy.copy(value) if sp.issparse(value) else value

    def __set__(self, graph: Graph, value: Any) -> None:
        vars(graph)[self._key] = value


# Set here, because in the body of the class a dataclass would take them for default values.
for _field in ("adjacency", "features"):
    setattr(Graph, _field, _OwnHeader(_field))
