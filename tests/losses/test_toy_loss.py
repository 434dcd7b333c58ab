"""The loss of the documentation's section "Add a loss", against brute force."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import labelcert
from tests.helpers.problems import blobs, gaussian

PAGE = Path(__file__).parents[2] / "docs" / "losses.md"


@pytest.fixture(autouse=True)
def _toy() -> None:
    """Registered for each test; the shared fixture takes it out again."""
    section = PAGE.read_text(encoding="utf-8").split("## Add a loss\n")[1]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    assert found[1].rstrip().endswith('LOSSES["means"] = Means()')
    exec(compile(found[1], PAGE.name, "exec"), {})


@pytest.mark.parametrize("engine", ["auto", "closed-form", "enumerate", "milp"])
@pytest.mark.parametrize("make", [gaussian, blobs], ids=["two classes", "more"])
def test_against_brute_force(make: object, engine: str) -> None:
    K, labels, rows = make(6, 5)  # type: ignore[operator]
    classes, codes = np.unique(labels, return_inverse=True)
    radii = np.full(len(rows), 9)

    def scores(y: np.ndarray) -> np.ndarray:
        return np.stack([rows @ np.where(y == c, 1.0, -1.0) for c in range(classes.size)], axis=1)

    clean = scores(codes).argmax(axis=1)
    for y in itertools.product(range(classes.size), repeat=6):
        p = scores(np.array(y))
        own = p[np.arange(len(rows)), clean].copy()
        p[np.arange(len(rows)), clean] = -np.inf
        changed = p.max(axis=1) >= own
        radii[changed] = np.minimum(radii[changed], int(np.sum(np.array(y) != codes)))
    cert = labelcert.certify(K, labels, rows, 0.5, loss="means", max_flips=2, engine=engine, workers=1)
    expected = np.where(radii <= 2, radii, 3)
    assert np.array_equal(cert.radius_lower, expected)
    assert np.array_equal(np.minimum(cert.radius_upper, 3), expected)
