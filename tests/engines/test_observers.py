"""Observers see every relabelling within the budget once, with what it does to each node."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.helpers.problems import blobs, gaussian

from labelcert import Threat
from labelcert.certificate import Stop
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.observing import Visited
from labelcert.prediction import predictor_for
from labelcert.problem import Problem, Relabelling

THREATS = {
    "any": None,
    "costs": Threat(costs=np.arange(7) % 3 + 1),
    "groups": Threat(costs=np.arange(7) % 2 + 1, groups=[i % 3 for i in range(7)], group_budgets=2),
    "trusted": Threat(trusted=np.arange(7) == 2),
}


class Everything:
    """Keeps all that it is shown."""

    def __init__(self) -> None:
        self.seen: Counter[Relabelling] = Counter()
        self.effects: dict[Relabelling, tuple[int, list[bool], list[bool], list[bool]]] = {}
        self.frontier = 10**6

    def observe(self, visited: Visited) -> None:
        flipped = visited.flipped()
        for s in range(visited.cost.size):
            change = visited.change(s)
            self.seen[change] += 1
            own = visited.changed[s].tolist(), visited.unchanged[s].tolist(), flipped[s].tolist()
            self.effects[change] = int(visited.cost[s]), *own

    def unvisited(self, cost: int) -> None:
        self.frontier = min(self.frontier, cost)


def lattice(m: int, n: int, classes: int) -> tuple[Any, ...]:
    """Exact ties, which no walk decides."""
    X = np.random.default_rng(1).integers(-1, 2, size=(m + n, 2)).astype(float)
    K = X @ X.T
    return K[:m, :m], np.arange(m) % classes, K[m:, :m]


def ask(arrays: Any, C: float, observers: Any = (), **options: Any) -> Question:
    problem = Problem.build(*arrays, C, **options)
    predictor = predictor_for(problem, linear=problem.is_linear(strict=True))
    return replace(Question.ask(predictor), observers=observers)


CASES = {
    "two classes": (gaussian(7, 9), {}),
    "two classes, two flips": (gaussian(7, 9), {"max_flips": 2}),
    "two classes, square": (gaussian(7, 9), {"loss": "square"}),
    "two classes, logistic": (gaussian(7, 9), {"loss": "logistic"}),
    "two classes, ties": (lattice(7, 9, 2), {}),
    "more classes": (blobs(7, 9), {"max_flips": 3}),
    "more classes, square": (blobs(7, 9), {"max_flips": 3, "loss": "square"}),
    "more classes, ties": (lattice(7, 9, 3), {"max_flips": 2}),
    "more classes, softmax": (blobs(7, 9, classes=3), {"max_flips": 2, "loss": "cross_entropy"}),
}


@pytest.mark.parametrize("threat", THREATS)
@pytest.mark.parametrize("case", CASES)
def test_every_relabelling_is_seen_once(case: str, threat: str) -> None:
    arrays, options = CASES[case]
    everything = Everything()
    question = ask(arrays, 1.0, (everything,), threat=THREATS[threat], **options)
    engine = Enumerate()
    assert engine.capabilities.observes
    plain, control = (Control(workers=2) for _ in range(2))
    found = engine.run(question, control, None)  # type: ignore[arg-type]
    alone = engine.run(replace(question, observers=()), plain, None)  # type: ignore[arg-type]
    assert found.radius_lower.tolist() == alone.radius_lower.tolist()
    assert found.radius_upper.tolist() == alone.radius_upper.tolist()
    assert list(found.radius_changes) == list(alone.radius_changes)
    assert found.curve_upper.tolist() == alone.curve_upper.tolist()
    a = question.problem.adversary
    changes = [c for size in range(a.labels.size + 1) for c in a.relabellings(size, question.budget)]
    assert everything.seen == Counter(changes)
    assert everything.frontier == 10**6
    for change in changes:
        cost, changed, unchanged, flipped = everything.effects[change]
        yes, no = question.changed(change)
        assert cost == a.cost(change)
        assert (changed, unchanged) == (yes.tolist(), no.tolist())
        assert np.flatnonzero(flipped).tolist() == change.positions.tolist()


def test_many_labels() -> None:
    everything = Everything()
    question = ask(gaussian(60, 5), 1.0, (everything,), max_flips=2)
    Enumerate().run(question, Control(workers=1), None)  # type: ignore[arg-type]
    assert len(everything.seen) == 1 + 60 + 60 * 59 / 2
    for change in list(everything.seen)[::97]:
        yes, no = question.changed(change)
        assert everything.effects[change][1:3] == (yes.tolist(), no.tolist())


@pytest.mark.parametrize("arrays", [gaussian(9, 5), blobs(9, 5)], ids=["two classes", "more"])
def test_a_run_that_stops_says_what_was_not_visited(arrays: Any) -> None:
    everything = Everything()
    control = Control(workers=1)
    control.end(Stop.INTERRUPTED)
    Enumerate().run(ask(arrays, 1.0, (everything,), max_flips=2), control, None)  # type: ignore[arg-type]
    assert everything.frontier <= 1
