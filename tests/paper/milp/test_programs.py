"""Feasible points of the paper's program are the admissible labellings with their trained models, and nothing else."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from tests.helpers.problems import gaussian
from tests.helpers.programs import violation

from labelcert import Threat
from labelcert.engines.base import Question
from labelcert.engines.search.mixed_integer import MixedInteger
from labelcert.errors import MissingExtra
from labelcert.paper.milp.label_programs import LabelProgram
from labelcert.paper.milp.solvers import Ending, Limits, SolverUnavailable, get_solver
from labelcert.paper.milp.theorems import two_classes
from labelcert.prediction import Sign
from labelcert.problem import Problem, Relabelling
from labelcert.problem.problem import signs_of
from labelcert.svm.training import train

THREATS = [
    Threat(),
    Threat(costs=[1, 2, 1, 3, 1, 2]),
    Threat(groups=["a", "a", "a", "b", "b", None], group_budgets={"a": 1, "b": 1}),
    Threat(trusted=np.arange(6) < 2, costs=[1, 1, 2, 1, 2, 1]),
    Threat(allowed_flips={1: [0]}),
]
SOLVED_THREATS = [
    Threat(),
    Threat(costs=[1, 2, 1, 2, 1], groups=["a", "a", "a", "b", None], group_budgets={"a": 1}),
    Threat(trusted=np.arange(5) < 2, costs=[1, 1, 2, 1, 2]),
]
CAPS = [0.3, 2.0, 20.0]


@pytest.fixture(params=["highs", "gurobi", pytest.param("scip", marks=pytest.mark.long)])
def paper_solver(request: pytest.FixtureRequest) -> str:
    """For the paper's programs, on which SCIP takes its time."""
    try:
        get_solver(request.param)
    except (MissingExtra, SolverUnavailable) as error:
        pytest.skip(str(error))
    return str(request.param)


@dataclass(frozen=True, eq=False)
class Labelling:
    change: Relabelling
    y: np.ndarray
    z: np.ndarray


def make(threat: Threat | None = None, C: float = 2.0, max_flips: int | None = None, m: int = 6) -> Question:
    K, labels, rows = gaussian(m, 4, dims=2)
    problem = Problem.build(K, labels, rows, C, threat=threat, max_flips=max_flips)
    return Question.ask(Sign(problem, linear=False))


def signed_rows(question: Question) -> np.ndarray:
    assert isinstance(question.predictor, Sign)
    return question.predictor.signed_rows(question.nodes)


def changes(problem: Problem) -> list[Relabelling]:
    """All of them, within any budget or not."""
    a = problem.adversary
    chosen = itertools.product([False, True], repeat=a.labels.size)
    return [a.flipped(np.flatnonzero(flips).astype(np.int64)) for flips in chosen]


def labels_after(problem: Problem, change: Relabelling) -> np.ndarray:
    return signs_of(problem.relabelled(change), 1)


def labellings(question: Question) -> list[Labelling]:
    """All of them, admissible or not."""
    problem = question.problem
    found = []
    for change in changes(problem):
        y = labels_after(problem, change)
        found.append(Labelling(change, y, train(problem.K_train, y, problem.C)))
    return found


