"""The paper's program for more than two classes."""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float
from labelcert.engines.search.mixed_integer import Builder
from labelcert.engines.search.paper import add_paper
from labelcert.engines.search.programs import Program
from labelcert.problem import Problem


def paper_classes(problem: Problem, budget: int, row: Float, predicted: int) -> Program:
    """The paper's Theorem (Multiclass MILP) for one node, equation by equation.

    Parameters
    ----------
    row : (m,) array
        Test row ``Q_t``.
    predicted : int
        The class ĉ.
    """
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
    clean = label[codes[a.labels], a.labels]
    costs = a.costs.astype(float)
    if a.labels.size:
        b.constrain("adversary", [(clean, -costs[None, :])], upper=float(budget) - float(costs.sum()))
    for group, cap in enumerate(a.group_caps.tolist()):
        own = a.groups == group
        if own.any():
            cap_left = float(cap) - float(costs[own].sum())
            b.constrain(f"adversary, group {group}", [(clean[own], -costs[None, own])], upper=cap_left)
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
    return Program(b.build(), 1.0, label[:, a.labels].T, targets)
