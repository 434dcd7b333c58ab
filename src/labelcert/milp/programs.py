"""The three programs in one shape: what to minimise over, how to read an attack from a solution, where to start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labelcert.milp.compact import build_compact, compact_point
from labelcert.milp.model import Builder, Index, Model, add_budget, add_collective
from labelcert.milp.paper import build_paper
from labelcert.milp.relaxation import Ranges
from labelcert.milp.solvers.base import TOLERANCE, Row
from labelcert.problem import Problem

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Program:
    """A program whose feasible points are the admissible labellings with their trained models.

    Attributes
    ----------
    model : Model
    z : (m,) column numbers
        Scores are ``unit · (row·z)``.
    unit : float
    flips : (ν, k) column numbers
    flipped_at_one : (ν,) boolean array
        Label i is flipped where the columns of its row add up to 1 (True) or to 0 (False).
    point : callable
        ``point(y)``: the point of labels ``y``, or None where none is offered.
    changed : (n,) column numbers or None
        One binary per node, in collective programs.
    """

    model: Model
    z: Index
    unit: float
    flips: Index
    flipped_at_one: npt.NDArray[np.bool_]
    point: Callable[[Float], Float | None]
    changed: Index | None = None

    def attack(self, x: Float) -> Int:
        """Positions of the flipped labels in a solution."""
        chosen = x[self.flips].sum(axis=1) > 0.5
        return np.flatnonzero(chosen == self.flipped_at_one).astype(np.int64)

    def score_cost(self, scores: Float) -> Float:
        """The objective "score of one node", (m,) scores."""
        cost = np.zeros(self.model.lower.size)
        cost[self.z] = scores
        return cost

    def without(self, attack: Int) -> Row:
        """A constraint that excludes one attack and no other."""
        chosen = np.zeros(self.flips.shape[0], dtype=bool)
        chosen[attack] = True
        at_one = chosen == self.flipped_at_one
        sign = np.where(at_one, 1.0, -1.0)
        width = self.flips.shape[1]
        return Row(self.flips.ravel(), np.repeat(sign, width), float(at_one.sum()) - 1.0)

    def margin(self, cost: Float) -> float:
        """What the solver's tolerances can do to a bound, generously.

        A basis that is dual feasible up to the tolerance proves its bound up to tolerance × range, summed over the
        columns.
        """
        return solver_margin(self.model, cost)


def solver_margin(model: Model, cost: Float) -> float:
    """See :meth:`Program.margin`."""
    width = model.upper - model.lower
    return 10.0 * TOLERANCE * (1.0 + float(width.sum())) * max(1.0, float(np.abs(cost).max(initial=0.0)))


def compact_program(problem: Problem, ranges: Ranges, collective: tuple[Float, Float] | None = None) -> Program:
    """The compact formulation; ``collective`` gives rows (m, n) and upper bounds (n,) of their scores."""
    b, z, flips = build_compact(problem, ranges)
    changed = None if collective is None else add_collective(b, z, *collective, slack=zero_slack(collective[1]))
    model = b.build()

    def point(y: Float) -> Float | None:
        x = compact_point(problem, model, y)
        if collective is not None and changed is not None:
            x[changed] = collective[0].T @ x[z] <= 0.0
        return x

    return Program(model, z, problem.C, flips, np.ones(flips.shape[0], dtype=bool), point, changed)


def paper_program(problem: Problem, budget: int, collective: Float | None = None) -> Program:
    """The paper's formulation; ``collective`` gives rows (m, n)."""
    b, z, label = build_paper(problem, budget)
    changed = None
    if collective is not None:
        reach = problem.C * np.abs(collective).sum(axis=0)
        changed = add_collective(b, z, collective, reach, zero_slack(reach), lowest=-reach)
    a = problem.adversary
    return Program(b.build(), z, 1.0, label[a.labels, None], problem.y[a.labels] < 0, lambda y: None, changed)


def linear_program(problem: Problem, budget: int, rows: Float, errors: Float | float = 0.0) -> Program:
    """Collective program where scores are linear in the labels: one binary per label and one per node.

    Parameters
    ----------
    rows : (m, n) array
    errors : (n,) array or float
        Proved bounds on the errors of scores that come from the rows.
    """
    a = problem.adversary
    b = Builder()
    z = b.variables("z", problem.m, -1.0, 1.0)
    flip = b.variables("flip", (a.labels.size, 1), 0.0, 1.0, integer=True)
    fixed = np.ones(problem.m, dtype=bool)
    fixed[a.labels] = False
    b.constrain("z = y", [(z[fixed], 1.0)], problem.y[fixed], problem.y[fixed])
    y = problem.y[a.labels]
    b.constrain("z = y(1 − 2·flip)", [(z[a.labels], 1.0), (flip[:, 0], 2.0 * y)], y, y)
    add_budget(b, flip, a, budget)
    reach = np.abs(rows).sum(axis=0)
    changed = add_collective(b, z, rows, reach, zero_slack(reach) + errors)
    model = b.build()

    def point(labels: Float) -> Float | None:
        x = np.zeros(model.lower.size)
        x[z] = labels
        x[flip[:, 0]] = labels[a.labels] != y
        x[changed] = rows.T @ labels <= 0.0
        return x

    return Program(model, z, 1.0, flip, np.ones(a.labels.size, dtype=bool), point, changed)


def zero_slack(reach: Float) -> float:
    """What makes a node at zero count as changed in spite of a solver's tolerance."""
    return 100.0 * TOLERANCE * (1.0 + float(reach.max(initial=0.0)))
