from __future__ import annotations

import numpy as np
import pytest

from labelcert.errors import InvalidInput
from labelcert.graphs import bundled_table, karate, nearest_neighbor_graph, neighbor_table


def test_karate() -> None:
    graph = karate()
    assert (graph.n_nodes, graph.n_edges, graph.labels.sum()) == (34, 78, 17)
    assert graph.class_names == ("Officer", "Mr. Hi")
    assert (graph.labels[0], graph.labels[33]) == (1, 0)
    np.testing.assert_array_equal(graph.features, np.eye(34))
    assert set(graph.adjacency.data) == {1.0}
    weighted = karate(weighted=True)
    assert weighted.n_edges == 78
    assert weighted.adjacency[0, 1] == 4.0


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [("iris", (150, 4), 3), ("wine", (178, 13), 3), ("breast-cancer", (569, 30), 2), ("digits", (1797, 64), 10)],
)
def test_bundled_tables(name: str, shape: tuple[int, int], classes: int) -> None:
    pytest.importorskip("sklearn")
    table = bundled_table(name)
    assert (table.features.shape, table.n_edges, table.n_classes) == (shape, 0, classes)
    spread = np.asarray(table.features).std(axis=0)
    assert np.all(np.isclose(spread, 1) | (spread == 0))
    joined = neighbor_table(name, neighbors=5)
    degree = joined.adjacency.sum(axis=1)
    assert degree.min() >= 5
    assert np.all(joined.adjacency.diagonal() == 0)
    assert joined.n_edges <= 5 * shape[0]


def test_tables_as_they_are() -> None:
    sklearn_datasets = pytest.importorskip("sklearn.datasets")
    table = bundled_table("wine", standardize=False)
    np.testing.assert_array_equal(table.features, sklearn_datasets.load_wine().data)


def test_nearest_neighbors_among_identical_rows() -> None:
    graph = nearest_neighbor_graph(np.zeros((6, 2)), [0, 0, 0, 1, 1, -1], neighbors=2)
    assert np.all(graph.adjacency.diagonal() == 0)
    assert graph.adjacency.sum(axis=1).min() >= 2


def test_bad_tables() -> None:
    with pytest.raises(InvalidInput, match="expected one of iris, wine, breast-cancer, digits, got 'boston'"):
        bundled_table("boston")
    with pytest.raises(InvalidInput, match=r"neighbors must be a whole number between 1 and 2 .*, got 3"):
        nearest_neighbor_graph(np.eye(3), [0, 1, 1], neighbors=3)
