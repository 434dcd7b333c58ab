from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labelcert.errors import InvalidInput
from labelcert.graphs import Graph, dataset_info, load_dataset
from labelcert.graphs.datasets import DATASETS, DatasetInfo, datasets
from labelcert.models import Linear

# Nodes, edges, and sizes (binary graphs) or number of classes; those of the paper where it has the graph.
STATISTICS: list[tuple[str, int, int, tuple[int, ...] | int]] = [
    ("cora-ml", 2810, 7981, 7),
    ("cora-ml-b", 1235, 2500, (449, 786)),
    ("citeseer", 2110, 3668, 6),
    ("citeseer-b", 1239, 1849, (617, 622)),
    ("cora", 2485, 5069, 7),
    ("cora-b", 1200, 1972, (412, 788)),
    ("polblogs", 1222, 16714, (586, 636)),
    ("chameleon", 792, 8026, 5),
    ("chameleon-b", 294, 1182, (129, 165)),
]


@pytest.mark.parametrize(("name", "nodes", "edges", "classes"), STATISTICS)
def test_statistics(dataset_folder: Path, name: str, nodes: int, edges: int, classes: tuple[int, ...] | int) -> None:
    graph = load_dataset(name, data_dir=dataset_folder)
    assert (graph.n_nodes, graph.n_edges) == (nodes, edges)
    assert (graph.n_classes if isinstance(classes, int) else tuple(np.bincount(graph.labels))) == classes
    assert graph.name == name
    assert not graph.directed
    assert set(graph.adjacency.data) == {1.0}
    info = dataset_info(name)
    assert (info.n_nodes, info.n_edges, info.n_classes) == (nodes, edges, graph.n_classes)


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("cora-ml-b", ("2", "4")),
        ("citeseer-b", ("2", "3")),
        ("cora-b", ("4", "3")),
        ("chameleon-b", ("0", "2")),
        ("polblogs", ("liberal", "conservative")),
    ],
)
def test_binary_graphs_keep_the_names_of_their_classes(
    dataset_folder: Path, name: str, classes: tuple[str, str]
) -> None:
    assert load_dataset(name, data_dir=dataset_folder).class_names == classes


def test_features_of_the_prepared_graphs(dataset_folder: Path) -> None:
    cora_ml: Any = load_dataset("cora-ml", data_dir=dataset_folder).features
    assert set(cora_ml.data) == {1.0}
    polblogs: Any = load_dataset("polblogs", data_dir=dataset_folder).features
    np.testing.assert_array_equal(polblogs.toarray(), np.eye(1222))


def test_the_folder_may_come_from_the_environment(dataset_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABELCERT_DATA_DIR", str(dataset_folder))
    assert load_dataset("chameleon-b").n_nodes == 294
    published = load_dataset("csbm", seed=0, order="published")
    assert published.fingerprint() != load_dataset("csbm", seed=0).fingerprint()


def test_listing() -> None:
    infos = datasets()
    assert len({info.name for info in infos}) == len(infos)
    assert {"karate", "csbm", "cba", "cora-ml-b", "wiki-cs-b", "iris-knn"} <= {info.name for info in infos}
    assert all(info.description and info.source in ("built in", "random", "download") for info in infos)


@pytest.mark.parametrize("info", [i for i in datasets() if i.source != "download"], ids=lambda i: i.name)
def test_everything_built_in_loads_under_its_own_name(info: Any) -> None:
    graph = load_dataset(info.name)
    assert graph.name == info.name
    assert (graph.n_nodes, graph.n_classes) == (info.n_nodes, info.n_classes)
    assert info.n_edges in (None, graph.n_edges)


def test_parameters_are_passed_on() -> None:
    assert load_dataset("csbm", seed=1, n=50).n_nodes == 50
    assert load_dataset("cba", edges_per_node=1).n_edges == 199
    assert load_dataset("karate", weighted=True).adjacency[0, 1] == 4
    assert load_dataset("karate", seed=3).n_nodes == 34
    assert load_dataset("iris-knn", neighbors=3).n_edges < load_dataset("iris-knn").n_edges
    assert load_dataset("IRIS", standardize=False).features[0, 0] == 5.1


def test_a_new_dataset_takes_one_function_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def pair(*, seed: int, weight: float = 1.0) -> Graph:
        return Graph([[0, weight], [weight, 0]], [[1.0], [2.0 + seed]], [0, 1])

    monkeypatch.setitem(DATASETS, "toy", (DatasetInfo("toy", "two nodes", 2, 1, 2, "built in"), pair))
    graph = load_dataset("Toy", seed=1, weight=3.0)
    assert (graph.name, graph.adjacency[0, 1]) == ("toy", 3.0)
    assert datasets()[-1].name == "toy"
    assert Linear().kernel(graph).tolist() == [[1.0, 3.0], [3.0, 9.0]]
    with pytest.raises(InvalidInput, match="'toy' takes weight, got 'size'"):
        load_dataset("toy", size=3)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("cora-mlb", {}, "got 'cora-mlb'; did you mean 'cora-ml-b'.* The datasets are karate, csbm"),
        ("zzz", {}, "got 'zzz'; The datasets are karate"),
        ("citeseer", {"n": 5}, "'citeseer' takes no parameters, got 'n'"),
        ("karate", {"n": 5}, "'karate' takes weighted, got 'n'"),
        ("csbm", {"edges": 5}, "'csbm' takes n, within_degree, .* got 'edges'"),
        ("iris", {"neighbors": 5}, "'iris' takes standardize, got 'neighbors'"),
    ],
)
def test_bad_requests(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        load_dataset(name, **parameters)


def test_the_graphs_import_nothing_heavy() -> None:
    heavy = "torch torch_geometric sklearn pyarrow pandas matplotlib pooch requests networkx"
    check = (
        "import sys, labelcert; before = set(sys.modules);"
        "import labelcert.graphs; added = set(sys.modules) - before;"
        f"print(sorted(added & set({heavy!r}.split())))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
