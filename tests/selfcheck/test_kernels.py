"""The treacherous kernels are what they are called, and nearly all of them are accepted."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from labelcert.errors import InvalidInput
from labelcert.selfcheck.cases import Case, nasty_case, random_case
from labelcert.selfcheck.nasty_kernels import DEGENERATE, TREACHEROUS


def drawn(kind: str, count: int = 60) -> list[Case]:
    return [random_case(np.random.default_rng([91, seed]), kinds=(kind,)) for seed in range(count)]


def entries(case: Case) -> np.ndarray:
    """Magnitudes of all entries off the diagonal, without zeros."""
    sizes = np.abs(case.K_train[~np.eye(case.labels.size, dtype=bool)])
    return sizes[sizes > 0]


@pytest.mark.parametrize("kind", TREACHEROUS)
def test_nearly_all_are_accepted(kind: str) -> None:
    refused = shifted = 0
    for case in drawn(kind):
        try:
            shifted += case.build().shift > 0
        except InvalidInput:
            refused += 1
    assert refused <= 3
    assert shifted <= (10 if kind == "gaussian" else 0)  # exactly semidefinite


def test_entries_around_the_tolerances_of_solvers() -> None:
    sizes = np.concatenate([entries(case) for case in drawn("tolerances")])
    assert sizes.min() > 5e-12
    assert sizes.max() < 2e-6
    for power in range(-11, -6):
        assert np.any((sizes > 10.0**power) & (sizes < 10.0 ** (power + 1)))


def test_gaussian_kernels_of_all_widths() -> None:
    typical = [float(np.median(entries(case))) if entries(case).size else 0.0 for case in drawn("gaussian")]
    assert min(typical) < 1e-15
    assert max(typical) > 1 - 1e-4
    assert sum(bool(np.any((entries(case) > 1e-11) & (entries(case) < 1e-6))) for case in drawn("gaussian")) > 15


@pytest.mark.parametrize(("kind", "most"), [("graded", 1.0), ("badly-scaled", np.inf)])
def test_scales_differ(kind: str, most: float) -> None:
    spread = [np.ptp(np.log2(np.diag(case.K_train)[np.diag(case.K_train) > 0])) for case in drawn(kind)]
    assert max(spread) > 40
    for case in drawn(kind):
        assert np.abs(case.K_train).max() <= 4 * (case.labels.size + 2) * most


def test_rows_of_1e_170_beside_ordinary_ones() -> None:
    cases = drawn("tiny-rows")
    heights = [np.abs(case.K_test).max(axis=1) for case in cases]
    assert sum(np.any((h > 0) & (h < 1e-160)) and bool(h.max() >= 1) for h in heights) > 20
    labels = [np.diag(case.K_train) for case in cases]
    assert any(np.any((d > 0) & (d < 1e-160)) and d.max() >= 1 for d in labels)


def test_near_ties_at_1e_15() -> None:
    rows = np.concatenate([case.K_test.ravel() for case in drawn("last-bits")])
    away = np.abs(rows - np.round(rows))
    assert np.any(away > 0)
    assert away.max() < 2e-15


def test_a_quarter_of_the_problems_is_treacherous() -> None:
    cases = [nasty_case(np.random.default_rng([0, k]), k, 6) for k in range(240)]
    kinds = Counter(case.kind for k, case in enumerate(cases) if k % 4 == 3)
    assert set(kinds) == set(TREACHEROUS)
    assert set(DEGENERATE) <= {case.kind for case in cases}
    chosen = [case for k, case in enumerate(cases) if k % 4 == 3]
    assert {case.loss for case in chosen} == {"hinge", "square"}
    assert {np.unique(case.labels).size for case in chosen} == {2, 3, 4, 5}
    for option in ("trusted", "costs", "allowed_flips", "allowed_targets", "group_budgets"):
        assert any(getattr(case.threat, option) is not None for case in chosen), option


@pytest.mark.parametrize("largest", [2, 3, 4])
def test_very_small_problems_can_be_drawn(largest: int) -> None:
    sizes = [nasty_case(np.random.default_rng([0, k]), k, largest).labels.size for k in range(40) if k % 20 != 9]
    assert max(sizes) <= max(3, largest)


def test_what_is_refused_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    build, asked = Case.build, []

    def grudging(case: Case) -> object:
        asked.append(case)
        if len(asked) < 3:
            raise InvalidInput("not this one")
        return build(case)

    monkeypatch.setattr(Case, "build", grudging)
    assert nasty_case(np.random.default_rng(0), 3, 6) is asked[-1]
    assert len(asked) == 3
