"""Depth-first counting against all sets of flips."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.helpers.problems import gaussian, small_cap

from labelcert import Threat, certify
from labelcert.arrays import Float, Int
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.engines.linear import counting as module
from labelcert.engines.linear.counting import Counted, Counting
from labelcert.prediction import Sign
from labelcert.problem import Problem
from labelcert.problem.problem import signs_of

NO_FLIPS = np.zeros(0, dtype=np.int64)

M = 8
THREATS = [
    Threat(),
    Threat(costs=[1, 2, 3, 1, 2, 3, 1, 2]),
    Threat(groups=["a", "b", None, "a", "b", None, "a", "b"], group_budgets={"a": 1, "b": 2}),
    Threat(costs=[2, 1, 1, 3, 1, 2, 2, 1], groups=["a"] * 5 + ["b"] * 3, group_budgets=3),
    Threat(trusted=np.arange(M) % 3 == 0),
    Threat(allowed_flips={1: [0]}, costs=[1, 1, 1, 1, 2, 2, 2, 2]),
    Threat(trusted=np.ones(M, dtype=bool)),
]


def whole_numbers(threat: Threat, seed: int, n: int = 12) -> Question:
    """All labels at their cap, integer kernels: full of exact ties."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(M + n, 3)).astype(float)
    K = X @ X.T
    labels = rng.integers(0, 2, M)
    labels[0], labels[-1] = 0, 1
    problem = Problem.build(K[:M, :M], labels, K[M:, :M], 2.0**-10, threat=threat)
    return Question.ask(Sign(problem, linear=True))


def ridge(threat: Threat, seed: int, n: int = 12) -> Question:
    K, labels, rows = gaussian(M, n, seed=seed)
    problem = Problem.build(K, labels, rows, 1.0, threat=threat, loss="square")
    return Question.ask(Sign(problem, linear=True))


def signed_scores(question: Question, flips: Int) -> Float:
    """Scores after some flips, times the signs of the clean predictions: at most 0 where a node is changed."""
    assert isinstance(question.predictor, Sign)
    codes = question.problem.relabelled(question.problem.adversary.flipped(flips))
    return question.predictor.signed_rows(question.nodes).T @ signs_of(codes, 1)


def curve(question: Question) -> list[int]:
    """Most nodes that a set within each budget changes, by the scores themselves (integers are exact)."""
    problem = question.problem
    most = [0] * (problem.max_flips + 1)
    for size in range(problem.adversary.labels.size + 1):
        for chosen in itertools.combinations(range(problem.adversary.labels.size), size):
            flips = np.array(chosen, dtype=np.int64)
            cost = int(problem.adversary.costs[flips].sum())
            if problem.adversary.affords(flips, problem.max_flips):
                count = int((signed_scores(question, flips) <= 0).sum())
                most[cost] = max(most[cost], count)
    return np.maximum.accumulate(most).tolist()


def search(question: Question, budget: int, *, effort: float = np.inf, most: int | None = None) -> Counted:
    counting = Counting(question)
    counting.prepare()
    most = question.nodes.size if most is None else most
    return counting.narrow(budget, 0, NO_FLIPS, most, Control(workers=1), effort)


def realised(question: Question, found: Counted, budget: int) -> None:
    assert question.problem.adversary.affords(found.flips, budget)
    change = question.problem.adversary.flipped(found.flips)
    assert int(question.changed(change)[0].sum()) >= found.lower


@pytest.mark.parametrize("threat", THREATS, ids=repr)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [whole_numbers, ridge])
def test_equals_all_sets_at_every_budget(make: type, seed: int, threat: Threat) -> None:
    question = make(threat, seed)
    for budget, truth in enumerate(curve(question)):
        found = search(question, budget)
        assert (found.lower, found.upper) == (truth, truth)
        realised(question, found, budget)


def test_the_integer_problems_are_full_of_ties() -> None:
    question = whole_numbers(Threat(), 0)
    ties = sum(
        int((signed_scores(question, np.array(chosen, dtype=np.int64)) == 0).sum())
        for chosen in itertools.combinations(range(M), 2)
    )
    assert ties > 5


