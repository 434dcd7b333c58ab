"""One state for both formulations: what is known is used and kept, attacks are retrained, contradictions withdraw."""

from __future__ import annotations

import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.helpers.certificates import contains, same
from tests.helpers.problems import blobs
from tests.helpers.small_problems import certify_problem, class_problem, mixed_problem
from tests.helpers.solvers import SILENT, UNBELIEVABLE, Asked, Fake, answer, install

from labelcert import Certificate
from labelcert.certificate import Verdict
from labelcert.certificate.proofs import Tree
from labelcert.engines.base import Findings, Question, Work
from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.planning import Stage, plan
from labelcert.engines.search import BranchAndBound, branching
from labelcert.engines.search.branching import UNDECIDED, Decide, Judgement
from labelcert.engines.search.rivals import Rivals
from labelcert.engines.search.searching import Searching
from labelcert.errors import MilpWarning, MissingExtra
from labelcert.paper.milp import PaperProgram
from labelcert.paper.milp.judging import SolverJudge
from labelcert.paper.milp.paper_program import Asking
from labelcert.paper.milp.solvers import Answer, Ending, Limits
from labelcert.paper.milp.solvers.highs_mip import Highs
from labelcert.prediction import OneVsRest, Sign, predictor_for
from labelcert.problem import NOTHING, Problem, Relabelling

BUDGET = 3


@pytest.fixture(scope="module", params=[2, 3], ids=["two classes", "three classes"])
def problem(request: pytest.FixtureRequest) -> Problem:
    return mixed_problem(request.param, max_flips=BUDGET)


@pytest.fixture(scope="module")
def question(problem: Problem) -> Question:
    return Question.ask(predictor_for(problem, linear=False))


@pytest.fixture(scope="module")
def truth(problem: Problem) -> Certificate:
    cert = certify_problem(problem, "enumerate")
    assert {1, 2, 3} <= set(cert.radius_lower.tolist())
    return cert


def known_up_to(question: Question, budget: int) -> Findings:
    """What enumeration of small budgets leaves behind."""
    return Stage(Enumerate(), budget).run(question, Control(workers=1), Findings.nothing(question))


def at_least_as_good(found: Findings, known: Findings) -> None:
    assert np.all(found.radius_lower >= known.radius_lower)
    assert np.all(found.radius_upper <= known.radius_upper)
    assert np.all(found.curve_lower >= known.curve_lower)
    assert np.all(found.curve_upper <= known.curve_upper)


def is_true(found: Findings, question: Question, truth: Certificate) -> None:
    """The findings contain what is true, and their attacks do what they should."""
    a = question.problem.adversary
    assert np.all(found.radius_lower <= truth.radius_lower[question.nodes])
    assert np.all(found.radius_upper >= truth.radius_upper[question.nodes])
    assert np.all(found.curve_lower <= truth.collective_lower)
    assert np.all(found.curve_upper >= truth.collective_upper)
    for t, change in enumerate(found.radius_changes):
        if change is not None:
            assert a.admits(change, int(found.radius_upper[t]))
            assert question.changed(change)[0][t]
    for b, change in enumerate(found.curve_changes):
        assert a.admits(change, b)
        assert question.changed(change)[0].sum() >= found.curve_lower[b]


def small_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is enumerated before the search begins."""
    monkeypatch.setattr(branching, "LEAF_SETS", 1)
    monkeypatch.setattr(branching, "LEAF_RELABELLINGS", 1)


# -- going on from what is known ---------------------------------------------------------------------------------------


class Spy:
    """Which nodes were decided at which budgets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decided: list[tuple[int, int]] = []
        step = Rivals.step

        def spying(formulation: Any, budget: int) -> Decide:
            decide = step(formulation, budget)

            def noting(t: int) -> Judgement:
                self.decided.append((t, budget))
                return decide(t)

            return noting

        monkeypatch.setattr(Rivals, "step", spying)


