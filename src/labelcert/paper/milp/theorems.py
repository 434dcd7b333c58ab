"""The paper's formulation, equation by equation: Theorems 1 and 2, that of more classes, big-M values of appendix C.

Variables are the paper's: α, z, u, v, the binaries y', s, t, and the m² products R. ``ỹ = 2y' − 1`` is substituted.
Threat models beyond the paper's enter through the budget rows alone: a label that cannot change has its y' fixed.
"""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float, Index
from labelcert.engines.search.mixed_integer import Builder
from labelcert.paper.milp.label_programs import LabelProgram
from labelcert.paper.milp.solvers.session import TOLERANCE
from labelcert.problem import Adversary, Problem


def two_classes(problem: Problem, budget: int, collective: Float | None = None) -> LabelProgram:
    """The sample-wise theorem; with rows (m, n) for ``collective``, Theorem 2."""
    y, m, a = problem.y, problem.m, problem.adversary
    b = Builder()
    clean = (y > 0).astype(float)
    free = np.zeros(m, dtype=bool)
    free[a.labels] = True
    label = b.variables("y'", m, np.where(free, 0.0, clean), np.where(free, 1.0, clean), integer=True)
    # Σ cost_i (1 − y_i ỹ_i) ≤ 2·budget, over all labels and over every group with a budget of its own.
    add_adversary(b, a, label[a.labels], y[a.labels], budget, unit=2.0)
    z = add_paper(b, problem, label)
    if collective is not None:
        reach = problem.C * np.abs(collective).sum(axis=0)
        add_collective(b, z, collective, reach, zero_slack(reach), lowest=-reach)
    others, at = 1 - problem.codes[a.labels][:, None], y[a.labels, None] < 0
    return LabelProgram(b.build(), label[a.labels, None], others, z, at)


def zero_slack(reach: Float) -> float:
    """What makes a node at zero count as changed in spite of a solver's tolerance."""
    return 100.0 * TOLERANCE * (1.0 + float(reach.max(initial=0.0)))


def more_classes(problem: Problem, budget: int, row: Float, predicted: int) -> LabelProgram:
    """The paper's Theorem (Multiclass MILP) for one node, equation by equation: its test row ``Q_t``, its class ĉ."""
    K, m, C, a = problem.n_classes, problem.m, problem.C, problem.adversary
    codes = problem.codes
    may = np.zeros((K, m), dtype=bool)
    may[codes, np.arange(m)] = True
    fixed = may.copy()
    may[:, a.labels] |= a.targets.T
    fixed[:, a.labels] = False
    b = Builder()
    # ỹ'^c_i ∈ {0, 1}, Σ_c ỹ'^c_i = 1; a label that cannot change, or cannot become c, has it fixed.
    label = b.variables("y'", (K, m), fixed.astype(float), may.astype(float), integer=True)
    b.constrain("one class per label", [(label[c], 1.0) for c in range(K)], 1.0, 1.0)
    # Σ_i cost_i (1 − Σ_c y'^c_i ỹ'^c_i) ≤ budget, over all labels and over every group with a budget of its own.
    add_adversary(b, a, label[codes[a.labels], a.labels], np.ones(a.labels.size), budget)
    # Per class: stationarity, R, z, complementary slackness.
    z = [add_paper(b, problem, label[c], f"class {c}: ") for c in range(K)]
    # p_c = Σ_i z^c_i Q_ti within [p^L, p^U].
    reach = C * float(np.abs(row).sum())
    p = b.variables("p", K, -reach, reach)
    for c in range(K):
        b.constrain(f"class {c}: p = Σ z Q", [(p[[c]], 1.0), (z[c], -row[None, :])], 0.0, 0.0)
    # p* = max of the rivals' scores: Σ b_c = 1, p* ≥ p_c, p* ≤ p_c + (1 − b_c)(p^U − p^L).
    rivals = np.flatnonzero(np.arange(K) != predicted)
    top = b.variables("p*", 1, -reach, reach)
    is_top = b.variables("b", K - 1, 0.0, 1.0, integer=True)
    b.constrain("one maximum", [(is_top, np.ones((1, K - 1)))], 1.0, 1.0)
    tops = np.repeat(top, K - 1)
    b.constrain("p* ≥ p", [(tops, 1.0), (p[rivals], -1.0)], lower=0.0)
    b.constrain("p* ≤ p + (1−b)(pU − pL)", [(tops, 1.0), (p[rivals], -1.0), (is_top, 2.0 * reach)], upper=2.0 * reach)
    b.minimise(p[[predicted]], [1.0])
    b.minimise(top, [-1.0])
    targets = np.where(a.targets, np.arange(K)[None, :], -1)
    return LabelProgram(b.build(), label[:, a.labels].T, targets)


def add_adversary(b: Builder, a: Adversary, kept: Index, signs: Float, budget: int, unit: float = 1.0) -> None:
    """What the adversary can pay, in all and in every group: rows that are ``unit`` times the cost.

    ``kept`` are (ν,) columns, whose signs are +1 where the column is 1 for a label that is kept, and -1 where it is 0.
    """
    groups = [(f"adversary, group {g}", a.groups == g, cap) for g, cap in enumerate(a.group_caps.tolist())]
    for name, own, cap in [("adversary", np.ones(a.labels.size, dtype=bool), budget), *groups]:
        if own.any():
            costs = unit * a.costs[own]
            clean = float(costs[signs[own] > 0].sum())
            b.constrain(name, [(kept[own], -(signs[own] * costs)[None, :])], upper=unit * cap - clean)


