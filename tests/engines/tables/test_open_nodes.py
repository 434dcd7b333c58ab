"""Duals of toggled sets: scores by matrix products, and nodes that smaller budgets left open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.engines.tables.test_forest import THREATS
from tests.helpers.problems import blobs

from labelcert import Threat, certify
from labelcert.engines.base import Findings, Question
from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.tables import forest as forests
from labelcert.engines.tables import open_nodes
from labelcert.engines.tables.forest import with_scores
from labelcert.engines.tables.open_nodes import OpenNodes
from labelcert.engines.tables.sizes import new_forest
from labelcert.problem import Problem


def asked(problem: Problem) -> Question:
    return Question.ask(Enumerate().predictor(problem))


@pytest.mark.parametrize("threat", THREATS, ids=repr)
@pytest.mark.parametrize("loss", ["hinge", "logistic_intercept"])
@pytest.mark.parametrize("seed", range(3))
def test_open_nodes_have_the_radii_of_enumeration(
    seed: int, loss: str, threat: Threat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_nodes, "BLOCK_NODES", 4)
    K, labels, rows = blobs(12, 10, classes=4, seed=seed)
    question = asked(
        Problem.build(
            K, labels, rows, 2.0, threat=threat, max_flips=2 if loss == "logistic_intercept" else 3, loss=loss
        )
    )
    exact = Enumerate().run(question, Control(workers=1), Findings.nothing(question))
    nothing = Findings.nothing(question)
    found = OpenNodes().run(question, Control(workers=1), nothing)
    assert np.array_equal(found.radius_lower, exact.radius_lower)
    assert np.array_equal(found.radius_upper, exact.radius_upper)
    for t, change in enumerate(found.radius_changes):
        assert change is None or question.changed(change, np.array([t]))[0][0]
    settled = np.arange(question.nodes.size) % 2 == 0
    known = replace(nothing, radius_upper=np.where(settled, 1, nothing.radius_upper))
    some = OpenNodes().run(question, Control(workers=1), known)
    assert np.array_equal(some.radius_lower[~settled], exact.radius_lower[~settled])
    assert np.array_equal(some.radius_lower[settled], nothing.radius_lower[settled])


def test_with_no_memory_or_time_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    K, labels, rows = blobs(12, 10, classes=3)
    question = asked(Problem.build(K, labels, rows, 2.0, max_flips=3))
    nothing = Findings.nothing(question)
    monkeypatch.setattr(open_nodes, "memory_for_tables", lambda: 1.0)
    found = OpenNodes().run(question, Control(workers=1), nothing)
    assert found.statistics["trainings"] == 0
    assert np.array_equal(found.radius_lower, nothing.radius_lower)
    monkeypatch.undo()
    control = Control(workers=1, time_limit=1e-9)
    control.start_clock()
    assert np.array_equal(OpenNodes().run(question, control, nothing).radius_lower, nothing.radius_lower)


@pytest.mark.parametrize("loss", ["hinge", "logistic_intercept"])
def test_products_and_sums_agree(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    K, labels, rows = blobs(66, 40, classes=3)
    found = certify(K, labels, rows, 5.0, max_flips=1, engine="enumerate", loss=loss)
    assert found.exact
    monkeypatch.setattr(forests, "MANY_NODES", 10**9)
    other = certify(K, labels, rows, 5.0, max_flips=1, engine="enumerate", loss=loss)
    assert np.array_equal(found.radius_lower, other.radius_lower)
    assert np.array_equal(found.collective_lower, other.collective_lower)
    assert np.array_equal(found.radius_upper, other.radius_upper)


def test_error_bounds_of_products_hold() -> None:
    rng = np.random.default_rng(0)
    for m, n in ((3, 1), (70, 40), (300, 5)):
        exact = rng.normal(size=(600, m)) * (rng.random((600, m)) < 0.3)
        rows = rng.normal(size=(n, m))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        P, tau = with_scores(exact.astype(np.float32), np.zeros(600, dtype=np.float32), rows.T)
        assert np.all(np.abs(P - exact @ rows.T) <= tau[:, None])
        assert tau.max() < 1e-5 * np.sqrt(m)
    nothing = np.zeros((1, 4), dtype=np.float32)
    assert with_scores(nothing, np.full(1, np.inf, dtype=np.float32), np.ones((4, 2)))[1][0] == np.inf


def test_a_chunk_that_is_stopped_has_the_shape_of_others() -> None:
    """Duals become scores where a chunk is finished; tables take up what was stopped, too."""
    problem = Problem.build(*blobs(66, 40, classes=3), 5.0, max_flips=1)
    forest = new_forest(asked(problem), np.inf, 1)
    assert forest.task.scores
    control = Control(workers=1)
    control.flag[0] = 1
    [chunk] = forest.chunks(1)
    found, finished = forest.task.walk(chunk, forest.task.new_worker(), control.flag)
    assert not finished
    assert found.P.shape == (chunk.stops, 40)
    assert np.all(np.isinf(found.tau))
