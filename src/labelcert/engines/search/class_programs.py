"""Programs for more than two classes: the paper's theorem, one pair of classes, and all nodes at once.

One model per class against the rest. What they share is the labels: a label is of one class after poisoning, too.
"""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.engines.search.compact import add_compact, set_compact
from labelcert.engines.search.mixed_integer import Builder, add_budget
from labelcert.engines.search.pairs import OWN, RIVAL, Pair
from labelcert.engines.search.paper import add_paper
from labelcert.engines.search.programs import Program, zero_slack
from labelcert.engines.search.ranges import Ranges
from labelcert.problem import Problem, Relabelling
from labelcert.problem.problem import signs_of


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
    return Program(b.build(), 1.0, label[:, a.labels].T, targets, lambda change: None)


def pair_program(pair: Pair, row: Float) -> Program:
    """Compact program of one predicted class and one rival: minimise ``p_c − p_r``."""
    b = Builder()
    z_own, flips_own = add_compact(b, pair.parts[OWN], pair.ranges[OWN], "own ")
    z_rival, flips_rival = add_compact(b, pair.parts[RIVAL], pair.ranges[RIVAL], "rival ")
    move = pair.add_moves(b, (flips_own, flips_rival), integer=True)
    b.minimise(z_own, row)
    b.minimise(z_rival, -row)
    model = b.build()
    targets = np.full(pair.left.shape, -1, dtype=np.int64)
    for i, o in zip(*np.nonzero(pair.left), strict=True):
        targets[i, o] = pair.target(int(i), int(o))

    def point(change: Relabelling) -> Float | None:
        x = np.zeros(model.lower.size)
        codes = pair.problem.relabelled(change)
        for i, target in change.moves.items():
            o = pair.move(i, target)
            if o is None or not pair.left[i, o]:
                return None
            x[move[i, o]] = 1.0
        for k, prefix in ((OWN, "own "), (RIVAL, "rival ")):
            set_compact(x, pair.parts[k], model, signs_of(codes, pair.classes[k]), prefix)
        return x

    return Program(model, pair.problem.C, move, targets, point)


def collective_classes(
    problem: Problem,
    budget: int,
    parts: list[Problem],
    ranges: list[Ranges] | None,
    rows: Float,
    pairs: Int,
    highest: Float,
    errors: Float,
) -> Program:
    """All classes and many nodes: the most that one relabelling changes.

    One binary per node and rival, at most one of a node's is 1, and then the rival reaches the predicted class:
    ``p_c − p_r ≤ h (1 − w)``. Maximise their sum.

    Parameters
    ----------
    parts : list of K problems
        Each class against the rest.
    ranges : list of K ranges, or None
        None: scores are linear in the labels (``rows`` multiply labels, not dual variables).
    rows : (m, n) array
    pairs : (P, 3) array
        Node (a column of ``rows``), its predicted class, and a rival that may win.
    highest : (P,) array
        Upper bounds on ``p_c − p_r``, in units of the cap.
    errors : (P,) array
        Proved bounds on the errors of ``p_c − p_r`` that come from the rows.
    """
    K, a = problem.n_classes, problem.adversary
    codes = problem.codes
    source = codes[a.labels]
    b = Builder()
    move = b.variables("move", (a.labels.size, K), 0.0, a.targets.astype(float), integer=True)
    if a.labels.size:
        b.constrain("one move", [(move[:, k], 1.0) for k in range(K)], upper=1.0)
    z = []
    for c, part in enumerate(parts):
        inside = np.flatnonzero(np.isin(a.labels, part.adversary.labels))
        leaves = (source[inside] == c).astype(float)
        toggled = [(move[inside, k], -(leaves if k != c else 1.0 - leaves)) for k in range(K)]
        if ranges is None:
            own = b.variables(f"class {c}: z", problem.m, -1.0, 1.0)
            fixed = np.ones(problem.m, dtype=bool)
            fixed[part.adversary.labels] = False
            b.constrain(f"class {c}: z = y", [(own[fixed], 1.0)], part.y[fixed], part.y[fixed])
            y = part.y[part.adversary.labels]
            terms = [(columns, -2.0 * y * weight) for columns, weight in toggled]
            b.constrain(f"class {c}: toggled by a move", [(own[part.adversary.labels], 1.0), *terms], y, y)
        else:
            own, flips = add_compact(b, part, ranges[c], f"class {c}: ")
            sides = [(flips[:, s], 1.0) for s in range(flips.shape[1])]
            b.constrain(f"class {c}: toggled by a move", sides + toggled, 0.0, 0.0)
        z.append(own)
    add_budget(b, move, a, budget)
    wins = b.variables("w", pairs.shape[0], 0.0, 1.0, integer=True)
    slack = zero_slack(highest) + errors
    for k, (node, own_class, rival) in enumerate(pairs.tolist()):
        row = rows[None, :, node]
        terms = [(z[own_class], row), (z[rival], -row), (wins[[k]], highest[None, [k]])]
        b.constrain(f"pair {k}", terms, upper=float(highest[k] + slack[k]))
    for node in np.unique(pairs[:, 0]):
        mine = wins[pairs[:, 0] == node]
        b.constrain(f"node {node}: one rival", [(mine, np.ones((1, mine.size)))], upper=1.0)
    b.minimise(wins, -np.ones(wins.size))
    model = b.build()

    def point(change: Relabelling) -> Float | None:
        x = np.zeros(model.lower.size)
        after = problem.relabelled(change)
        x[move[change.positions, change.targets]] = 1.0
        for c, part in enumerate(parts):
            y = signs_of(after, c)
            if ranges is None:
                x[z[c]] = y
            else:
                set_compact(x, part, model, y, f"class {c}: ")
        done = set()
        for k, (node, own_class, rival) in enumerate(pairs.tolist()):
            if node not in done and rows[:, node] @ (x[z[own_class]] - x[z[rival]]) <= 0.0:
                x[wins[k]] = 1.0
                done.add(node)
        return x

    targets = np.where(a.targets, np.arange(K)[None, :], -1)
    return Program(model, problem.C, move, targets, point)
