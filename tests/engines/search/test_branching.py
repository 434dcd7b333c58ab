"""Branch and bound: exact, whatever is a leaf, whatever a solver suggests; and defects in it would be noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest
from tests.helpers.certificates import contains
from tests.helpers.problems import blobs, gaussian, hand_made
from tests.helpers.small_problems import certify_problem, mixed_problem

from labelcert import Threat, certify, selfcheck
from labelcert.engines.base import Findings, Question
from labelcert.engines.control import Control
from labelcert.engines.search import BranchAndBound, branching, relaxation, rivalry
from labelcert.engines.search.margin_ranges import FLIPPED, KEPT, Ranges, ball_ranges, trivial_ranges
from labelcert.engines.search.relaxation import Bounds, Multipliers, Relaxation
from labelcert.engines.search.searching import Searching
from labelcert.prediction import predictor_for
from labelcert.problem import Problem
from labelcert.selfcheck.brute_force import Truth
from labelcert.selfcheck.cases import Case, label_costs, random_case, random_classes_case, relabellings

LEAVES = [1, 5, None]
"""Attacks in a leaf at the most; None: as it is."""


def set_leaves(monkeypatch: pytest.MonkeyPatch, leaves: int | None) -> None:
    """Small leaves come without greedy attacks, which leave little to decide."""
    if leaves is not None:
        monkeypatch.setattr(branching, "LEAF_SETS", leaves)
        monkeypatch.setattr(branching, "LEAF_RELABELLINGS", leaves)
        monkeypatch.setattr(Searching, "attack", lambda searching: None)


@cache
def searched(seed: int, classes: int) -> tuple[Case, Truth]:
    """A problem that needs a search, and the truth about it; ``classes`` > 2: three or four."""
    if seed < 0:  # twelve nodes, so that no label matters to all of them
        case = hand_made(*(gaussian(7, 12) if classes == 2 else blobs(7, 12, classes=3)), 1.0, max_flips=1)
        return case, selfcheck.brute_force(case)
    rng = np.random.default_rng([611, seed, classes])
    while True:
        case = random_case(rng, largest=6) if classes == 2 else random_classes_case(rng, largest=5)
        case = replace(case, K_test=case.K_test[:3])
        if case.loss != "hinge" or case.labels.size < 4 or np.unique(case.labels).size > 4 or case.build().is_linear():
            continue
        if 8 <= len(list(islice(relabellings(case, label_costs(case), case.build().max_flips), 101))) <= 100:
            return case, selfcheck.brute_force(case)


def wrong(seed: int, classes: int, *, may_be_open: bool = False) -> list[str]:
    case, truth = searched(seed, classes)
    return selfcheck.compare(case, truth, "milp", may_be_open=may_be_open, workers=1)


# -- agreement with brute force ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaves", LEAVES)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_exact_whatever_is_a_leaf(seed: int, classes: int, leaves: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    set_leaves(monkeypatch, leaves)
    assert wrong(seed, classes) == []


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("leaves", LEAVES)
@pytest.mark.parametrize("classes", [2, 3])
def test_exact_on_hundreds_of_problems(classes: int, leaves: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    set_leaves(monkeypatch, leaves)
    for seed in range(100, 300):
        assert wrong(seed, classes) == []


def test_the_problems_are_of_every_kind() -> None:
    cases = [searched(seed, classes)[0] for seed in range(8) for classes in (2, 3)]
    threats = [case.threat for case in cases]
    for option in ("trusted", "costs", "allowed_flips", "allowed_targets", "group_budgets"):
        assert any(getattr(threat, option) is not None for threat in threats), option
    assert {np.unique(case.labels).size for case in cases} >= {2, 3, 4}
    assert len({case.kind for case in cases}) >= 6


@pytest.mark.parametrize("classes", [2, 3])
def test_small_leaves_are_many(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something is branched on: the tests above would mean little without it."""
    set_leaves(monkeypatch, 1)
    leaves = subtrees = 0
    for seed in range(4):
        statistics = searched(seed, classes)[0].certify("milp", workers=1).run.stages[0].statistics
        leaves += statistics["leaves_retrained"]
        subtrees += statistics["subtrees"]
    assert subtrees > leaves > 5


