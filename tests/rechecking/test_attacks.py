"""The list of attacks, against every relabelling tried one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.engines.test_observers import THREATS, ask, lattice
from tests.helpers.problems import blobs, gaussian

from labelcert.certificate import Stop
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.rechecking.attacks import bits, list_attacks


def one_by_one(question: Question, weights: Any, strongest: bool) -> list[tuple[list[int], list[bool], float]]:
    a = question.problem.adversary
    overturns = {(): question.contrary}
    listed = [([], question.contrary.tolist(), float(weights[question.contrary].sum()))]
    for size in range(1, a.most_flips(question.budget) + 1):
        for chosen in a.sets(size, question.budget):
            key = tuple(chosen.tolist())
            before = np.any([overturns[key[:k] + key[k + 1 :]] for k in range(size)], axis=0)
            changed = [question.changed(change)[0] for change in a.changes(chosen)]
            overturns[key] = before | np.any(changed, axis=0)
            most = max(float(weights[c].sum()) for c in changed)
            new = overturns[key] & ~before
            if new.any() or (strongest and most > 0):
                listed.append((list(key), new.tolist(), most))
    return listed


@pytest.mark.parametrize("strongest", [False, True])
@pytest.mark.parametrize("threat", THREATS)
@pytest.mark.parametrize(
    ("arrays", "options"),
    [
        (gaussian(7, 9), {"max_flips": 3}),
        (gaussian(7, 9), {}),
        (lattice(7, 9, 2), {}),
        (blobs(7, 9), {"max_flips": 2}),
        (blobs(7, 9), {"max_flips": 2, "loss": "square"}),
        (blobs(7, 9, classes=3), {"max_flips": 2, "loss": "cross_entropy"}),
    ],
    ids=["two", "two, all", "ties", "more", "linear", "softmax"],
)
def test_every_attack_is_listed(arrays: Any, options: Any, threat: str, strongest: bool) -> None:
    question = ask(arrays, 1.0, threat=THREATS[threat], **options)
    weights = np.full(question.nodes.size, 1 / 9)
    found = list_attacks(question, weights, Control(workers=2), strongest=strongest)
    listed = one_by_one(question, weights, strongest)
    nu = question.problem.adversary.labels.size
    assert found.complete
    assert [np.flatnonzero(row).tolist() for row in bits(found.sets, nu)] == [key for key, _, _ in listed]
    assert found.overturned.tolist() == [new for _, new, _ in listed]
    assert found.strongest.tolist() == [most for _, _, most in listed]
    a = question.problem.adversary
    assert found.trainings == a.count_sets(question.budget, a.targets.sum(axis=1)) - 1


def test_sets_of_more_than_64_labels() -> None:
    question = ask(gaussian(70, 4), 1.0, max_flips=2)
    weights = np.array([0.4, 0.3, 0.2, 0.1])[: question.nodes.size]
    found = list_attacks(question, weights, Control(workers=1), strongest=False)
    listed = one_by_one(question, weights, False)
    assert [np.flatnonzero(row).tolist() for row in bits(found.sets, 70)] == [key for key, _, _ in listed]
    assert found.overturned.tolist() == [new for _, new, _ in listed]
    assert np.allclose(found.strongest, [most for _, _, most in listed])


def test_a_list_that_was_cut_short_says_so() -> None:
    control = Control(workers=1)
    control.end(Stop.INTERRUPTED)
    question = ask(gaussian(8, 4), 1.0, max_flips=3)
    found = list_attacks(question, np.ones(question.nodes.size), control, strongest=True)
    assert not found.complete
    assert found.sets[0].tolist() == [0]
