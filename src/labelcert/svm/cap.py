"""Where every label is at its cap, whatever the adversary does: the SVM is then linear in its labels."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Float


def always_at_cap(Q: Float, y: Float, C: float, movable: Bool, b: int, *, strict: bool = False) -> bool:
    """Whether every label stays at its cap under every labelling with at most ``b`` flips, so that ``z = C·ỹ``.

    ``z = C·ỹ`` is optimal if and only if ``C·ỹ_i (Qỹ)_i ≤ 1`` for all i, and nothing else is if all are strictly
    below 1. The largest value of the left side is a sum of the b best gains; near 1 it is compared exactly.

    Parameters
    ----------
    Q : (m, m) array
    y : (m,) array
        Clean labels, ±1.
    C : float
    movable : (m,) array
        Which labels can be flipped.
    b : int
    strict : bool
        Whether equality does not count.
    """
    if np.any(C * y * (Q @ y) > 1.0 + 1e-6):  # not even with clean labels, which is quick to see
        return False
    signed = Q * np.outer(y, y)
    m = y.size
    for i in range(m):
        others = np.arange(m) != i
        keep = _largest_margin(signed[i], others, movable, b)
        options = [keep]
        if movable[i] and b >= 1:
            options.append(_largest_margin(np.where(others, -signed[i], signed[i]), others, movable, b - 1))
        for terms in options:
            value = C * math.fsum(terms)
            if value > 1.0 + 1e-12:
                return False
            if value > 1.0 - 1e-12:
                exact = Fraction(C) * sum(map(Fraction, terms), Fraction(0))
                if exact > 1 or (strict and exact == 1):
                    return False
    return True


def _largest_margin(row: Float, others: Any, movable: Any, b: int) -> list[float]:
    """Terms of the largest ``Σ_j ±row_j`` with at most ``b`` sign changes among the movable others."""
    terms = row.copy()
    candidates = np.flatnonzero(others & movable & (row < 0))
    worst = candidates[np.argsort(row[candidates], kind="stable")[:b]]
    terms[worst] = -terms[worst]
    return [float(v) for v in terms]
