"""The multi-class programs: against brute force, under all threat options, and with solvers that lie."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from labelcert import InvalidInput, Threat, certify, selfcheck
from labelcert.engines import MilpWarning
from labelcert.engines.base import Control
from labelcert.milp import classes, pairs, relaxation
from labelcert.milp.pairs import Pair, least_margins, multipliers, narrow_pair
from labelcert.milp.solvers import Answer, Limits, Status, get_solver
from labelcert.multiclass import milp
from labelcert.multiclass.panel import Panel
from labelcert.multiclass.question import Question
from labelcert.problem import Problem
from labelcert.svm.training import train


def blobs(m: int, n: int, *, k: int = 3, seed: int = 0) -> tuple[Any, Any, Any]:
    """``(K_train, labels, K_test)`` of a Gaussian kernel on points around one centre per class."""
    rng = np.random.default_rng(seed)
    codes = np.arange(m + n) % k
    points = rng.normal(size=(k, 3))[codes] + 0.8 * rng.normal(size=(m + n, 3))
    K = np.exp(-np.sum((points[:, None] - points[None]) ** 2, axis=2) / 3)
    return K[:m, :m], codes[:m], K[m:, :m]


THREATS = [
    Threat(),
    Threat(costs=np.arange(6) % 3 + 1),
    Threat(groups=[i % 2 for i in range(6)], group_budgets=1),
    Threat(trusted=np.arange(6) < 2, allowed_flips={0: [1], 2: [0, 1]}),
    Threat(allowed_targets=[[2], None, [0, 1], [], None, [1]]),
]


def problem(threat: Threat | None = None, *, m: int = 6, C: float = 2.0, max_flips: int = 2, k: int = 3) -> Problem:
    return Problem.build(*blobs(m, 4, k=k), C, threat=threat, max_flips=max_flips)


def check(case: selfcheck.Case, engine: str, **options: Any) -> list[str]:
    truth = selfcheck.brute_force_classes(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MilpWarning)
        return selfcheck.compare_classes(case, truth, engine, may_be_open=True, workers=1, **options)


@pytest.mark.parametrize("seed", range(12))
def test_random_problems(seed: int) -> None:
    case = selfcheck.random_classes_case(np.random.default_rng([31, seed]), largest=5)
    for engine in selfcheck.milp_engines_for_classes(case):
        assert check(case, engine) == []


@pytest.mark.long
def test_many_random_problems() -> None:
    wrong = []
    for seed in range(300):
        case = selfcheck.random_classes_case(np.random.default_rng([37, seed]), largest=6)
        for engine in selfcheck.milp_engines_for_classes(case):
            if engine == "milp" or seed % 3 == 0:
                wrong += [f"seed {seed}: {line}" for line in check(case, engine)]
    assert wrong == []


@pytest.mark.parametrize("threat", THREATS)
@pytest.mark.parametrize("C", [0.05, 2.0])
def test_nothing_is_open_on_well_conditioned_problems(threat: Threat, C: float) -> None:
    arrays = blobs(6, 5, k=3)
    exact, compact, paper = (
        certify(*arrays, C, threat=threat, max_flips=2, engine=engine, workers=1)
        for engine in ("enumerate", "milp", "milp-paper")
    )
    assert compact.exact
    for cert in (compact, paper):
        assert np.array_equal(cert.radius_lower, exact.radius_lower)
        assert np.array_equal(cert.radius_upper, exact.radius_upper)
    assert np.array_equal(compact.collective_lower, exact.collective_lower)
    assert np.all(paper.collective_lower <= exact.collective_lower)
    assert np.all(paper.collective_upper >= exact.collective_upper)


def test_four_classes_and_threads() -> None:
    arrays = blobs(12, 8, k=4)
    exact = certify(*arrays, 3.0, max_flips=2, engine="enumerate")
    for workers in (1, 2):
        cert = certify(*arrays, 3.0, max_flips=2, engine="milp", workers=workers, collective=False)
        assert np.array_equal(cert.radius_lower, exact.radius_lower)
        assert np.array_equal(cert.radius_upper, exact.radius_upper)


@pytest.mark.parametrize("loss", ["hinge", "square"])
def test_linear_scores(loss: str) -> None:
    K, y, rows = blobs(12, 12, k=4)
    C = 0.99 / np.abs(K).sum(axis=1).max() if loss == "hinge" else 1.0
    exact, cert = (certify(K, y, rows, C, loss=loss, max_flips=3, engine=e) for e in ("closed-form", "milp"))
    assert cert.exact
    assert np.array_equal(cert.radius_upper, exact.radius_upper)
    assert np.array_equal(cert.collective_lower, exact.collective_lower)


def test_options() -> None:
    K, y, rows = blobs(8, 3)
    with pytest.raises(InvalidInput, match="hinge loss"):
        certify(K, y, rows, 1.0, loss="square", engine="milp-paper")
    part = certify(K, y, rows, 2.0, max_flips=2, engine="milp-paper", node_time_limit=1e-3, workers=1)
    full = certify(K, y, rows, 2.0, max_flips=2, engine="enumerate")
    assert np.all(part.radius_lower <= full.radius_lower)
    assert np.all(part.radius_upper >= full.radius_upper)
    assert part.settings["statistics"]["solves"][0]["status"] == "time limit"
    assert certify(K, y, rows, 2.0, max_flips=2, engine="auto", time_limit=100).engine == "enumerate"
    nothing = certify(K, y, rows, 2.0, max_flips=1, engine="milp", threat=Threat(trusted=np.ones(8, dtype=bool)))
    assert nothing.exact


# -- programs ----------------------------------------------------------------------------------------------------------


def relabellings(problem: Problem, budget: int) -> list[tuple[Any, Any]]:
    """All that the threat allows, from the adversary's arrays."""
    a = problem.adversary
    out = []
    for targets in itertools.product(*([-1, *np.flatnonzero(row)] for row in a.targets)):
        new = np.array(targets, dtype=np.int64)
        moved = np.flatnonzero(new >= 0)
        grouped = [a.costs[moved][a.groups[moved] == g].sum() <= cap for g, cap in enumerate(a.group_caps)]
        if a.costs[moved].sum() <= budget and all(grouped):
            out.append((moved, new[moved]))
    return out


