"""Kernels of snapshots: the same as those that are computed from scratch, whatever changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import labelcert
from labelcert.arrays import Int
from labelcert.graphs import Graph
from labelcert.models import APPNP, GCN, GIN, MLP, RBF, SGC, GCNSkipAlpha, GCNSkipPC, GraphSAGE, Growing, Model

MODELS: tuple[Model, ...] = (
    *(GCN(C=1.0), GCN(C=1.0, depth=2, normalization="symmetric"), SGC(C=1.0), GIN(C=1.0, depth=2), GraphSAGE(C=1.0)),
    *(GCNSkipPC(C=1.0, depth=2), GCNSkipAlpha(C=1.0, variant="published"), APPNP(C=1.0), MLP(C=1.0), RBF(C=1.0)),
)


def snapshots(rng: np.random.Generator, inductive: bool) -> list[tuple[Graph, Int]]:
    """A sparse random graph: nodes come, edges come and go, features change, and sometimes nothing does."""
    n, edges, X = 40, 45, rng.normal(size=(60, 3))
    ends = rng.integers(0, n, (edges, 2))
    found = []
    for step in range(6):
        if step % 3 == 1:
            ends = np.vstack([ends, [[n, rng.integers(4, n)], [n + 1, rng.integers(4, n)]]])
            n += 2
        elif step == 2:
            ends = ends[1:]
        elif step == 3 and not inductive:
            X = X.copy()
            X[rng.integers(4, n)] += 1.0
        A = np.zeros((n, n))
        A[ends[:, 0], ends[:, 1]] = A[ends[:, 1], ends[:, 0]] = 1.0
        np.fill_diagonal(A, 0.0)
        test = np.arange(40 if inductive and n > 40 else 20, n)
        found.append((Graph(A, X[:n], np.arange(n) % 2), rng.permutation(test) if test.size else np.array([n - 1])))
    return found


@pytest.mark.parametrize("inductive", [False, True])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_snapshots_agree_with_kernels_from_scratch(model: Model, inductive: bool) -> None:
    kept = 0
    for seed in range(4):
        growing, labeled = Growing(model), np.arange(4)
        for graph, test in snapshots(np.random.default_rng(seed), inductive):
            blocks = growing.kernel_blocks(graph, labeled, test, inductive=inductive)
            scratch = model.kernel_blocks(graph, labeled, test, inductive=inductive)
            for ours, own in zip(blocks, scratch, strict=True):
                np.testing.assert_allclose(ours, own, rtol=1e-12, atol=1e-12)
            assert growing.computed + growing.kept == 4 * (4 + test.size)
            assert set(growing.fresh.tolist()) <= set(test.tolist())
            kept += growing.kept
    assert kept > 0


def test_nodes_that_no_change_reaches_keep_their_radii() -> None:
    """A ring, and a chord far from the labels, which one node more on each side can see."""
    n, rng = 40, np.random.default_rng(0)
    A = np.roll(np.eye(n), 1, axis=1)
    A += A.T
    labels = np.arange(n) // 20
    graph = Graph(A, rng.normal(size=(n, 2)) + labels[:, None], labels)
    labeled, test = np.r_[0:4, 36:40], np.arange(8, 32)
    growing = Growing(GCN(C=0.01))
    before = growing.certify(graph, labeled, test, max_flips=3)
    assert growing.fresh.tolist() == test.tolist()
    growing.certify(graph, labeled, test, max_flips=3)
    assert growing.fresh.size == growing.computed == 0
    A[15, 25] = A[25, 15] = 1.0
    after = growing.certify(replace(graph, adjacency=A), labeled, test, max_flips=3)
    assert growing.fresh.tolist() == [14, 15, 16, 24, 25, 26]
    same = ~np.isin(test, growing.fresh)
    assert before.radius_lower[same].tolist() == after.radius_lower[same].tolist()


def test_other_labelled_nodes_share_nothing() -> None:
    graph = labelcert.graphs.karate()
    growing = Growing(SGC(C=1.0))
    growing.kernel_blocks(graph, [0, 33], [5, 6])
    growing.kernel_blocks(graph, [1, 33], [5, 6])
    assert growing.kept == 0
