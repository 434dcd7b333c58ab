"""Comparing certificates."""

from __future__ import annotations

import numpy as np

from labelcert import Certificate

ENDS = ("radius_lower", "radius_upper", "collective_lower", "collective_upper")
"""Everything that a certificate claims."""


def same(a: Certificate, b: Certificate) -> None:
    """Both claim the same."""
    for name in ("predictions", *ENDS):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name


def same_witnesses(a: Certificate, b: Certificate) -> None:
    """Both show the same attacks."""
    assert [a.witness(t) for t in range(a.n_test)] == [b.witness(t) for t in range(b.n_test)]
    budgets = range(a.max_flips + 1)
    assert [a.collective_witness(k) for k in budgets] == [b.collective_witness(k) for k in budgets]


def contains(part: Certificate, full: Certificate) -> None:
    """No interval of ``part`` excludes what ``full`` claims."""
    assert np.all(part.radius_lower <= full.radius_lower)
    assert np.all(part.radius_upper >= full.radius_upper)
    assert np.all(part.collective_lower <= full.collective_lower)
    assert np.all(part.collective_upper >= full.collective_upper)
