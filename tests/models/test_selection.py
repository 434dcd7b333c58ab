from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from labelcert.errors import InvalidInput
from labelcert.graphs import Graph
from labelcert.models import APPNP, C_GRID, GCN, Linear, select
from labelcert.models.recipe import Recipe
from labelcert.models.selection import choose

pytest.importorskip("sklearn")


def blobs(n_classes: int, per_class: int = 8) -> Graph:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(n_classes), per_class)
    X = 2.0 * np.eye(n_classes)[labels] + 0.3 * rng.normal(size=(len(labels), n_classes))
    return Graph(np.zeros((len(labels), len(labels))), X, labels)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_separable_classes_are_learned(n_classes: int) -> None:
    graph = blobs(n_classes)
    done: list[tuple[int, int]] = []
    selection = select(GCN(), graph, np.arange(graph.n_nodes), seed=0, progress=lambda i, n: done.append((i, n)))
    assert len(selection.candidates) == len(C_GRID)
    assert max(candidate.accuracy for candidate in selection.candidates) == 1.0
    assert done[-1] == (4 * len(C_GRID), 4 * len(C_GRID))
    assert [i for i, _ in done] == list(range(1, len(done) + 1))


def test_other_options_are_searched_too(random_graph: Callable[..., Graph]) -> None:
    graph = random_graph(24, 5)
    selection = select(APPNP(), graph, np.arange(24), seed=1, C=(0.1, 1.0), grid={"alpha": (0.1, 0.5), "depth": (1, 2)})
    tried = [(c.model.alpha, c.model.depth, c.model.C) for c in selection.candidates]  # type: ignore[attr-defined]
    assert tried == [(a, d, C) for a in (0.1, 0.5) for d in (1, 2) for C in (0.1, 1.0)]
    assert selection.model in [candidate.model for candidate in selection.candidates]


def test_accuracies_are_those_of_scikit_learn(random_graph: Callable[..., Graph]) -> None:
    from sklearn.model_selection import StratifiedKFold
    from sklearn.svm import LinearSVC

    graph = random_graph(40, 3, seed=5)
    nodes = np.random.default_rng(0).permutation(40)[:24]
    X, y = np.asarray(graph.features)[nodes], graph.labels[nodes]
    for candidate in select(Linear(), graph, nodes, seed=3, C=(0.01, 0.5)).candidates:
        svm = LinearSVC(C=candidate.model.C, loss="hinge", fit_intercept=False, tol=1e-8, max_iter=1_000_000)
        accuracies = [
            svm.fit(X[fit], y[fit]).score(X[validation], y[validation])
            for fit, validation in StratifiedKFold(4, shuffle=True, random_state=3).split(X, y)
        ]
        assert candidate.accuracy == pytest.approx(np.mean(accuracies))
        assert candidate.deviation == pytest.approx(np.std(accuracies))


def test_rules() -> None:
    candidates = [
        Recipe(Linear(C=0.1), accuracy=0.70, deviation=0.3),
        Recipe(Linear(C=1.0), accuracy=0.85, deviation=0.0),
        Recipe(Linear(C=2.0), accuracy=0.90, deviation=0.1),
        Recipe(Linear(C=5.0), accuracy=0.90, deviation=0.0),
    ]
    assert choose(candidates, "best").C == 2.0
    assert choose(candidates, "smallest").C == 1.0
    tie = [
        Recipe(Linear(C=1.0), accuracy=0.8, deviation=0.2),
        Recipe(Linear(C=1.0, bias=True), accuracy=0.9, deviation=0.1),
    ]
    assert choose(tie, "smallest") == Linear(C=1.0, bias=True)


def test_bad_requests_are_refused(random_graph: Callable[..., Graph], monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(24, 5)
    nodes = np.arange(24)
    with pytest.raises(InvalidInput, match="rule must be one of 'best', 'smallest', got 'largest'"):
        select(GCN(), graph, nodes, seed=0, rule="largest")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="GCN has no option 'alpha' to search; it has activation, depth"):
        select(GCN(), graph, nodes, seed=0, grid={"alpha": (0.1,)})
    with pytest.raises(InvalidInput, match="C must hold at least one value"):
        select(GCN(), graph, nodes, seed=0, C=())
    with pytest.raises(InvalidInput, match="the grid for 'depth' must hold at least one value"):
        select(GCN(), graph, nodes, seed=0, grid={"depth": ()})
    with pytest.raises(InvalidInput, match=r"folds must lie between 2 and .* \(12\), got 13"):
        select(GCN(), graph, nodes, seed=0, folds=13)
