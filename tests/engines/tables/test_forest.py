"""More than two classes: which toggled sets the tables hold."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.problems import blobs

from labelcert import Threat
from labelcert.engines.base import Question
from labelcert.engines.tables import forest as forest_module
from labelcert.engines.tables.sizes import new_forest, toggled_sets
from labelcert.engines.tables.toggled_trees import FORBIDDEN, LEAF
from labelcert.prediction import OneVsRest
from labelcert.problem import Problem
from labelcert.stopping import stopped_by

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
