from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from labelcert import GCN
from labelcert.errors import InvalidInput, MissingExtra
from labelcert.graphs import Graph, from_networkx, from_pyg, from_scipy, karate, to_networkx, to_pyg, to_scipy


def test_networkx_there_and_back() -> None:
    graph = Graph(
        [[0, 2, 0], [2, 0, 1], [0, 1, 1]],
        [[0.5, 1], [2, 3], [4, 5]],
        [1, -1, 0],
        class_names=("cat", "dog"),
        node_names=("a", "b", "c"),
        name="pets",
    )
    again = from_networkx(to_networkx(graph), features="features", weight="weight")
    assert again.fingerprint() == graph.fingerprint()
    assert (again.class_names, again.node_names, again.name) == (graph.class_names, ("a", "b", "c"), "pets")


def test_networkx_attributes() -> None:
    source = nx.DiGraph()
    source.add_node(7, age=1.0, pulse=[2.0, 3.0], kind="x")
    source.add_node("b", age=4.0, pulse=[5.0, 6.0])
    source.add_edge(7, "b", strength=0.5)
    graph = from_networkx(source, features=("age", "pulse"), label="kind", weight="strength")
    assert graph.directed
    np.testing.assert_array_equal(graph.features, [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 0.5], [0, 0]])
    assert graph.labels.tolist() == [0, -1]
    assert from_networkx(source, label=None).n_classes == 0
    assert from_networkx(nx.karate_club_graph(), label="club").class_names == ("Mr. Hi", "Officer")
    assert to_networkx(graph).is_directed()


@pytest.mark.parametrize(
    ("source", "features", "message"),
    [
        (nx.MultiGraph([(0, 1)]), None, "Graph or DiGraph, got MultiGraph"),
        ([(0, 1)], None, "Graph or DiGraph, got list"),
        (nx.Graph(), None, "at least one node"),
        (nx.Graph([(0, 1)]), "age", "attribute 'age' on every node, but node 0 has none"),
    ],
)
def test_networkx_graphs_that_do_not_fit(source: Any, features: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        from_networkx(source, features=features)


def test_networkx_features_that_are_not_numbers() -> None:
    source = nx.Graph([(0, 1)])
    nx.set_node_attributes(source, {0: [1.0], 1: [1.0, 2.0]}, "x")
    with pytest.raises(InvalidInput, match="equally many on every node"):
        from_networkx(source, features="x")
    nx.set_node_attributes(source, "tall", "x")
    with pytest.raises(InvalidInput, match="expected numbers"):
        from_networkx(source, features="x")


def test_scipy_there_and_back() -> None:
    graph = karate()
    adjacency, features, labels = to_scipy(graph)
    assert from_scipy(adjacency, features, labels).fingerprint() == graph.fingerprint()
    labels[0] = 0
    adjacency.data[:] = 7
    assert karate().fingerprint() == graph.fingerprint()
    plain = from_scipy(sp.coo_matrix(([1.0, 1.0], ([0, 1], [1, 0])), shape=(3, 3)))
    assert plain.labels.tolist() == [-1, -1, -1]
    np.testing.assert_array_equal(plain.features.toarray(), np.eye(3))
    with pytest.raises(InvalidInput, match="square"):
        from_scipy(3.0)


class Tensor(SimpleNamespace):
    """As much of a torch tensor as the conversion uses."""

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        return self.array


def test_pytorch_geometric_data_in() -> None:
    edges = Tensor(array=np.array([[0, 1, 1, 1], [1, 0, 0, 2]]))
    x, y = Tensor(array=np.eye(3, dtype=np.float32)), Tensor(array=np.array([[0], [1], [1]]))
    graph = from_pyg(SimpleNamespace(edge_index=edges, num_nodes=3, x=x, y=y), name="pyg")
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 1, 0], [1, 0, 1], [0, 0, 0]])
    assert graph.directed
    assert graph.labels.tolist() == [0, 1, 1]
    weights = Tensor(array=np.array([0.5, 0.5]))
    weighted = from_pyg(
        SimpleNamespace(edge_index=Tensor(array=np.array([[0, 1], [1, 0]])), num_nodes=2, edge_weight=weights)
    )
    np.testing.assert_array_equal(weighted.adjacency.toarray(), [[0, 0.5], [0.5, 0]])
    assert not weighted.directed
    with pytest.raises(InvalidInput, match="Data with edge_index"):
        from_pyg(object())


def test_pytorch_geometric_data_out(monkeypatch: pytest.MonkeyPatch) -> None:
    torch, geometric, data = (ModuleType(name) for name in ("torch", "torch_geometric", "torch_geometric.data"))
    torch.from_numpy = lambda array: Tensor(array=array)
    data.Data = lambda **parts: SimpleNamespace(num_nodes=34, **parts)
    for module in (torch, geometric, data):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    assert from_pyg(to_pyg(karate())).fingerprint() == karate().fingerprint()


