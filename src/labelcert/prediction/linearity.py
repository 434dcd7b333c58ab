"""Where scores are provably linear in the labels."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from labelcert.arrays import Float
from labelcert.problem import Problem


def is_linear(problem: Problem) -> bool:
    """Whether all scores are linear in the labels, for every admissible relabelling."""
    if problem.loss == "square":
        return True
    # With two classes, one model is the negative of the other.
    classes = range(1, 2) if problem.n_classes == 2 else range(problem.n_classes)
    return all(always_at_cap(problem.one_vs_rest(c)) for c in classes)


def always_at_cap(problem: Problem) -> bool:
    """Whether every label stays at its cap under every admissible labelling, so that ``z = C·ỹ``.

    ``z = C·ỹ`` is optimal if and only if ``C·ỹ_i (Qỹ)_i ≤ 1`` for all i. The largest value of the left side
    over labellings with at most b flips is a sum of the b best gains; near 1 it is compared exactly.
    """
    if problem.loss != "hinge":
        return False
    Q, y, C = problem.K_train, problem.y, problem.C
    a = problem.adversary
    b = a.most_flips(problem.max_flips)
    signed = Q * np.outer(y, y)
    movable = np.zeros(problem.m, dtype=bool)
    movable[a.labels] = True
    for i in range(problem.m):
        others = np.arange(problem.m) != i
        keep = _largest_margin(signed[i], others, movable, b)
        options = [keep]
        if movable[i] and b >= 1:
            options.append(_largest_margin(np.where(others, -signed[i], signed[i]), others, movable, b - 1))
        for terms in options:
            value = C * math.fsum(terms)
            if value > 1.0 + 1e-12:
                return False
            if value > 1.0 - 1e-12 and Fraction(C) * sum(map(Fraction, terms), Fraction(0)) > 1:
                return False
    return True


def _largest_margin(row: Float, others: Any, movable: Any, b: int) -> list[float]:
    """Terms of the largest ``Σ_j ±row_j`` with at most ``b`` sign changes among the movable others."""
    terms = row.copy()
    candidates = np.flatnonzero(others & movable & (row < 0))
    worst = candidates[np.argsort(row[candidates], kind="stable")[:b]]
    terms[worst] = -terms[worst]
    return [float(v) for v in terms]
