from __future__ import annotations

import itertools

import numpy as np
import pytest

from labelcert.engines.partition.combining import combine, useful


@pytest.mark.parametrize("groups", [0, 1, 2])
def test_the_knapsack_is_the_best_of_all_combinations(groups: int) -> None:
    rng = np.random.default_rng(groups)
    for _ in range(10):
        tables = []
        for _ in range(3):
            states = np.unique(rng.integers(0, 3, size=(4, 1 + groups)), axis=0)
            states = np.concatenate([np.zeros((1, 1 + groups), dtype=np.int64), states])
            tables.append((states, rng.normal(size=(len(states), 2, 3))))
        spans = np.array([4, *[2] * groups])
        totals = combine(tables, spans, choices=True)
        best = np.full((5, 2, 3), np.inf)
        for rows in itertools.product(*(range(len(states)) for states, _ in tables)):
            spent = sum(states[s] for (states, _), s in zip(tables, rows, strict=True))
            if np.all(spent <= spans):
                value = sum(values[s] for (_, values), s in zip(tables, rows, strict=True))
                best[spent[0] :] = np.minimum(best[spent[0] :], value)
        found = np.minimum.accumulate(totals.by_cost(), axis=0)
        assert np.allclose(found, best)
        states = [own for own, _ in tables]
        for cost, r, t in itertools.product(range(5), range(2), range(3)):
            if np.isfinite(totals.by_cost()[cost, r, t]):
                rows = totals.rows(states, cost, r, t)
                value = sum(values[s, r, t] for (_, values), s in zip(tables, rows, strict=True))
                spent = sum(own[s] for own, s in zip(states, rows, strict=True))
                assert np.isclose(value, totals.by_cost()[cost, r, t])
                assert spent[0] == cost
                assert np.all(spent <= spans)


def test_a_budget_beyond_all_parts_together_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    tables = [(np.array([[0], [1], [3]]), rng.normal(size=(3, 2, 3))) for _ in range(3)]
    exact, more = (combine(tables, np.array([b]), choices=c).by_cost() for b, c in ((9, True), (12, False)))
    assert np.array_equal(exact, more[:10])
    assert np.all(np.isposinf(more[10:]))


def test_dominated_states_are_left_out() -> None:
    states = np.array([[0], [1], [2], [3]])
    values = np.array([1.0, 0.0, 0.5, -1.0])[:, None, None]
    assert useful(states, values) == [0, 1, 3]
