"""Between which values margins and dual variables lie under a budget: what every relaxation starts from.

In units of the cap, ``z = C·s·a`` with ``a`` in [0, 1], and ``g = s·f`` is the margin with respect to the sign s that
the label has after poisoning: its own (*kept*) or the other one (*flipped*). The pair (a, g) lies on a staircase
(Zero: a = 0 and g ≥ 1; Free: g = 1; Cap: a = 1 and g ≤ 1); the convex hull of the part within known ranges has at most
four corners.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.problem import Problem
from labelcert.svm.pivoting import UNIT_ROUNDOFF
from labelcert.svm.training import train

KEPT, FLIPPED = 0, 1


@dataclass(frozen=True, eq=False)
class Ranges:
    """Between which values each label's margin and dual variable lie, for every admissible attack within a budget."""

    # low, high: (m, 2) of ``g = s·f``, for the kept and for the flipped label; ``low > high``: no attack leads there
    low: Float
    high: Float
    # least, most: (m, 2) of ``a``. A label that cannot reach 0 is never Zero, one that cannot reach 1 never at its Cap.
    least: Float
    most: Float
    budget: int

    @property
    def possible(self) -> Bool:
        """(m, 2) whether a label can be kept, flipped."""
        return np.asarray(self.states().any(axis=-1))

    def states(self) -> Bool:
        """(m, 2, 3) which states can occur: Zero, Free, Cap."""
        zero = (self.high >= 1.0) & (self.least <= 0.0)
        free = (self.low <= 1.0) & (self.high >= 1.0)
        cap = (self.low <= 1.0) & (self.most >= 1.0)
        sound = (self.low <= self.high) & (self.least <= self.most)
        return np.stack([zero, free, cap], axis=-1) & sound[..., None]

    @property
    def width(self) -> float:
        """Mean width of margins over the sides that can occur, plus that of dual variables."""
        here = self.possible
        gap = (self.high - self.low)[here] + (self.most - self.least)[here]
        return float(gap.mean()) if gap.size else 0.0

    @property
    def empty(self) -> bool:
        """Whether no attack is left: some label can neither be kept nor flipped."""
        return not bool(self.possible.any(axis=1).all())

    def emptied(self) -> Ranges:
        """Ranges that no attack is in."""
        return replace(self, low=np.full_like(self.low, np.inf))

    def without(self, labels: Int, sides: int | Int) -> Ranges:
        """Ranges of the attacks in which some labels are not on some side (one for all, or one each)."""
        low = self.low.copy()
        low[labels, sides] = np.inf
        return replace(self, low=low)

    def corners(self) -> tuple[Float, Float, Bool]:
        """``(a, g, present)``, each (m, 2, 4): the corners of the hulls, two at the end of Zero, two at that of Cap."""
        zero, free, cap = np.moveaxis(self.states(), -1, 0)
        start, end = np.where(zero, 0.0, self.least), np.where(cap, 1.0, self.most)
        a = np.stack([start, start, end, end], axis=-1)
        g = np.stack(
            [
                np.where(zero, self.high, 1.0),
                np.where(zero, np.maximum(self.low, 1.0), 1.0),
                np.where(cap, np.minimum(self.high, 1.0), 1.0),
                np.where(cap, self.low, 1.0),
            ],
            axis=-1,
        )
        present = np.stack([zero | free, zero | free, cap | free, cap | free], axis=-1)
        return np.where(present, a, 0.0), np.where(present, g, 0.0), present

    def intersect(self, other: Ranges) -> Ranges:
        """The tighter of two proved ranges."""
        return Ranges(
            low=np.maximum(self.low, other.low),
            high=np.minimum(self.high, other.high),
            least=np.maximum(self.least, other.least),
            most=np.minimum(self.most, other.most),
            budget=self.budget,
        )


def trivial_ranges(problem: Problem, budget: int) -> Ranges:
    """``|f_i| ≤ C Σ_j |Q_ij|``."""
    reach = problem.C * np.abs(problem.K_train).sum(axis=1) * (1 + 1e-12)
    both = np.repeat(reach[:, None], 2, axis=1)
    high = both.copy()
    flippable = np.zeros(problem.m, dtype=bool)
    flippable[problem.adversary.labels[problem.adversary.affordable(budget)]] = True
    high[~flippable, FLIPPED] = -np.inf
    return Ranges(low=-both, high=high, least=np.zeros_like(both), most=np.ones_like(both), budget=budget)


def ball_ranges(problem: Problem, budget: int) -> tuple[Ranges, Float]:
    """Ranges from one clean training, which need not be accurate; and its dual variables, as shares of the cap.

    The SVM solution is a proximal map, hence firmly non-expansive: flipping S moves ``w`` into the ball with centre
    ``w − ½ Σ_S c_i φ_i`` and radius ``½ ‖Σ_S c_i φ_i‖``, where ``c_i = z_i + C y_i [y_i f_i > −1]``. For a z that is
    feasible but optimal only up to a duality gap, ``−w`` is a subgradient of the loss up to that gap, and the square of
    the radius grows by it.
    """
    Q, y, C = problem.K_train, problem.y, problem.C
    m = problem.m
    trivial = trivial_ranges(problem, budget)
    a = problem.adversary
    b = a.most_flips(budget)
    shares = np.clip(y * train(Q, y, C) / C, 0.0, 1.0)
    alpha = C * shares
    f = Q @ (y * alpha)
    error = 2.0 * UNIT_ROUNDOFF * (m + 4) * (np.abs(Q) @ alpha) + 1e-300
    excess = y * f - 1.0
    gaps = np.maximum(alpha * excess, (alpha - C) * excess)
    gap = 1.01 * float(np.sum(gaps + C * (error + 4.0 * UNIT_ROUNDOFF * (1.0 + np.abs(excess)))))
    if not np.isfinite(gap):
        return trivial, shares
    # c has the sign of y; everything below grows with its magnitude, so an upper bound on that will do.
    weight = np.zeros(m)
    weight[a.labels] = (alpha + C * (y * f > -1.0 - error - 1e-15))[a.labels]
    moved = 0.5 * Q * (y * weight)[None, :]
    down, up = _top_sum(moved, b), _top_sum(-moved, b)
    pairs = np.abs(Q) * np.outer(weight, weight)
    radius = np.sqrt(0.25 * _top_sum(_top_sum(pairs, b)[None, :], b)[0] + max(gap, 0.0))
    spread = radius * np.sqrt(np.maximum(np.diag(Q), 0.0))
    slack = 1e-12 * (1.0 + np.abs(f) + down + up + spread) + error
    low, high = f - down - spread - slack, f + up + spread + slack
    signs = np.stack([y, -y], axis=1)
    ends = np.stack([signs * low[:, None], signs * high[:, None]])
    return trivial.intersect(replace(trivial, low=ends.min(axis=0), high=ends.max(axis=0))), shares


def _top_sum(values: Float, b: int) -> Float:
    """Sum of the b largest positive entries of each row."""
    positive = np.maximum(values, 0.0)
    if b >= positive.shape[1]:
        return np.asarray(positive.sum(axis=1))
    if b == 0:
        return np.zeros(positive.shape[0])
    return np.asarray(np.partition(positive, -b, axis=1)[:, -b:].sum(axis=1))
