"""Linear models by their features against brute force: every labelling, retrained with many digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from labelcert import Threat
from labelcert.certificate import Certificate
from labelcert.certification import GivenFeatures, Run, Task, solve
from labelcert.selfcheck import Case, brute_force

LOSSES = ("logistic", "logistic_intercept", "squared_hinge", "cross_entropy", "cross_entropy_intercept")


def problem(seed: int, loss: str) -> tuple[Case, Any, Any]:
    """Features that are multiples of 1/8, so that their kernel is exact; fewer of them than labels, or more."""
    rng = np.random.default_rng([29, seed])
    m, d, n = int(rng.integers(4, 7)), int(rng.choice([1, 2, 3, 9])), 4
    classes = 2 if loss == "logistic_intercept" else int(rng.integers(2, 4))
    X, T = (np.round(8 * rng.normal(size=(k, d))) / 8 for k in (m, n))
    if rng.random() < 0.3:
        X[1] = X[0]
    labels = np.concatenate([np.arange(classes), rng.integers(0, classes, size=m - classes)])
    threats = (
        Threat(),
        Threat(trusted=np.arange(m) == 1),
        Threat(costs=rng.integers(1, 4, size=m)),
        Threat(groups=[k % 2 for k in range(m)], group_budgets=1),
        Threat(allowed_flips={0: [1], 1: [0]}),
    )
    threat = threats[int(rng.integers(len(threats)))] if rng.random() < 0.5 else threats[0]
    C, flips = float(rng.choice([2.0**-6, 1.0, 8.0])), int(rng.integers(1, 4))
    if "intercept" in loss:
        flips = 1
        threat = Threat(trusted=np.isin(np.arange(m), [list(labels).index(c) for c in range(classes)]))
    return Case("features", X @ X.T, labels, T @ X.T, C, loss, threat, flips), X, T


def certified(case: Case, X: Any, T: Any) -> Certificate:
    model = GivenFeatures(X, T, case.C, case.loss)
    return solve(Task(model, case.labels, case.threat, max_flips=case.max_flips), Run(workers=1))


def wrong(seed: int, loss: str) -> list[str]:
    """What brute force says otherwise."""
    case, X, T = problem(seed, loss)
    cert, truth = certified(case, X, T), brute_force(case)
    assert case.max_flips is not None
    within = np.asarray(truth.radius) <= case.max_flips
    upper = np.where(within, truth.radius, cert.never)
    lower = np.where(within, truth.radius, case.max_flips + 1)
    lines = []
    if np.any(cert.radius_lower > lower) or np.any(cert.radius_upper < upper):
        lines.append(f"{loss} {seed}: radii {cert.radius_lower} to {cert.radius_upper}, in truth {truth.radius}")
    if np.any(cert.collective_lower > truth.curve) or np.any(cert.collective_upper < truth.curve):
        lines.append(f"{loss} {seed}: curve {cert.collective_lower} to {cert.collective_upper}, in truth {truth.curve}")
    return lines


@pytest.mark.parametrize("loss", LOSSES)
def test_small_problems(loss: str) -> None:
    assert [line for seed in range(6) for line in wrong(seed, loss)] == []


@pytest.mark.long
@pytest.mark.parametrize("loss", LOSSES)
def test_many_small_problems(loss: str) -> None:
    assert [line for seed in range(100, 500) for line in wrong(seed, loss)] == []
