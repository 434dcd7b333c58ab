from __future__ import annotations

import copy
import pickle
import stat
import zipfile
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from labelcert.errors import InvalidInput
from labelcert.graphs import Graph
from labelcert.graphs.checks import as_indices

TRIANGLE = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 0.0], [2.0, 0.0, 1.0]])


def graph(**changes: Any) -> Graph:
    parts: dict[str, Any] = {"adjacency": TRIANGLE, "features": np.eye(3), "labels": [0, 1, -1]}
    return Graph(**{**parts, **changes})


def test_sizes_and_names() -> None:
    g = graph(class_names=("cat", "dog"), node_names=("a", "b", "c"), name="pets")
    assert (g.n_nodes, g.n_edges, g.n_features, g.n_classes) == (3, 3, 3, 2)
    assert repr(g) == "Graph('pets', 3 nodes, 3 edges, 3 features, 2 classes, 1 unlabelled)"
    assert graph().class_names == ("0", "1")
    assert graph(labels=[0, 0, 0], class_names=("a", "never seen")).n_classes == 2


def test_directed_edges_are_counted_as_they_are() -> None:
    arrow = graph(adjacency=[[0, 1, 1], [0, 0, 0], [0, 0, 0]], directed=True)
    assert arrow.n_edges == 2
    assert "directed edges" in repr(arrow)


@pytest.mark.parametrize("make", [np.array, sp.csr_array, sp.coo_array, sp.csr_matrix, sp.csc_array])
def test_storage_does_not_matter(make: Any) -> None:
    g = graph(adjacency=make(TRIANGLE), features=make(np.eye(3)))
    assert isinstance(g.adjacency, sp.csr_array)
    assert g.adjacency.dtype == np.float64
    assert isinstance(g.features, np.ndarray | sp.csr_array)
    assert g.fingerprint() == graph().fingerprint()


def test_it_cannot_be_changed_and_does_not_follow_its_input() -> None:
    adjacency, features, labels = TRIANGLE.copy(), np.eye(3), np.array([0, 1, -1])
    g = graph(adjacency=adjacency, features=features, labels=labels)
    adjacency[:], features[:], labels[:] = 7, 7, 7
    assert g.fingerprint() == graph().fingerprint()
    with pytest.raises(FrozenInstanceError):
        g.name = "other"
    for array in (g.adjacency.data, g.adjacency.indices, g.features, g.labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_methods_in_place_do_not_reach_the_graph() -> None:
    g = graph(features=sp.csr_array(np.eye(3)))
    g.adjacency.setdiag(3)
    g.adjacency.data = np.zeros(5)
    g.features.data = np.zeros(3)
    with pytest.raises(ValueError, match="read-only"):
        g.adjacency.resize((2, 2))
    with pytest.raises((ValueError, FrozenInstanceError)):
        g.adjacency *= 2
    for array in (g.adjacency.data, g.features.indices, g.labels):
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.setflags(write=True)
    assert g.fingerprint() == graph().fingerprint()
    assert g.adjacency.has_canonical_format


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g)), replace])
def test_copies_are_read_only_too(duplicate: Any) -> None:
    g = graph(class_names=("cat", "dog"), node_names=("a", "b", "c"), name="pets")
    again = duplicate(g)
    assert (again.fingerprint(), repr(again), again.node_names) == (g.fingerprint(), repr(g), g.node_names)
    for array in (again.adjacency.data, again.adjacency.indptr, again.features, again.labels):
        assert not array.flags.writeable


def test_read_only_arrays_can_be_computed_with() -> None:
    g = graph(features=sp.csr_array(np.eye(3)))
    np.testing.assert_array_equal((g.adjacency @ g.features).toarray(), TRIANGLE)
    np.testing.assert_array_equal(g.adjacency @ np.eye(3), TRIANGLE)
    np.testing.assert_array_equal((g.adjacency + sp.eye_array(3)).toarray(), TRIANGLE + np.eye(3))
    np.testing.assert_array_equal(g.adjacency.sum(axis=1), TRIANGLE.sum(axis=1))
    np.testing.assert_array_equal((g.adjacency @ g.adjacency.T).toarray(), TRIANGLE @ TRIANGLE.T)


def test_fingerprint_sees_content_and_not_names() -> None:
    g = graph()
    assert replace(g, name="x", class_names=("a", "b")).fingerprint() == g.fingerprint()
    different = [graph(labels=[1, 0, -1]), graph(features=2 * np.eye(3)), graph(adjacency=np.zeros((3, 3)))]
    assert len({other.fingerprint() for other in (g, *different)}) == 4


