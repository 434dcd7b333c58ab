"""Reads raw graphs from the files that datasets are published in, without executing anything in them."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
from scipy.sparse import csr_array

from labelcert.arrays import Int, Values
from labelcert.errors import DataUnavailable, InvalidInput
from labelcert.graphs.checks import DAMAGED_NPZ, SparseMatrix, checked_csr, first_asymmetry, reason
from labelcert.graphs.graph import Graph
from labelcert.graphs.safe_pickle import read_pickled_data
from labelcert.reading import Archive

PLANETOID_PARTS = ("tx", "allx", "ty", "ally", "graph", "test.index")
"""The Planetoid files that make up a graph; `x` and `y` only repeat the first rows of `allx` and `ally`."""


def planetoid_graph(parts: Mapping[str, bytes], *, name: str) -> Graph:
    """Read a raw graph from Planetoid's files, given as bytes by part (see `PLANETOID_PARTS`).

    Row i of `tx` belongs to the node in line i of `test.index`. Nodes that are neither in `allx` nor in
    `test.index` (Citeseer has 15) get no features and class 0.
    """
    tx, allx, ty, ally, neighbors = (
        read_pickled_data(parts[part], what=f"the file {part!r} of {name}")
        for part in ("tx", "allx", "ty", "ally", "graph")
    )
    try:
        test = np.array(parts["test.index"].split(), dtype=np.int64)
        n = max(allx.shape[0], int(test.max()) + 1, max(neighbors) + 1)
        nodes = np.concatenate((np.arange(allx.shape[0]), test))
        labels = np.zeros(n, dtype=np.int64)
        labels[nodes] = np.concatenate((ally, ty)).argmax(axis=1)
        top, bottom = csr_array(allx).tocoo(), csr_array(tx).tocoo()
        rows = np.concatenate((top.coords[0], test[bottom.coords[0]]))
        columns = np.concatenate((top.coords[1], bottom.coords[1]))
        values = np.concatenate((top.data, bottom.data))
        X = csr_array((values, (rows, columns)), shape=(n, allx.shape[1]))
        edges = _edges(neighbors.items())
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise DataUnavailable(f"the Planetoid files of {name} do not fit together ({error})") from error
    return _raw_graph(name, _pattern(edges, n, name, symmetric=True), X, labels)


def sparse_npz_graph(content: bytes, *, name: str) -> Graph:
    """Read a raw graph from an npz with the CSR parts `adj_matrix.*` and `attr_matrix.*` (or `adj_*`, `attr_*`)."""
    with _npz(content, name) as arrays:
        adjacency = _csr_parts(arrays, ("adj_matrix.", "adj_"), name)
        X = _csr_parts(arrays, ("attr_matrix.", "attr_"), name)
        labels = _member(arrays, "labels", name)
    adjacency.data[:] = 1.0
    return _raw_graph(name, adjacency, X, labels)


def edge_npz_graph(content: bytes, *, name: str) -> Graph:
    """Read a raw graph from an npz with `node_features`, `node_labels` and undirected `edges` of shape (e, 2)."""
    with _npz(content, name) as arrays:
        X, labels, edges = (_member(arrays, key, name) for key in ("node_features", "node_labels", "edges"))
    A = _pattern(np.asarray(edges, dtype=np.int64).T, len(labels), name, symmetric=True)
    return _raw_graph(name, A, csr_array(X), labels)


def table_graph(edges: bytes, labels: bytes, *, name: str) -> Graph:
    """Read a raw graph without features from two text tables: source and target per line, and class per line."""
    try:
        pairs = np.array([line.split()[:2] for line in edges.splitlines() if line.strip()], dtype=np.int64)
        classes = np.array(labels.split(), dtype=np.int64)
    except ValueError as error:
        raise DataUnavailable(f"the tables of {name} are damaged: integers were expected ({error})") from error
    return _raw_graph(name, _pattern(pairs.T, len(classes), name), csr_array((len(classes), 0)), classes)


def archive_members(content: bytes, members: tuple[str, ...], *, name: str) -> dict[str, bytes]:
    """Return the contents of files in a tar archive; nothing is unpacked to disk."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:*") as archive:
            for entry in archive:
                member = entry.name.rsplit("/", 1)[-1]
                stream = archive.extractfile(entry) if member in members and entry.isfile() else None
                if stream is not None:
                    found[member] = stream.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataUnavailable(f"the archive of {name} is damaged ({reason(error)})") from error
    missing = [member for member in members if member not in found]
    if missing:
        raise DataUnavailable(f"the archive of {name} lacks the file {missing[0]!r}")
    return found


def wiki_cs_graph(content: bytes, *, name: str) -> Graph:
    """Read a raw directed graph from Wiki-CS's JSON with `features`, `labels` and the `links` of each node."""
    try:
        document = json.loads(content)
        X = np.array(document["features"], dtype=np.float32)
        labels = np.array(document["labels"], dtype=np.int64)
        edges = _edges(enumerate(document["links"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataUnavailable(f"the file of {name} is damaged: {error!r}") from error
    return _raw_graph(name, _pattern(edges, len(labels), name), X, labels)


def _raw_graph(name: str, adjacency: SparseMatrix, features: Any, labels: Int) -> Graph:
    try:
        directed = first_asymmetry(adjacency) is not None
        return Graph(adjacency=adjacency, features=features, labels=labels, name=name, directed=directed)
    except InvalidInput as error:
        raise DataUnavailable(f"the published files of {name} do not make a graph: {error}") from error


def _edges(neighbors: Iterable[tuple[int, Iterable[int]]]) -> Int:
    return np.array([(i, j) for i, found in neighbors for j in found], dtype=np.int64).reshape(-1, 2).T


def _pattern(pairs: Int, n: int, name: str, *, symmetric: bool = False) -> SparseMatrix:
    """Return the unweighted adjacency matrix with these pairs as edges; repeated pairs count once."""
    if pairs.size and (pairs.min() < 0 or pairs.max() >= n):
        raise DataUnavailable(f"the files of {name} have an edge to node {pairs.max()}, but only {n} nodes")
    matrix = csr_array((np.ones(pairs.shape[1]), (pairs[0], pairs[1])), shape=(n, n))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return cast("SparseMatrix", matrix.maximum(matrix.T) if symmetric else matrix)


def _npz(content: bytes, name: str) -> Archive:
    try:
        return Archive(io.BytesIO(content))
    except DAMAGED_NPZ as error:
        raise DataUnavailable(f"the file of {name} is not an intact npz ({reason(error)})") from error


def _member(arrays: Archive, key: str, name: str) -> Values:
    try:
        return arrays.array(key)
    except DAMAGED_NPZ as error:
        raise DataUnavailable(f"the file of {name} lacks a readable array {key!r} ({reason(error)})") from error


def _csr_parts(arrays: Archive, prefixes: tuple[str, ...], name: str) -> SparseMatrix:
    prefix = next((p for p in prefixes if f"{p}data.npy" in arrays), prefixes[0])
    data, indices, indptr, shape = (
        _member(arrays, f"{prefix}{part}", name) for part in ("data", "indices", "indptr", "shape")
    )
    try:
        matrix = checked_csr(data.astype(np.float64), indices, indptr, (int(shape[0]), int(shape[1])))
        matrix.sum_duplicates()
    except (ValueError, IndexError, TypeError, OverflowError) as error:
        raise DataUnavailable(f"the file of {name} has a damaged matrix {prefix}* ({error})") from error
    return matrix
