"""Attacks that grow by a merit: the best move that is still paid for, until there is none."""

from __future__ import annotations

import itertools

import numpy as np

from labelcert import Threat
from labelcert.engines.stepwise import by_merit, fixed, grow
from labelcert.problem import NOTHING, Problem, Relabelling


def problem(**threat: object) -> Problem:
    return Problem.build(np.eye(4), ["a", "b", "c", "a"], np.eye(4), 1.0, threat=Threat(**threat))  # type: ignore[arg-type]


def test_the_best_moves_come_first_and_expensive_ones_are_passed_over() -> None:
    a = problem(costs=[1, 3, 1, 1]).adversary
    merit = np.arange(12.0).reshape(4, 3)
    merit[3] = -np.inf
    steps = list(grow(by_merit(a, 2, fixed(merit))))
    assert [change.moves for change in steps] == [{2: 1}, {2: 1, 0: 2}]


def test_budgets_of_groups_count() -> None:
    a = problem(groups=["x", "x", None, None], group_budgets={"x": 1}).adversary
    *_, last = grow(by_merit(a, 4, fixed(np.ones((4, 3)))))
    assert last.positions.tolist() == [0, 2, 3]


def test_it_goes_on_from_where_it_starts_and_asks_again_after_each_step() -> None:
    a = problem().adversary
    seen = []

    def merit(change: Relabelling, may: np.ndarray) -> np.ndarray:
        seen.append(len(change))
        return np.where(may, -np.arange(4.0)[:, None], np.nan)

    start = NOTHING.plus(1, 0)
    steps = list(itertools.islice(grow(by_merit(a, 4, merit), start), 2))
    assert [change.positions.tolist() for change in steps] == [[0, 1], [0, 1, 2]]
    assert seen == [1, 2]


def test_nothing_to_do_is_no_step() -> None:
    a = problem(trusted=[True] * 4).adversary
    assert list(grow(by_merit(a, 4, fixed(np.ones((0, 3)))))) == []
    assert list(grow(lambda change: None)) == []
