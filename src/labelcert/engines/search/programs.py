"""Programs in one shape: what to minimise over, and how to read a relabelling from a solution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int
from labelcert.engines.search.mixed_integer import MixedInteger, add_collective
from labelcert.engines.search.paper import build_paper
from labelcert.engines.search.solvers.base import TOLERANCE, Row
from labelcert.problem import Problem, Relabelling


@dataclass(frozen=True, eq=False)
class Program:
    """A program whose feasible points are the admissible relabellings with their trained models.

    Attributes
    ----------
    model : MixedInteger
    unit : float
        Scores are the objective times this.
    options : (ν, k) column numbers
        A label changes in the way whose column has the value in ``at``, and does not change where none has.
    targets : (ν, k) array
        The classes that it becomes; -1 where there is no such way.
    z : (m,) column numbers or None
        Where one score decides: it is ``unit · (row·z)``.
    at : (ν, k) boolean array or None
        None: the value is 1 everywhere.
    """

    model: MixedInteger
    unit: float
    options: Index
    targets: Int
    z: Index | None = None
    at: Bool | None = None

    def change(self, x: Float) -> Relabelling:
        """The relabelling in a solution."""
        value = x[self.options] if self.at is None else np.where(self.at, x[self.options], 1.0 - x[self.options])
        chosen = np.where(self.targets >= 0, value, 0.0)
        positions = np.flatnonzero(chosen.max(axis=1, initial=0.0) > 0.5).astype(np.int64)
        return Relabelling(positions, self.targets[positions, chosen[positions].argmax(axis=1)])

    def score_cost(self, scores: Float) -> Float:
        """The objective "score of one node", (m,) scores."""
        assert self.z is not None
        cost = np.zeros(self.model.lower.size)
        cost[self.z] = scores
        return cost

    def without(self, change: Relabelling) -> Row:
        """A constraint that excludes one relabelling and no other."""
        sign = np.where(self.targets >= 0, -1.0, 0.0)
        sign[change.positions] = self.targets[change.positions] == change.targets[:, None]
        upper = float(len(change)) - 1.0
        if self.at is not None:
            upper -= float(sign[~self.at].sum())
            sign = np.where(self.at, sign, -sign)
        used = sign.ravel() != 0
        return Row(self.options.ravel()[used], sign.ravel()[used], upper)

    def margin(self, cost: Float) -> float:
        """What the solver's tolerances can do to a bound, generously.

        A basis that is dual feasible up to the tolerance proves its bound up to tolerance × range, summed over the
        columns.
        """
        width = self.model.upper - self.model.lower
        return 10.0 * TOLERANCE * (1.0 + float(width.sum())) * max(1.0, float(np.abs(cost).max(initial=0.0)))


def other_class(problem: Problem) -> Int:
    """(ν, 1) the class that each flippable label of a two-class problem becomes."""
    return 1 - problem.codes[problem.adversary.labels][:, None]


def paper_program(problem: Problem, budget: int, collective: Float | None = None) -> Program:
    """The paper's formulation; ``collective`` gives rows (m, n)."""
    b, z, label = build_paper(problem, budget)
    if collective is not None:
        reach = problem.C * np.abs(collective).sum(axis=0)
        add_collective(b, z, collective, reach, zero_slack(reach), lowest=-reach)
    labels = problem.adversary.labels
    at = problem.y[labels, None] < 0
    return Program(b.build(), 1.0, label[labels, None], other_class(problem), z, at)


def zero_slack(reach: Float) -> float:
    """What makes a node at zero count as changed in spite of a solver's tolerance."""
    return 100.0 * TOLERANCE * (1.0 + float(reach.max(initial=0.0)))
