from __future__ import annotations

import io
import json
import tarfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from labelcert.errors import DataUnavailable
from labelcert.graphs import Graph
from labelcert.graphs.published_datasets import CHAMELEON, CORA_ML, POLBLOGS
from labelcert.graphs.published_formats import (
    archive_members,
    edge_npz_graph,
    planetoid_graph,
    sparse_npz_graph,
    table_graph,
    wiki_cs_graph,
)


def npz_bytes(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def tar_bytes(**files: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"folder/{name}.tsv")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture
def small_planetoid(python2_pickle: Callable[[Any], bytes]) -> dict[str, bytes]:
    """Two training nodes, test nodes 4 and 2 (in this order), and node 3 that no file describes."""
    return {
        "allx": python2_pickle(sp.csr_matrix(np.array([[1, 0, 0], [0, 1, 0]], dtype=np.float32))),
        "ally": python2_pickle(np.array([[1, 0], [0, 1]], dtype=np.int32)),
        "tx": python2_pickle(sp.csr_matrix(np.array([[0, 0, 1], [1, 1, 0]], dtype=np.float32))),
        "ty": python2_pickle(np.array([[0, 1], [0, 1]], dtype=np.int32)),
        "graph": python2_pickle(defaultdict(list, {0: [1, 1, 4], 1: [0], 2: [2, 4], 3: [], 4: [0, 2]})),
        "test.index": b"4\n2\n",
    }


def test_planetoid_files(small_planetoid: dict[str, bytes]) -> None:
    graph = planetoid_graph(small_planetoid, name="small")
    np.testing.assert_array_equal(graph.features.toarray(), [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1]])
    assert graph.labels.tolist() == [0, 1, 1, 0, 1]
    expected = np.zeros((5, 5))
    for i, j in ((0, 1), (0, 4), (2, 2), (2, 4)):
        expected[i, j] = expected[j, i] = 1
    np.testing.assert_array_equal(graph.adjacency.toarray(), expected)


@pytest.mark.parametrize(
    ("part", "content", "message"),
    [
        ("allx", b"cos\nsystem\n.", "'allx' of small asks for 'os.system'"),
        ("test.index", b"4\n", "do not fit together"),
        ("test.index", b"four\n2\n", "do not fit together"),
        ("graph", b"(lp0\n.", "do not fit together"),
        ("graph", b"\x80\x02}(K\x00](K\x63eu.", "edge to node 99, but only 5 nodes"),
        ("ally", b"I1\n.", "do not fit together"),
    ],
)
def test_planetoid_files_that_do_not_fit(
    small_planetoid: dict[str, bytes], part: str, content: bytes, message: str
) -> None:
    with pytest.raises(DataUnavailable, match=message):
        planetoid_graph({**small_planetoid, part: content}, name="small")


def test_sparse_npz_with_pickled_fields_beside_the_arrays(dataset_folder: Path) -> None:
    raw = Graph.from_npz(dataset_folder / "cora_ml.npz")
    A, X = raw.adjacency, sp.csr_array(raw.features)
    for adjacency, attributes in (("adj_matrix.", "attr_matrix."), ("adj_", "attr_")):
        arrays: dict[str, Any] = {"labels": raw.labels, "metadata": np.array({"a": 1}, dtype=object)}
        for prefix, matrix in ((adjacency, A), (attributes, X)):
            for part in ("data", "indices", "indptr", "shape"):
                arrays[f"{prefix}{part}"] = np.asarray(getattr(matrix, part))
        graph = sparse_npz_graph(npz_bytes(**arrays), name="cora-ml")
        assert graph.fingerprint() == CORA_ML.fingerprint


def test_edge_npz(dataset_folder: Path) -> None:
    raw = Graph.from_npz(dataset_folder / "chameleon.npz")
    once = sp.triu(raw.adjacency).tocoo()
    content = npz_bytes(
        node_features=raw.features.toarray(), node_labels=raw.labels, edges=np.stack(once.coords, axis=1)
    )
    graph = edge_npz_graph(content, name="chameleon")
    assert graph.fingerprint() == CHAMELEON.fingerprint


def test_tables_in_an_archive(dataset_folder: Path) -> None:
    raw = Graph.from_npz(dataset_folder / "polblogs.npz")
    pairs = zip(*raw.adjacency.tocoo().coords, strict=True)
    edges = "\n".join(f"{i}\t{j}\t1" for i, j in pairs).encode()
    labels = "\n".join(map(str, raw.labels)).encode()
    found = archive_members(tar_bytes(adjacency=edges, labels=labels), ("adjacency.tsv", "labels.tsv"), name="p")
    graph = table_graph(found["adjacency.tsv"], found["labels.tsv"], name="polblogs")
    assert graph.fingerprint() == POLBLOGS.fingerprint
    assert graph.directed


def test_wiki_cs_json() -> None:
    document = {"features": [[0.5, 1], [0, 0], [1, 1]], "labels": [2, 0, 2], "links": [[1, 1, 2], [], [2]]}
    graph = wiki_cs_graph(json.dumps(document).encode(), name="wiki-cs")
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 1, 1], [0, 0, 0], [0, 0, 1]])
    assert graph.directed
    assert isinstance(graph.features, np.ndarray)


@pytest.mark.parametrize(
    ("convert", "content", "message"),
    [
        (sparse_npz_graph, b"no archive", "not an intact npz"),
        (sparse_npz_graph, npz_bytes(labels=[0]), "lacks a readable array 'adj_matrix.data'"),
        (edge_npz_graph, npz_bytes(edges=[[0, 1]]), "lacks a readable array 'node_features'"),
        (
            edge_npz_graph,
            npz_bytes(edges=[[0, 9]], node_labels=[0, 1], node_features=np.eye(2)),
            "edge to node 9, but only 2 nodes",
        ),
        (edge_npz_graph, npz_bytes(edges=[[0, 1]], node_labels=[0, 1], node_features=np.eye(3)), "do not make a graph"),
        (wiki_cs_graph, b"{", "damaged"),
        (wiki_cs_graph, b'{"labels": []}', "damaged: KeyError"),
    ],
)
def test_damaged_files(convert: Any, content: bytes, message: str) -> None:
    with pytest.raises(DataUnavailable, match=message):
        convert(content, name="x")


def test_damaged_tables_and_archives() -> None:
    with pytest.raises(DataUnavailable, match="integers were expected"):
        table_graph(b"a\tb\n", b"0\n", name="x")
    with pytest.raises(DataUnavailable, match="archive of x is damaged"):
        archive_members(b"no archive", ("a.tsv",), name="x")
    with pytest.raises(DataUnavailable, match=r"lacks the file 'a\.tsv'"):
        archive_members(tar_bytes(b=b"1"), ("a.tsv",), name="x")
