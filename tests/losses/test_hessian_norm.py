"""Distances in the norm of the Hessian: rough solutions are no farther from accurate ones than the bound says."""

from __future__ import annotations

import numpy as np
import pytest

from labelcert.losses.hessian_norm import HessianNorm, norm_of
from labelcert.losses.primal import Changes, LogisticSlopes, PrimalMachine, SoftmaxSlopes, SquaredHingeSlopes


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_rough_solutions(seed: int, classes: int, free: bool) -> None:
    rng = np.random.default_rng([seed, classes])
    m, p, outputs = 60, 5, 1 if classes == 2 else classes
    codes = np.concatenate([np.arange(classes), rng.integers(0, classes, m - classes)])
    X = rng.normal(size=(m, p)) + 0.5 * codes[:, None] * np.arange(p)
    penalty = np.ones(p)
    if free:
        X[:, -1], penalty[-1] = 1.0, 0.0
    c = np.full(m, float(rng.choice([0.01, 1.0, 10.0])))
    machine = PrimalMachine(X, codes, c, penalty, LogisticSlopes() if outputs == 1 else SoftmaxSlopes(), outputs)
    norm = norm_of(machine)
    assert norm is not None
    assert norm.eta < 1e-4
    T = rng.normal(size=(7, p))
    sets = [rng.permutation(m)[: 1 + k % 3] for k in range(12)]
    changes = Changes.of([(labels, (codes[labels] + 1 + seed) % classes) for labels in sets])
    accurate = machine.train(changes)
    bounded = 0
    for push in (0.0, 1e-6, 1e-4, 0.02, 0.3):
        W = machine.start(changes) if push == 0.0 else accurate + push * rng.normal(size=accurate.shape) / p
        G, wrong, F = machine.gradient(W, changes)
        near = norm.near(W, G, wrong, F, changes)
        off = np.abs(np.einsum("np,pkb->nkb", T, W - accurate))
        assert np.all(off <= norm.lengths(T)[:, :, None] * near + 1e-9)
        bounded += int(np.isfinite(near).sum())
    assert bounded >= 5


def test_leverages_are_those_of_the_hessian() -> None:
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(30, 3)), rng.integers(0, 3, 30)
    machine = PrimalMachine(X, codes, np.ones(30), np.ones(3), SoftmaxSlopes(), 3)
    norm, H = HessianNorm(machine), np.linalg.inv(machine.H)
    D = machine.slopes.hessian(machine.F, codes[:, None], machine.c[:, None])
    for j in range(30):
        B = np.kron(X[j][:, None], np.eye(3))
        truth = np.linalg.eigvals(B.T @ H @ B @ D[j]).real.max()
        assert truth <= norm.leverage[j] <= 1.01 * truth + 1e-9
        span = max(np.sqrt((B[:, k] - B[:, r]) @ H @ (B[:, k] - B[:, r])) for k in range(3) for r in range(3))
        assert span <= norm.reach[j]


def test_steps_have_no_norm() -> None:
    X = np.random.default_rng(0).normal(size=(9, 2))
    assert norm_of(PrimalMachine(X, np.arange(9) % 2, np.ones(9), np.ones(2), SquaredHingeSlopes())) is None
