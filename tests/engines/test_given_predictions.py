"""Predictions that were given and are not the model's own count as changed by the clean labels, in every engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.helpers.certificates import contains
from tests.helpers.small_problems import all_relabellings, mixed_problem

from labelcert.certification import Run, Task, solve
from labelcert.engines.base import Question
from labelcert.engines.registry import ENGINES
from labelcert.prediction import predictor_for
from labelcert.problem import Problem

BUDGET = 2


@pytest.fixture(scope="module", params=[(2, "hinge"), (2, "square"), (3, "hinge"), (3, "square")], ids=str)
def problem(request: pytest.FixtureRequest) -> Problem:
    classes, loss = request.param
    p = mixed_problem(classes)
    return Problem.build(p.K_train, p.labels, p.K_test[:4], 1.0, threat=p.threat, max_flips=BUDGET, loss=loss)


@pytest.fixture(scope="module")
def given(problem: Problem) -> Any:
    """The model's own predictions, but for two nodes."""
    predicted = predictor_for(problem, linear=problem.loss == "square").predicted.copy()
    predicted[[0, 3]] = (predicted[[0, 3]] + 1) % problem.n_classes
    return predicted


@pytest.mark.parametrize("name", ENGINES)
def test_radius_0_and_counted_from_the_start(problem: Problem, given: Any, name: str) -> None:
    engine = ENGINES[name]
    if engine.refuses(problem) is not None:
        pytest.skip("the engine does not apply")
    budget = 1 if name == "milp-paper" else BUDGET  # that one is slow
    problem = replace(problem, max_flips=budget)
    task = Task(problem=problem, predicted=given, collective=name != "milp-paper")
    cert = solve(task, Run(name, workers=1, trust_solver=True))
    question = Question.ask(predictor_for(problem, linear=problem.loss == "square").with_predictions(given))
    assert question.contrary.sum() == 2
    radius, curve = np.full(problem.n_test, cert.never), np.zeros(budget + 1, dtype=np.int64)
    for change in all_relabellings(problem, budget):
        changed, unchanged = question.changed(change)
        assert np.all(changed | unchanged)
        cost = len(change)
        radius[question.nodes[changed]] = np.minimum(radius[question.nodes[changed]], cost)
        curve[cost:] = np.maximum(curve[cost:], changed.sum())
    assert np.flatnonzero(radius == 0).tolist() == [0, 3]
    assert np.all(cert.radius_lower <= radius)
    assert np.all(cert.radius_upper >= radius)
    assert np.all(cert.collective_lower <= curve)
    assert np.all(cert.collective_upper >= curve)
    assert cert.collective_upper[0] == 2
    if engine.capabilities.finds_attacks:
        assert cert.radius_upper.tolist() == radius.tolist()
        assert cert.radius_lower.tolist() == np.minimum(radius, budget + 1).tolist()
        assert cert.witness(0) == cert.witness(3) == {}
    if cert.run.collective and engine.capabilities.finds_attacks:
        assert cert.collective_lower.tolist() == cert.collective_upper.tolist() == curve.tolist()
    contains(solve(Task(problem=problem, predicted=given), Run(name, workers=1, time_limit=1e-4)), cert)
