"""Kernel logistic regression: proved error bounds against many digits, from whatever start."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flint import arb

from labelcert.losses import newton
from labelcert.losses.balls import BallIntercept, BallLogistic, BallSoftmax
from labelcert.losses.newton import new_machine
from labelcert.losses.softmax import SoftmaxMachine
from labelcert.losses.solutions import ExactRow
from labelcert.svm.pivoting import Z, new_scratch
from tests.helpers.problems import blobs, gaussian


def truth(K: Any, y: Any, C: float, start: Any) -> Any:
    model = BallLogistic if start.size == y.size else BallIntercept
    z, error = model(K, C).solve(y, [arb(float(v)) for v in start], 300)
    assert error < 1e-60
    return np.array([float(v.mid()) for v in z])


KERNELS = {
    "gaussian": gaussian(12, 1)[0],
    "linear of rank 2": (lambda X: X @ X.T)(np.random.default_rng(1).normal(size=(12, 2))),
    "identity": np.eye(12),
    "badly scaled": np.diag(10.0 ** np.arange(-6, 6)),
    "zero": np.zeros((12, 12)),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("C", [1e-6, 0.1, 1.0, 30.0, 1e4])
def test_error_bounds_hold_along_a_walk(kernel: str, C: float) -> None:
    K = np.ascontiguousarray(KERNELS[kernel])
    machine, s = new_machine(K, C), new_scratch(12)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(12) < 0.5, 1.0, -1.0)
    for step in range(12):
        newton.settle(machine, s, y)
        tau, _ = newton.bound(machine, s, y, True)
        exact = truth(K, y, C, s.z)
        assert np.linalg.norm(s.z - exact) <= tau
        if kernel == "gaussian" and C <= 30:
            assert tau <= 1e-8 * np.linalg.norm(exact)
        # From a neighbour or from far away, it is the same.
        flips = [int(rng.integers(12))] if step % 3 else rng.permutation(12)[:6].tolist()
        for i in flips:
            newton.relabel(machine, s, y, i, -y[i])


@pytest.mark.parametrize("kernel", ["gaussian", "linear of rank 2", "identity", "zero"])
@pytest.mark.parametrize("C", [1e-5, 0.1, 1.0, 30.0])
def test_error_bounds_hold_with_an_intercept(kernel: str, C: float) -> None:
    K = np.ascontiguousarray(KERNELS[kernel])
    machine, s = new_machine(K, C, intercept=True), new_scratch(13)
    rng = np.random.default_rng(0)
    y = np.where(np.arange(12) % 3 == 0, 1.0, -1.0)
    for _ in range(12):
        newton.settle(machine, s, y)
        tau, _ = newton.bound(machine, s, y, True)
        exact = truth(K, y, C, s.z)
        assert abs(exact[:12].sum()) <= 1e-12 * C * 12
        assert np.linalg.norm(s.z - exact) <= tau
        assert tau <= 1e-5 * np.linalg.norm(exact)
        i = int(rng.integers(1, 12)) if (y > 0).sum() > 3 else int(np.argmin(y))
        newton.relabel(machine, s, y, i, -y[i])


@pytest.mark.parametrize("C", [1.0, 1e3, 1e6, 1e10])
def test_it_converges_from_nothing(C: float) -> None:
    """Undamped steps would diverge."""
    for seed in range(20):
        K, labels, _ = gaussian(15, 1, seed=seed)
        K = 3.0 * K
        s, y = new_scratch(15), 2.0 * labels - 1.0
        steps = newton.settle(new_machine(K, C), s, y)
        assert steps > 0
        h = C * y / (1.0 + np.exp(np.clip(y * (K @ s.z), -700, 700)))
        assert np.linalg.norm(s.z - h) <= 1e-6 * np.linalg.norm(s.z)


def test_a_false_solution_gets_a_large_bound() -> None:
    K, labels, _ = gaussian(10, 1)
    machine, s, y = new_machine(K, 1.0), new_scratch(10), 2.0 * labels - 1.0
    newton.settle(machine, s, y)
    right = s.z.copy()
    for i in range(10):
        s.v[Z] = right
        s.v[Z, i] += 1e-3
        tau, _ = newton.bound(machine, s, y, True)
        assert tau >= 1e-3
    s.v[Z] = np.nan
    assert newton.bound(machine, s, y, True)[0] == np.inf


@pytest.mark.parametrize("C", [1e-4, 0.3, 5.0, 1e3])
@pytest.mark.parametrize("classes", [3, 5])
def test_softmax_error_bounds(C: float, classes: int) -> None:
    K, codes, _ = blobs(9, 1, classes=classes, seed=4)
    machine, balls = SoftmaxMachine.of(K, C, classes), BallSoftmax(K, C, classes)
    clean = machine.train(codes[None])[0][0]
    rng = np.random.default_rng(0)
    changed = np.repeat(codes[None], 12, axis=0)
    for row in changed:
        row[rng.permutation(9)[: rng.integers(1, 6)]] = rng.integers(classes)
    for start in (None, clean):
        found, error = machine.train(changed, start)
        for k, row in enumerate(changed):
            z, rest = balls.solve(row.astype(float), [arb(float(v)) for v in found[k].ravel()], 300)
            assert rest < 1e-50
            exact = np.array([float(v.mid()) for v in z])
            assert np.linalg.norm(found[k].ravel() - exact) <= error[k] <= 1e-6 * np.linalg.norm(exact)
            assert np.abs(found[k].sum(axis=0)).max() <= 1e-8 * np.abs(found[k]).max()


def test_an_unknown_score_decides_nothing() -> None:
    """A solution without any bound must not be compared as if it were zero."""
    K, labels, _ = gaussian(6, 1)
    y = 2.0 * labels - 1.0
    model = BallLogistic(K, 1.0)
    known, unknown = (model.solution(y, np.zeros(6)) for _ in range(2))
    unknown._training._known = [([arb(0)] * 6, arb.pos_inf())] * 4
    row = ExactRow.of(np.full(6, 1e6))
    assert known.sign(row) in (-1, 1)
    assert unknown.score(row, 0) is None
    assert unknown.sign(row) is None
    assert known.compare(unknown, row) is None
    assert unknown.compare(known, row) is None
