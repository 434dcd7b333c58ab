"""Moves and radii of regressions, against all sets of wrong targets tried one by one, in rational arithmetic."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from labelcert import RegressionCertificate, Threat, certify_regression


def threat_of(kind: str, m: int, rng: np.random.Generator) -> Threat | None:
    groups = [0, *rng.integers(0, 2, m - 1).tolist()]
    return {
        "any": None,
        "trusted": Threat(trusted=rng.random(m) < 0.4),
        "all trusted": Threat(trusted=np.ones(m, dtype=bool)),
        "costs": Threat(costs=rng.integers(1, 4, m)),
        "groups": Threat(groups=groups, group_budgets={0: 1}),
        "costs and groups": Threat(costs=rng.integers(1, 3, m), groups=groups, group_budgets=2),
        "annotators": Threat(annotators=rng.choice(["a", "b", "c"], m).tolist(), trusted=rng.random(m) < 0.2),
        "prices": Threat(
            annotators=["b", *rng.choice(np.array(["a", "b", "c", None], dtype=object), m - 1).tolist()],
            prices={"b": 2},
            trusted_annotators=["b"] if rng.random() < 0.3 else None,
        ),
    }[kind]


KINDS = ["any", "trusted", "all trusted", "costs", "groups", "costs and groups", "annotators", "prices"]


def purchases(threat: Threat | None, m: int) -> list[tuple[int, frozenset[int]]]:
    """Every set of targets that can be bought, and its price."""
    threat = threat or Threat()
    trusted = np.zeros(m, dtype=bool) if threat.trusted is None else np.asarray(threat.trusted)
    if threat.annotators is not None:
        names = sorted({who for who in threat.annotators if who is not None} - set(threat.trusted_annotators or ()))
        prices = threat.prices or {}
        found = []
        for size in range(len(names) + 1):
            for owned in itertools.combinations(names, size):
                own = frozenset(i for i in range(m) if threat.annotators[i] in owned and not trusted[i])
                found.append((sum(int(prices.get(name, 1)) for name in owned), own))
        return found
    costs = np.ones(m, dtype=int) if threat.costs is None else np.asarray(threat.costs)
    caps = threat.group_budgets
    found = []
    for size in range(m + 1):
        for some in itertools.combinations(np.flatnonzero(~trusted).tolist(), size):
            spent = {g: sum(int(costs[i]) for i in some if threat.groups[i] == g) for g in (0, 1)} if caps else {}  # type: ignore[index]
            limit = caps if isinstance(caps, dict) else dict.fromkeys((0, 1), caps)
            if all(spent[g] <= limit[g] for g in spent if limit.get(g) is not None):
                found.append((int(costs[list(some)].sum()), frozenset(some)))
    return found


def farthest(h: list[Fraction], some: frozenset[int], low: Any, high: Any, side: int) -> Fraction:
    return sum((max(side * h[i] * Fraction(high[i]), -side * h[i] * Fraction(low[i])) for i in some), Fraction(0))


def check(cert: RegressionCertificate, H: Any, y: Any, low: Any, high: Any, threat: Threat | None, aims: Any) -> None:
    every = purchases(threat, y.size)
    for t, row in enumerate(H.tolist()):
        h = [Fraction(v) for v in row]
        value = sum(a * Fraction(b) for a, b in zip(h, y.tolist(), strict=True))
        gap, radius = value - Fraction(aims[t]), cert.never
        for b in range(cert.max_changes + 1):
            within = [some for cost, some in every if cost <= b]
            up, down = (max(farthest(h, some, low, high, side) for some in within) for side in (1, -1))
            for true, found in ((up, cert.shift_up[t, b]), (down, cert.shift_down[t, b])):
                assert true <= Fraction(found) <= true + Fraction(cert.slack[t]) + Fraction(1e-280)
            if abs(gap) <= (down if gap > 0 else up):
                radius = min(radius, b)
        shown = min(radius, cert.max_changes + 1)
        assert min(cert.radius_lower[t], cert.max_changes + 1) == shown
        assert cert.radius_upper[t] == radius
        if radius < cert.never:
            move = cert.witness(t)
            assert move is not None
            assert any(cost <= radius and set(move) <= some for cost, some in every)
            new = value + sum(h[i] * (Fraction(v) - Fraction(float(y[i]))) for i, v in move.items())
            assert (new - Fraction(aims[t])) * gap <= 0
            assert all(y[i] - low[i] <= v <= y[i] + high[i] for i, v in move.items())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(12))
def test_small_maps(kind: str, seed: int) -> None:
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    m, n = int(rng.integers(1, 7)), 4
    H = rng.integers(-3, 4, (n, m)) / 4.0 if seed % 2 else rng.normal(size=(n, m)).round(3)
    y = rng.integers(-4, 5, m) / 2.0
    low, high = rng.integers(0, 4, m) / 2.0, rng.integers(0, 4, m) / 2.0
    if seed % 3 == 0:
        low = high
    aims = rng.integers(-4, 5, n) / 4.0
    aims[0] = float(H[0] @ y) if seed % 2 else aims[0]  # tied from the start
    threat = threat_of(kind, m, rng)
    change: Any = high if low is high else (low, high)
    cert = certify_regression(H=H, y=y, change=change, threshold=aims, threat=threat)
    check(cert, H, y, low, high, threat, aims)
    few = certify_regression(H=H, y=y, change=change, threshold=aims, threat=threat, max_changes=1)
    assert few.max_changes == min(1, cert.max_changes)
    assert np.array_equal(few.shift, cert.shift[:, : few.max_changes + 1])
