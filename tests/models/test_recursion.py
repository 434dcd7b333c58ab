"""The block recursion against the plain dense one, and blocks against the whole."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from labelcert import memory as memory_module
from labelcert.errors import WorkTooLarge
from labelcert.graphs import Graph
from labelcert.models import (
    APPNP,
    CNN,
    GCN,
    GIN,
    MLP,
    PPNP,
    RBF,
    SGC,
    GCNSkipAlpha,
    GCNSkipPC,
    GraphSAGE,
    Linear,
    Model,
    chunks,
)

MODELS: list[Model] = [
    *(cls(depth=depth) for cls in (GCN, SGC, GraphSAGE, GIN, GCNSkipPC, GCNSkipAlpha) for depth in (1, 2, 4)),
    GCN(normalization="symmetric", depth=3),
    GCN(normalization="none", edge_weight=0.5),
    GCN(activation="linear"),
    GCNSkipAlpha(skip_alpha=0.4, depth=3, normalization="symmetric"),
    GCNSkipPC(depth=3, activation="linear"),
    GIN(depth=3, edge_weight=0.5),
    GIN(activation="linear"),
    GIN(depth=2, activation="linear"),
    GIN(depth=3, activation="linear"),
    APPNP(),
    APPNP(alpha=0.0, normalization="row", depth=2),
    PPNP(alpha=0.3, depth=2),
    PPNP(normalization="row"),
    MLP(depth=3),
    MLP(activation="linear"),
    GCN(activation="erf", depth=3),
    GCN(activation="tanh"),
    GIN(activation="tanh", depth=2),
    GCNSkipPC(activation="gelu", depth=3),
    GCNSkipAlpha(activation="erf"),
    APPNP(activation="tanh", depth=2),
    CNN(image=(5, 1, 1), depth=2),
    CNN(image=(1, 5, 1), pooling="flatten", activation="tanh"),
    Linear(),
    Linear(bias=True),
    RBF(gamma=0.5),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=str)
# A rounding error of 1e-16 in a correlation near 1 is one of 1e-8 in its arc cosine.
TOLERANCE = 3e-8


def expectations(sigma: np.ndarray, *, published: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    v = sigma.diagonal().copy()
    if published:
        sigma = np.minimum(sigma, np.minimum.outer(v, v))
    q = np.sqrt(np.outer(v, v))
    u = np.divide(sigma, q, out=np.zeros_like(q), where=q > 0)
    np.fill_diagonal(u, np.where(v > 0, 1.0, 0.0))
    u = np.clip(u, -1.0, 1.0)
    E_dot = (np.pi - np.arccos(u)) / np.pi
    return sigma, q * (u * E_dot + np.sqrt(1 - u**2) / np.pi), E_dot


def dense_kernel(
    S: np.ndarray, X: np.ndarray, depth: int, *, kind: str = "", alpha: float = 0.0, published: bool = False
) -> np.ndarray:
    """The recursion as the formulas read, keeping every layer's term apart."""
    XX = X @ X.T
    sigma = S @ XX @ S.T
    if kind == "alpha":
        sigma = (1 - alpha) ** 2 * sigma + alpha * (1 - alpha) * (S @ XX + XX @ S.T) + alpha**2 * XX
    skip, terms = sigma, []
    for level in range(depth):
        sigma, E, E_dot = expectations(sigma, published=published)
        skip = sigma if level == 0 else skip
        factor = (1 - alpha) ** 2 if kind == "alpha" and not published else 1.0
        old = [(t.astype(np.float32) if published else t) for t in terms]
        terms = [factor * (S @ (t * E_dot) @ S.T) for t in [*old, sigma]]
        sigma = S @ E @ S.T
        if kind == "pc":
            sigma = sigma + skip
        elif kind == "alpha":
            sigma = (1 - alpha) ** 2 * sigma + alpha**2 * XX
    return np.asarray(sum(terms) + sigma)


