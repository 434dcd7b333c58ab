"""The worst accuracy under wrong labels, against every relabelling tried one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.engines.test_observers import CASES, THREATS, ask

from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.observers import worst_accuracy
from labelcert.engines.observers.worst_accuracy import WorstAccuracy
from labelcert.problem import Relabelling


def right_under(question: Any, true: Any, change: Relabelling) -> int:
    codes = question.problem.relabelled(change)
    return sum(question.predictor.predicts(codes, int(t)) == c for t, c in zip(question.nodes, true, strict=True))


@pytest.mark.parametrize("threat", THREATS)
@pytest.mark.parametrize("case", CASES)
def test_it_is_the_least_over_all_relabellings(case: str, threat: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays, options = CASES[case]
    question = ask(arrays, 1.0, threat=THREATS[threat], **options)
    a, K = question.problem.adversary, question.problem.n_classes
    changes = [c for size in range(a.labels.size + 1) for c in a.relabellings(size, question.budget)]
    costs = np.array([a.cost(change) for change in changes])
    true = np.random.default_rng(0).integers(0, K, question.nodes.size)
    counts = np.array([right_under(question, true, change) for change in changes])
    worst = [int(counts[costs <= b].min()) for b in range(question.budget + 1)]
    for effort in (10**6, 0):
        monkeypatch.setattr(worst_accuracy, "EFFORT", effort)
        observer = WorstAccuracy(question, true)
        Enumerate().run(ask_again(question, observer), Control(workers=2), None)  # type: ignore[arg-type]
        assert np.all(observer.lower <= worst)
        assert np.all(observer.upper >= worst)
        for b, change in enumerate(observer.changes):
            assert a.admits(change, b)
            assert right_under(question, true, change) <= observer.upper[b]
        if effort:
            assert observer.lower.tolist() == observer.upper.tolist() == worst


def ask_again(question: Any, observer: Any) -> Any:
    return replace(question, observers=(observer,))


def test_what_was_not_visited_proves_nothing() -> None:
    arrays, _ = CASES["two classes"]
    question = ask(arrays, 1.0)
    observer = WorstAccuracy(question, question.predicted)
    assert observer.lower.tolist() == observer.upper.tolist() == [question.nodes.size] * 8
    observer.unvisited(2)
    assert observer.lower.tolist() == [question.nodes.size] * 2 + [0] * 6
