"""The compact formulation: six one-hot states per label, each with the convex hull of its piece.

In units of the cap (``z = C·a·sign``, so that ``a`` lies in [0, 1]), a label of sign s with margin ``g = s·f`` is in
one of three states, and its (a, g) lies on one piece of a staircase:

======  =========  ==============
Zero    a = 0      1 ≤ g ≤ U
Free    0 ≤ a ≤ 1  g = 1
Cap     a = 1      L ≤ g ≤ 1
======  =========  ==============

Sign and state are chosen by six binaries of which one is 1. ``f = Q z`` ties the labels together. This needs none of
the paper's m² products; how fast it is depends on how tight the ranges [L, U] are.
"""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float, Index
from labelcert.engines.search.mixed_integer import Builder, MixedInteger, add_budget
from labelcert.engines.search.ranges import Ranges
from labelcert.problem import Problem
from labelcert.svm.training import train

ZERO, FREE, CAP = 0, 1, 2


def build_compact(problem: Problem, ranges: Ranges) -> tuple[Builder, Index, Index]:
    """Variables and constraints that hold exactly the optimal ``z`` of every admissible labelling.

    Returns
    -------
    builder
        Add an objective, or a collective part, and build.
    z : (m,) column numbers
        In units of the cap: the score of a row k is ``C·k·z``.
    flips : (ν, 3) column numbers
        States of the flipped side of the flippable labels; their sum is 1 where the label is flipped.
    """
    b = Builder()
    z, flips = add_compact(b, problem, ranges)
    add_budget(b, flips, problem.adversary, ranges.budget)
    return b, z, flips


def add_compact(b: Builder, problem: Problem, ranges: Ranges, prefix: str = "") -> tuple[Index, Index]:
    """The same without the budget, as one of several models in a program; ``prefix`` goes before all names."""
    m = problem.m
    C, Q = problem.C, problem.K_train
    signs = np.stack([problem.y, -problem.y], axis=1)
    low, high = ranges.low, ranges.high
    zero, free, cap = np.moveaxis(ranges.states(), -1, 0)
    state = b.variables(f"{prefix}state", (m, 2, 3), 0.0, np.stack([zero, free, cap], axis=-1), integer=True)
    above = np.where(zero, high - 1.0, 0.0)
    above_least = np.where(zero, np.maximum(low, 1.0) - 1.0, 0.0)
    below = np.where(cap, 1.0 - low, 0.0)
    below_least = np.where(cap, 1.0 - np.minimum(high, 1.0), 0.0)
    most, least = np.where(free, ranges.most, 0.0), np.where(free, ranges.least, 0.0)
    e_zero = b.variables(f"{prefix}above 1", (m, 2), 0.0, above)
    e_cap = b.variables(f"{prefix}below 1", (m, 2), 0.0, below)
    a_free = b.variables(f"{prefix}a", (m, 2), 0.0, most)
    z = b.variables(f"{prefix}z", m, -1.0, 1.0)
    b.constrain(f"{prefix}one state", [(state[:, s, k], 1.0) for s in (0, 1) for k in (ZERO, FREE, CAP)], 1.0, 1.0)
    b.constrain(
        f"{prefix}z by state",
        [(z, -1.0)] + [(a_free[:, s], signs[:, s]) for s in (0, 1)] + [(state[:, s, CAP], signs[:, s]) for s in (0, 1)],
        0.0,
        0.0,
    )
    b.constrain(
        f"{prefix}f = Qz",
        [(z, C * Q)]
        + [(state[:, s, k], -signs[:, s]) for s in (0, 1) for k in (ZERO, FREE, CAP)]
        + [(e_zero[:, s], -signs[:, s]) for s in (0, 1)]
        + [(e_cap[:, s], signs[:, s]) for s in (0, 1)],
        0.0,
        0.0,
    )
    for name, k, columns, smallest, largest in (
        ("Zero", ZERO, e_zero, above_least, above),
        ("Free", FREE, a_free, least, most),
        ("Cap", CAP, e_cap, below_least, below),
    ):
        binary = state[:, :, k].ravel()
        b.constrain(f"{prefix}{name}: largest", [(columns.ravel(), 1.0), (binary, -largest.ravel())], upper=0.0)
        some = (smallest > 0).ravel()
        if some.any():
            lowest = -smallest.ravel()[some]
            b.constrain(f"{prefix}{name}: smallest", [(columns.ravel()[some], 1.0), (binary[some], lowest)], lower=0.0)
    return z, state[problem.adversary.labels, 1]


def set_compact(x: Float, problem: Problem, model: MixedInteger, y: Float, prefix: str = "") -> None:
    """Fill in the variables of one model for labels ``y`` (±1)."""
    z = train(problem.K_train, y, problem.C) / problem.C
    g = y * (problem.C * (problem.K_train @ z))
    a = np.clip(y * z, 0.0, 1.0)
    label = np.arange(problem.m)
    side = (y != problem.y).astype(np.intp)
    near = 1e-9
    state = np.where((a <= near) & (g >= 1.0), ZERO, np.where((a >= 1.0 - near) & (g <= 1.0), CAP, FREE))
    x[model.columns[f"{prefix}state"][label, side, state]] = 1.0
    x[model.columns[f"{prefix}z"]] = z
    at = [np.flatnonzero(state == k) for k in (ZERO, FREE, CAP)]
    x[model.columns[f"{prefix}above 1"][at[ZERO], side[at[ZERO]]]] = g[at[ZERO]] - 1.0
    x[model.columns[f"{prefix}a"][at[FREE], side[at[FREE]]]] = a[at[FREE]]
    x[model.columns[f"{prefix}below 1"][at[CAP], side[at[CAP]]]] = 1.0 - g[at[CAP]]
