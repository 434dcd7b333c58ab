"""Every solver that is installed takes the same programs and gives the same answers."""

from __future__ import annotations

import itertools
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.helpers.problems import gaussian
from tests.helpers.programs import violation

from labelcert import certify
from labelcert.engines.search.mixed_integer import Builder, MixedInteger
from labelcert.errors import InvalidInput, MissingExtra
from labelcert.paper.milp.solvers import Answer, Ending, Limits, Row, SolverUnavailable, get_solver


def solve(name: str, model: MixedInteger, limits: Limits | None = None, **options: Any) -> Answer:
    session = get_solver(name).open(model, 1)
    try:
        return session.solve(model.cost, limits or Limits(), **options)
    finally:
        session.close()


def random_program(rng: np.random.Generator, n: int = 7) -> MixedInteger:
    """Binaries and one continuous variable, with rows of all four kinds; x = 0 satisfies them."""
    b = Builder()
    x = b.variables("x", n, 0, 1, integer=True)
    y = b.variables("y", 1, -2.0, 3.0)
    A = rng.integers(-4, 5, size=(3, n)).astype(float)
    b.constrain("at most", [(x, A[:1])], upper=3.0)
    b.constrain("at least", [(x, A[1:2])], lower=-3.0)
    b.constrain("between", [(x, A[2:]), (y, np.ones((1, 1)))], -4.0, 4.0)
    b.constrain("equal", [(x, np.ones((1, n))), (y, np.full((1, 1), 2.0))], 0.0, 0.0)
    b.minimise(x, rng.integers(-5, 6, n))
    b.minimise(y, [1.5])
    return b.build()


def least(model: MixedInteger, rows: tuple[Row, ...] = (), n: int = 7) -> float:
    """Brute force: the continuous variable follows from the binaries."""
    best = np.inf
    for bits in itertools.product([0.0, 1.0], repeat=n):
        x = np.array([*bits, -sum(bits) / 2])
        if violation(model, x) < 1e-9 and all(row.coefficients @ x[row.columns] <= row.upper + 1e-9 for row in rows):
            best = min(best, float(model.cost @ x))
    return best


def market_split(*, offset: float = 0.0) -> MixedInteger:
    """Small, feasible at once, and out of reach for branch and bound."""
    rng = np.random.default_rng(3)
    n, r = 50, 6
    A = rng.integers(0, 100, size=(r, n)).astype(float)
    target = np.floor(A.sum(axis=1) / 2)
    b = Builder()
    x = b.variables("x", n, 0, 1, integer=True)
    one = b.variables("one", 1, 1.0, 1.0)
    over, under = b.variables("over", r), b.variables("under", r)
    b.constrain("split", [(x, A), (over, -np.eye(r)), (under, np.eye(r))], target, target)
    b.minimise(np.concatenate([over, under]), np.ones(2 * r))
    b.minimise(one, [offset])
    return b.build()


@pytest.mark.parametrize("seed", range(6))
def test_optimum_of_small_programs(solver: str, seed: int) -> None:
    model = random_program(np.random.default_rng(seed))
    answer = solve(solver, model)
    assert answer.status is Ending.OPTIMAL
    assert answer.x is not None
    assert violation(model, answer.x) < 1e-6
    assert answer.objective == pytest.approx(least(model), abs=1e-6)
    assert answer.bound == pytest.approx(least(model), abs=1e-6)
    assert answer.objective == pytest.approx(float(model.cost @ answer.x), abs=1e-6)
    assert answer.detail


def test_a_session_is_solved_again_with_other_objectives(solver: str) -> None:
    rng = np.random.default_rng(0)
    model = random_program(rng)
    session = get_solver(solver).open(model, 1)
    for _ in range(4):
        cost = rng.integers(-5, 6, model.cost.size).astype(float)
        other = MixedInteger(**{**vars(model), "cost": cost})
        answer = session.solve(cost, Limits())
        assert answer.status is Ending.OPTIMAL
        assert answer.objective == pytest.approx(least(other), abs=1e-6)
    session.close()


def test_extra_rows_hold_for_one_solve_alone(solver: str) -> None:
    model = random_program(np.random.default_rng(1))
    x = model.columns["x"]
    session = get_solver(solver).open(model, 1)
    free = session.solve(model.cost, Limits())
    assert free.x is not None
    chosen = free.x[x] > 0.5
    exclude = Row(x, np.where(chosen, 1.0, -1.0), float(chosen.sum()) - 1.0)
    none = Row(x, np.ones(x.size), 0.0)
    assert chosen.any()
    for rows in ((exclude,), (exclude, none), (none,), ()):
        answer = session.solve(model.cost, Limits(), rows=rows)
        assert answer.objective == pytest.approx(least(model, rows), abs=1e-6)
    assert least(model, (exclude,)) > free.objective + 0.1
    session.close()


def test_contradicting_extra_rows_are_infeasible_and_forgotten(solver: str) -> None:
    model = random_program(np.random.default_rng(2))
    x = model.columns["x"]
    session = get_solver(solver).open(model, 1)
    answer = session.solve(model.cost, Limits(), rows=[Row(x, np.ones(x.size), -1.0)])
    assert answer.status in (Ending.INFEASIBLE, Ending.FAILED)
    assert answer.x is None
    assert answer.objective == np.inf
    assert session.solve(model.cost, Limits()).objective == pytest.approx(least(model), abs=1e-6)
    session.close()


