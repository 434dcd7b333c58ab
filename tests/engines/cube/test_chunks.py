"""Two classes: how the labellings are cut into chunks."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.problems import gaussian

from labelcert import Threat, certify
from labelcert.engines.base import Question
from labelcert.engines.cube.cutting import cube_chunks, level_chunks
from labelcert.engines.cube.labellings import labellings, make_walk
from labelcert.prediction import Sign
from labelcert.problem import Problem


def question(m: int, max_flips: int | None = None, threat: Threat | None = None) -> Question:
    K, y, rows = gaussian(m, 3)
    problem = Problem.build(K, y, rows, 2.0, max_flips=max_flips, threat=threat)
    return Question.ask(Sign(problem, linear=False))


def test_every_set_is_visited_once() -> None:
    task = make_walk(question(9, max_flips=3, threat=Threat(trusted=np.arange(9) == 4)))
    stops = sum(chunk.stops for chunk in level_chunks(task))
    assert stops == 1 + 8 + 28 + 56
    full = make_walk(question(9))
    assert full.mirror
    assert sum(chunk.stops for chunk in cube_chunks(full)) == 2**8


@pytest.mark.parametrize(
    ("threat", "max_flips", "sets"),
    [
        (Threat(groups=["ann"] * 14 + ["bob"] * 14, group_budgets=2), None, 106**2),
        (Threat(costs=[1] * 10 + [1000] * 18), 10, 1024),
    ],
)
def test_inadmissible_sets_are_not_even_generated(threat: Threat, max_flips: int | None, sets: int) -> None:
    q = question(28, max_flips=max_flips, threat=threat)
    assert q.problem.adversary.count_sets(q.budget) == sets
    task = make_walk(q)._replace(mirror=False)
    assert sum(chunk.stops for chunk in level_chunks(task)) < 30 * sets
    K, y, rows = gaussian(28, 3)
    assert certify(K, y, rows, 2.0, threat=threat, max_flips=max_flips).exact


def test_labellings_are_counted_at_any_number_of_labels() -> None:
    assert labellings(make_walk(question(9, max_flips=2))) == 1 + 9 + 36
    assert labellings(make_walk(question(9))) == 2**8
    assert labellings(make_walk(question(1100, max_flips=2))) == 1 + 1100 + 1100 * 1099 / 2
    assert labellings(make_walk(question(1100))) == 2.0**1000


def test_chunks_come_in_order_of_cost() -> None:
    for q in (question(14), question(14, threat=Threat(costs=np.arange(1, 15)))):
        costs = [chunk.min_cost for chunk in cube_chunks(make_walk(q))]
        assert costs == sorted(costs)
        assert costs[0] == 0
