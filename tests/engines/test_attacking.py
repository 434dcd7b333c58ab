"""Attacks that grow change by change: admissible, entered with proofs, and good."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.problems import blobs, gaussian
from tests.helpers.small_problems import CLASS_THREATS, certify_problem, class_problem, mixed_problem

from labelcert.engines.attacking import Attacker, upper_ends
from labelcert.engines.base import Attacks, Findings, Question
from labelcert.engines.control import Control
from labelcert.prediction import predictor_for
from labelcert.problem import NOTHING, Problem, Relabelling
from labelcert.stopping import Stopped


def ask(problem: Problem) -> Question:
    return Question.ask(predictor_for(problem, linear=False))


def attacked(question: Question) -> Attacks:
    attacks = Attacks(question)
    attacker = Attacker(question, attacks, lambda: False)
    attacker.attack_nodes(Findings.nothing(question).radius_lower)
    attacker.attack_all()
    return attacks


PROBLEMS = [mixed_problem(2), mixed_problem(3), *(class_problem(threat) for threat in CLASS_THREATS)]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: f"{problem.n_classes} classes, {problem.threat}")
def test_attacks_are_admissible_and_never_better_than_the_truth(problem: Problem) -> None:
    question = ask(problem)
    attacks, truth = attacked(question), certify_problem(problem, "enumerate")
    a = problem.adversary
    for t, change in enumerate(attacks.radius_changes):
        if change is not None:
            assert a.admits(change, question.budget)
            assert a.cost(change) == attacks.radius[t] >= truth.radius_upper[question.nodes[t]]
            assert question.changed(change, np.array([t]))[0][0]
    tied = problem.n_test - question.nodes.size
    assert np.all(attacks.curve + tied <= truth.collective_lower)


def test_they_are_good_on_ordinary_problems() -> None:
    found = exact = 0
    for seed in range(12):
        arrays = gaussian(10, 8, seed=seed) if seed % 2 else blobs(9, 8, classes=3, seed=seed)
        problem = Problem.build(*arrays, 1.0, max_flips=3)
        question = ask(problem)
        radius = certify_problem(problem, "enumerate").radius_upper[question.nodes]
        reachable = radius <= 3
        found += int(reachable.sum())
        exact += int((attacked(question).radius == radius)[reachable].sum())
    assert found > 30
    assert exact >= 0.85 * found


def test_foretold_effects_are_right_where_no_other_label_changes_its_state() -> None:
    K = np.eye(6) * 2.0 + 0.01
    problem = Problem.build(K, [0, 1, 0, 1, 0, 1], np.ones((1, 6)) + np.arange(6) / 10, 0.3)
    question = ask(problem)
    attacker = Attacker(question, Attacks(question), lambda: False)
    foretold = attacker._foretold(NOTHING, np.array([0]))[0]
    before = attacker.margins(NOTHING)[0]
    for i in range(6):
        k = 1 - int(problem.codes[i])
        change = Relabelling(np.array([i]), np.array([k]))
        assert foretold[i, k] == pytest.approx(attacker.margins(change)[0] - before, abs=1e-6)


def test_it_stops_when_told() -> None:
    question = ask(mixed_problem(2))
    attacks = Attacks(question)
    Attacker(question, attacks, lambda: True).attack_nodes(Findings.nothing(question).radius_lower)
    assert all(change is None for change in attacks.radius_changes)


@pytest.mark.parametrize("classes", [2, 3])
def test_upper_ends_come_at_once_and_are_attacks(classes: int) -> None:
    arrays = gaussian(12, 9, seed=1) if classes == 2 else blobs(12, 9, classes=3, seed=1)
    question = ask(Problem.build(*arrays, 1.0, max_flips=12))
    found = upper_ends(question, Control(workers=1))
    assert np.all(found.radius_upper <= 12)
    for t, change in enumerate(found.radius_changes):
        assert change is not None
        assert question.changed(change, np.array([t]))[0][0]
    over = Control(workers=1, time_limit=1e-9)
    over.start_clock()
    assert np.all(upper_ends(question, over).radius_upper == question.problem.adversary.never)


def test_first_attacks_that_are_stopped_leave_what_they_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(self: Attacker) -> None:
        raise Stopped

    monkeypatch.setattr(Attacker, "attack_classes", stopped)
    question = ask(mixed_problem(2))
    assert np.all(upper_ends(question, Control(workers=1)).radius_upper == question.problem.adversary.never)
