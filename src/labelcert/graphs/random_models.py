"""Random graphs with two classes: the contextual stochastic block model and contextual Barabási-Albert.

Both draw labels y ∈ {0, 1}, features X | y ~ N(±μ, σ² I) in d dimensions, and edges given the labels. The
defaults are the paper's settings and reproduce the draws behind its tables, number for number.
"""

from __future__ import annotations

import math
import os
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from labelcert.arrays import Float, Int
from labelcert.checking import whole_number
from labelcert.errors import DataUnavailable, InvalidInput
from labelcert.graphs.checks import DAMAGED_NPZ, reason
from labelcert.graphs.download import DATA_DIR_VARIABLE, data_folder
from labelcert.graphs.graph import Graph
from labelcert.memory import require_memory
from labelcert.reading import Archive

Order: TypeAlias = Literal["stable", "published"]

WITHIN_CLASS = 3.16
"""Average number of neighbours of a node in its own class, as in Cora."""
BETWEEN_CLASSES = 0.74
"""Average number of neighbours of a node in the other class, as in Cora."""
ORDERS_FILE = "random_graph_orders.npz"
"""File in the data folder with the node orders behind the paper's tables."""

PUBLISHED_SEEDS = range(5)
"""The seeds that it has."""


def csbm(
    *,
    n: int = 200,
    seed: int = 0,
    within_degree: float = WITHIN_CLASS,
    between_degree: float = BETWEEN_CLASSES,
    density: float = 1.0,
    homophily: float = 1.0,
    separation: float = 1.5,
    sigma: float = 1.0,
    n_features: int | None = None,
    order: Order = "stable",
    data_dir: str | os.PathLike[str] | None = None,
) -> Graph:
    """Draw a graph from the contextual stochastic block model; nodes are sorted by class.

    An edge has probability p = 2 · `within_degree` / (n-1) within a class, and q = 2 · `between_degree` / (n-1)
    between the classes.

    Parameters
    ----------
    n : int
        Number of nodes.
    seed : int
        Seed of ``Generator(PCG64(seed))``.
    within_degree, between_degree : float
        Expected number of neighbours in a node's own class and in the other one.
    density : float
        Factor on both degrees (the paper's density study: 2 and 0.5).
    homophily : float
        Factor on `within_degree` alone (the paper's "2p" and "0.5p": 2 and 0.5).
    separation : float
        Distance K of the class means in units of σ: each entry of μ is K σ / (2 √d).
    sigma : float
        Standard deviation σ of each feature.
    n_features : int, optional
        Number of features d. Defaults to round(n / ln² n).
    order : {"stable", "published"}
        Order of the nodes within a class: as drawn, or as in the paper's runs (n = 200 and seeds 0 to 4 only,
        from `random_graph_orders.npz` in the data folder). Only splits depend on it.
    data_dir : path, optional
        The data folder, needed if `order` is "published"; see `load_dataset`.

    Examples
    --------
    >>> csbm(seed=0)
    Graph('csbm', 200 nodes, 387 edges, 7 features, 2 classes)
    """
    d, mean = _feature_model(n, n_features, separation, sigma)
    _require_positive(density=density, homophily=homophily)
    p = 2 * within_degree * density * homophily / (n - 1)
    q = 2 * between_degree * density / (n - 1)
    for degree, probability in (("within_degree", p), ("between_degree", q)):
        if not 0 <= probability <= 1:
            raise InvalidInput(
                f"expected {degree} (times its factors) between 0 and (n-1)/2 = {(n - 1) / 2}, got an edge "
                f"probability of {probability:.3g}; use smaller degrees or more nodes"
            )
    rng = np.random.Generator(np.random.PCG64(whole_number("seed", seed)))
    y = rng.integers(0, 2, n)
    X = _class_features(rng, y, mean, sigma, d)
    same_class = y[:, None] == y[None, :]
    upper = rng.binomial(1, np.triu(np.where(same_class, p, q), k=1))
    return _sorted_by_class("csbm", X, upper + upper.T, y, _node_order("csbm", y, seed, order, data_dir))


