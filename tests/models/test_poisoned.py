"""Kernels of graphs whose features are poisoned lie within their bounds, for all architectures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from labelcert import (
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
    Graph,
    GraphSAGE,
    InvalidInput,
    Linear,
)
from labelcert.models.poisoned import NORMS, FeatureBall, kernel_bounds

MODELS = [
    *(GCN(depth=d, normalization=n) for d in (1, 3) for n in ("row", "symmetric")),
    GCN(activation="linear", edge_weight=0.5),
    SGC(depth=2, normalization="symmetric"),
    SGC(),
    GraphSAGE(depth=2),
    GIN(depth=1),
    GIN(depth=2),
    GCNSkipPC(depth=2),
    GCNSkipAlpha(depth=2, skip_alpha=0.2),
    APPNP(depth=1, iterations=3),
    APPNP(depth=2, normalization="row"),
    PPNP(),
    MLP(depth=2),
    MLP(activation="linear"),
    Linear(bias=True),
]


def drawn_graph(rng: np.random.Generator, *, binary: bool) -> Graph:
    n, d = 11, 5
    A = rng.random((n, n)) < 0.25
    A = np.triu(A, 1) | np.triu(A, 1).T
    X = (rng.random((n, d)) < 0.4).astype(float) if binary else rng.normal(size=(n, d))
    X[2] = X[1]  # points that coincide
    X[3] = 0.0
    return Graph(A.astype(float), X, np.arange(n) % 2)


def addition(rng: np.random.Generator, ball: FeatureBall, X: Any) -> Any:
    """Something of the ball for one node, at its border."""
    d = X.size
    if ball.norm == "inf":
        return ball.radius * rng.choice([-1.0, 1.0], d)
    if ball.norm == "2":
        v = rng.normal(size=d)
        return ball.radius * v / np.linalg.norm(v)
    if ball.norm == "1":
        return ball.radius * rng.choice([-1.0, 1.0]) * np.eye(d)[rng.integers(d)]
    moved = np.zeros(d)
    entries = rng.permutation(d)[: int(ball.radius)]
    moved[entries] = 1.0 - 2.0 * X[entries]
    return moved


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("norm", NORMS)
def test_drawn_features_stay_within_bounds(model: Any, norm: str) -> None:
    rng = np.random.default_rng(len(repr(model)))
    for inductive in (False, True):
        graph = drawn_graph(rng, binary=norm == "0")
        labeled, test = np.array([4, 0, 1, 2, 3]), np.array([9, 7, 8])
        poisoned = np.isin(np.arange(11), rng.permutation(11)[:4])
        ball = FeatureBall(2 if norm == "0" else float(rng.choice([0.01, 0.3, 1.5])), norm)
        bounds = kernel_bounds(model, graph, labeled, test, poisoned=poisoned, ball=ball, inductive=inductive)
        clean = model.kernel_blocks(graph, labeled, test, inductive=inductive)
        for draw in range(6):
            X = np.array(graph.features)
            for i in np.flatnonzero(poisoned) if draw else ():
                X[i] += addition(rng, ball, X[i])
            blocks = model.kernel_blocks(Graph(graph.adjacency, X, graph.labels), labeled, test, inductive=inductive)
            for block, bound, own in zip(blocks, bounds, clean, strict=True):
                assert np.all(bound.low <= block)
                assert np.all(block <= bound.high)
                if not poisoned.any():
                    assert np.array_equal(block, own)


def test_without_poison_bounds_are_as_narrow_as_rounding() -> None:
    rng = np.random.default_rng(0)
    graph = drawn_graph(rng, binary=False)
    nobody = np.zeros(11, dtype=bool)
    for model in MODELS:
        bounds = kernel_bounds(model, graph, [0, 4, 5], [7, 8], poisoned=nobody, ball=FeatureBall(1.0))
        for block, bound in zip(model.kernel_blocks(graph, [0, 4, 5], [7, 8]), bounds, strict=True):
            assert np.all(bound.high - bound.low <= 2e-6 * (1 + np.abs(block)))


def test_sparse_features_have_the_same_bounds() -> None:
    rng = np.random.default_rng(1)
    X = (rng.random((11, 40)) < 0.05).astype(float)
    A = np.diag(np.ones(10), 1) + np.diag(np.ones(10), -1)
    poisoned = np.arange(11) < 3
    for norm in NORMS:
        found = [
            kernel_bounds(
                GCN(),
                Graph(A, kind(X), np.arange(11) % 2),
                [0, 1, 5],
                [7],
                poisoned=poisoned,
                ball=FeatureBall(1, norm),
            )
            for kind in (np.asarray, sp.csr_array)
        ]
        for one, other in zip(*found, strict=True):
            assert np.allclose(one.low, other.low)
            assert np.allclose(one.high, other.high)


def test_what_has_no_bounds_is_refused() -> None:
    graph = drawn_graph(np.random.default_rng(0), binary=False)
    for model in (RBF(), GCN(variant="published"), GCN(activation="erf"), CNN()):
        with pytest.raises(InvalidInput, match="variant='exact'"):
            kernel_bounds(model, graph, [0], [1], poisoned=np.ones(11, dtype=bool), ball=FeatureBall(0.1))
    with pytest.raises(InvalidInput, match="norm must be one of"):
        FeatureBall(0.1, "3")
    for radius, norm in ((-1, "2"), (float("nan"), "2"), (0.5, "0")):
        with pytest.raises(InvalidInput, match="radius must be"):
            FeatureBall(radius, norm)
