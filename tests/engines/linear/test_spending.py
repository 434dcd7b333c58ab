"""What a budget buys, against all sets of labels."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from labelcert.engines.linear.spending import Spending, largest, spending_work
from labelcert.problem import Threat


def random_adversary(rng, size, equal):
    groups = rng.choice(["x", "y", "z"], size).tolist()
    budgets = {g: int(rng.integers(0, 6)) for g in sorted(set(groups)) if g != "z"}
    costs = np.full(size, 2) if equal else np.r_[1, 3, rng.integers(1, 4, size - 2)]
    threat = Threat(costs=costs, groups=groups, group_budgets=budgets)
    labels = np.arange(size) % 2
    return threat.resolve(labels, np.array([0, 1]))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("equal", [False, True])
def test_against_all_sets(seed, exact, equal):
    rng = np.random.default_rng(seed)
    a = random_adversary(rng, 7, equal)
    gains = rng.integers(-3, 8, (7, 3))
    given = np.array([[Fraction(int(v), 3) for v in row] for row in gains], dtype=object) if exact else gains / 4
    budget = 9
    spending = Spending(given, a, budget)
    best = np.zeros((budget + 1, 3), dtype=object)
    for chosen in itertools.product([False, True], repeat=7):
        flips = np.flatnonzero(chosen)
        cost = int(a.costs[flips].sum())
        if a.affords(flips, budget):
            best[cost:] = np.maximum(best[cost:], given[flips].sum(axis=0) if flips.size else 0)
    np.testing.assert_array_equal(spending.by_budget().astype(float), best.astype(float))
    for node in range(3):
        total = spending.best[:, node]
        for step in np.flatnonzero(np.r_[True, total[1:] > total[:-1]]).tolist():  # the steps that buy more
            cost, flips = spending.attack(step, node)
            assert a.affords(flips, step * spending.unit)
            assert cost == a.costs[flips].sum()
            assert given[flips, node].sum() == spending.best[step, node]


def test_largest_takes_equal_values_in_order():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 5, (100, 4)).astype(float)
    for count in (0, 1, 7, 24, 60):
        order = largest(values, count)
        np.testing.assert_array_equal(order, np.argsort(-values, axis=0, kind="stable")[:count])


def test_work_grows_with_distinct_costs():
    labels = np.arange(300) % 2
    few = Threat(costs=np.arange(300) % 3 + 1).resolve(labels, np.array([0, 1]))
    many = Threat(costs=np.arange(300) + 1).resolve(labels, np.array([0, 1]))
    assert spending_work(few, 100, 1000, 1).seconds < spending_work(many, 40_000, 1000, 1).seconds
    assert spending_work(few, 100, 1000, 1).advice is None
    assert spending_work(many, 40_000, 10_000, 1).advice is not None