@pytest.mark.timeout(60)
def test_a_near_tie_that_no_move_decides_ends() -> None:
    """No label matters to the two closest classes, and their margin is within the rounding errors of any bound."""
    row = [1.0 + 2.0**-52, 1.0, 0.25, 0.25]
    case = hand_made(np.eye(4), ["a", "b", "c", "d"], [row], 2.0, threat=Threat(allowed_flips={"c": ["d"]}))
    assert selfcheck.compare(case, selfcheck.brute_force(case), "milp", workers=1) == []


# -- a solver that lies ------------------------------------------------------------------------------------------------

Lie = Callable[[np.random.Generator, np.ndarray, bool], tuple[np.ndarray, bool]]
"""From the true multipliers, and whether the solver finds nothing feasible: what it says instead."""

LIES: dict[str, Lie] = {
    "zero": lambda rng, beta, empty: (np.zeros_like(beta), empty),
    "random": lambda rng, beta, empty: (rng.normal(size=beta.shape), empty),
    "large": lambda rng, beta, empty: (1e6 * rng.normal(size=beta.shape), empty),
    "huge": lambda rng, beta, empty: (1e300 * rng.normal(size=beta.shape), empty),
    "not numbers": lambda rng, beta, empty: (np.full_like(beta, np.nan), empty),
    "some not numbers": lambda rng, beta, empty: (np.where(rng.random(beta.shape) < 0.3, np.nan, beta), empty),
    "infinite": lambda rng, beta, empty: (np.full_like(beta, np.inf), empty),
    "of the other sign": lambda rng, beta, empty: (-beta, empty),
    "always empty": lambda rng, beta, empty: (beta, True),
    "never empty": lambda rng, beta, empty: (beta, False),
    "random and empty": lambda rng, beta, empty: (rng.normal(size=beta.shape), bool(rng.integers(2))),
    "now and then": lambda rng, beta, empty: (beta if rng.random() < 0.5 else 10 * rng.normal(size=beta.shape), empty),
}


