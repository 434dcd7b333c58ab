"""Programs for more than two classes: the paper's theorem, one pair of classes, and all nodes at once.

One model per class against the rest. What they share is the labels: a label is of one class after poisoning, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labelcert.milp.compact import add_compact, set_compact
from labelcert.milp.model import Builder, Index, Model, add_budget
from labelcert.milp.pairs import OWN, RIVAL, Pair
from labelcert.milp.paper import add_paper
from labelcert.milp.programs import solver_margin, zero_slack
from labelcert.milp.relaxation import Ranges
from labelcert.milp.solvers.base import Row
from labelcert.problem import Problem

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Moves = tuple[Int, Int]
"""Positions of changed labels, ascending, and the classes that they become."""


@dataclass(frozen=True, eq=False)
class ClassProgram:
    """A program whose feasible points are relabellings with their trained models.

    Attributes
    ----------
    model : Model
    unit : float
        Differences of scores are the objective times this.
    options : (ν, k) column numbers
        A label changes in the way whose column is 1, and does not where all are 0.
    targets : (ν, k) array
        The classes that it becomes; -1 where there is no such way.
    point : callable
        ``point(moves)``: the point of a relabelling, or None where none is offered.
    """

    model: Model
    unit: float
    options: Index
    targets: Int
    point: Callable[[Moves], Float | None]

    @property
    def margin(self) -> float:
        """What the solver's tolerances can do to a bound, generously."""
        return solver_margin(self.model, self.model.cost)

    def moves(self, x: Float) -> Moves:
        """The relabelling in a solution."""
        chosen = np.where(self.targets >= 0, x[self.options], 0.0)
        positions = np.flatnonzero(chosen.max(axis=1, initial=0.0) > 0.5).astype(np.int64)
        return positions, self.targets[positions, chosen[positions].argmax(axis=1)]

    def without(self, moves: Moves) -> Row:
        """A constraint that excludes one relabelling and no other."""
        positions, targets = moves
        sign = np.where(self.targets >= 0, -1.0, 0.0)
        sign[positions] = self.targets[positions] == targets[:, None]
        used = sign.ravel() != 0
        return Row(self.options.ravel()[used], sign.ravel()[used], float(positions.size) - 1.0)


def paper_classes(problem: Problem, budget: int, row: Float, predicted: int) -> ClassProgram:
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
    return ClassProgram(b.build(), 1.0, label[:, a.labels].T, targets, lambda moves: None)


def pair_program(pair: Pair, row: Float) -> ClassProgram:
    """Compact program of one predicted class and one rival: minimise ``p_c − p_r``."""
    a = pair.problem.adversary
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

    def point(moves: Moves) -> Float | None:
        x = np.zeros(model.lower.size)
        codes = pair.problem.codes
        for i, target in zip(*(array.tolist() for array in moves), strict=True):
            o = pair.move(i, target)
            if o is None or not pair.left[i, o]:
                return None
            x[move[i, o]] = 1.0
            codes[a.labels[i]] = target
        for k, prefix in ((OWN, "own "), (RIVAL, "rival ")):
            y = np.where(codes == pair.classes[k], 1.0, -1.0)
            set_compact(x, pair.parts[k], model, y, prefix)
        return x

    return ClassProgram(model, pair.problem.C, move, targets, point)


def collective_classes(
    problem: Problem,
    budget: int,
    parts: list[Problem],
    ranges: list[Ranges] | None,
    rows: Float,
    pairs: Int,
    highest: Float,
    errors: Float,
) -> ClassProgram:
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

    def point(moves: Moves) -> Float | None:
        x = np.zeros(model.lower.size)
        after = codes.copy()
        after[a.labels[moves[0]]] = moves[1]
        x[move[moves[0], moves[1]]] = 1.0
        for c, part in enumerate(parts):
            y = np.where(after == c, 1.0, -1.0)
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
    return ClassProgram(model, problem.C, move, targets, point)
