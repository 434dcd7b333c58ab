"""Bounds from pairs of labels: never below the truth, for any multipliers that the steps meet."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from labelcert.engines.control import Control
from labelcert.engines.linear import pairs as module
from labelcert.engines.linear.pairs import Pairs


def random_pairs(seed: int, n: int = 14, size: int = 8, budget: int = 5) -> Pairs:
    """Half of them with shares that are multiples of 1/4: full of exact ties; some labels at a price of 2."""
    rng = np.random.default_rng(seed)
    S = rng.integers(-3, 4, (n, size)) / 4 if seed % 2 else rng.normal(size=(n, size)) * rng.choice([0.2, 0.5, 1.0])
    if seed % 5 == 0:
        S[rng.integers(n)] *= 1e6
        S[:, rng.integers(size)] = 0.0
    counts = np.arange(budget + 1) // (1 + seed % 3 // 2)
    return Pairs(S, np.full(n, 1.0 - 1e-9), reach(S, counts), counts)


def reach(S, counts):
    """The least budget whose best purchase changes each node."""
    best = np.cumsum(-np.sort(-np.maximum(S, 0.0), axis=1), axis=1)
    best = np.c_[np.zeros(len(S)), best][:, np.minimum(counts, S.shape[1])] >= 1.0
    return np.where(best.any(axis=1), best.argmax(axis=1), counts.size)


def most_changed(pairs: Pairs) -> list[int]:
    """Most nodes that each budget changes, by all sets of labels."""
    size = pairs.S.shape[1]
    by_count = [
        max(
            int((pairs.S[:, list(chosen)].sum(axis=1) >= 1.0).sum())
            for chosen in itertools.combinations(range(size), k)
        )
        for k in range(int(pairs.counts.max()) + 1)
    ]
    return np.maximum.accumulate(by_count)[pairs.counts].tolist()


@pytest.mark.parametrize("part", range(2))
def test_never_below_the_truth(part: int) -> None:
    narrower = 0
    for seed in range(50 * part, 50 * part + 50):
        pairs = random_pairs(seed)
        within = np.array([(pairs.radius <= b).sum() for b in range(pairs.counts.size)])
        upper = within.copy()
        pairs.improve(upper, np.zeros_like(upper), [5, 2, 4, 1, 3], Control(workers=1))
        assert (upper >= most_changed(pairs)).all(), seed
        narrower += int((upper < within).sum())
    assert narrower > 50


def test_many_directions_are_seen() -> None:
    """Each node is within reach alone, by labels of its own; no attack changes more than two of twenty."""
    S = np.kron(np.eye(20), np.full((1, 5), 0.21))
    pairs = Pairs(S, np.full(20, 1.0 - 1e-9), np.full(20, 5), np.arange(11))
    upper = np.where(np.arange(11) < 5, 0, 20)
    pairs.improve(upper, np.zeros_like(upper), [10], Control(workers=1))
    assert upper[5] <= 2
    assert upper[10] <= 3


def test_no_effort_no_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EFFORT", 0.0)
    upper = np.full(6, 14)
    assert random_pairs(0).improve(upper, 0 * upper, [5], Control(workers=1)) == []
    assert (upper == 14).all()