def test_time_limit(solver: str) -> None:
    model = market_split()
    session = get_solver(solver).open(model, 1)
    # Twice: the second limit counts from its own start.
    for _ in range(2):
        answer = session.solve(model.cost, Limits(seconds=0.3))
        assert answer.status is Ending.TIME_LIMIT
        assert answer.bound <= 1.0
        if answer.x is not None:
            assert violation(model, answer.x) < 1e-5
            assert answer.bound <= answer.objective
    session.close()


def test_no_time_at_all_gives_nothing_wrong(solver: str) -> None:
    model = market_split()
    answer = solve(solver, model, Limits(seconds=0.0))
    assert answer.status is Ending.TIME_LIMIT
    assert answer.bound <= 1.0


def test_cancelled(solver: str) -> None:
    model = market_split()
    asked = 0

    def cancelled() -> bool:
        nonlocal asked
        asked += 1
        return asked > 2

    session = get_solver(solver).open(model, 1)
    answer = session.solve(model.cost, Limits(seconds=60.0, cancelled=cancelled))
    assert answer.status is Ending.INTERRUPTED
    assert asked > 2
    assert answer.bound <= 1.0
    # Nothing of it is left behind.
    again = session.solve(model.cost, Limits(seconds=0.3))
    assert again.status is Ending.TIME_LIMIT
    session.close()


def test_a_good_solution_decides(solver: str) -> None:
    model = market_split()
    answer = solve(solver, model, Limits(seconds=60.0, stop_below=1e4))
    assert answer.status is Ending.DECIDED
    assert answer.objective <= 1e4
    assert answer.x is not None


def test_a_good_bound_decides(solver: str) -> None:
    model = market_split(offset=7.0)
    answer = solve(solver, model, Limits(seconds=60.0, stop_above=5.0))
    assert answer.status is Ending.DECIDED
    assert 5.0 <= answer.bound <= 8.0


def test_progress_is_reported(solver: str) -> None:
    model = market_split()
    seen: list[tuple[float, float]] = []
    solve(solver, model, Limits(seconds=0.5, report=lambda incumbent, bound: seen.append((incumbent, bound))))
    assert seen
    assert all(bound <= incumbent for incumbent, bound in seen)


def test_sessions_with_different_numbers_of_threads(solver: str) -> None:
    """One after the other in one process: radii are solved on one thread, the curve on all."""
    model = random_program(np.random.default_rng(0))
    for threads in (1, 2, 1):
        session = get_solver(solver).open(model, threads)
        answer = session.solve(model.cost, Limits())
        session.close()
        assert answer.status is Ending.OPTIMAL
        assert answer.objective == pytest.approx(least(model), abs=1e-6)


def test_versions(solver: str) -> None:
    assert get_solver(solver).name == solver
    assert get_solver(solver).version()[0].isdigit()


def test_unknown_solver() -> None:
    with pytest.raises(InvalidInput, match="highs, scip, gurobi"):
        get_solver("cplex")


@pytest.mark.parametrize(("package", "name"), [("pyscipopt", "scip"), ("gurobipy", "gurobi")])
def test_a_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch, package: str, name: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'labelcert\[{name}\]'"):
        get_solver(name)
    with pytest.raises(MissingExtra, match=rf"pip install 'labelcert\[{name}\]'"):
        certify(*gaussian(4, 2), 2.0, engine="milp-paper", solver=name)


def test_gurobi_without_a_licence_names_the_alternative(monkeypatch: pytest.MonkeyPatch) -> None:
    class GurobiError(Exception):
        pass

    def no_licence(**options: object) -> None:
        raise GurobiError("No Gurobi license found")

    monkeypatch.setitem(sys.modules, "gurobipy", SimpleNamespace(GurobiError=GurobiError, Env=no_licence))
    with pytest.raises(SolverUnavailable, match=r"No Gurobi license found.*solver='highs'"):
        get_solver("gurobi")


@pytest.fixture
def small_licence() -> None:
    """Skips unless Gurobi is there with the licence that its package brings along."""
    pytest.importorskip("gurobipy")
    b = Builder()
    x = b.variables("x", 2500, 0, 1, integer=True)
    b.constrain("some", [(x, np.ones((1, x.size)))], lower=1.0)
    try:
        solve("gurobi", b.build())
    except SolverUnavailable:
        return
    pytest.skip("Gurobi has a licence without a size limit")


@pytest.mark.usefixtures("small_licence")
def test_gurobi_beyond_its_size_names_the_alternative() -> None:
    b = Builder()
    x = b.variables("x", 2500, 0, 1, integer=True)
    b.constrain("some", [(x, np.ones((1, x.size)))], lower=1.0)
    with pytest.raises(SolverUnavailable, match=r"1 rows and 2500 columns.*solver='highs'"):
        solve("gurobi", b.build())
    K, y, rows = gaussian(44, 1)
    with pytest.raises(SolverUnavailable, match="solver='highs'"):
        certify(K, y, rows, 2.0, max_flips=1, engine="milp-paper", solver="gurobi")