def test_subgraph_keeps_order_and_names() -> None:
    g = graph(node_names=("a", "b", "c")).subgraph([2, 0])
    np.testing.assert_array_equal(g.adjacency.toarray(), [[1, 2], [2, 0]])
    assert g.node_names == ("c", "a")
    assert g.labels.tolist() == [-1, 0]
    assert graph().subgraph(np.array([True, False, True])).n_nodes == 2
    assert graph().subgraph([]).n_nodes == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adjacency": np.ones((2, 3))}, "square adjacency matrix, got one of shape 2x3"),
        ({"adjacency": np.ones(3)}, "square adjacency matrix"),
        ({"adjacency": [["a", "b"], ["c", "d"]]}, "numbers in the adjacency"),
        ({"adjacency": -TRIANGLE}, "non-negative edge weights, got -1.0 between nodes 0 and 1"),
        ({"adjacency": TRIANGLE * np.nan}, "finite, non-negative"),
        ({"adjacency": np.triu(TRIANGLE)}, "symmetric adjacency matrix, got weight 1.0 from node 0 to 1"),
        ({"adjacency": TRIANGLE + 0j}, "real numbers are needed, not values of type complex128"),
        ({"adjacency": sp.csr_array(TRIANGLE + 0j)}, "real numbers are needed"),
        ({"features": np.eye(3) * 1j}, "numbers in the features: real numbers are needed"),
        ({"features": np.zeros((3, 1), dtype="M8[D]")}, "real numbers are needed"),
        ({"features": [[10**400], [0], [0]]}, "numbers in the features"),
        ({"labels": [0, 5_000_000, 1]}, "without large gaps, got label 5000000 among 3 nodes"),
        ({"labels": np.array([0, 2**63, 1], dtype=np.uint64)}, "got 9223372036854775808 for node 1"),
        ({"features": np.eye(2)}, r"features of shape \(3, d\).* got shape \(2, 2\)"),
        ({"features": np.ones(3)}, "features of shape"),
        ({"features": [["x"], ["y"], ["z"]]}, "numbers in the features"),
        ({"features": [[1.0], [np.inf], [0.0]]}, "got inf for node 1, feature 0"),
        ({"features": sp.csr_array([[1.0, 0], [0, np.nan], [0, 0]])}, "got nan for node 1, feature 1"),
        ({"labels": [0, 1]}, "one label for each of the 3 nodes"),
        ({"labels": [0.0, 1.0, 2.0]}, "integer labels"),
        ({"labels": ["cat", "dog", "cat"]}, "number the classes"),
        ({"labels": [0, 1, -2]}, "got -2 for node 2"),
        ({"class_names": ("only one",)}, "name for each of the 2 classes"),
        ({"class_names": ("same", "same")}, "distinct class names, got 'same'"),
        ({"node_names": ("a",)}, "3 node names, got 1"),
        ({"node_names": ("a", "b", "a")}, "distinct node names, got 'a'"),
    ],
)
def test_bad_input_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        graph(**changes)


@pytest.mark.parametrize(("node_names", "expected"), [(("a", "b", "c"), ["c", "a"]), (None, ["2", "0"])])
def test_nodes_by_name(node_names: Any, expected: list[str]) -> None:
    g = graph(node_names=node_names)
    assert g.names([2, 0]) == expected
    assert g.names(np.array([False, False, True])) == expected[:1]
    assert g.names([]) == []
    assert [g.positions()[name] for name in expected] == [2, 0]
    assert list(g.positions()) == g.names(range(3))
    assert g.positions() is g.positions()
    with pytest.raises(InvalidInput, match=r"expected indices in 0\.\.2, got 3"):
        g.names([3])


def test_labels_by_name() -> None:
    g = graph(class_names=("cat", "a longer name"))
    found = g.named_labels([2, 1, 0])
    assert found.tolist() == ["", "a longer name", "cat"]
    assert found.dtype.kind == "U"
    assert g.named_labels([]).tolist() == []
    assert g.named_labels(g.labels == -1).tolist() == [""]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([0, 3], "indices in 0..2, got 3 at position 1"),
        ([-1], "got -1 at position 0"),
        ([2, 0, 2, 0], "got 2 more than once"),
        ([0.0, 1.0], "integer indices or a boolean mask, got values of type float64"),
        (["a"], "integer indices"),
        ([[0], [1]], r"one-dimensional .* shape \(2, 1\)"),
        ([True, False], "each of the 3 nodes, got 2 entries"),
    ],
)
def test_bad_indices(nodes: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"seeds: expected .*{message}"):
        as_indices(nodes, n_nodes=3, what="seeds")


@settings(max_examples=40, deadline=None)
@given(data=st.data(), n=st.integers(1, 6), d=st.integers(0, 4), sparse=st.booleans(), directed=st.booleans())
def test_npz_round_trip(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, n: int, d: int, sparse: bool, directed: bool
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    A = rng.integers(0, 3, (n, n)) * rng.choice([1.0, 0.5])
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)
    g = Graph(
        A if directed else np.maximum(A, A.T),
        sp.csr_array(X) if sparse else X,
        rng.integers(-1, 3, n),
        class_names=("α", "β", "γ"),
        node_names=tuple(f"node {i}" for i in range(n)) if sparse else None,
        name="round trip",
        directed=directed,
    )
    again = Graph.from_npz(g.to_npz(tmp_path_factory.mktemp("npz") / "graph.npz"))
    assert again.fingerprint() == g.fingerprint()
    assert repr(again) == repr(g)
    assert type(again.features) is type(g.features)
    assert (again.class_names, again.node_names) == (g.class_names, g.node_names)


