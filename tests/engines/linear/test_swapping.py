"""Attacks by swapping moves: always within the threat, and as strong as any on small problems."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from labelcert.engines.control import Control
from labelcert.engines.linear.swapping import Swapping
from labelcert.problem import NOTHING, Relabelling, Threat


@pytest.mark.parametrize("seed", range(8))
def test_as_strong_as_any(seed: int) -> None:
    """Prices, groups, trusted labels and three classes; the strongest of all attacks is found from nothing."""
    rng = np.random.default_rng(seed)
    codes = np.r_[np.arange(3), rng.integers(0, 3, 5)] if seed % 2 else np.arange(8) % 2
    threat = Threat(
        costs=rng.integers(1, 3, 8) if seed % 3 else None,
        trusted=np.arange(8) == 7 if seed % 4 else None,
        **({"groups": ["a"] * 4 + ["b"] * 4, "group_budgets": 2} if seed > 4 else {}),
    )
    a = threat.resolve(codes, np.unique(codes))
    labels, targets = (part.astype(np.int64) for part in np.nonzero(a.targets))
    S = rng.normal(size=(30, labels.size)) * 0.6
    most = 0
    for size in range(5):
        for chosen in itertools.combinations(range(labels.size), size):
            change = Relabelling.of(
                dict(zip(labels[list(chosen)].tolist(), targets[list(chosen)].tolist(), strict=True))
            )
            if len(change) == size and a.admits(change, 4):
                most = max(most, int((S[:, list(chosen)].sum(axis=1) >= 1.0).sum()))
    swapping = Swapping(S, labels, targets, a)
    found = NOTHING
    for _ in range(2):  # from nothing, and from what was found
        found = swapping.improved(found, 4, 1e6, Control(workers=1))
        assert a.admits(found, 4)
        moves = [k for k in range(labels.size) if found.moves.get(int(labels[k])) == targets[k]]
        assert int((S[:, moves].sum(axis=1) >= 1.0).sum()) == most
