"""Scores of machines on kernels drawn within entrywise errors, the worst corners first, lie within proved bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from labelcert.arrays import Float
from labelcert.svm import train
from labelcert.svm.uncertain import UncertainMachine, largest_change, never_free


def drawn_problem(rng: np.random.Generator) -> tuple[Float, Float, Float, Float, float, Float]:
    """A kernel, test rows, errors of both, C and labels; errors of some entries are zero."""
    m, n = int(rng.integers(2, 9)), 3
    X = rng.normal(size=(m + n, int(rng.integers(1, 8))))
    if rng.random() < 0.3:
        X[1] = X[0]  # points that coincide
    K = X @ X.T / X.shape[1] if rng.random() < 0.5 else (X @ X.T / X.shape[1] + 1.0) ** 2
    K[:m, :m] += rng.choice([0.0, 0.1, 1.0]) * np.eye(m)
    E = np.abs(rng.normal(size=(m + n, m + n))) * rng.choice([1e-9, 1e-3, 1e-2, 1e-1])
    E *= rng.random(E.shape) < rng.choice([0.3, 1.0])
    E = np.maximum(E, E.T)
    C = float(rng.choice([1e-3, 0.05, 0.5, 5.0, 100.0]))
    return K[:m, :m], K[m:, :m], E[:m, :m], E[m:, :m], C, rng.choice([-1.0, 1.0], m)


def admissible(rng: np.random.Generator, K: Float, E: Float, direction: Float) -> Float:
    """A positive semidefinite kernel as far as possible in a direction, within the errors."""
    step = E * np.sign(direction + direction.T + 1e-9 * rng.normal())
    for share in (1.0, 0.5, 0.1, 0.01):
        other = K + share * step
        low = np.linalg.eigvalsh(other)[0]
        if low >= 0.0:
            return other
        slack = (E - np.abs(share * step)).diagonal()  # what is left may go onto the diagonal
        if (slack >= -2 * low).all():
            return other - 2 * low * np.eye(len(K))
    return K


def directions(rng: np.random.Generator, Q: Float, row: Float, z: Float, C: float, y: Float) -> list[Any]:
    """Random corners, and those that lower or raise a score the most, to first order."""
    free = np.flatnonzero((y * z > 1e-9) & (y * z < C - 1e-9))
    beta = np.zeros(y.size)
    if free.size:
        beta[free] = np.linalg.lstsq(Q[np.ix_(free, free)], row[free], rcond=None)[0]
    first = np.outer(beta, z)
    return [first, -first, *rng.normal(size=(2, y.size, y.size))]


def check(rng: np.random.Generator) -> int:
    Q, rows, E, e, C, y = drawn_problem(rng)
    z = train(Q, y, C)
    alpha = np.clip(y * z, 0.0, C)
    if rng.random() < 0.2:
        alpha = rng.uniform(0.0, C, y.size)  # nothing of a training has to be believed
    machine, never = UncertainMachine(Q, E, rows, e, C), np.full(3, np.inf)
    low, high = machine.scores(y, alpha, never, -never)
    if rng.random() < 0.3:
        wider, zero = (low, high), np.zeros(3)
        low, high = machine.scores(y, alpha, zero, zero, programs=True, tighten=True)
        decided = (wider[0] > 0) | (wider[1] < 0)
        assert np.all(decided <= ((low > 0) | (high < 0)))
    moves, draws = np.full(3, np.inf), 0
    least = float(np.linalg.eigvalsh(Q)[0])
    if least > 1e-9:
        lengths = np.einsum("ti,ti->t", rows, np.linalg.solve(Q, rows.T).T) * (1 + 1e-9)
        moves = largest_change(Q, E, e, C, lengths, 0.0, 0.99 * least)
    for t in range(3):
        for direction in directions(rng, Q, rows[t], z, C, y):
            K = admissible(rng, Q, E, direction)
            other = train(K, y, C)
            off = 1e-9 * (1 + np.abs(rows[t]) @ np.abs(other)) + 1e-8 * C * np.abs(rows[t]).sum()
            for worst in (-1.0, 1.0):
                p = float((rows[t] + worst * e[t] * np.sign(other)) @ other)
                assert low[t] - off <= p <= high[t] + off, (t, low[t], p, high[t])
                assert abs(p - rows[t] @ z) <= moves[t] + off
                draws += 1
        if never_free(Q, E, C):
            assert low[t] <= C * rows[t] @ y - C * e[t].sum() + off
            assert low[t] >= C * rows[t] @ y - C * e[t].sum() - off
    return draws


@pytest.mark.parametrize("seed", range(4))
def test_kernels_within_their_errors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert sum(check(rng) for _ in range(40)) == 960


@pytest.mark.long
def test_a_hundred_thousand_kernels() -> None:
    rng = np.random.default_rng(99)
    drawn = 0
    while drawn < 100_000:
        drawn += check(rng)


def test_nothing_is_lost_without_errors() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 20))
    K, y = X @ X.T / 20, rng.choice([-1.0, 1.0], 8)
    z = train(K[:8, :8], y, 0.5)
    machine = UncertainMachine(K[:8, :8], np.zeros((8, 8)), K[8:, :8], np.zeros((4, 8)), 0.5)
    low, high = machine.scores(y, np.clip(y * z, 0.0, 0.5), np.full(4, np.inf), np.full(4, -np.inf))
    assert np.allclose(low, K[8:, :8] @ z, atol=1e-9)
    assert np.allclose(high, K[8:, :8] @ z, atol=1e-9)