def test_writing_leaves_no_other_files(tmp_path: Path) -> None:
    graph().to_npz(tmp_path / "g.npz")
    graph().to_npz(tmp_path / "g.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["g.npz"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = graph().to_npz(tmp_path / "g.npz")
    before = path.read_bytes()

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("numpy.lib.format.write_array", fail)
    with pytest.raises(OSError, match="disk full"):
        graph(labels=[1, 1, 1]).to_npz(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["g.npz"]


CSR = {"adj_indptr": [0, 1, 2], "adj_indices": [1, 0], "adj_shape": [2, 2], "labels": [0, 1]}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.eye(2)}, "adj_indptr, adj_indices, adj_shape, labels is missing"),
        ({**CSR, "adj_indices": [1, 5]}, "not a valid CSR matrix"),
        ({**CSR, "adj_indptr": [0, 1]}, "not a valid CSR matrix"),
        ({**CSR, "adj_shape": [2]}, "not a valid CSR matrix"),
        ({**CSR, "adj_shape": [2, -2]}, "its shape is"),
        ({**CSR, "adj_indices": 1}, "its part 'indices' is not a list of whole numbers"),
        ({**CSR, "adj_indices": [1.5, 0.0]}, "its part 'indices' is not a list of whole numbers"),
        ({**CSR, "adj_data": [1j, 1j]}, "its part 'data' is not a list of real numbers"),
        ({**CSR, "x": np.eye(2) * 1j}, "real numbers are needed"),
        ({**CSR, "directed": [True, False]}, "a single value as directed"),
        ({**CSR, "directed": "yes"}, "a single value as directed"),
        ({**CSR, "name": ["a", "b"]}, "a single value as name"),
        ({**CSR, "node_names": "ab"}, "a list of names as node_names"),
        ({**CSR, "class_names": "ab"}, "a list of names as class_names"),
        ({**CSR, "labels": [0, 1, 1]}, "one label for each of the 2 nodes"),
        ({**CSR, "x": np.eye(3)}, "one row per node"),
        ({**CSR, "x_data": [1.0]}, "x_indices, x_indptr, x_shape is missing"),
        ({**CSR, "labels": np.array([0, None], dtype=object)}, "without pickled content"),
    ],
)
def test_bad_npz(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    with pytest.raises(InvalidInput, match=message):
        Graph.from_npz(path)


def test_npz_without_features_or_edges(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", **{**CSR, "adj_indptr": [0, 0, 0], "adj_indices": []})
    g = Graph.from_npz(tmp_path / "g.npz")
    assert (g.n_edges, g.name) == (0, "g.npz")
    np.testing.assert_array_equal(g.features.toarray(), np.eye(2))


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    path = graph().to_npz(tmp_path / "g.npz")
    (tmp_path / "other").touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


def damaged_npz(path: Path, content: bytes) -> list[bytes]:
    """The npz damaged in the ways that NumPy and zipfile answer with different errors."""
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    variants = []
    for header in (b"{'descr': (((", b"{'descr': '<f8", b"{0: 1}", b"\\", b"{'descr': '<f8', 'fortran_order': False"):
        with zipfile.ZipFile(path, "w") as archive:
            for name, member in members.items():
                start = 10 + int.from_bytes(member[8:10], "little")
                archive.writestr(name, member[:10] + header.ljust(start - 11) + b"\n" + member[start:])
        variants.append(path.read_bytes())
    first = content.index(b"PK\x01\x02")
    for offset, value in ((8, b"\x01"), (10, b"\x63"), (10, b"\x0c"), (10, b"\x00")):
        local = 8 if offset == 10 else 6
        changed = bytearray(content)
        changed[first + offset : first + offset + 1] = value
        changed[local : local + 1] = value
        variants.append(bytes(changed))
    rng = np.random.default_rng(0)
    for _ in range(60):
        changed = bytearray(content)
        for place in rng.integers(0, len(content), 4):
            changed[place] = rng.integers(256)
        variants.append(bytes(changed))
    return variants


def test_damaged_npz_files_are_refused_in_one_line(tmp_path: Path) -> None:
    path = graph().to_npz(tmp_path / "g.npz")
    messages = []
    for content in damaged_npz(tmp_path / "work.npz", path.read_bytes()):
        path.write_bytes(content)
        try:
            Graph.from_npz(path)
        except InvalidInput as error:
            messages.append(str(error))
    assert len(messages) > 40
    assert not any("\n" in message for message in messages)
    path.write_bytes(b"")
    with pytest.raises(InvalidInput, match="cannot be read"):
        Graph.from_npz(path)


def test_files_that_are_not_npz(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no file"):
        Graph.from_npz(tmp_path / "absent.npz")
    (tmp_path / "text.npz").write_text("not an archive")
    with pytest.raises(InvalidInput, match="cannot be read"):
        Graph.from_npz(tmp_path / "text.npz")
    np.save(tmp_path / "single.npy", np.eye(2))
    with pytest.raises(InvalidInput, match="not a zip file"):
        Graph.from_npz(tmp_path / "single.npy")
    path = graph().to_npz(tmp_path / "cut.npz")
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(InvalidInput, match="cannot be read"):
        Graph.from_npz(path)
