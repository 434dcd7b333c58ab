from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labelcert.errors import DataUnavailable, InvalidInput
from labelcert.graphs import cba, csbm


@pytest.mark.parametrize(("model", "mean", "spread"), [(csbm, 367, 16), (cba, 389, 3)])
def test_edges_of_the_papers_table(model: Any, mean: int, spread: int) -> None:
    edges = [model(seed=seed).n_edges for seed in range(5)]
    assert (round(np.mean(edges)), round(np.std(edges))) == (mean, spread)


@pytest.mark.parametrize("model", [csbm, cba])
def test_shape_and_order(model: Any) -> None:
    graph = model(seed=1)
    assert (graph.n_nodes, graph.n_features, graph.n_classes) == (200, 7, 2)
    assert np.all(np.diff(graph.labels) >= 0)
    assert np.all(graph.adjacency.diagonal() == 0)
    np.testing.assert_array_equal(graph.features, graph.features.astype(np.float32))
    assert model(seed=1).fingerprint() == graph.fingerprint()
    assert model(seed=2).fingerprint() != graph.fingerprint()


def test_csbm_draws_in_the_documented_order() -> None:
    rng = np.random.Generator(np.random.PCG64(3))
    y = rng.integers(0, 2, 200)
    mu = np.full(7, 1.5 / (2 * np.sqrt(7)), dtype=np.float32)
    X0 = rng.multivariate_normal(-mu, np.eye(7), int((y == 0).sum())).astype(np.float32)
    X1 = rng.multivariate_normal(mu, np.eye(7), int((y == 1).sum())).astype(np.float32)
    P = np.zeros((200, 200))
    for i in range(200):
        for j in range(i + 1, 200):
            P[i, j] = 2 * (3.16 if y[i] == y[j] else 0.74) / 199
    A = rng.binomial(1, P)
    order = np.argsort(y, kind="stable")
    graph = csbm(seed=3)
    np.testing.assert_array_equal(graph.features, np.concatenate((X0, X1)))
    np.testing.assert_array_equal(graph.adjacency.toarray(), (A + A.T)[np.ix_(order, order)])


def test_cba_leaves_numpys_global_generator_alone() -> None:
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    cba(seed=0)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@pytest.mark.parametrize("name", ["csbm", "cba"])
@pytest.mark.parametrize("seed", range(5))
def test_published_order_is_the_same_graph_with_other_node_numbers(dataset_folder: Path, name: str, seed: int) -> None:
    model = {"csbm": csbm, "cba": cba}[name]
    stable = model(seed=seed)
    published = model(seed=seed, order="published", data_dir=dataset_folder)
    np.testing.assert_array_equal(published.labels, stable.labels)
    rank = {tuple(row): i for i, row in enumerate(np.asarray(stable.features))}
    order = np.array([rank[tuple(row)] for row in np.asarray(published.features)])
    assert published.fingerprint() == stable.subgraph(order).fingerprint()
    assert not np.array_equal(order, np.arange(200))


def test_published_order_only_where_there_is_one(dataset_folder: Path, tmp_path: Path) -> None:
    for arguments in ({"seed": 5}, {"seed": 0, "n": 100}):
        with pytest.raises(InvalidInput, match="n = 200 and a seed from 0 to 4"):
            csbm(order="published", data_dir=dataset_folder, **arguments)
    with pytest.raises(DataUnavailable, match=r"random_graph_orders.npz.*LABELCERT_DATA_DIR"):
        csbm(order="published", data_dir=tmp_path)
    np.savez(tmp_path / "random_graph_orders.npz", csbm_0=np.arange(200))
    with pytest.raises(DataUnavailable, match="not an order of these nodes by class"):
        csbm(order="published", data_dir=tmp_path)
    with pytest.raises(InvalidInput, match="order 'stable' or 'published', got 'random'"):
        csbm(order="random")


def test_density_scales_both_degrees_and_homophily_one() -> None:
    n, seeds = 400, range(4)

    def degrees(**changes: float) -> tuple[float, float]:
        within, between = [], []
        for seed in seeds:
            graph = csbm(n=n, seed=seed, **changes)
            same = graph.labels[:, None] == graph.labels[None, :]
            A = graph.adjacency.toarray()
            within.append((A * same).sum() / n)
            between.append((A * ~same).sum() / n)
        return float(np.mean(within)), float(np.mean(between))

    assert degrees() == pytest.approx((3.16, 0.74), rel=0.1)
    assert degrees(density=2.0) == pytest.approx((6.32, 1.48), rel=0.1)
    assert degrees(homophily=0.5) == pytest.approx((1.58, 0.74), rel=0.1)


def test_cba_degree_of_new_nodes() -> None:
    tree = cba(edges_per_node=1)
    assert tree.n_edges == 199
    assert cba(edges_per_node=4).n_edges > cba().n_edges > 199
    assert cba(homophily=2.0).fingerprint() != cba().fingerprint()


def test_other_parameters() -> None:
    graph = csbm(n=30, n_features=3, separation=200.0, sigma=0.5, within_degree=5.0, between_degree=0.0)
    assert graph.n_features == 3
    positive = graph.features > 0
    assert np.all(positive == (graph.labels == 1)[:, None])
    same = graph.labels[:, None] == graph.labels[None, :]
    assert np.all(graph.adjacency.toarray()[~same] == 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 1}, "n must be a whole number of at least 2, got 1"),
        ({"n": 20.5}, "n must be a whole number of at least 2, got 20.5"),
        ({"n_features": 2.5}, "n_features must be a whole number of at least 1, got 2.5"),
        ({"n_features": 0}, "n_features must be .*, got 0"),
        ({"sigma": 0.0}, "positive number for sigma, got 0.0"),
        ({"homophily": -1.0}, "positive number for homophily"),
        ({"seed": -1}, "seed must be a whole number .*, got -1"),
        ({"seed": 0.5}, "seed must be a whole number .*, got 0.5"),
    ],
)
@pytest.mark.parametrize("model", [csbm, cba])
def test_bad_parameters(model: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        model(**arguments)


def test_bad_parameters_of_one_model() -> None:
    with pytest.raises(InvalidInput, match="edge probability"):
        csbm(n=10, within_degree=8.0)
    with pytest.raises(InvalidInput, match="edge probability"):
        csbm(between_degree=-1.0)
    with pytest.raises(InvalidInput, match="edges_per_node must be a whole number of at least 1, got 0"):
        cba(edges_per_node=0)
    with pytest.raises(InvalidInput, match=r"edges_per_node must be a whole number .*, got 1.5"):
        cba(edges_per_node=1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="seed must be a whole number between 0 and 4294967295"):
        cba(seed=2**32)
    with pytest.raises(InvalidInput, match="positive number for between_affinity"):
        cba(between_affinity=0.0)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut"])
def test_damaged_node_orders(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "random_graph_orders.npz").write_bytes(content)
    with pytest.raises(DataUnavailable, match=r"random_graph_orders.npz cannot be read.*delete the file"):
        csbm(order="published", data_dir=tmp_path)
