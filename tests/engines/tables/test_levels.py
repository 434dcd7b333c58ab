"""More than two classes: relabellings combined from tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.certificates import contains, same
from tests.helpers.problems import blobs, hand_made

from labelcert import Threat, WorkTooLarge, certify, selfcheck
from labelcert.engines.tables import levels, options, sizes


def test_memory_is_asked_for_before_the_work_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "available_bytes", lambda: 200_000)
    K, y, rows = blobs(20, 5)
    with pytest.raises(WorkTooLarge, match=r"max_flips=\d would fit.*"):
        certify(K, y, rows, 5.0, max_flips=4)
    part = certify(K, y, rows, 5.0, max_flips=4, time_limit=100, engine="enumerate")
    assert part.run.stopped == "memory limit"
    monkeypatch.undo()
    contains(part, certify(K, y, rows, 5.0, max_flips=4))


def test_a_witness_that_does_not_check_opens_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(rows: Any) -> Any:
        right = usual(rows)
        return right._replace(target=(right.target + 1) % 4)

    usual = options._options
    monkeypatch.setattr(options, "_options", wrong)
    K, y, rows = blobs(8, 20)
    with pytest.warns(RuntimeWarning, match="contradict retraining"):
        cert = certify(K, y, rows, 5.0, max_flips=2, engine="enumerate")
    assert not cert.exact
    assert np.any(cert.radius_upper == cert.never)


def test_many_doubts_are_walked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(-1, 2, size=(9 + 12, 2)).astype(float)
    K = X @ X.T
    y = np.arange(9) % 3
    arrays = K[:9, :9], y, K[9:, :9], 1.0
    usual = certify(*arrays, max_flips=3, engine="enumerate")
    assert usual.run.stages[0].statistics["doubtful_relabellings"] > 50
    monkeypatch.setattr(levels, "DOUBTS_AT_ONCE", 3)
    same(usual, certify(*arrays, max_flips=3, engine="enumerate"))


@pytest.mark.parametrize("C", [1e-6, 1.0])
def test_what_is_too_large_for_rational_arithmetic_stays_open(C: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(-1, 2, size=(310 + 30, 2)).astype(float)
    K = X @ X.T + np.eye(340) * 2.0**-10
    cert = certify(K[:310, :310], np.arange(310) % 3, K[310:, :310], C, max_flips=1, collective=False)
    assert np.all(cert.radius_lower <= cert.radius_upper)
    if C == 1.0:  # a test row of zeros ties all classes, but nothing here can prove it
        zero = ~X[310:].any(axis=1)
        assert zero.any()
        assert np.all((cert.radius_lower[zero] == 0) & (cert.radius_upper[zero] == cert.never))


@pytest.mark.parametrize("seed", [24, 28, 36, 44])
def test_relabellings_can_be_larger_than_any_class_s_part(seed: int) -> None:
    """Labels of two classes go to two others: four moves, but two toggles in each class."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(14, 4))
    K = points @ points.T
    case = hand_made(
        K[:6, :6],
        [0, 0, 1, 1, 2, 3],
        K[6:, :6],
        C=0.001 if seed % 3 == 1 else 1.0,
        loss="square" if seed % 3 == 0 else "hinge",
        threat=Threat(allowed_flips={0: [2], 1: [3]}),
        max_flips=4,
    )
    assert selfcheck.check(case) == []
