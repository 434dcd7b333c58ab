"""One description of what is asked, one function that answers, and reductions in between."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from tests.helpers.certificates import same
from tests.helpers.problems import blobs, gaussian

import labelcert
from labelcert import InvalidInput, WorkTooLarge, attack, certify, certify_baseline, certify_linear, certify_partition
from labelcert.certificate import Certificate
from labelcert.certification import GivenKernel, GivenRows, Parts, Run, Task, solve
from labelcert.certification.reductions import CHAIN, Reduction, reduced
from labelcert.engines.base import Capabilities
from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.observing import Visited
from labelcert.engines.planning import plan
from labelcert.engines.registry import engine_names, register
from labelcert.problem import NOTHING

K, LABELS, ROWS = gaussian(9, 8)
MODEL = GivenKernel(K, ROWS, 0.5)
TASK = Task(MODEL, LABELS, max_flips=2)


def test_facades_are_tasks_and_runs() -> None:
    one = Run(workers=1)
    same(solve(TASK, one), certify(K, LABELS, ROWS, 0.5, max_flips=2, workers=1))
    votes = solve(replace(TASK, parts=Parts(3, combine="votes")), one)
    again = certify_partition(K, LABELS, ROWS, 0.5, parts=3, combine="votes", max_flips=2, workers=1)
    assert np.array_equal(votes.radius_lower, again.radius_lower)
    assert votes.engine == again.engine == "partition (votes)"
    same(solve(Task(GivenRows(ROWS), LABELS, max_flips=2), one), certify_linear(ROWS, LABELS, max_flips=2))
    found = solve(TASK, Run("attack:alfa", {"seed": 3}))
    same(found, attack(K, LABELS, ROWS, 0.5, using="alfa", seed=3, max_flips=2))
    lower = solve(TASK, Run("baseline:sensitivity", {"seed": 0}))
    same(lower, certify_baseline(K, LABELS, ROWS, 0.5, using="sensitivity", max_flips=2))


def test_auto_finds_the_engine_by_who_predicts() -> None:
    asked = [TASK, replace(TASK, parts=Parts(2)), Task(GivenRows(ROWS), LABELS, max_flips=2)]
    assert [solve(task, Run(workers=1)).engine for task in asked] == [
        "enumerate",
        "partition (mean scores)",
        "closed-form",
    ]


@pytest.mark.parametrize(
    ("task", "run", "message"),
    [
        (replace(TASK, parts=Parts(2)), Run("milp"), "one model, not for an ensemble on parts"),
        (TASK, Run("partition"), "it answers for an ensemble on parts of the labels, not for one model"),
        (TASK, Run("enumerate", {"seed": 1}), "engine='enumerate' takes no options, got seed"),
        (TASK, Run("baseline:smoothing"), "needs the loss 'square', got 'hinge'"),
        (replace(TASK, max_fraction=0.5), Run(), "max_flips or as max_fraction, not both"),
        (TASK, Run("attack:none"), "engine must be one of auto, closed-form"),
    ],
)
def test_what_does_not_go_together(task: Task, run: Run, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        solve(task, run)


def test_names_of_engines_with_a_function_of_their_own_are_not_advertised() -> None:
    assert not any(":" in name or name == "partition" for name in engine_names())


@pytest.mark.parametrize("loss", ["logistic", "cross_entropy"])
def test_an_intercept_is_an_option(loss: str) -> None:
    arrays = blobs(8, 5)
    plain = certify(*arrays, 1.0, loss=f"{loss}_intercept", max_flips=1, workers=1)
    same(certify(*arrays, 1.0, loss=loss, intercept=True, max_flips=1, workers=1), plain)
    with pytest.raises(
        InvalidInput, match=r"goes with loss='logistic' or 'cross_entropy' or 'square', got loss='hinge'"
    ):
        certify(*arrays, 1.0, intercept=True)


def test_fractions_and_margins_everywhere() -> None:
    assert certify_linear(ROWS, LABELS, max_fraction=0.34).max_flips == 3
    assert certify_baseline(K, LABELS, ROWS, 0.5, using="sensitivity", max_fraction=0.34).max_flips == 3
    found = attack(K, LABELS, ROWS, 0.5, max_fraction=0.34, margin=0.1)
    exact = certify(K, LABELS, ROWS, 0.5, max_flips=3, margin=0.1)
    assert found.run.margin == 0.1
    assert found.max_flips == 3
    assert np.all(found.radius_upper >= exact.radius_lower)
    assert np.array_equal(found.predictions, exact.predictions)
    assert labelcert.verify(found).accepted


def test_predictions_can_be_given_with_a_margin() -> None:
    """What counts is the lead of the given prediction, not of the model's own."""
    plain = reduced(TASK)[0].posed
    given = (certify(K, LABELS, ROWS, 0.5).decision_values > 0).astype(np.int64)
    given[0] = 1 - given[0]
    cert = solve(Task(problem=plain, predicted=given, margin=0.01), Run(workers=1))
    assert cert.predictions.tolist() == plain.classes[given].tolist()
    assert cert.radius_upper[0] == 0