def row(graph: Graph) -> np.ndarray:
    B = graph.adjacency.toarray() + np.eye(graph.n_nodes)
    return np.asarray(B / B.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("variant", ["exact", "published"])
@pytest.mark.parametrize("sparse", [False, True])
def test_gcn_and_its_skips_equal_the_dense_recursion(
    random_graph: Callable[..., Graph], depth: int, variant: Any, sparse: bool
) -> None:
    graph = random_graph(12, 5, seed=depth, sparse=sparse)
    S = row(graph)
    X = graph.features.toarray() if isinstance(graph.features, sp.csr_array) else graph.features
    published = variant == "published"
    tolerance = 1e-6 if published and depth > 2 else TOLERANCE
    for model, kind in (
        (GCN(depth=depth, variant=variant), ""),
        (GCNSkipPC(depth=depth, variant=variant), "pc"),
        (GCNSkipAlpha(depth=depth, skip_alpha=0.3, variant=variant), "alpha"),
    ):
        alpha = 0.3 if kind == "alpha" else 0.0
        K = dense_kernel(S, X, depth, kind=kind, alpha=alpha, published=published)
        np.testing.assert_allclose(model.kernel(graph), K, rtol=tolerance, atol=tolerance * np.abs(K).max())


@every_model
@pytest.mark.parametrize("sparse", [False, True])
def test_the_kernel_is_symmetric_and_positive_semidefinite(
    random_graph: Callable[..., Graph], model: Model, sparse: bool
) -> None:
    K = model.kernel(random_graph(20, 5, sparse=sparse))
    assert K.dtype == np.float64
    assert (K == K.T).all()
    assert np.linalg.eigvalsh(K).min() > -TOLERANCE * np.abs(K).max()


@every_model
@pytest.mark.parametrize("sparse", [False, True])
def test_blocks_are_entries_of_the_full_kernel(random_graph: Callable[..., Graph], model: Model, sparse: bool) -> None:
    graph = random_graph(30, 5, density=0.08, sparse=sparse)
    labeled, test = np.array([7, 2, 11, 1]), np.array([29, 3, 0, 17, 2, 28])
    K = model.kernel(graph)
    K_train, K_test = model.kernel_blocks(graph, labeled, test)
    scale = np.abs(K).max()
    assert (K_train == K_train.T).all()
    np.testing.assert_allclose(K_train, K[np.ix_(labeled, labeled)], atol=TOLERANCE * scale, rtol=0)
    np.testing.assert_allclose(K_test, K[np.ix_(test, labeled)], atol=TOLERANCE * scale, rtol=0)


@every_model
def test_the_inductive_kernel_is_that_of_the_two_graphs_side_by_side(
    random_graph: Callable[..., Graph], model: Model
) -> None:
    """Networks share weights, not nodes, so two graphs may as well be two components of one."""
    graph = random_graph(16, 5, density=0.2)
    labeled, test = np.array([7, 2, 11]), np.array([3, 0, 13])
    kept = np.setdiff1d(np.arange(16), test)
    A, X = graph.adjacency.toarray(), np.asarray(graph.features)
    union = SimpleNamespace(
        adjacency=sp.csr_array(sp.block_diag([A, A[np.ix_(kept, kept)]])), features=np.concatenate([X, X[kept]])
    )
    own = 16 + np.searchsorted(kept, labeled)
    K = model.kernel(union)
    K_train, K_test = model.kernel_blocks(graph, labeled, test, inductive=True)
    scale = np.abs(K).max()
    np.testing.assert_allclose(K_train, K[np.ix_(own, own)], atol=TOLERANCE * scale, rtol=0)
    np.testing.assert_allclose(K_test, K[np.ix_(test, own)], atol=TOLERANCE * scale, rtol=0)


@every_model
def test_small_chunks_change_nothing(
    random_graph: Callable[..., Graph], model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = random_graph(20, 5, sparse=True)
    labeled, test = np.arange(5), np.arange(5, 20)
    before = model.kernel_blocks(graph, labeled, test)
    for name in ("CACHE_ENTRIES", "MLP_ENTRIES", "PAIR_ENTRIES", "STREAM_ENTRIES"):
        monkeypatch.setattr(chunks, name, 8)
    after = model.kernel_blocks(graph, labeled, test)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_allclose(a, b, atol=TOLERANCE * np.abs(a).max(), rtol=0)


def test_appnp_converges_to_ppnp_and_is_the_mlp_at_alpha_one(random_graph: Callable[..., Graph]) -> None:
    graph = random_graph(15, 5)
    limit = PPNP(alpha=0.2).kernel(graph)
    near, far = (np.abs(APPNP(alpha=0.2, iterations=k).kernel(graph) - limit).max() for k in (40, 10))
    assert near < 1e-3 * far
    np.testing.assert_allclose(APPNP(alpha=0.2, iterations=None).kernel(graph), limit, rtol=1e-12)
    np.testing.assert_allclose(APPNP(alpha=1.0).kernel(graph), MLP().kernel(graph), rtol=1e-12)


def test_sgc_is_the_closed_form_and_the_linear_gcn(random_graph: Callable[..., Graph]) -> None:
    graph = random_graph(15, 5)
    F = np.linalg.matrix_power(row(graph), 3) @ np.asarray(graph.features)
    np.testing.assert_allclose(SGC(depth=2).kernel(graph), 3 * F @ F.T, atol=1e-13)
    np.testing.assert_array_equal(SGC(depth=2).kernel(graph), GCN(depth=2, activation="linear").kernel(graph))


def test_zero_skip_and_unused_edges_lead_back_to_simpler_models(random_graph: Callable[..., Graph]) -> None:
    graph = random_graph(15, 5)
    np.testing.assert_allclose(
        GCNSkipAlpha(skip_alpha=0.0, depth=2).kernel(graph), GCN(depth=2).kernel(graph), rtol=1e-12
    )
    no_edges = Graph(np.zeros((15, 15)), graph.features, graph.labels)
    np.testing.assert_allclose(GCN(edge_weight=0.0, depth=2).kernel(graph), GCN(depth=2).kernel(no_edges), rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 7), st.integers(0, 2), st.integers(0, 2**32 - 1), st.sampled_from(MODELS))
def test_degenerate_graphs_give_valid_kernels(n: int, d: int, seed: int, model: Model) -> None:
    """Duplicates, zero and missing features, isolated nodes, single nodes."""
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) < 0.5, 1).astype(float)
    d = 5 if isinstance(model, CNN) else d  # as many as its images have pixels
    graph = SimpleNamespace(adjacency=sp.csr_array(A + A.T), features=rng.integers(-1, 2, size=(n, d)).astype(float))
    K = model.kernel(graph)
    assert np.isfinite(K).all()
    assert np.linalg.eigvalsh(K).min() >= -TOLERANCE * max(1.0, np.abs(K).max())


def test_self_loops_of_the_input_are_replaced(random_graph: Callable[..., Graph]) -> None:
    graph = random_graph(10, 5)
    looped = Graph(graph.adjacency.toarray() + 3 * np.eye(10), graph.features, graph.labels)
    for model in (GCN(), GIN(), GraphSAGE(), APPNP()):
        np.testing.assert_array_equal(model.kernel(graph), model.kernel(looped))


@every_model
def test_too_little_memory_is_refused_with_the_estimate(
    random_graph: Callable[..., Graph], model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_module, "available_bytes", lambda: 100)
    with pytest.raises(WorkTooLarge, match=r"takes about .* GiB of memory, but only 0\.0 GiB are free; ask for fewer"):
        model.kernel(random_graph(20, 5))