def test_missing_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = [name for name in sys.modules if name.startswith("torch_geometric.")]
    for name in ("torch_geometric", *loaded):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r"pip install 'labelcert\[pyg\]'"):
        to_pyg(karate())


@pytest.mark.parametrize("weight", ["heavy", "3", None, 1j, [1]])
def test_weights_that_are_not_numbers(weight: Any) -> None:
    source = nx.Graph()
    source.add_edge("a", "b", w=weight)
    with pytest.raises(InvalidInput, match=r"a number in the attribute 'w' of every edge, got .* between 'a' and 'b'"):
        from_networkx(source, weight="w")


def test_labels_and_features_of_networkx_that_are_refused() -> None:
    source = nx.Graph([("a", "b")])
    nx.set_node_attributes(source, {"a": "x", "b": -1}, "label")
    with pytest.raises(InvalidInput, match="got '-1' in the attribute 'label' of node 'b'"):
        from_networkx(source)
    nx.set_node_attributes(source, {"a": 1.0, "b": 1j}, "z")
    with pytest.raises(InvalidInput, match="real numbers are needed"):
        from_networkx(source, label=None, features="z")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_index": np.array([[0, 1], [1, 3]])}, "node indices in 0..2 in edge_index, got 3"),
        ({"edge_index": np.array([[0, 1], [1, -1]])}, "got -1"),
        ({"edge_index": np.array([0, 1])}, r"shape \(2, e\), got shape \(2,\)"),
        ({"edge_index": np.array([[0.5], [1.0]])}, "whole numbers"),
        ({"edge_weight": np.ones(3)}, "each of the 2 edges, got shape"),
        ({"edge_weight": np.ones(2) * 1j}, "one real number in edge_weight"),
    ],
)
def test_bad_data_of_pyg(changes: dict[str, Any], message: str) -> None:
    data = {"edge_index": np.array([[0, 1], [1, 0]]), "num_nodes": 3, **changes}
    with pytest.raises(InvalidInput, match=message):
        from_pyg(SimpleNamespace(**data))


def test_the_real_pytorch_geometric() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: `make test-torch` does that")
    datasets = pytest.importorskip("torch_geometric.datasets", reason="install it with `make test-torch`")
    data = datasets.KarateClub()[0]
    graph = Graph.from_pyg(data, class_names=["a", "b", "c", "d"], name="club")
    assert (graph.n_nodes, graph.n_edges, graph.n_classes, graph.directed) == (34, 78, 4, False)
    assert from_pyg(to_pyg(graph), class_names=graph.class_names).fingerprint() == graph.fingerprint()
    masks = GCN(C=1.0).certify(graph, data.train_mask, ~data.train_mask, max_flips=1)
    train, test = (torch.nonzero(mask).ravel() for mask in (data.train_mask, ~data.train_mask))
    indices = GCN(C=1.0).certify(graph, train, test, max_flips=1)
    assert np.array_equal(masks.radius_lower, indices.radius_lower)
    assert set(masks.predictions) <= {"a", "b", "c", "d"}
    sparse, column, several, weighted = (datasets.KarateClub()[0] for _ in range(4))
    sparse.x = sparse.x.to_sparse()
    column.y = column.y[:, None]
    assert from_pyg(sparse).fingerprint() == from_pyg(column).fingerprint() == from_pyg(data).fingerprint()
    weighted.edge_weight = torch.full((weighted.edge_index.shape[1],), 0.5, dtype=torch.float16)
    assert from_pyg(weighted).adjacency.max() == 0.5
    several.y = torch.zeros(34, 3)
    with pytest.raises(InvalidInput, match="one label for each of the 34 nodes"):
        from_pyg(several)
    with pytest.raises(InvalidInput, match=r"expected a labelcert.Graph, got torch_geometric.*from_pyg"):
        GCN(C=1.0).certify(data, data.train_mask, ~data.train_mask)


def test_rows_without_edges() -> None:
    graph = Graph.from_features([[0.0, 1], [1, 0], [2, 2]], ["b", "a", "b"], [[3.0, 3]])
    assert graph.labels.tolist() == [1, 0, 1, -1]
    assert graph.class_names == ("a", "b")
    assert graph.n_edges == 0
    for wrong in (([0.0], [1], [[1.0]]), ([[0.0]], [1], [[1.0, 2]]), ([[0.0]], [1, 2], [[1.0]])):
        with pytest.raises(InvalidInput, match="must h"):
            Graph.from_features(*wrong)