def cba(
    *,
    n: int = 200,
    seed: int = 0,
    edges_per_node: int = 2,
    within_affinity: float = WITHIN_CLASS,
    between_affinity: float = BETWEEN_CLASSES,
    homophily: float = 1.0,
    separation: float = 1.5,
    sigma: float = 1.0,
    n_features: int | None = None,
    order: Order = "stable",
    data_dir: str | os.PathLike[str] | None = None,
) -> Graph:
    """Draw a graph from the contextual Barabási-Albert model; nodes are sorted by class.

    Node i draws m times among the nodes j < i, with probability proportional to (1 + deg j) · w, where w is the
    affinity of the two classes. A node that is drawn more than once becomes one neighbour.

    Parameters
    ----------
    n : int
        Number of nodes.
    seed : int
        Seed of NumPy's legacy generator.
    edges_per_node : int
        Draws m for each new node (the paper's density study: 4 and 1).
    within_affinity, between_affinity : float
        Affinity of two nodes of the same class and of different classes.
    homophily : float
        Factor on `within_affinity` alone.
    separation, sigma, n_features, order, data_dir
        As for `csbm`.

    Examples
    --------
    >>> cba(seed=0)
    Graph('cba', 200 nodes, 389 edges, 7 features, 2 classes)
    """
    d, mean = _feature_model(n, n_features, separation, sigma)
    _require_positive(within_affinity=within_affinity, between_affinity=between_affinity, homophily=homophily)
    whole_number("edges_per_node", edges_per_node, least=1)
    whole_number("seed", seed, 0, 2**32 - 1, "for this model")
    rng = np.random.RandomState(int(seed))
    y = rng.randint(0, 2, n, dtype=np.int64)
    X = _class_features(rng, y, mean, sigma, d)
    A = np.zeros((n, n))
    attraction = np.ones(n)
    for i in range(1, n):
        affinity = np.where(y[:i] == y[i], within_affinity * homophily, between_affinity)
        weight = attraction[:i] * affinity
        drawn = rng.multinomial(edges_per_node, weight / weight.sum()) > 0
        A[i, :i] = A[:i, i] = drawn
        attraction[:i] += drawn
        attraction[i] += drawn.sum()
    return _sorted_by_class("cba", X, A, y, _node_order("cba", y, seed, order, data_dir))


def _require_positive(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise InvalidInput(f"expected a positive number for {name}, got {value}")


def _feature_model(n: int, n_features: int | None, separation: float, sigma: float) -> tuple[int, float]:
    """Return the number of features d and the entry of the class mean μ."""
    whole_number("n", n, least=2)
    _require_positive(sigma=sigma)
    d = round(n / math.log(n) ** 2) if n_features is None else whole_number("n_features", n_features, least=1)
    require_memory(40 * n * n + 16 * d * (n + d), f"a random graph of {n:,} nodes", "draw fewer nodes")
    return d, separation * sigma / (2 * math.sqrt(d))


def _class_features(
    rng: np.random.Generator | np.random.RandomState, y: Int, mean: float, sigma: float, d: int
) -> Float:
    # The paper's draws, mean included, passed through single precision.
    mu = np.full(d, mean, dtype=np.float32)
    X = np.empty((len(y), d))
    for label, signed_mean in ((0, -mu), (1, mu)):
        members = y == label
        X[members] = rng.multivariate_normal(signed_mean, sigma**2 * np.eye(d), int(members.sum())).astype(np.float32)
    return X


def _node_order(model: str, y: Int, seed: int, order: str, data_dir: str | os.PathLike[str] | None) -> Int:
    if order == "stable":
        return np.argsort(y, kind="stable")
    if order != "published":
        raise InvalidInput(f"expected order 'stable' or 'published', got {order!r}")
    key = f"{model}_{seed}"
    path = data_folder(data_dir) / ORDERS_FILE
    if not path.is_file():
        raise DataUnavailable(
            f"the published node order needs the file {ORDERS_FILE}, which is not in {path.parent}; name the folder "
            f"that has it in data_dir or {DATA_DIR_VARIABLE}, or use order='stable'"
        )
    try:
        with Archive(path) as orders:
            published = orders.array(key).astype(np.int64) if f"{key}.npy" in orders else None
    except DAMAGED_NPZ as error:
        raise DataUnavailable(
            f"the node orders in {path} cannot be read ({reason(error)}); delete the file and get an intact "
            f"copy, name a folder that has one in {DATA_DIR_VARIABLE}, or use order='stable'"
        ) from error
    if published is None or published.shape != y.shape:
        raise InvalidInput(
            f"expected n = 200 and a seed from 0 to 4 for the published node order, got n={len(y)}, "
            f"seed={seed}; use order='stable'"
        )
    if not np.array_equal(np.sort(published), np.arange(len(y))) or np.any(np.diff(y[published]) < 0):
        raise DataUnavailable(f"{key} in {path} is not an order of these nodes by class; get an intact copy")
    return published


def _sorted_by_class(name: str, X: Float, A: ArrayLike, y: Int, order: Int) -> Graph:
    adjacency: Any = np.asarray(A, dtype=np.float64)[np.ix_(order, order)]
    return Graph(adjacency, X[order], y[order], class_names=("0", "1"), name=name)
