"""The paper's formulation, equation by equation (Theorems 1 and 2, big-M values of its appendix C).

Variables are the paper's: α, z, u, v, the binaries y', s, t, and the m² products R. ``ỹ = 2y' − 1`` is substituted.
Threat models beyond the paper's enter through the budget row alone: a label that cannot change has its y' fixed.
"""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Index
from labelcert.engines.search.mixed_integer import Builder
from labelcert.problem import Problem


def build_paper(problem: Problem, budget: int) -> tuple[Builder, Index, Index]:
    """All constraints of the sample-wise theorem.

    Returns
    -------
    builder, z, y' columns
    """
    y, m = problem.y, problem.m
    a = problem.adversary
    b = Builder()
    clean = (y > 0).astype(float)
    free = np.zeros(m, dtype=bool)
    free[a.labels] = True
    label = b.variables("y'", m, np.where(free, 0.0, clean), np.where(free, 1.0, clean), integer=True)
    # Σ cost_i (1 − y_i ỹ_i) ≤ 2·budget, over all labels and over every group with a budget of its own.
    signed = 2.0 * y[a.labels] * a.costs
    if a.labels.size:
        b.constrain(
            "adversary", [(label[a.labels], -signed[None, :])], upper=2.0 * budget - float((a.costs + signed / 2).sum())
        )
    for group, cap in enumerate(a.group_caps.tolist()):
        own = a.groups == group
        if own.any():
            b.constrain(
                f"adversary, group {group}",
                [(label[a.labels[own]], -signed[None, own])],
                upper=2.0 * cap - float((a.costs + signed / 2)[own].sum()),
            )
    return b, add_paper(b, problem, label), label


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
