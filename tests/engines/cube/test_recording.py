"""Batches in single precision: near-ties that it cannot decide, and more nodes than one tile holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers.problems import gaussian

from labelcert import Threat, certify, selfcheck
from labelcert.engines.cube import recording
from labelcert.selfcheck import Case
from labelcert.svm.training import train

M = 7


def near_ties(n: int, seed: int = 0) -> Case:
    """Nodes whose score under some labelling is zero up to a relative 1e-4, 1e-9, 1e-13 or less."""
    rng = np.random.default_rng(seed)
    K, labels, _ = gaussian(M, 1)
    K = K + 0.05 * np.eye(M)
    y = np.where(labels == labels.max(), 1.0, -1.0)
    rows = np.empty((n, M))
    for t in range(n):
        flipped = y * np.where(rng.random(M) < 0.4, -1.0, 1.0)
        z = train(K, flipped, 1.0)
        one, other = rng.random((2, M)) - 0.3
        off = rng.choice([0.0, 1e-13, 1e-9, 1e-7, 1e-4]) * rng.normal()
        rows[t] = one - (one @ z) / (other @ z) * other * (1.0 + off)
    keep = np.isfinite(rows).all(axis=1) & (np.abs(rows).max(axis=1) < 1e3)
    return Case("near-ties", K, labels, rows[keep], 1.0, "hinge", Threat(), None)


def contradictions(case: Case) -> list[str]:
    return list(selfcheck.compare(case, selfcheck.brute_force(case), "enumerate", workers=1))


def test_near_ties_in_several_tiles() -> None:
    case = near_ties(2 * recording.TILE + 30)
    assert case.K_test.shape[0] > recording.TILE
    assert contradictions(case) == []


@pytest.mark.parametrize("loss", ["hinge", "square"])
@pytest.mark.parametrize("max_flips", [None, 3])
def test_all_nodes_at_once_and_one_by_one(loss: str, max_flips: int | None) -> None:
    K, labels, rows = gaussian(11, 600)
    options: dict[str, Any] = {"engine": "enumerate", "loss": loss, "max_flips": max_flips, "workers": 2}
    whole = certify(K, labels, rows, 1.0, **options)
    for t in range(0, 600, 37):
        alone = certify(K, labels, rows[[t]], 1.0, **options)
        assert alone.radius_lower[0] == whole.radius_lower[t]
        assert alone.radius_upper[0] == whole.radius_upper[t]
    counts = [certify(K, labels, part, 1.0, **options).collective_lower for part in (rows[:300], rows[300:])]
    assert np.all(whole.collective_lower <= counts[0] + counts[1])
    assert np.all(whole.collective_lower >= np.maximum(*counts))


@pytest.mark.parametrize(
    ("sizes", "curve"), [((100, 160, 160, 1), [160, 320, 420]), ((250, 60, 60, 1), [250, 310, 370])]
)
@pytest.mark.parametrize("max_flips", [3, None])
def test_what_only_later_tiles_show(sizes: tuple[int, ...], curve: list[int], max_flips: int | None) -> None:
    """A flip that changes one node of the last tile, and one that changes many there but none of the first."""
    labels = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1])
    rows = np.eye(9)[np.repeat([0, 5, 6, 7], sizes)]
    cert = certify(2.0 * np.eye(9), labels, rows, 1.0, engine="enumerate", max_flips=max_flips, workers=1)
    assert rows.shape[0] > recording.TILE + 100
    assert cert.radius_lower.tolist() == cert.radius_upper.tolist() == [1] * sum(sizes)
    assert cert.collective_lower.tolist()[1:4] == cert.collective_upper.tolist()[1:4] == curve