def margin(problem: Problem, moves: tuple[Any, Any], row: Any, own: int, rivals: list[int]) -> float:
    codes = problem.codes
    codes[problem.adversary.labels[moves[0]]] = moves[1]
    p = [row @ train(problem.K_train, np.where(codes == c, 1.0, -1.0), problem.C) for c in (own, *rivals)]
    return float(p[0] - max(p[1:]))


def least(program: classes.ClassProgram, rows: tuple[Any, ...] = ()) -> Answer:
    session = get_solver("highs").open(program.model, 1)
    try:
        return session.solve(program.model.cost, Limits(), None, rows)
    finally:
        session.close()


@pytest.mark.parametrize("threat", THREATS)
def test_the_papers_program_has_the_true_optimum(threat: Threat) -> None:
    p = problem(threat)
    own = 0
    rivals = [1, 2]
    row = p.K_test[0]
    truth = {str(moves): margin(p, moves, row, own, rivals) for moves in relabellings(p, 2)}
    program = classes.paper_classes(p, 2, row, own)
    answer = least(program)
    assert answer.objective == pytest.approx(min(truth.values()), abs=1e-6)
    found = program.moves(answer.x)
    assert margin(p, found, row, own, rivals) == pytest.approx(answer.objective, abs=1e-6)
    others = [value for moves, value in truth.items() if moves != str(found)]
    if others:
        assert least(program, (program.without(found),)).objective == pytest.approx(min(others), abs=1e-6)


def test_size_of_the_papers_program() -> None:
    p = problem()
    K, m = 3, 6
    program = classes.paper_classes(p, 2, p.K_test[0], 0)
    assert int(program.model.integer.sum()) == 3 * K * m + K - 1
    assert program.model.columns["class 1: R"].shape == (m, m)


def pair_of(p: Problem, own: int, rival: int, budget: int, *, tight: bool = True) -> Pair:
    parts = p.one_vs_rest(own), p.one_vs_rest(rival)
    ranges = [
        relaxation.proved_ranges(part, budget)[0] if tight else relaxation.trivial_ranges(part, budget)
        for part in parts
    ]
    return Pair.of(p, own, rival, parts, (ranges[0], ranges[1]))


