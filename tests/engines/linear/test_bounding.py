"""Bounds on the curve by multipliers: never below the truth, and well below the number of nodes within reach."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from labelcert.engines.base import Attacks, Question, within_reach
from labelcert.engines.control import Control
from labelcert.engines.linear import bounding
from labelcert.engines.linear.bounding import bound_curve
from labelcert.engines.linear.radii import linear_radii
from labelcert.prediction import predictor_for
from labelcert.problem import Problem, Relabelling, Threat


def question_of(m, n, K, budget, seed, threat=None):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(K, 3)) * 2
    codes, truth = np.r_[np.arange(K), rng.integers(0, K, m - K)], rng.integers(0, K, n)
    X, T = centres[codes] + rng.normal(size=(m, 3)), centres[truth] + rng.normal(size=(n, 3))
    H = np.exp(-0.3 * ((T[:, None] - X[None]) ** 2).sum(axis=2))
    problem = Problem.linear(codes, threat=threat, max_flips=budget).with_rows(H)
    return Question.ask(predictor_for(problem, linear=True))


def bounded(question, control):
    radii = linear_radii(question, Control(workers=1))
    attacks, upper = Attacks(question), within_reach(radii.lower, question.budget)
    reach = upper.copy()
    bound_curve(question, radii, attacks, upper, control)
    return attacks, upper, reach


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("cells", [0, bounding.TABLE_CELLS])
@pytest.mark.parametrize("seed", range(4))
def test_around_the_truth(K, cells, seed, monkeypatch):
    monkeypatch.setattr(bounding, "TABLE_CELLS", cells)
    costs = None if seed % 2 else np.arange(9) % 2 + 1
    groups = {"groups": ["a", "b", "c"] * 3, "group_budgets": {"a": 1, "b": 2}} if seed >= 2 else {}
    question = question_of(9, 25, K, 3, seed, Threat(costs=costs, trusted=np.arange(9) == 8, **groups))
    attacks, upper, _ = bounded(question, Control(workers=1))
    a = question.problem.adversary
    truth = np.zeros(4, dtype=int)
    moves = list(zip(*np.nonzero(a.targets), strict=True))
    for size in range(4):
        for chosen in itertools.combinations(moves, size):
            change = Relabelling.of({int(i): int(k) for i, k in chosen})
            if len(change) == size and a.admits(change, 3):
                cost = a.cost(change)
                truth[cost] = max(truth[cost], int(question.changed(change)[0].sum()))
    truth = np.maximum.accumulate(truth)
    assert np.all(attacks.curve <= truth)
    assert np.all(truth <= upper)


@pytest.mark.parametrize("K", [2, 3])
def test_narrower_than_reach(K):
    question = question_of(80, 120, K, 12, 0)
    attacks, upper, reach = bounded(question, Control(workers=1))
    assert np.all(attacks.curve <= upper)
    assert np.all(upper <= reach)
    assert np.all(np.diff(upper) >= 0)
    assert (upper - attacks.curve).sum() < 0.6 * (reach - attacks.curve).sum()


def test_out_of_time_nothing_is_claimed():
    question = question_of(20, 20, 2, 5, 0)
    control = Control(workers=1)
    control.flag[0] = 1
    attacks, upper, reach = bounded(question, control)
    np.testing.assert_array_equal(upper, reach)
    assert not attacks.curve.any()


def test_groups_limit_attacks():
    """All labels in one group that may not be touched: nothing changes, and that is proved."""
    threat = Threat(groups=["all"] * 20, group_budgets=0)
    question = question_of(20, 20, 2, 5, 0, threat)
    _, upper, _ = bounded(question, Control(workers=1))
    np.testing.assert_array_equal(upper, 0)
