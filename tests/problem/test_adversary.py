"""What a resolved threat counts, admits and refuses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.helpers.problems import blobs

from labelcert import InvalidInput, Threat, certify
from labelcert.problem import Problem

NAMES = np.array(["ant", "bee", "cat", "dog"])


def test_number_of_relabellings() -> None:
    K, y, rows = blobs(8, 3)
    a = Problem.build(K, y, rows, 1.0).adversary
    for b in range(4):
        by_hand = sum(3 ** len(s) for k in range(b + 1) for s in itertools.combinations(range(8), k))
        assert a.count_sets(b, a.targets.sum(axis=1)) == by_hand


@pytest.mark.parametrize(
    ("threat", "message"),
    [
        (Threat(allowed_targets=[["ant"]]), r"one entry per label \(12\).*got 1 entries"),
        (Threat(allowed_targets={"ant": ["bee"]}), r"one entry per label.*got dict"),  # type: ignore[arg-type]
        (Threat(allowed_targets=[["eel"]] + [None] * 11), r"names the label 'eel'"),
        (Threat(allowed_flips={"ant": ["eel"]}), r"names the label 'eel'"),
    ],
)
def test_targets_are_checked(threat: Threat, message: str) -> None:
    K, y, rows = blobs(12, 3)
    with pytest.raises(InvalidInput, match=message):
        certify(K, NAMES[y], rows, 5.0, threat=threat, max_flips=1)


def test_allowed_targets_with_two_classes() -> None:
    K, y, rows = blobs(8, 10)
    two = y % 2
    some = Threat(allowed_targets=[[1]] * 4 + [None] * 4)
    may = np.array([*(two[:4] == 0), *[True] * 4])
    same = certify(K, two, rows, 5.0, threat=Threat(trusted=~may))
    assert np.array_equal(certify(K, two, rows, 5.0, threat=some).radius_lower, same.radius_lower)
    assert "allowed_targets=4 lists" in repr(some)
    assert certify(K, two, rows, 5.0, threat=some).run.threat["allowed_targets"][0] == ["1"]


def test_regression_targets_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidInput, match="regression targets"):
        certify(np.eye(60), rng.normal(size=60), np.eye(60), 1.0)