class OnTrainingPoints(Reduction):
    """Test rows that are left out are those of the labelled points."""

    def accepts(self, task: Task) -> bool:
        return getattr(task.model, "K_test", 0) is None

    def apply(self, task: Task) -> tuple[Task, str]:
        model: Any = task.model
        return replace(task, model=replace(model, K_test=model.K_train)), "on its own points"

    def invert(self, cert: Certificate, undo: str) -> Certificate:
        return replace(cert, run=replace(cert.run, model=undo))


def test_a_reduction_is_one_line() -> None:
    CHAIN.insert(0, OnTrainingPoints())
    cert = solve(Task(GivenKernel(K, None, 0.5), LABELS, max_flips=1), Run(workers=1))  # type: ignore[arg-type]
    assert cert.run.model == "on its own points"
    assert np.array_equal(cert.radius_lower, certify(K, LABELS, K, 0.5, max_flips=1).radius_lower)


@dataclass
class Counting:
    """How many relabellings were visited."""

    costs: list[int] = field(default_factory=list)
    beyond: list[int] = field(default_factory=list)

    def observe(self, visited: Visited) -> None:
        self.costs += visited.cost.tolist()

    def unvisited(self, cost: int) -> None:
        self.beyond.append(cost)


class Shows(Enumerate):
    """Enumeration that shows the clean labels, and no others."""

    name = "shows"
    capabilities = Capabilities(observes=True)

    def run(self, question: Any, control: Any, known: Any) -> Any:
        n = question.nodes.size
        none = np.zeros((1, n), dtype=bool)
        for observer in question.observers:
            observer.observe(Visited(np.zeros(1, dtype=np.int64), none, ~none, none, lambda s: NOTHING, lambda: none))
            observer.unvisited(1)
        return super().run(replace(question, observers=()), control, known)


def test_observers_reach_an_engine_that_observes() -> None:
    register(Shows())
    counting = Counting()
    cert = solve(replace(TASK, observers=[counting]), Run("shows", workers=1))
    assert (counting.costs, counting.beyond) == ([0], [1])
    same(cert, certify(K, LABELS, ROWS, 0.5, max_flips=2, engine="enumerate", workers=1))
    with pytest.raises(InvalidInput, match=r"engine='relaxed' does not apply: it does not show the relabellings"):
        solve(replace(TASK, observers=[counting]), Run("relaxed", workers=1))


def test_ensembles_and_linear_maps_are_planned() -> None:
    """What is too much is refused before it starts, in the same words."""
    large = Task(GivenKernel(*gaussian(120, 2)[::2], 1.0), gaussian(120, 2)[1], parts=Parts(2))
    with pytest.raises(WorkTooLarge, match=r"the work is too large: engine='partition' would take .* \(all labellings"):
        solve(large, Run("partition", workers=1))
    problem = reduced(replace(TASK, parts=Parts(3)))[0].posed
    planned = plan("auto", problem, Control(workers=1))
    assert [stage.engine.name for stage in planned.stages] == ["partition"]
    assert planned.question.predictor.problem is problem
