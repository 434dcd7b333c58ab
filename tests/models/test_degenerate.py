"""Graphs that are awkward for a kernel: nodes that look alike, hubs, features of one column."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

from labelcert.errors import InvalidInput
from labelcert.graphs import Graph
from labelcert.models import APPNP, GCN, GIN, MLP, RBF, GCNSkipAlpha, GCNSkipPC, GraphSAGE, Model, chunks, recursion

MODELS: list[Model] = [GCN(), GCN(depth=2), GIN(), GraphSAGE(), GCNSkipPC(), GCNSkipAlpha(), MLP()]
every_model = pytest.mark.parametrize("model", MODELS, ids=str)


def random_graph(features: np.ndarray, rng: np.random.Generator, *, edges: bool) -> Graph:
    n = len(features)
    A = np.triu(rng.random((n, n)) < (0.08 if edges else 0.0), 1).astype(float)
    labels = rng.integers(0, 2, n)
    labels[:2] = 0, 1
    return Graph(sp.csr_array(A + A.T), features, labels)


@every_model
@pytest.mark.parametrize("edges", [False, True])
def test_nodes_that_look_alike_do_not_make_the_kernel_indefinite(model: Model, edges: bool) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        repeated = rng.normal(size=(3, 4))[rng.integers(0, 3, 40)]
        collinear = rng.random((40, 1))
        for features in (repeated, collinear):
            graph = random_graph(features, rng, edges=edges)
            certificate = model.certify(graph, np.arange(20), np.arange(20, 40), max_flips=1)
            assert certificate.exact


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_hubs_are_summed_in_chunks(monkeypatch: pytest.MonkeyPatch, published: bool, sparse: bool) -> None:
    """And where mapped features are not kept, they are mapped again."""
    rng = np.random.default_rng(0)
    A = np.zeros((60, 60))
    A[0, 1:] = A[1:, 0] = 1.0
    A[1, 2] = A[2, 1] = 1.0
    X = sp.random_array((60, 90), density=0.05, format="csr", rng=rng) if sparse else rng.normal(size=(60, 5))
    graph = Graph(sp.csr_array(A), X, np.arange(60) % 2)
    model = GCN(depth=2, variant="published" if published else "exact")
    plain = model.kernel_blocks(graph, np.arange(5), np.arange(5, 60))
    monkeypatch.setattr(recursion, "_local_is_cheaper", lambda side: True)
    for pairs, kept in ((1 << 22, 1 << 24), (100, 0)):
        monkeypatch.setattr(chunks, "PAIR_ENTRIES", pairs)
        monkeypatch.setattr(chunks, "MAPPED_ENTRIES", kept)
        monkeypatch.setattr(chunks, "STREAM_ENTRIES", 8 * 60 * 7)
        for expected, block in zip(plain, model.kernel_blocks(graph, np.arange(5), np.arange(5, 60)), strict=True):
            np.testing.assert_allclose(block, expected, rtol=1e-7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GCN(C="1"), "C must be a positive finite number, got '1'"),  # type: ignore[arg-type]
        (lambda: APPNP(alpha=None), "alpha must lie between 0 and 1, got None"),  # type: ignore[arg-type]
        (lambda: RBF(gamma="a"), "gamma must be a positive finite number, got 'a'"),  # type: ignore[arg-type]
    ],
)
def test_options_that_are_not_numbers(make: Callable[[], Model], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()


def test_dense_features_in_sparse_clothes() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    dense = random_graph(X, rng, edges=True)
    compressed = Graph(dense.adjacency, sp.csr_array(X), dense.labels)
    np.testing.assert_allclose(GCN().kernel(compressed), GCN().kernel(dense), rtol=1e-12)