@pytest.mark.parametrize("threat", THREATS[:4], ids=repr)
def test_what_is_known_is_kept(threat: Threat) -> None:
    question = ridge(threat, 0)
    counting = Counting(question)
    counting.prepare()
    truth = curve(question)
    control = Control(workers=1)
    for budget in range(1, len(truth)):
        first = counting.narrow(budget, 0, NO_FLIPS, question.nodes.size, control, np.inf)
        again = counting.narrow(budget, first.lower, first.flips, question.nodes.size, control, np.inf)
        assert (again.lower, again.upper) == (truth[budget], truth[budget])
        assert again.flips.tolist() == first.flips.tolist()
        closed = counting.narrow(budget, 0, NO_FLIPS, truth[budget], control, np.inf)
        assert (closed.lower, closed.upper) == (truth[budget], truth[budget])


@pytest.mark.parametrize("threat", THREATS[:4], ids=repr)
@pytest.mark.parametrize("make", [whole_numbers, ridge])
def test_search_in_small_steps(make: type, threat: Threat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 1.0)
    question = make(threat, 1)
    n = question.nodes.size
    for budget, truth in enumerate(curve(question)):
        whole = search(question, budget)
        assert (whole.lower, whole.upper) == (truth, truth)
        for effort in (0.0, 1.0, 3.0 * n, 20.0 * n):
            part = search(question, budget, effort=effort)
            assert part.lower <= truth <= part.upper
            assert part.updates <= max(effort + n, whole.updates)
            realised(question, part, budget)


def test_no_effort_proves_nothing() -> None:
    found = search(ridge(Threat(), 0), 4, effort=0.0, most=11)
    assert (found.lower, found.upper, found.flips.size) == (0, 11, 0)


def test_a_stopped_run_gives_an_interval() -> None:
    question = ridge(Threat(), 0)
    counting = Counting(question)
    counting.prepare()
    control = Control(workers=1)
    control.flag[0] = 1
    found = counting.narrow(3, 0, NO_FLIPS, 12, control, np.inf)
    assert (found.lower, found.upper) == (0, 12)


def test_more_doubts_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_DOUBTS", 0)
    open_ = 0
    for seed in range(4):
        question = whole_numbers(Threat(), seed)
        for budget, truth in enumerate(curve(question)):
            found = search(question, budget)
            assert found.lower <= truth <= found.upper
            realised(question, found, budget)
            open_ += found.lower < found.upper
    assert open_ > 0


@pytest.mark.parametrize("loss", ["hinge", "square"])
@pytest.mark.parametrize("threat", [Threat(), Threat(costs=np.arange(12) % 3 + 1)], ids=repr)
def test_curves_of_certificates_agree_with_enumeration(threat: Threat, loss: str) -> None:
    K, labels, rows = gaussian(12, 30)
    C = 1.0 if loss == "square" else small_cap(K)
    counted = certify(K, labels, rows, C, threat=threat, loss=loss, engine="closed-form")
    walked = certify(K, labels, rows, C, threat=threat, loss=loss, engine="enumerate")
    assert np.array_equal(counted.collective_lower, walked.collective_lower)
    assert np.array_equal(counted.collective_upper, walked.collective_upper)


def test_a_table_that_does_not_fit_leaves_the_curve_open(monkeypatch: pytest.MonkeyPatch) -> None:
    K, labels, rows = gaussian(12, 30)
    walked = certify(K, labels, rows, 1.0, loss="square", engine="enumerate")
    monkeypatch.setattr(module, "TABLE_CELLS", 10.0)
    cert = certify(K, labels, rows, 1.0, loss="square", engine="closed-form")
    assert np.array_equal(cert.radius_lower, walked.radius_lower)
    assert np.all(cert.collective_lower <= walked.collective_lower)
    assert np.all(cert.collective_upper >= walked.collective_upper)
    assert not cert.exact