def paper_point(problem: Problem, model: MixedInteger, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The paper's variables, from its definitions."""
    alpha = y * z
    margin = y * (problem.K_train @ z)
    x = np.zeros(model.lower.size)
    for name, value in {
        "y'": (y + 1) / 2,
        "s": margin > 1 + 1e-9,
        "t": margin < 1 - 1e-9,
        "alpha": alpha,
        "z": z,
        "u": np.maximum(margin - 1, 0.0),
        "v": np.maximum(1 - margin, 0.0),
        "R": np.outer(y, z),
    }.items():
        x[model.columns[name]] = value
    return x


@pytest.mark.parametrize("C", CAPS)
@pytest.mark.parametrize("threat", THREATS, ids=repr)
def test_trained_points_of_admissible_labellings_are_feasible_and_no_others(threat: Threat, C: float) -> None:
    question = make(threat, C)
    problem = question.problem
    everything = labellings(question)
    for budget in (0, 1, 3):
        paper = two_classes(problem, budget)
        for labelling in everything:
            x = paper_point(problem, paper.model, labelling.y, labelling.z)
            assert paper.change(x) == labelling.change
            assert x[paper.z] == pytest.approx(labelling.z, abs=1e-9 * C)
            if problem.adversary.admits(labelling.change, budget):
                assert violation(paper.model, x) < 1e-7
            else:
                assert violation(paper.model, x) > 0.5


@pytest.mark.parametrize("C", CAPS)
def test_no_other_model_than_the_trained_one_is_feasible(solver: str, C: float) -> None:
    question = make(C=C, max_flips=0)
    problem = question.problem
    z = train(problem.K_train, problem.y, C)
    rng = np.random.default_rng(0)
    program = two_classes(problem, 0)
    session = get_solver(solver).open(program.model, 1)
    for _ in range(3):
        direction = rng.normal(size=problem.m)
        answer = session.solve(program.score_cost(direction), Limits())
        assert answer.status is Ending.OPTIMAL
        assert answer.objective == pytest.approx(direction @ z, abs=1e-6 * C)
    session.close()


def check_minimum(solver: str, question: Question, program: LabelProgram, budget: int) -> None:
    problem, rows = question.problem, signed_rows(question)
    within = [one for one in labellings(question) if problem.adversary.admits(one.change, budget)]
    session = get_solver(solver).open(program.model, 1)
    for t in range(2):
        scores = rows[:, t]
        answer = session.solve(program.score_cost(scores), Limits())
        best = min(float(scores @ one.z) for one in within)
        assert answer.status is Ending.OPTIMAL
        assert answer.x is not None
        assert answer.objective == pytest.approx(best, abs=1e-6)
        [same] = [one for one in within if one.change == program.change(answer.x)]
        assert float(scores @ same.z) == pytest.approx(best, abs=1e-6)
    session.close()


@pytest.mark.parametrize("threat", SOLVED_THREATS, ids=repr)
def test_minimum_over_labellings_is_the_optimum_of_the_papers_program(paper_solver: str, threat: Threat) -> None:
    question = make(threat, m=5)
    check_minimum(paper_solver, question, two_classes(question.problem, 2), 2)


def check_most(solver: str, question: Question, program: LabelProgram, budget: int) -> None:
    problem, rows = question.problem, signed_rows(question)
    within = [one for one in labellings(question) if problem.adversary.admits(one.change, budget)]
    most = max(int((rows.T @ one.z <= 0).sum()) for one in within)
    assert program.model.columns["c"].size == rows.shape[1]
    session = get_solver(solver).open(program.model, 1)
    answer = session.solve(program.model.cost, Limits())
    session.close()
    assert answer.status is Ending.OPTIMAL
    assert answer.x is not None
    assert -answer.objective == pytest.approx(most, abs=1e-6)
    y = labels_after(problem, program.change(answer.x))
    assert (rows.T @ train(problem.K_train, y, problem.C) <= 0).sum() == most


@pytest.mark.parametrize("threat", SOLVED_THREATS[:2], ids=repr)
@pytest.mark.parametrize("budget", [1, 3])
def test_most_nodes_that_one_labelling_changes_in_the_papers_program(
    paper_solver: str, threat: Threat, budget: int
) -> None:
    question = make(threat, m=5)
    program = two_classes(question.problem, budget, signed_rows(question))
    check_most(paper_solver, question, program, budget)


@pytest.mark.parametrize("threat", [Threat(), Threat(trusted=np.arange(6) == 1)], ids=repr)
def test_without_excludes_one_attack_and_no_other(threat: Threat) -> None:
    question = make(threat)
    problem = question.problem
    budget = problem.max_flips
    everything = labellings(question)
    program = two_classes(problem, budget)
    points = [paper_point(problem, program.model, one.y, one.z) for one in everything]
    for k, excluded in enumerate(everything):
        row = program.without(excluded.change)
        for j, x in enumerate(points):
            assert (row.coefficients @ x[row.columns] <= row.upper) == (j != k)


def check_ranking(solver: str, question: Question, program: LabelProgram) -> None:
    scores = signed_rows(question)[:, 0]
    ranked = sorted(float(scores @ one.z) for one in labellings(question) if len(one.change) <= 2)
    session = get_solver(solver).open(program.model, 1)
    rows = []
    for expected in ranked[:3]:
        answer = session.solve(program.score_cost(scores), Limits(), rows=rows)
        assert answer.x is not None
        assert answer.objective == pytest.approx(expected, abs=1e-6)
        rows.append(program.without(program.change(answer.x)))
    session.close()


def test_excluding_the_best_attack_leads_to_the_second_best_in_the_papers_program(paper_solver: str) -> None:
    question = make(m=4)
    check_ranking(paper_solver, question, two_classes(question.problem, 2))


@pytest.mark.parametrize("m", [6, 9])
def test_sizes(m: int) -> None:
    problem = make(m=m).problem
    paper = two_classes(problem, 2).model
    assert int(paper.integer.sum()) == 3 * m
    assert paper.size == (4 * m * m + 9 * m + 1, m * m + 7 * m)
    n = problem.n_test
    both = two_classes(problem, 2, np.ones((m, n))).model
    assert int(both.integer.sum()) == 3 * m + n
    assert both.size == (paper.size[0] + 2 * n, paper.size[1] + n)


def test_margin_grows_with_the_program_and_the_objective() -> None:
    problem = make().problem
    program = two_classes(problem, 2)
    cost = program.score_cost(np.ones(problem.m))
    width = float((program.model.upper - program.model.lower).sum())
    assert program.margin(cost) >= 1e-9 * width
    assert program.margin(100 * cost) == pytest.approx(100 * program.margin(cost))
    assert program.margin(cost) < 1e-3
