from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.helpers.problems import gaussian
from tests.helpers.programs import violation

from labelcert import Threat
from labelcert.engines.search.mixed_integer import INF, Builder, add_budget
from labelcert.paper.milp.theorems import add_collective
from labelcert.problem import Adversary, Problem


def adversary(threat: Threat, m: int = 6) -> Adversary:
    K, y, rows = gaussian(m, 1)
    return Problem.build(K, y, rows, 1.0, threat=threat).adversary


def test_blocks_land_where_they_belong() -> None:
    b = Builder()
    x = b.variables("x", (2, 2), -1.0, [[1.0, 2.0], [3.0, 4.0]])
    y = b.variables("y", 3, integer=True)
    b.constrain("sparse", [(x[0], 2.0), (y[:2], np.array([0.0, -1.0]))], lower=-1.0)
    block = np.array([[1.0, 0.0, 3.0], [0.0, 5.0, 0.0]])
    b.constrain("dense", [(y, block), (x[1, :1], np.ones((2, 1)))], 0.0, [1.0, 2.0])
    b.constrain("one column", [(x[:, 1], 1.0), (x[:, 1], 2.0)], upper=7.0)
    b.minimise(x, np.arange(4.0))
    b.minimise(x[0], [1.0, 1.0])
    model = b.build()
    assert model.size == (6, 7)
    assert x.tolist() == [[0, 1], [2, 3]]
    assert model.columns["y"].tolist() == [4, 5, 6]
    assert {name: rows.tolist() for name, rows in model.rows.items()} == {
        "sparse": [0, 1],
        "dense": [2, 3],
        "one column": [4, 5],
    }
    expected = np.zeros((6, 7))
    expected[0, 0] = expected[1, 1] = 2.0
    expected[1, 5] = -1.0
    expected[2, [4, 6, 2]] = [1.0, 3.0, 1.0]
    expected[3, [5, 2]] = [5.0, 1.0]
    expected[4, 1] = expected[5, 3] = 3.0
    assert np.array_equal(model.matrix.toarray(), expected)
    assert model.row_lower.tolist() == [-1.0, -1.0, 0.0, 0.0, -INF, -INF]
    assert model.row_upper.tolist() == [INF, INF, 1.0, 2.0, 7.0, 7.0]
    assert model.lower.tolist() == [-1.0] * 4 + [0.0] * 3
    assert model.upper.tolist() == [1.0, 2.0, 3.0, 4.0] + [INF] * 3
    assert model.integer.tolist() == [False] * 4 + [True] * 3
    assert model.cost.tolist() == [1.0, 2.0, 2.0, 3.0, 0.0, 0.0, 0.0]


def test_a_program_without_rows() -> None:
    b = Builder()
    b.variables("x", 2, 0.0, 1.0)
    assert b.build().size == (0, 2)


def test_large_numbers_are_beyond_a_solvers_tolerance() -> None:
    """float64 resolves a row up to its largest sum times the unit roundoff."""
    for size, fits in ((1.0, True), (1e5, True), (1e8, False)):
        b = Builder()
        x = b.variables("x", 2, 0.0, 1.0)
        b.constrain("sum", [(x, np.full((1, 2), size))], upper=1.0)
        assert b.build().resolvable(1e-9) == fits


@pytest.mark.parametrize(
    "threat",
    [
        Threat(),
        Threat(costs=[1, 2, 3, 1, 2, 3]),
        Threat(groups=["a", "a", "b", "b", None, None], group_budgets=1),
        Threat(costs=[2, 1, 1, 2, 1, 1], groups=["a", "a", "a", "b", "b", None], group_budgets={"a": 2}),
        Threat(trusted=np.array([True, False, False, False, True, False]), costs=[1, 1, 2, 2, 3, 3]),
        Threat(trusted=np.ones(6, dtype=bool)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("width", [1, 3])
def test_budget_rows_say_what_the_adversary_can_pay(threat: Threat, width: int) -> None:
    a = adversary(threat)
    for budget in (0, 1, 2, 4):
        b = Builder()
        flips = b.variables("flips", (a.labels.size, width), 0.0, 1.0, integer=True)
        add_budget(b, flips, a, budget)
        model = b.build()
        for chosen in itertools.product([False, True], repeat=a.labels.size):
            mask = np.array(chosen, dtype=bool)
            x = np.zeros((a.labels.size, width))
            x[mask, -1] = 1.0
            spent = [a.costs[mask & (a.groups == g)].sum() for g in range(a.group_caps.size)]
            fits = a.costs[mask].sum() <= budget and all(s <= cap for s, cap in zip(spent, a.group_caps, strict=True))
            assert (violation(model, x.ravel()) <= 0.0) == fits


@pytest.mark.parametrize("both", [False, True])
def test_collective_binaries_are_free_only_at_scores_of_at_most_the_slack(both: bool) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3, 4))
    reach = np.abs(rows).sum(axis=0)
    b = Builder()
    z = b.variables("z", 3, -1.0, 1.0)
    changed = add_collective(b, z, rows, reach, 1e-3, lowest=-reach if both else None)
    model = b.build()
    assert model.cost[changed].tolist() == [-1.0] * 4
    for _ in range(200):
        point = rng.uniform(-1, 1, 3)
        for t, score in enumerate(rows.T @ point):
            for value in (0.0, 1.0):
                x = np.concatenate([point, np.zeros(4)])
                x[changed] = rows.T @ point <= 0
                x[changed[t]] = value
                allowed = score <= 1e-3 if value else (score >= -1e-3 or not both)
                assert (violation(model, x) <= 1e-12) == allowed
