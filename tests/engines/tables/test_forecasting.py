"""What single moves foretell, and attacks that come of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.engines.tables.test_forest import THREATS
from tests.helpers.problems import blobs

from labelcert import Threat
from labelcert.engines.base import Attacks, Findings, Question
from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.tables import forecasting
from labelcert.engines.tables.forecasting import Forecast, attack
from labelcert.engines.tables.open_nodes import Duals
from labelcert.engines.tables.sizes import new_forest
from labelcert.problem import Problem


def foretelling(question: Question) -> Forecast:
    forest = new_forest(question, math.inf, 1, duals=True)
    duals = Duals(forest)
    assert forest.train(1, duals, Control(workers=1))
    return Forecast(question, forest, duals.z)


@pytest.mark.parametrize("threat", THREATS, ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_single_moves_are_foretold_and_attacks_are_proved(
    seed: int, threat: Threat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecasting, "CELLS", 200.0)  # a few nodes at a time
    monkeypatch.setattr(forecasting, "AT_ONCE", 3)
    problem = Problem.build(*blobs(12, 10, classes=4, seed=seed), 2.0, threat=threat, max_flips=3)
    question = Question.ask(Enumerate().predictor(problem))
    exact = Enumerate().run(question, Control(workers=1), Findings.nothing(question))
    forecast, everybody = foretelling(question), np.arange(question.nodes.size)
    found = list(forecast.about(everybody, 1))
    assert sorted(t for some in found for t in some.nodes.tolist()) == everybody.tolist()
    for some in found:
        for k, t in enumerate(some.nodes.tolist()):
            change = forecast.change(some, k, 1)
            alone = len(change) == 1 and problem.adversary.admits(change, problem.max_flips)
            if alone and some.size[k] == 1:
                assert question.changed(change, np.array([t]))[0][0]
            assert some.lead[k] > 0 or exact.radius_lower[t] <= 1
    attacks = Attacks(question)
    attack(question, forecast, attacks, everybody, 1, Control(workers=1))
    assert np.all(attacks.radius >= exact.radius_lower)
    assert np.any(attacks.radius <= 3) or np.all(exact.radius_lower > 3)
    for t, change in enumerate(attacks.radius_changes):
        assert change is None or question.changed(change, np.array([t]))[0][0]
        assert change is None or problem.adversary.cost(change) == attacks.radius[t]


def test_once_the_run_is_over_nothing_is_tried() -> None:
    question = Question.ask(Enumerate().predictor(Problem.build(*blobs(12, 10, classes=3), 2.0, max_flips=3)))
    forecast, attacks = foretelling(question), Attacks(question)
    control = Control(workers=1, time_limit=1e-9)
    control.start_clock()
    attack(question, forecast, attacks, np.arange(question.nodes.size), 1, control)
    assert np.all(attacks.radius == question.problem.adversary.never)