def test_what_is_known_is_not_decided_again(
    question: Question, truth: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_leaves(monkeypatch)
    asked = Spy(monkeypatch)
    known = known_up_to(question, 1)
    found = BranchAndBound().run(question, Control(workers=1), known)
    at_least_as_good(found, known)
    is_true(found, question, truth)
    assert np.array_equal(found.radius_lower, truth.radius_lower[question.nodes])
    assert np.array_equal(found.curve_lower, truth.collective_lower)
    assert np.array_equal(found.curve_upper, truth.collective_upper)
    # One flip was settled before, and nodes that it changes are done.
    assert asked.decided
    assert min(b for _, b in asked.decided) == 2
    assert not {t for t, _ in asked.decided} & set(np.flatnonzero(known.radius_upper == 1).tolist())


def test_nothing_is_done_where_everything_is_known(question: Question, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Spy(monkeypatch)
    fake = Fake(question.problem, SILENT["time limit"])
    install(monkeypatch, fake)
    known = known_up_to(question, BUDGET)
    assert known.settled()
    found = BranchAndBound().run(question, Control(workers=1), known)
    assert asked.decided == []
    assert fake.opened == 0
    for name in ("radius_lower", "radius_upper", "curve_lower", "curve_upper"):
        assert np.array_equal(getattr(found, name), getattr(known, name)), name
    assert list(found.radius_changes) == list(known.radius_changes)
    assert list(found.curve_changes) == list(known.curve_changes)


@pytest.mark.parametrize("reply", [SILENT["time limit"], UNBELIEVABLE["infeasible"]], ids=["silent", "unbelievable"])
@pytest.mark.parametrize("budget", [1, 2])
def test_a_useless_solver_loses_nothing_that_is_known(
    question: Question, truth: Certificate, reply: Any, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Fake(question.problem, reply))
    known = known_up_to(question, budget)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MilpWarning)
        found = PaperProgram().run(question, Control(workers=1), known)
    at_least_as_good(found, known)
    is_true(found, question, truth)


def test_known_radii_alone_give_the_curve(question: Question, truth: Certificate) -> None:
    known = replace(
        known_up_to(question, BUDGET),
        curve_lower=np.zeros(BUDGET + 1, dtype=np.int64),
        curve_upper=np.array([0, *[question.nodes.size] * BUDGET]),
        curve_changes=[NOTHING] * (BUDGET + 1),
    )
    found = BranchAndBound().run(question, Control(workers=1), known)
    is_true(found, question, truth)
    assert np.array_equal(found.radius_lower, known.radius_lower)
    assert np.array_equal(found.curve_lower, truth.collective_lower)
    assert np.array_equal(found.curve_upper, truth.collective_upper)


@pytest.fixture
def slow_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enumeration that would exceed every time limit, and reaches one flip within it."""
    monkeypatch.setattr(Enumerate, "estimate", lambda self, question, control: Work("all labellings", 1e9))
    monkeypatch.setattr(Enumerate, "reach", lambda self, question, control, seconds: 1)


@pytest.mark.usefixtures("slow_enumeration")
def test_a_short_time_limit_makes_two_stages(problem: Problem, truth: Certificate) -> None:
    cert = certify_problem(problem, "auto", time_limit=300.0, workers=1)
    same(cert, truth)
    assert cert.exact
    assert cert.run.engine_asked == "auto"
    assert cert.engine == "enumerate + milp"
    stages = [(stage.engine, stage.max_flips) for stage in cert.run.stages]
    # With more than two classes, enumeration goes on with single nodes before the search begins.
    assert stages == [("enumerate", 1), *[("enumerate", BUDGET)] * (problem.n_classes > 2), ("milp", BUDGET)]
    assert "trainings" in cert.run.stages[0].statistics
    assert cert.run.stages[-1].statistics["solver"].startswith("highs")
    # What one flip changes was settled by the first stage, and what an early attack changes with two may have been.
    for t, radius in enumerate(truth.radius_lower.tolist()):
        by = ["enumerate"] if radius == 1 or problem.n_classes > 2 else ["enumerate", "milp"][radius > 2 :]
        assert cert.radius_proved_by[t] in by
        assert cert.witness(t) is not None or radius > BUDGET
    assert cert.collective_proved_by[1] == "enumerate"
    assert set(cert.collective_proved_by[2:].tolist()) <= {"milp"}


def test_a_long_time_limit_makes_one_stage(problem: Problem, truth: Certificate) -> None:
    cert = certify_problem(problem, "auto", time_limit=100.0)
    assert cert.engine == "enumerate"
    same(cert, truth)


@pytest.mark.usefixtures("slow_enumeration")
def test_a_second_stage_that_stops_at_once_keeps_what_the_first_proved(
    problem: Problem, truth: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_leaves(monkeypatch)
    monkeypatch.setattr(Searching, "attack", lambda searching: None)
    monkeypatch.setattr(Rivals, "step", lambda rivals, budget: lambda t: UNDECIDED)
    monkeypatch.setattr(Rivals, "most_changed", lambda rivals, budget, nodes: (int(nodes.size), Tree()))
    cert = certify_problem(problem, "auto", time_limit=300.0, workers=1)
    contains(cert, truth)
    assert np.all(cert.radius_lower >= np.minimum(truth.radius_lower, 2))
    assert np.array_equal(cert.collective_lower[:2], truth.collective_lower[:2])
    assert not cert.exact


@pytest.mark.usefixtures("slow_enumeration")
def test_only_the_papers_program_needs_the_chosen_solver(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyscipopt", None)
    assert certify_problem(problem, "auto", time_limit=300.0, solver="scip").engine == "enumerate + milp"
    assert certify_problem(problem, "milp", solver="scip").exact
    with pytest.raises(MissingExtra, match="scip"):
        plan("milp-paper", problem, Control(workers=1, solver="scip"))


def test_a_real_estimate_makes_three_stages_for_three_classes() -> None:
    """Thirty labels of three classes, six flips: hopeless to enumerate in a second."""
    large = Problem.build(*blobs(30, 4, classes=3), 2.0, max_flips=6)
    first, nodes, last = plan("auto", large, Control(workers=1, time_limit=1.0)).stages
    assert [stage.engine.name for stage in (first, nodes, last)] == ["enumerate", "enumerate-open", "milp"]
    assert 0 <= first.max_flips < 6
    assert nodes.max_flips == last.max_flips == 6


# -- attacks -----------------------------------------------------------------------------------------------------------


def test_every_witness_was_retrained(question: Question, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[Relabelling] = set()
    changed = Question.changed

    def spy(self: Question, change: Relabelling, nodes: Any = None) -> Any:
        seen.add(change)
        return changed(self, change, nodes)

    monkeypatch.setattr(Question, "changed", spy)
    found = BranchAndBound().run(question, Control(workers=1), Findings.nothing(question))
    assert any(change is not None for change in found.radius_changes)
    assert all(change is None or change in seen for change in (*found.radius_changes, *found.curve_changes[1:]))


# -- contradictions ----------------------------------------------------------------------------------------------------


def judge(question: Question) -> SolverJudge:
    return SolverJudge(Fake(question.problem, SILENT["time limit"]), Control(workers=1))


def test_a_contradiction_withdraws_what_rests_on_the_solver_and_nothing_else(
    question: Question, truth: Certificate
) -> None:
    """The solver calls all nodes robust but one, whose attack turns out to change another one, too."""
    known = Findings.nothing(question)
    radius = truth.radius_lower[question.nodes]
    hits = {change: question.changed(change)[0] for change in known_up_to(question, 1).curve_changes}
    attack, changed = max(hits.items(), key=lambda item: item[1].sum())
    victim = int(np.flatnonzero(changed)[0])
    assert changed.sum() >= 2

    def step(budget: int) -> Decide:
        def decide(t: int) -> Judgement:
            if t == victim:
                return Judgement(Verdict.VULNERABLE, attack)
            if radius[t] > BUDGET:
                return Judgement(Verdict.ROBUST, by_relaxation=True)
            return Judgement(Verdict.ROBUST, claimed=True) if budget == 1 else UNDECIDED

        return decide

    searching = Asking(question, Control(workers=1), known, judge(question))
    with ThreadPoolExecutor(1) as pool:
        searching.sweep(step, pool)
    searching.curve_upper = np.minimum(searching.curve_upper, 1)  # so the solver says
    with pytest.warns(MilpWarning, match="contradicted by a retrained attack"):
        found = searching.findings({})
    is_true(found, question, truth)
    proved = radius > BUDGET
    assert np.all(found.radius_lower[proved] == BUDGET + 1)
    assert np.all(found.radius_lower[~proved] == known.radius_lower[~proved])
    assert np.all(found.radius_upper[changed] == 1)
    assert found.curve_upper[1] == (~proved).sum()
    assert np.array_equal(found.claimed_radii, found.radius_lower)
    assert np.array_equal(found.claimed_curve, found.curve_upper)


def test_without_a_contradiction_claims_stand_and_prove_nothing(question: Question) -> None:
    searching = Asking(question, Control(workers=1), Findings.nothing(question), judge(question))
    robust = Judgement(Verdict.ROBUST, claimed=True)
    with ThreadPoolExecutor(1) as pool:
        searching.sweep(lambda budget: lambda t: robust if budget == 1 else UNDECIDED, pool)
    found = searching.findings({})
    assert np.all(found.claimed_radii == 2)
    assert np.all(found.radius_lower == 1)
    assert np.array_equal(found.curve_upper, Findings.nothing(question).curve_upper)
    assert found.statistics["not_believed"] == []


def test_a_retrained_attack_outweighs_every_bound(
    problem: Problem, question: Question, truth: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plausible lie: every node is called robust at one flip, but for one, and its attack changes others, too."""
    # All that come before the last vulnerable node have been called robust by then.
    last = int(np.flatnonzero(truth.radius_upper[question.nodes] == 1)[-1])
    fake = Fake(problem, SILENT["time limit"])

    def reply(asked: Asked) -> Answer:
        if len(fake.solves) == last + 1:
            return Highs().open(asked.model, 1).solve(asked.cost, Limits(), asked.rows)
        return answer(Ending.DECIDED, bound=1e-4)

    fake.reply = reply
    install(monkeypatch, fake)
    with pytest.warns(MilpWarning, match="contradicted by a retrained attack"):
        cert = certify_problem(problem, "milp-paper", max_flips=1, collective=False, workers=1, trust_solver=True)
    # Whatever the shown attack changes is known to be vulnerable, and never called robust at one flip.
    vulnerable = cert.radius_upper == 1
    assert vulnerable.sum() > 1
    assert np.all(truth.radius_upper[vulnerable] == 1)
    assert np.all(cert.radius_lower == 1)


# -- the curve ---------------------------------------------------------------------------------------------------------


def test_the_curve_never_falls(question: Question) -> None:
    found = BranchAndBound().run(question, Control(workers=1), Findings.nothing(question))
    assert np.all(np.diff(found.curve_lower) >= 0)
    assert np.all(np.diff(found.curve_upper) >= 0)


# -- both formulations -------------------------------------------------------------------------------------------------


def test_two_classes_are_the_same_through_one_model_per_class() -> None:
    two = mixed_problem(2, max_flips=2)
    one, several = (
        BranchAndBound().run(asked, Control(workers=1), Findings.nothing(asked))
        for asked in (Question.ask(kind(two, linear=False)) for kind in (Sign, OneVsRest))
    )
    for name in ("radius_lower", "radius_upper", "curve_lower", "curve_upper"):
        assert np.array_equal(getattr(one, name), getattr(several, name)), name


def test_no_test_nodes_with_a_prediction() -> None:
    """A tie is all there is: nothing to search."""
    p = class_problem()
    tied = Problem.build(np.eye(6), p.labels, np.zeros((1, 6)), 1.0, max_flips=1)
    cert = certify_problem(tied, "milp")
    assert cert.radius_lower.tolist() == [0]
    assert cert.exact
