"""More than two classes: which toggled sets the tables hold."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.problems import blobs

from labelcert import Threat
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.engines.planning import plan
from labelcert.engines.tables import forest as forest_module
from labelcert.engines.tables.levels import seconds_per_stop
from labelcert.engines.tables.sizes import new_forest, toggled_sets
from labelcert.engines.tables.toggled_trees import FORBIDDEN, LEAF
from labelcert.losses import retraining
from labelcert.prediction import OneVsRest
from labelcert.problem import Problem
from labelcert.stopping import Stopped, stopped_by

THREATS = [
    Threat(),
    Threat(costs=np.arange(12) % 3 + 1),
    Threat(groups=[i % 3 for i in range(12)], group_budgets=1),
    Threat(costs=np.arange(12) % 2 + 1, groups=[i % 3 for i in range(12)], group_budgets={0: 2, 2: 1}),
    Threat(trusted=np.arange(12) < 3, allowed_flips={0: [1, 2], 1: [0], 3: [0, 1, 2]}),
    Threat(allowed_targets=[[3], None, [0, 1], []] * 3),
]


@pytest.mark.parametrize("threat", THREATS, ids=repr)
def test_every_toggled_set_is_in_the_forest_once(threat: Threat) -> None:
    problem = Problem.build(*blobs(12, 3), 5.0, threat=threat, max_flips=4)
    grown = new_forest(Question.ask(OneVsRest(problem, linear=False)), np.inf, 12)
    assert grown.complete
    allowed = np.flatnonzero(grown.tree.cost != FORBIDDEN)
    sets = [(c, tuple(labels)) for c, labels in (grown.toggles(int(s)) for s in allowed)]
    assert len(sets) == len(set(sets)) == toggled_sets(problem)[-1]
    for c in range(4):
        adversary = problem.adversary.toggling(problem.codes, c)
        assert sum(owner == c for owner, _ in sets) == adversary.count_sets(4)
    for s in np.flatnonzero(grown.tree.base != LEAF):
        child = int(grown.tree.base[s] + grown.tree.last[s] + 1)
        assert grown.tree.parent[child] == s


@pytest.mark.parametrize("after", [0, 1, 3, 5])
def test_a_forest_that_is_stopped_holds_whole_levels(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forest_module, "PARENTS_AT_ONCE", 2)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 3))
    problem = Problem.build(X @ X.T, list("abcabcab"), X[:3] @ X.T, C=1.0, max_flips=3)
    question = Question.ask(OneVsRest(problem, linear=False))
    asked = iter(range(1000))
    whole = new_forest(question, np.inf, 3)
    with stopped_by(lambda: next(asked) >= after):
        grown = new_forest(question, np.inf, 3)
    assert not grown.complete
    assert not grown.full
    assert grown.levels < 3
    assert grown.starts == whole.starts[: grown.levels + 2]
    for part, all_ in zip(grown.tree[1:], whole.tree[1:], strict=True):
        assert np.array_equal(part, all_[: grown.starts[-1]])


def three_classes(loss: str, *, intercept: bool = False) -> Question:
    """A few more labels than walks share tableaus for."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(64, 6))
    problem = Problem.build(
        X @ X.T, rng.integers(3, size=64), X[:5] @ X.T, C=0.3, max_flips=2, loss=loss, intercept=intercept
    )
    return Question.ask(OneVsRest(problem, linear=False))


@pytest.mark.parametrize(
    ("loss", "intercept"), [("hinge", False), ("squared_hinge", False), ("logistic", False), ("logistic", True)]
)
def test_with_many_labels_walks_start_from_what_lapack_finds(
    loss: str, intercept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    question, flag = three_classes(loss, intercept=intercept), np.zeros(1, dtype=np.int8)
    usual = new_forest(question, np.inf, 1).task
    for module in (forest_module, retraining):
        monkeypatch.setattr(module, "LARGEST_COLD", 10)
    forest = new_forest(question, np.inf, 1)
    assert forest.fill.many
    assert not usual.fill.many
    [chunk] = forest.chunks(1)
    worker = forest.task.new_worker()
    expected, _ = usual.walk(chunk, usual.new_worker(), flag)
    for _ in range(2):  # all classes, and then again from the last one's solution
        found, finished = forest.task.walk(chunk, worker, flag)
        assert finished
        assert np.isfinite(found.tau).all()
        apart = np.abs(found.P - expected.P).max(axis=1)
        assert (apart <= 1.01 * (found.tau + expected.tau)).all()


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_a_walk_that_is_stopped_trains_on_no_clean_labels(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (forest_module, retraining):
        monkeypatch.setattr(module, "LARGEST_COLD", 10)
    forest = new_forest(three_classes(loss), np.inf, 1)
    [chunk] = forest.chunks(1)
    found, finished = forest.task.walk(chunk, forest.task.new_worker(), np.ones(1, dtype=np.int8))
    assert not finished
    assert found.counters.tolist() == [0, 0]
    with stopped_by(lambda: True), pytest.raises(Stopped):
        seconds_per_stop(forest)


def test_a_run_that_ends_while_it_is_planned_keeps_clean_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    def over(*known: object) -> None:
        raise Stopped

    question = three_classes("logistic")
    monkeypatch.setattr(forest_module, "LARGEST_COLD", 10)
    monkeypatch.setattr(forest_module, "begin", over)
    planned = plan("enumerate", question.problem, Control(workers=1))
    assert planned.stages == ()
    assert np.array_equal(planned.question.predicted, question.predicted)