def add_paper(b: Builder, problem: Problem, label: Index, prefix: str = "") -> Index:
    """Inner problem of one model: its variables (but the labels ``y'``) and constraints; returns the columns of z."""
    Q, C, m = problem.K_train, problem.C, problem.m
    reach = C * np.abs(Q).sum(axis=1)
    M_u, M_v = reach - 1.0, reach + 1.0
    s = b.variables(f"{prefix}s", m, 0.0, 1.0, integer=True)
    t = b.variables(f"{prefix}t", m, 0.0, 1.0, integer=True)
    alpha = b.variables(f"{prefix}alpha", m, 0.0, C)
    z = b.variables(f"{prefix}z", m, -C, C)
    u = b.variables(f"{prefix}u", m, 0.0, np.maximum(M_u, 0.0))
    v = b.variables(f"{prefix}v", m, 0.0, M_v)
    R = b.variables(f"{prefix}R", (m, m), -C, C)
    # Stationarity: Σ_j R_ij Q_ij − 1 − u_i + v_i = 0.
    rows = np.zeros((m, m * m))
    rows[np.repeat(np.arange(m), m), np.arange(m * m)] = Q.ravel()
    b.constrain(f"{prefix}stationarity", [(R.ravel(), rows), (u, -1.0), (v, 1.0)], 1.0, 1.0)
    # R_ij = ỹ_i z_j: −C(1+ỹ_i) ≤ R_ij + z_j ≤ C(1+ỹ_i) and −C(1−ỹ_i) ≤ R_ij − z_j ≤ C(1−ỹ_i).
    row_label, column_z = np.repeat(label, m), np.tile(z, m)
    b.constrain(f"{prefix}R + z, upper", [(R.ravel(), 1.0), (column_z, 1.0), (row_label, -2.0 * C)], upper=0.0)
    b.constrain(f"{prefix}R + z, lower", [(R.ravel(), 1.0), (column_z, 1.0), (row_label, 2.0 * C)], lower=0.0)
    b.constrain(f"{prefix}R - z, upper", [(R.ravel(), 1.0), (column_z, -1.0), (row_label, 2.0 * C)], upper=2.0 * C)
    b.constrain(f"{prefix}R - z, lower", [(R.ravel(), 1.0), (column_z, -1.0), (row_label, -2.0 * C)], lower=-2.0 * C)
    # z_i = α_i ỹ_i: −α_i ≤ z_i ≤ α_i and α_i − C(1−ỹ_i) ≤ z_i ≤ C(1+ỹ_i) − α_i.
    b.constrain(f"{prefix}-alpha ≤ z", [(z, 1.0), (alpha, 1.0)], lower=0.0)
    b.constrain(f"{prefix}z ≤ alpha", [(z, 1.0), (alpha, -1.0)], upper=0.0)
    b.constrain(f"{prefix}z ≥ alpha − C(1−y)", [(z, 1.0), (alpha, -1.0), (label, -2.0 * C)], lower=-2.0 * C)
    b.constrain(f"{prefix}z ≤ C(1+y) − alpha", [(z, 1.0), (alpha, 1.0), (label, -2.0 * C)], upper=0.0)
    # Complementary slackness with big M.
    b.constrain(f"{prefix}u ≤ M_u s", [(u, 1.0), (s, -M_u)], upper=0.0)
    b.constrain(f"{prefix}alpha ≤ C(1−s)", [(alpha, 1.0), (s, C)], upper=C)
    b.constrain(f"{prefix}v ≤ M_v t", [(v, 1.0), (t, -M_v)], upper=0.0)
    b.constrain(f"{prefix}alpha ≥ C t", [(alpha, 1.0), (t, -C)], lower=0.0)
    return z


def add_collective(
    b: Builder, z: Index, rows: Float, highest: Float, slack: float | Float, *, lowest: Float | None = None
) -> Index:
    """The paper's Theorem 2: one binary per node, ``p_t ≤ h_t (1 − c_t)`` and ``p_t ≥ l_t c_t``; maximise their sum.

    The (m, n) rows multiply z, times the sign of each node's clean prediction, so that all are like ``p̂_t > 0``. The
    (n,) bounds on scores are ``highest``, h, and ``lowest``, l; without l, the second inequality, which maximising
    makes redundant, is left out. The slack lets a node at zero count as changed in spite of a solver's tolerance.
    """
    n = rows.shape[1]
    changed = b.variables("c", n, 0.0, 1.0, integer=True)
    b.constrain("p ≤ h(1−c)", [(z, rows.T), (changed, highest)], upper=highest + slack)
    if lowest is not None:
        b.constrain("p ≥ l c", [(z, rows.T), (changed, -lowest)], lower=-slack)
    b.minimise(changed, -np.ones(n))
    return changed