@pytest.mark.parametrize("threat", THREATS)
@pytest.mark.parametrize("tight", [False, True])
def test_pair_programs_and_their_relaxations(threat: Threat, tight: bool) -> None:
    p = problem(threat)
    row = p.K_test[0]
    for own, rival in ((0, 1), (2, 0)):
        values = {str(moves): margin(p, moves, row, own, [rival]) for moves in relabellings(p, 2)}
        pair = pair_of(p, own, rival, 2, tight=tight)
        program = classes.pair_program(pair, row)
        answer = least(program)
        assert answer.objective * program.unit == pytest.approx(min(values.values()), abs=1e-6)
        for moves in relabellings(p, 2):
            point = program.point(moves)
            if point is not None:
                assert program.model.violation(point) < 1e-6
                value = float(program.model.cost @ point) * program.unit
                assert value == pytest.approx(values[str(moves)], abs=1e-6)
        # Any multipliers give lower bounds, over all relabellings and over those with a given move.
        rng = np.random.default_rng(0)
        suggested = pairs.PairRelaxation(pair, row).suggest(pair.left, 10.0)
        random = tuple(multipliers(pair.parts[k], s * row, rng.normal(size=6)) for k, s in ((0, 1.0), (1, -1.0)))
        for own_mu, rival_mu in (suggested, random):
            bound, with_move = least_margins(pair, own_mu, rival_mu)
            assert bound * p.C <= min(values.values()) + 1e-12
            for moves in relabellings(p, 2):
                for i, target in zip(*moves, strict=True):
                    move = pair.move(int(i), int(target))
                    if move is not None:
                        assert with_move[i, move] * p.C <= values[str(moves)] + 1e-12


@pytest.mark.parametrize("C", [0.3, 3.0])
def test_narrowing_keeps_successful_relabellings(C: float) -> None:
    p = problem(m=9, max_flips=1, C=C)
    every = relabellings(p, 1)
    parts = [p.one_vs_rest(c) for c in range(3)]
    ranges = [relaxation.proved_ranges(part, 1)[0] for part in parts]
    excluded = dropped = 0
    for t, own, rival in itertools.product(range(4), range(3), range(3)):
        if own == rival:
            continue
        row = p.K_test[t]
        pair = Pair.of(p, own, rival, (parts[own], parts[rival]), (ranges[own], ranges[rival]))
        narrowed = narrow_pair(pair, row, lambda: 60.0)
        hits = [moves for moves in every if margin(p, moves, row, own, [rival]) < -1e-9]
        if narrowed is None:
            excluded += 1
            assert hits == []
            continue
        dropped += int(pair.left.sum() - narrowed.left.sum())
        for positions, targets in hits:
            for i, target in zip(positions.tolist(), targets.tolist(), strict=True):
                move = narrowed.move(i, target)
                assert move is None or narrowed.left[i, move]
    assert excluded > 0
    assert dropped > 0


def test_root_of_the_relaxation_is_that_of_its_linear_program() -> None:
    p = problem(m=9, max_flips=2)
    pair = pair_of(p, 0, 1, 2)
    row = p.K_test[0]
    bound, _ = least_margins(pair, *pairs.PairRelaxation(pair, row).suggest(pair.left, 10.0))
    program = classes.pair_program(pair, row)
    relaxed = replace(program.model, integer=np.zeros_like(program.model.integer))
    session = get_solver("highs").open(relaxed, 1)
    assert bound == pytest.approx(session.solve(relaxed.cost, Limits()).objective, rel=1e-6, abs=1e-6)


# -- answers that are not to be believed -------------------------------------------------------------------------------


class Liar:
    """HiGHS whose answers are changed on the way."""

    name = "liar"

    def __init__(self, change: Callable[[Answer], Answer]) -> None:
        self._change = change
        self._inner = get_solver("highs")

    def version(self) -> str:
        return "0"

    def open(self, model: Any, threads: int) -> Any:
        session, change = self._inner.open(model, threads), self._change

        class Lying:
            def solve(self, *arguments: Any) -> Answer:
                return change(session.solve(*arguments))

            def close(self) -> None:
                session.close()

        return Lying()


