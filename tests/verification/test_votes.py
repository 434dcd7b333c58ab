"""Ensembles that count votes, and baselines: honest certificates are accepted, and larger radii are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.helpers.problems import gaussian
from tests.verification.test_losses import THREATS, larger_radius, problem

from labelcert import Threat, certify_baseline, certify_partition, verify
from labelcert.verification import CheckStatus


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "square"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("threat", THREATS, ids=repr)
@pytest.mark.parametrize("margin", [0.0, 1 / 3])
def test_every_loss_threat_and_margin(loss: str, classes: int, threat: Threat, margin: float) -> None:
    K, y, rows = problem(classes)
    asked: dict[str, Any] = {"parts": 3, "combine": "votes", "loss": loss, "threat": threat, "margin": margin}
    cert = certify_partition(K, y, rows, 1.0, max_flips=3, **asked)
    found = verify(cert)
    assert found.complete, found
    lie = larger_radius(cert)
    assert lie is None or not verify(lie).accepted


@pytest.mark.parametrize("seed", range(120))
def test_parts_that_are_tied(seed: int) -> None:
    """Scores are small whole numbers, so that votes of parts and of the ensemble are tied all the time."""
    rng = np.random.default_rng([5, seed])
    m, classes = int(rng.integers(5, 9)), 2 + seed % 2
    X = rng.integers(-2, 3, (m + 6, 2)) * 1.0
    K = X @ X.T
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, m - classes)])
    threat = Threat(
        costs=rng.integers(1, 3, m) if seed % 3 else None,
        trusted=rng.random(m) < 0.3 if seed % 5 == 0 else None,
        groups=rng.integers(0, 3, m).tolist() if seed % 4 == 0 else None,
        group_budgets=int(rng.integers(0, 3)) if seed % 4 == 0 else None,
    )
    options: dict[str, Any] = {"loss": "hinge" if seed % 2 else "square", "margin": [0.0, 0.25, 0.5][seed % 3]}
    parts = rng.integers(0, 1 + m // 2, m)
    cert = certify_partition(K[:m, :m], y, K[m:, :m], 1.0, parts=parts, combine="votes", threat=threat, **options)
    found = verify(cert)
    assert found.complete, found
    assert verify(cert, K[:m, :m], y, K[m:, :m]).accepted
    lie = larger_radius(cert)
    assert lie is None or not verify(lie).accepted


def test_lies_about_votes() -> None:
    K, y, rows = gaussian(9, 6, seed=3)
    cert = certify_partition(K, y, rows, 1.0, parts=3, combine="votes", max_flips=3)
    others = (
        {"decision_values": cert.decision_values / 2},
        {"predictions": 1 - cert.predictions, "decision_values": -cert.decision_values},
        {"predictions": 1 - cert.predictions},
    )
    for other in others:
        lie = replace(cert, **other)
        assert not verify(replace(lie, checksum=lie.computed_checksum())).accepted
    assert verify(cert, K, y, rows, time_limit=1e-6).accepted


def test_curves_that_radii_do_not_prove_are_not_checked() -> None:
    for seed in range(20):
        K, y, rows = gaussian(9, 8, seed=seed)
        cert = certify_partition(K, y, rows, 1.0, parts=3, combine="votes", max_flips=3)
        room = cert.collective_upper > np.maximum.accumulate(cert.collective_lower)
        if room.any():
            break
    upper = cert.collective_upper - room
    lie = replace(cert, collective_upper=upper, collective_claimed=upper)
    found = verify(replace(lie, checksum=lie.computed_checksum()))
    assert found.accepted
    assert [check.status for check in found.checks if check.what == "curve"] == [CheckStatus.NOT_CHECKED]


@pytest.mark.parametrize("using", ["sensitivity", "partition-votes", "smoothing", "tighter-smoothing"])
def test_baselines(using: str) -> None:
    """Their radii are proved by other means; the verdict says that models under random labels were not trained."""
    K, y, rows = gaussian(9, 6, seed=3)
    options: dict[str, Any] = {"parts": np.int64(3)} if using == "partition-votes" else {}
    cert = certify_baseline(K, y, rows, 1.0, using=using, max_flips=3, seed=1, **options)
    found = verify(cert, K, y, rows)
    assert found.accepted
    if "smoothing" in using:
        assert "kernel" in {check.what for check in found.checks if check.status is CheckStatus.NOT_CHECKED}
    else:
        assert found.complete, found
    other = replace(cert.run, engine_asked="baseline:another")
    lie = replace(cert, run=other)
    assert not verify(replace(lie, checksum=lie.computed_checksum())).accepted