def lie_about_everything(monkeypatch: pytest.MonkeyPatch, lie: Lie) -> list[int]:
    """Every suggestion is changed; returns a list that counts them."""
    rng, told = np.random.default_rng(5), [0]
    solve, suggest = Relaxation._solve, rivalry.PairRelaxation.suggest

    def lying_solve(self: Relaxation, *arguments: Any) -> tuple[np.ndarray, float, bool]:
        beta, price, empty = solve(self, *arguments)
        told[0] += 1
        beta, empty = lie(rng, beta, empty)
        return beta, price if rng.random() < 0.5 else float(rng.exponential()), empty

    def lying_suggest(self: rivalry.PairRelaxation, *arguments: Any) -> list[Multipliers]:
        told[0] += 1
        found = []
        for part, sign, mu in zip(self._pair.models, self._pair.signs, suggest(self, *arguments), strict=True):
            beta, empty = lie(rng, -mu.on_f[:, 0], False)
            made = relaxation.multipliers(part, sign * self._row, beta)
            found.append(replace(made, empty=np.array([empty])))
        return found

    monkeypatch.setattr(Relaxation, "_solve", lying_solve)
    monkeypatch.setattr(rivalry.PairRelaxation, "suggest", lying_suggest)
    return told


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("classes", [2, 3])
def test_a_linear_programming_solver_that_lies_makes_nothing_wrong(
    lie: str, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor open: whatever is not pruned is branched on down to single attacks."""
    set_leaves(monkeypatch, 1)
    told = lie_about_everything(monkeypatch, LIES[lie])
    assert wrong(0, classes) == []
    assert told[0] > 0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("lie", LIES)
def test_lies_about_many_problems(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_leaves(monkeypatch, 5)
    lie_about_everything(monkeypatch, LIES[lie])
    for seed in range(1, 12):
        assert wrong(seed, 2) == wrong(seed, 3) == []


# -- stopping early ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[2, 3], ids=["two classes", "three classes"])
def problem(request: pytest.FixtureRequest) -> Problem:
    return mixed_problem(request.param, max_flips=2)


def stop_after(monkeypatch: pytest.MonkeyPatch, calls: int) -> Iterator[int]:
    """Everybody who asks is told to stop, from some call on."""
    asked = 0
    over = Control.over

    def counting(self: Control) -> bool:
        nonlocal asked
        asked += 1
        return asked > calls or over(self)

    monkeypatch.setattr(Control, "over", counting)
    while True:
        yield asked


def test_stopped_anywhere_intervals_are_valid(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    set_leaves(monkeypatch, 1)
    truth = certify_problem(problem, "enumerate")
    question = Question.ask(predictor_for(problem, linear=False))
    widths = []
    for calls in (0, 10, 100, 10**9):
        with monkeypatch.context() as patch:
            count = stop_after(patch, calls)
            next(count)
            found = BranchAndBound().run(question, Control(workers=1), Findings.nothing(question))
        assert np.all(found.radius_lower <= truth.radius_lower[question.nodes])
        assert np.all(found.radius_upper >= truth.radius_upper[question.nodes])
        assert np.all(found.curve_lower <= truth.collective_lower)
        assert np.all(found.curve_upper >= truth.collective_upper)
        widths.append(int((found.curve_upper - found.curve_lower).sum()))
    assert widths[0] > 0
    assert widths[-1] == 0


@pytest.mark.parametrize("limits", [{"time_limit": 0.01}, {"time_limit": 0.3}, {"node_time_limit": 0.01}], ids=str)
def test_short_limits_give_valid_intervals(
    limits: dict[str, float], problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_leaves(monkeypatch, 1)
    cert = certify_problem(problem, "milp", workers=1, **limits)
    contains(cert, certify_problem(problem, "enumerate"))


@pytest.mark.parametrize("arrays", [gaussian(30, 6, dims=2), blobs(18, 6, classes=3)], ids=["two", "three"])
def test_a_search_that_does_not_end_is_stopped(arrays: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    set_leaves(monkeypatch, 1)
    cert = certify(*arrays, 5.0, max_flips=5, engine="milp", time_limit=0.5, workers=1)
    assert not cert.exact
    assert cert.run.stopped == "time limit"
    contains(cert, certify(*arrays, 5.0, max_flips=5, engine="auto", time_limit=5.0))


# -- defects that the comparison with brute force notices --------------------------------------------------------------


def negated(patch: pytest.MonkeyPatch) -> None:
    evaluate = Bounds.evaluate
    patch.setattr(Bounds, "evaluate", lambda self, mu: -evaluate(self, mu))


def emptied_where_negative(patch: pytest.MonkeyPatch) -> None:
    def narrow(problem: Problem, ranges: Ranges, score: np.ndarray, **options: Any) -> tuple[Ranges, list[Any]]:
        mu = Relaxation(problem, ranges).suggest(score, np.zeros_like(score))
        return ranges.emptied() if Bounds(problem, ranges).evaluate(mu)[0] < 0.0 else ranges, []

    patch.setattr(relaxation, "narrow", narrow)


def too_high(patch: pytest.MonkeyPatch) -> None:
    evaluate = Bounds.evaluate
    patch.setattr(Bounds, "evaluate", lambda self, mu: evaluate(self, mu) + 0.5)


def one_flip_too_few(patch: pytest.MonkeyPatch) -> None:
    most_gain = relaxation.most_gain
    patch.setattr(relaxation, "most_gain", lambda gains, costs, budget: most_gain(gains, costs, budget - 1))


def no_gains(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(relaxation, "most_gain", lambda gains, costs, budget: np.zeros(gains.shape[1]))


def no_narrowing(patch: pytest.MonkeyPatch) -> None:
    """No defect: everything is branched on."""
    patch.setattr(relaxation, "narrow", lambda problem, ranges, score, **options: (ranges, []))
    patch.setattr(rivalry, "narrowed", lambda pair, row, left_seconds, steps, *, root: pair)


def half_skipped(which: int) -> Callable[[pytest.MonkeyPatch], None]:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        no_narrowing(patch)
        branches = rivalry.branches

        def one(*arguments: Any) -> tuple[int, dict[int, rivalry.Rivalry]]:
            label, halves = branches(*arguments)
            return label, dict([list(halves.items())[which]])

        patch.setattr(rivalry, "branches", one)

    return mutate


def no_leaves(patch: pytest.MonkeyPatch) -> None:
    """Leaves pass as robust without retraining."""
    set_leaves(patch, 5)  # of a single attack, it is tried before

    def retrain(self: branching.Remainder, question: Question, nodes: Any, control: Control) -> Findings:
        part = Question(self.problem, question.predictor, question.nodes[nodes])
        found = Findings.nothing(part)
        beyond = np.full_like(found.radius_lower, part.budget + 1)
        return replace(found, radius_lower=beyond, curve_upper=found.curve_lower)

    patch.setattr(branching.Remainder, "retrain", retrain)


def made_flips_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A subtree is searched as if its flips were not made, only paid for."""
    set_leaves(patch, 5)
    of = branching.Remainder.of.__func__  # type: ignore[attr-defined]

    def forgetful(cls: type[branching.Remainder], problem: Problem, *arguments: Any) -> branching.Remainder | None:
        part = of(cls, problem, *arguments)
        clean = {"codes": problem.codes, "labels": problem.labels}
        return None if part is None else part._replace(problem=replace(part.problem, **clean))

    patch.setattr(branching.Remainder, "of", classmethod(forgetful))


def subtree_of_the_curve_skipped(patch: pytest.MonkeyPatch) -> None:
    """The half with a flip is lost wherever a subtree is halved."""
    halves, fixed = branching.Subtree.halves, rivalry.Rivalry.fixed

    def lossy(self: rivalry.Rivalry, i: int, move: int | None) -> rivalry.Rivalry:
        found = fixed(self, i, move)
        emptied = tuple(ranges.emptied() for ranges in found.ranges)
        return found if move is None else replace(found, ranges=emptied).only()

    patch.setattr(rivalry.Rivalry, "fixed", lossy)
    patch.setattr(branching.Subtree, "halves", lambda self, i: dict(list(halves(self, i).items())[:1]))


def no_nodes_alive(patch: pytest.MonkeyPatch) -> None:
    examined = branching.MostChanged.examined

    def fewer(self: branching.MostChanged, here: branching.Subtree, over: Any) -> tuple[branching.Subtree, Any, Any]:
        found, promise, excluded = examined(self, here, over)
        found.rivals[found.alive[:1]] = False
        return found, promise, excluded

    patch.setattr(branching.MostChanged, "examined", fewer)


def margins(change: Callable[[float, Any], tuple[float, Any]]) -> Callable[[pytest.MonkeyPatch], None]:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        least = rivalry.least_margins
        for module in (rivalry, branching):
            patch.setattr(module, "least_margins", lambda *arguments: change(*least(*arguments)))

    return mutate


def move_skipped(which: int) -> Callable[[pytest.MonkeyPatch], None]:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        no_narrowing(patch)
        branches, halves = rivalry.branches, branching.Subtree.halves

        def fewer(*arguments: Any) -> tuple[int, dict[int, Any]]:
            label, found = branches(*arguments)
            del found[list(found)[which]]
            return label, found

        def fewer_halves(*arguments: Any) -> dict[int, Any]:
            found = halves(*arguments)
            del found[list(found)[which]]
            return found

        patch.setattr(rivalry, "branches", fewer)
        patch.setattr(branching.Subtree, "halves", fewer_halves)

    return mutate


def made_moves_not_tried(patch: pytest.MonkeyPatch) -> None:
    """A leaf that is a single relabelling passes as robust."""
    settle = branching.Remainder.settle

    def trusting(self: branching.Remainder, question: Question, t: int, control: Control) -> branching.Judgement:
        found = settle(self, question, t, control)
        return branching.Judgement(branching.Verdict.ROBUST) if self.free.size == 0 else found

    patch.setattr(branching.Remainder, "settle", trusting)


DEFECTS: dict[str, tuple[int, Callable[[pytest.MonkeyPatch], None]]] = {
    "bounds of the other sign": (2, negated),
    "emptied where the bound is negative": (2, emptied_where_negative),
    "bounds too high": (2, too_high),
    "one flip too few in bounds": (2, one_flip_too_few),
    "no flips in bounds": (2, no_gains),
    "the half with a flip is skipped": (2, half_skipped(0)),
    "the half without a flip is skipped": (2, half_skipped(1)),
    "leaves are not retrained": (2, no_leaves),
    "made flips are forgotten": (2, made_flips_forgotten),
    "a half is lost": (2, subtree_of_the_curve_skipped),
    "a node is lost from the curve": (2, no_nodes_alive),
    "bounds of the other sign, three classes": (3, negated),
    "margins of the other sign": (3, margins(lambda bound, moves: (-bound, -moves))),
    "margins too high": (3, margins(lambda bound, moves: (bound + 0.5, moves + 0.5))),
    "moves are dropped": (3, margins(lambda bound, moves: (bound, np.where(np.isinf(moves), moves, 1.0)))),
    "no move is skipped": (3, move_skipped(0)),
    "the last move is skipped": (3, move_skipped(-1)),
    "made moves are not tried": (3, made_moves_not_tried),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DEFECTS)
def test_defects_are_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    classes, mutate = DEFECTS[name]
    set_leaves(monkeypatch, 1)
    mutate(monkeypatch)
    assert any(wrong(seed, classes) for seed in range(-1, 8))


def test_without_a_defect_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    set_leaves(monkeypatch, 1)
    no_narrowing(monkeypatch)
    assert not any(wrong(seed, classes) for seed in range(-1, 2) for classes in (2, 3))


# -- rounding ----------------------------------------------------------------------------------------------------------


def exact_least(problem: Problem, ranges: Ranges, row: np.ndarray, beta: np.ndarray) -> Fraction:
    """What a bound would be without rounding: the best corners, and the best flips of unit cost."""
    m, C = problem.m, Fraction(problem.C)
    prices = [Fraction(float(v)) for v in beta]
    on_z = [
        Fraction(float(row[i])) + sum((C * Fraction(float(problem.K_train[i, j])) * prices[j] for j in range(m)), C * 0)
        for i in range(m)
    ]
    a, g, present = ranges.corners()
    total, gains = Fraction(0), []
    for i in range(m):
        sides = []
        for side in (KEPT, FLIPPED):
            sign = int(problem.y[i]) * (1 if side == KEPT else -1)
            sides.append(
                [
                    sign * (Fraction(float(a[i, side, k])) * on_z[i] - Fraction(float(g[i, side, k])) * prices[i])
                    for k in range(4)
                    if present[i, side, k]
                ]
            )
        kept = min(sides[KEPT])
        total += kept
        gains.append(max(Fraction(0), kept - min(sides[FLIPPED], default=kept)))
    return total - sum(sorted(gains, reverse=True)[: ranges.budget], Fraction(0))


def rounded_bounds() -> Iterator[tuple[float, Fraction]]:
    """Bounds beside what they would be without rounding: sums that cancel, kernels that are nearly degenerate."""
    rng = np.random.default_rng(3)
    for trial in range(40):
        m = int(rng.integers(3, 7))
        points = rng.integers(-1, 2, size=(m, 3)) + rng.choice([0.0, 2.0**-40, -(2.0**-45)], size=(m, 3))
        K = points @ points.T
        labels = np.arange(m) % 2
        problem = Problem.build((K + K.T) / 2, labels, K[:1], float(rng.choice([0.3, 1.0, 7.0])), max_flips=2)
        budget = int(rng.integers(0, 3))
        ranges = trivial_ranges(problem, budget) if trial % 2 else ball_ranges(problem, budget)[0]
        if not ranges.possible[:, KEPT].all():
            continue
        beta = rng.normal(size=m).astype(np.float32).astype(float)
        row = -problem.C * problem.K_train @ beta + rng.choice([0.0, 1e-12]) * rng.normal(size=m)
        bound = Bounds(problem, ranges).evaluate(relaxation.multipliers(problem, row, beta))[0]
        yield float(bound), exact_least(problem, ranges, row, beta)


def test_bounds_stay_below_what_they_would_be_without_rounding() -> None:
    compared = [(Fraction(bound), exact) for bound, exact in rounded_bounds()]
    assert len(compared) > 15
    assert all(bound <= exact for bound, exact in compared)
    assert all(exact - bound < Fraction(1, 10**9) for bound, exact in compared)


def test_without_their_margin_some_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bounds, "rounding", lambda self, mu: np.zeros(mu.on_z.shape[1]))
    assert any(Fraction(bound) > exact for bound, exact in rounded_bounds())


def test_nothing_to_flip_is_one_leaf() -> None:
    """Labels that are all trusted leave the clean labels alone."""
    cert = certify(*gaussian(8, 5), 2.0, max_flips=2, engine="milp", threat=Threat(trusted=np.ones(8, dtype=bool)))
    assert cert.exact
    assert np.all(cert.radius_lower == 3)
