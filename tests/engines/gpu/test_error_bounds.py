"""The error bounds that kernels compute hold for whatever they are given as a solution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.problems import gaussian

from labelcert.engines.gpu.device_problems import DeviceProblems, Shapes, clean_start
from labelcert.losses.retraining import retraining
from labelcert.prediction.scoring import RetrainingScorer
from labelcert.problem import Problem

NEGATIVE = 8


def low_rank(m: int, n: int) -> tuple[Any, Any, Any]:
    points = np.random.default_rng(5).normal(size=(m + n, m - 3))
    K = points @ points.T
    return K[:m, :m], np.arange(m) % 2, K[m:, :m]


@pytest.mark.parametrize("C", [1e-3, 0.3, 50.0])
@pytest.mark.parametrize("arrays", [gaussian(10, 7), gaussian(11, 7, dims=1), low_rank(9, 7)])
def test_scores_are_within_the_bound(arrays: Any, C: float, device: Any) -> None:
    """Solutions that are right, nearly right, or nonsense, with right and wrong states: scores against exact ones."""
    problem = Problem.build(*arrays, C)
    scorer = RetrainingScorer(problem)
    y0, m, n = problem.y, problem.m, problem.n_test
    M = device.padded(m)
    start = clean_start(retraining(scorer.machine), y0)
    there = DeviceProblems(device, M, [scorer.machine], [y0], [start], [0.0])
    rng = np.random.default_rng(0)
    solutions, codes, truths = [], [], []
    for _ in range(20):
        y = np.where(rng.random(m) < 0.3, -y0, y0)
        training = scorer.train(y)
        exact = scorer.exact_solution(training)
        assert exact is not None
        truth = [float(exact.score(scorer.exact_row(t), 0)[0]) / scorer.scale[t] for t in range(n)]
        for scale in (0.0, 1e-14, 1e-9, 1e-3, 1.0):
            z = training.z + scale * C * rng.normal(size=m)
            state = np.where(rng.random(m) < 0.1 * (rng.random() < 0.5), rng.integers(0, 3, m), training.state)
            solutions.append(np.pad(z, (0, M - m)))
            codes.append(np.pad(state + NEGATIVE * (y < 0), (0, M - m), constant_values=5))
            truths.append(truth)
    stops = len(solutions)
    rows = np.zeros((n, M))
    rows[:, :m] = scorer.rows
    P, tau = device.empty((stops, n), np.float32), device.empty(stops, np.float32)
    arguments = (
        device.put(np.array(solutions)),
        device.put(np.array(codes, dtype=np.uint8)),
        np.int64(stops),
        there.Q,
        there.constants,
        device.put(rows),
        np.int32(n),
        np.float64(1.0),
        P,
        tau,
    )
    Shapes(device, M, False).verdicts("tabulate", stops, arguments)
    P, tau = device.get(P), device.get(tau)
    finite = np.isfinite(tau)
    assert finite.any()
    assert np.all(np.abs(P[finite] - np.array(truths)[finite]) <= tau[finite, None])
    untouched = np.arange(stops) % 5 == 0
    assert np.median(tau[untouched]) < 1e-5 * max(1.0, np.abs(truths).max())


def test_what_is_no_number_proves_nothing(device: Any) -> None:
    problem = Problem.build(*gaussian(10, 7), 1.0)
    scorer = RetrainingScorer(problem)
    M = device.padded(10)
    there = DeviceProblems(
        device, M, [scorer.machine], [problem.y], [clean_start(retraining(scorer.machine), problem.y)], [0.0]
    )
    z = np.zeros((4, M))
    z[0, 0], z[1, 3], z[2, 5] = np.nan, np.inf, -np.inf
    codes = np.full((4, M), 1, dtype=np.uint8)
    codes[:, 10:] = 5
    codes[3, 2] = 7  # a path that got lost
    P, tau = device.empty((4, 7), np.float32), device.empty(4, np.float32)
    rows = np.zeros((7, M))
    rows[:, :10] = scorer.rows
    arguments = (
        device.put(z),
        device.put(codes),
        np.int64(4),
        there.Q,
        there.constants,
        device.put(rows),
        np.int32(7),
        np.float64(1.0),
        P,
        tau,
    )
    Shapes(device, M, False).verdicts("tabulate", 4, arguments)
    found = device.get(tau)
    assert np.isinf(found[0])
    assert np.isinf(found[3])