LIES: dict[str, Callable[[Answer], Answer]] = {
    "robust": lambda a: replace(a, status=Status.OPTIMAL, bound=1e3, objective=1e3),
    "robust without a solution": lambda a: replace(a, status=Status.OPTIMAL, bound=1e3, x=None),
    "not a number": lambda a: replace(a, bound=float("nan"), x=None),
    "vulnerable": lambda a: replace(a, objective=-1.0, bound=-1.0, x=None if a.x is None else np.zeros_like(a.x)),
    "all labels moved": lambda a: replace(a, objective=-1.0, bound=-1.0, x=None if a.x is None else np.ones_like(a.x)),
    "infeasible": lambda a: replace(a, status=Status.INFEASIBLE, x=None, bound=float("inf")),
    "failed": lambda a: replace(a, status=Status.FAILED, x=None, bound=0.5),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("engine", ["milp", "milp-paper"])
def test_lies_open_intervals(lie: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = blobs(6, 4, seed=3)
    truth = certify(*arrays, 3.0, max_flips=2, engine="enumerate")
    monkeypatch.setattr(milp, "get_solver", lambda name: Liar(LIES[lie]))
    # Nothing but the solver: no greedy attack, no relaxation.
    monkeypatch.setattr(milp, "narrow_pair", lambda pair, row, left: pair)
    monkeypatch.setattr(milp, "least_margins", lambda pair, own, rival: (-1.0, np.full(pair.left.shape, -1.0)))
    monkeypatch.setattr(milp._Search, "attack", lambda self: None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cert = certify(*arrays, 3.0, max_flips=2, engine=engine, workers=1, collective=False)
    assert np.all(cert.radius_lower <= truth.radius_lower)
    assert np.all(cert.radius_upper >= truth.radius_upper)
    open_ = np.any((cert.radius_lower <= 2) & (cert.radius_lower < cert.radius_upper))
    assert not open_ or lie == "vulnerable" or any(w.category is MilpWarning for w in caught)
    assert open_ or lie == "robust"  # whose solution is an attack that retraining confirms
    assert cert.settings["statistics"]["solves"]


@pytest.mark.parametrize("lie", ["robust", "infeasible", "failed"])
def test_lies_about_the_curve_open_intervals(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = blobs(6, 4, seed=3)
    truth = certify(*arrays, 3.0, max_flips=2, engine="enumerate")
    monkeypatch.setattr(milp, "get_solver", lambda name: Liar(LIES[lie]))
    monkeypatch.setattr(milp._Search, "sweep", lambda self, step, pool: None)
    with pytest.warns(MilpWarning):
        cert = certify(*arrays, 3.0, max_flips=2, engine="milp", workers=1)
    assert np.all(cert.collective_lower <= truth.collective_lower)
    assert np.all(cert.collective_upper >= truth.collective_upper)


def test_every_question_is_put_to_retraining(monkeypatch: pytest.MonkeyPatch) -> None:
    """A witness in a certificate has passed :meth:`Question.changed`."""
    seen: list[bytes] = []
    changed = Question.changed

    def spy(self: Question, change: Any, nodes: Any = None) -> Any:
        seen.append(change.key)
        return changed(self, change, nodes)

    monkeypatch.setattr(Question, "changed", spy)
    p = problem(m=9, max_flips=2)
    question = Question.ask(Panel(p, linear=False))
    found = milp.ClassMilp("milp").run(question, Control(workers=1, collective=False))
    assert all(change is None or change.key in seen for change in found.radius_changes)


def test_the_linear_curve_counts_nodes_within_the_error_of_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ridge rows have errors: a node that may be at zero for them must not be lost from the upper curve."""
    rng = np.random.default_rng(3)
    points = rng.normal(size=(17, 5))
    K = points @ points.T
    arguments = (K[:9, :9], np.arange(9) % 3, K[9:, :9], 1.0)
    exact = certify(*arguments, loss="square", max_flips=1)
    within = int((exact.radius_lower <= 1).sum())
    assert exact.collective_upper[1] < within
    assert (
        certify(*arguments, loss="square", max_flips=1, engine="milp").collective_upper[1] == exact.collective_upper[1]
    )
    monkeypatch.setattr(milp, "margin_errors", lambda question: np.full(question.nodes.size, 100.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MilpWarning)
        vague = certify(*arguments, loss="square", max_flips=1, engine="milp")
    assert vague.collective_upper[1] == within
