"""Programs in one shape: what to minimise over, and how to read a relabelling from a solution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int
from labelcert.engines.search.mixed_integer import MixedInteger
from labelcert.paper.milp.solvers.session import TOLERANCE, Row
from labelcert.problem import Relabelling


@dataclass(frozen=True, eq=False)
class LabelProgram:
    """A program whose feasible points are the admissible relabellings with their trained models."""

    model: MixedInteger
    options: Index
    """(ν, k) columns: a label changes in the way whose column has the value in ``at``; where none has, it stays."""
    targets: Int
    """(ν, k) the classes that it becomes; -1 where there is no such way."""
    z: Index | None = None
    """(m,) columns, where one score decides: it is ``row·z``."""
    at: Bool | None = None
    """(ν, k) values; None: 1 everywhere."""

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
        """What the solver's tolerances can do to a bound: tolerance × range summed over the columns, and generously."""
        width = self.model.upper - self.model.lower
        return 10.0 * TOLERANCE * (1.0 + float(width.sum())) * max(1.0, float(np.abs(cost).max(initial=0.0)))
