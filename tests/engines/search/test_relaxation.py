"""Ranges, multipliers and proofs against training on every admissible labelling."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from labelcert import Threat, selfcheck
from labelcert.engines.search import relaxation
from labelcert.engines.search.margin_ranges import FLIPPED, KEPT, Ranges, ball_ranges, trivial_ranges
from labelcert.engines.search.relaxation import Bounds, Multipliers, narrow, proved_ranges, tighten
from labelcert.prediction import Sign
from labelcert.problem import Problem
from labelcert.selfcheck.cases import admissible, label_costs, random_case
from labelcert.svm.exact import ExactSVM
from labelcert.svm.pivoting import new_scratch, settle
from labelcert.svm.training import loose_machine, train


@dataclass(frozen=True, eq=False)
class Trained:
    """Everything that training on the admissible labellings of a small problem gives, in units of the cap."""

    case: selfcheck.Case
    problem: Problem
    sets: list[tuple[int, ...]]
    costs: list[int]
    sides: np.ndarray
    z: np.ndarray
    f: np.ndarray
    tolerance: float

    @classmethod
    def all(cls, case: selfcheck.Case) -> Trained:
        problem = case.build()
        costs = label_costs(case)
        sets = list(admissible(case, costs, problem.max_flips))
        sides = np.zeros((len(sets), problem.m), dtype=np.intp)
        for k, flips in enumerate(sets):
            sides[k, list(flips)] = FLIPPED
        labellings = np.where(sides == FLIPPED, -problem.y, problem.y)
        z = np.array([train(problem.K_train, y, problem.C) for y in labellings]) / problem.C
        f = problem.C * z @ problem.K_train
        return cls(
            case=case,
            problem=problem,
            sets=sets,
            costs=[sum(costs[i] for i in flips) for flips in sets],
            sides=sides,
            z=z,
            f=f,
            tolerance=1e-8 * (1 + problem.C * float(np.abs(problem.K_train).sum(axis=1).max())),
        )

    def change(self, k: int) -> frozenset[tuple[int, Any]]:
        """Labelling k as a set of (index, new label)."""
        zero, one = self.problem.classes.tolist()
        return frozenset((i, zero if self.problem.codes[i] == 1 else one) for i in self.sets[k])

    def within(self, budget: int) -> Iterator[int]:
        return (k for k, cost in enumerate(self.costs) if cost <= budget)

    def inside(self, ranges: Ranges, k: int) -> bool:
        """Whether labelling k lies within ranges."""
        label, side = np.arange(self.problem.m), self.sides[k]
        sign = np.where(side == FLIPPED, -self.problem.y, self.problem.y)
        a, g = sign * self.z[k], sign * self.f[k]
        eps = self.tolerance
        return bool(
            np.all(ranges.possible[label, side])
            and np.all(ranges.low[label, side] - eps <= g)
            and np.all(g <= ranges.high[label, side] + eps)
            and np.all(ranges.least[label, side] - eps <= a)
            and np.all(a <= ranges.most[label, side] + eps)
        )


def decided_rows(problem: Problem) -> tuple[list[int], np.ndarray]:
    """Nodes with a clean prediction, and their rows (m, n) times the sign of it."""
    predictor = Sign(problem, linear=False)
    nodes = np.flatnonzero(predictor.predicted >= 0)
    return nodes.tolist(), predictor.signed_rows(nodes)


def make_cases() -> list[selfcheck.Case]:
    found = []
    seed = 0
    while len(found) < 12:
        case = random_case(np.random.default_rng([41, seed]), largest=6)
        seed += 1
        if case.loss == "hinge" and 1e-3 < case.C <= 10 and case.labels.size >= 4 and not _trivial(case.threat):
            found.append(case)
    return found


def _trivial(threat: Threat) -> bool:
    return threat.trusted is not None and bool(np.all(threat.trusted))


CASES = make_cases()
IDS = [f"{k}-{case.kind}-{case.labels.size}" for k, case in enumerate(CASES)]


@pytest.fixture(scope="module", params=CASES, ids=IDS)
def trained(request: pytest.FixtureRequest) -> Trained:
    return Trained.all(request.param)


def budgets(trained: Trained) -> list[int]:
    return sorted({0, 1, 2, 3, trained.problem.max_flips} & set(range(trained.problem.max_flips + 1)))


def test_the_cases_cover_costs_groups_trusted_labels_and_singular_kernels() -> None:
    threats = [case.threat for case in CASES]
    assert any(threat.costs is not None for threat in threats)
    assert any(threat.groups is not None and threat.group_budgets is not None for threat in threats)
    assert any(threat.trusted is not None for threat in threats)
    assert any(threat.allowed_flips is not None for threat in threats)
    assert len({case.kind for case in CASES}) >= 5


def test_ranges_contain_every_labelling(trained: Trained) -> None:
    for budget in budgets(trained):
        trivial, ball = trivial_ranges(trained.problem, budget), ball_ranges(trained.problem, budget)[0]
        proved, multipliers, _ = proved_ranges(trained.problem, budget)
        assert proved.budget == budget
        assert not proved.empty
        again, _, _ = proved_ranges(trained.problem, budget, known=multipliers)
        stopped, _, _ = proved_ranges(trained.problem, budget, left_seconds=lambda: 0.0)
        for k in trained.within(budget):
            for ranges in (trivial, ball, proved, again, stopped):
                assert trained.inside(ranges, k)


def test_each_step_tightens_what_was_known_before() -> None:
    widths = []
    for case in CASES:
        problem = case.build()
        budget = min(1, problem.max_flips)
        steps = (trivial_ranges(problem, budget), ball_ranges(problem, budget)[0], proved_ranges(problem, budget)[0])
        for wide, tight in itertools.pairwise(steps):
            here = tight.possible
            assert np.all(here <= wide.possible)
            assert np.all(tight.low[here] >= wide.low[here])
            assert np.all(tight.high[here] <= wide.high[here])
        widths.append([ranges.width for ranges in steps])
    trivial, ball, proved = np.mean(widths, axis=0)
    assert proved < 0.5 * trivial
    assert proved < ball <= trivial


def test_multipliers_of_one_budget_are_valid_for_another(trained: Trained) -> None:
    least, most = min(1, trained.problem.max_flips), trained.problem.max_flips
    for known, budget in ((least, most), (most, least)):
        _, multipliers, _ = proved_ranges(trained.problem, known)
        if multipliers is None:
            continue
        ranges, _ = relaxation.propagate(trained.problem, ball_ranges(trained.problem, budget)[0], multipliers)
        assert all(trained.inside(ranges, k) for k in trained.within(budget))


def test_workers_do_not_change_the_ranges() -> None:
    problem = CASES[0].build()
    alone, _, _ = proved_ranges(problem, problem.max_flips)
    with ThreadPoolExecutor(2) as pool:
        together, _, _ = proved_ranges(problem, problem.max_flips, pool=pool)
    for name in ("low", "high", "least", "most"):
        assert np.array_equal(getattr(alone, name), getattr(together, name))


def test_nodes_that_an_attack_changes_keep_all_such_attacks(trained: Trained) -> None:
    truth = selfcheck.brute_force(trained.case)
    nodes, rows = decided_rows(trained.problem)
    for budget in budgets(trained):
        ranges, _, _ = proved_ranges(trained.problem, budget)
        for t, node in enumerate(nodes):
            successful = [k for k in trained.within(budget) if truth.hits[truth.rows[trained.change(k)], node]]
            for seconds in (60.0, 0.0):
                left, _ = narrow(trained.problem, ranges, rows[:, t], left_seconds=lambda: seconds)  # noqa: B023
                assert not (successful and left.empty)
                for k in successful:
                    assert trained.inside(left, k)


def test_most_robust_nodes_need_no_search() -> None:
    proved = robust = 0
    for case in CASES:
        problem = case.build()
        nodes, rows = decided_rows(problem)
        truth = selfcheck.brute_force(case)
        for budget in range(1, min(2, problem.max_flips) + 1):
            ranges, _, _ = proved_ranges(problem, budget)
            for t, node in enumerate(nodes):
                if truth.radius[node] > budget:
                    robust += 1
                    proved += narrow(problem, ranges, rows[:, t])[0].empty
    assert robust > 20
    assert proved > 0.7 * robust


def multipliers(
    problem: Problem, cost_z: np.ndarray, cost_f: np.ndarray, beta: np.ndarray, label: int = -1, side: int = KEPT
) -> Multipliers:
    """The definition, written out: on_z = cost_z + Qβ, on_f = cost_f − β, in units of the cap."""
    Q = problem.C * problem.K_train
    return Multipliers(
        on_z=(cost_z + Q @ beta)[:, None],
        on_f=(cost_f - beta)[:, None],
        size_z=(np.abs(cost_z) + np.abs(Q) @ np.abs(beta))[:, None],
        size_f=(np.abs(cost_f) + np.abs(beta))[:, None],
        label=np.array([label]),
        side=np.array([side]),
        end=np.array([relaxation.LOW]),
        empty=np.array([False]),
        beta=beta[:, None],
        price=np.zeros(1),
    )


def test_arbitrary_multipliers_give_valid_bounds(trained: Trained) -> None:
    rng = np.random.default_rng(7)
    problem = trained.problem
    for budget in budgets(trained):
        here = list(trained.within(budget))
        for ranges in (ball_ranges(problem, budget)[0], proved_ranges(problem, budget)[0]):
            bounds = Bounds(problem, ranges)
            for scale in (0.0, 0.01, 0.3, 10.0):
                cost_z, cost_f = rng.normal(size=(2, problem.m))
                beta = scale * rng.normal(size=problem.m)
                values = trained.z[here] @ cost_z + trained.f[here] @ cost_f
                eps = trained.tolerance * (1 + float(np.abs(beta).sum()) + float(np.abs(cost_f).sum()))
                assert bounds.evaluate(multipliers(problem, cost_z, cost_f, beta))[0] <= values.min() + eps
                label, side = int(rng.integers(problem.m)), int(rng.integers(2))
                there = trained.sides[here, label] == side
                value = bounds.evaluate(multipliers(problem, cost_z, cost_f, beta, label, side))[0]
                assert value <= values[there].min(initial=np.inf) + eps


def test_with_a_price_on_success_bounds_hold_for_successful_attacks(trained: Trained) -> None:
    rng = np.random.default_rng(8)
    problem = trained.problem
    budget = problem.max_flips
    bounds = Bounds(problem, ball_ranges(problem, budget)[0])
    here = list(trained.within(budget))
    for _ in range(10):
        cost_z, success, beta = rng.normal(size=(3, problem.m))
        nothing = np.zeros(problem.m)
        price = float(rng.exponential())
        values = trained.z[here] @ cost_z
        successful = trained.z[here] @ success <= 0
        value = bounds.evaluate(multipliers(problem, cost_z + price * success, nothing, beta))[0]
        eps = trained.tolerance * (1 + price) * (1 + float(np.abs(beta).sum()))
        assert value <= values[successful].min(initial=np.inf) + eps


def test_suggested_multipliers_are_nearly_as_good_as_they_can_be() -> None:
    """Where the budget is 0 there is one labelling, and ranges close around it."""
    for case in CASES[:6]:
        trained = Trained.all(case)
        ranges, _, _ = proved_ranges(trained.problem, 0)
        assert not ranges.possible[:, FLIPPED].any()
        clean = trained.sets.index(())
        kept = trained.problem.y * trained.f[clean]
        trivial = trivial_ranges(trained.problem, 0).high[:, KEPT]
        assert np.all(ranges.high[:, KEPT] - kept < 0.2 * (trivial - kept) + 1e-6)


def test_broken_multipliers_prove_nothing() -> None:
    problem = CASES[0].build()
    ranges = ball_ranges(problem, 1)[0]
    nothing = np.zeros(problem.m)
    for bad in (np.nan, np.inf):
        broken = multipliers(problem, np.full(problem.m, bad), nothing, nothing)
        with np.errstate(invalid="ignore"):
            assert Bounds(problem, ranges).evaluate(broken)[0] == -np.inf


def test_tighten_under_success_keeps_successful_attacks(trained: Trained) -> None:
    rng = np.random.default_rng(10)
    problem = trained.problem
    budget = problem.max_flips
    ranges, _, _ = proved_ranges(problem, budget)
    for _ in range(3):
        success = rng.normal(size=problem.m)
        left, _, _ = tighten(problem, ranges, success)
        for k in trained.within(budget):
            if trained.z[k] @ success < -trained.tolerance * np.abs(success).sum():
                assert trained.inside(left, k)


@pytest.mark.parametrize("seed", range(4))
def test_ranges_do_not_trust_an_inaccurate_training(seed: int) -> None:
    """Ill-conditioned kernels, and a few labels of tiny norm that alone can be flipped: the clean margins matter."""
    rng = np.random.default_rng([17, seed])
    m = 16
    points = rng.normal(size=(m, 2))
    K = (1 + points @ points.T) ** 6
    scale = np.ones(m)
    scale[:3] = 10.0 ** -rng.integers(7, 10)
    K = K * np.outer(scale, scale)
    y = np.where(rng.random(m) < 0.5, -1.0, 1.0)
    y[0], y[1] = 1.0, -1.0
    trusted = np.arange(m) >= 3
    problem = Problem.build((K + K.T) / 2, y, K[3:5], 100.0, threat=Threat(trusted=trusted), max_flips=2)
    exact = ExactSVM(problem.K_train, problem.C)
    hint = new_scratch(m)
    settle(loose_machine(problem.K_train, problem.C), hint, problem.y.copy())
    solution = exact.solution(problem.y, hint.state, hint.z)
    assert solution is not None
    numerators, denominator = solution
    z = [Fraction(int(v), int(denominator)) for v in numerators]
    ranges, _, _ = proved_ranges(problem, 2)
    assert not ranges.empty
    for i in range(m):
        f = sum((Fraction(k) * v for k, v in zip(problem.K_train[i].tolist(), z, strict=True)), Fraction(0))
        margin = f * int(problem.y[i])
        assert Fraction(float(ranges.low[i, 0])) <= margin <= Fraction(float(ranges.high[i, 0]))
