"""Two classes at a time: how far one rival can close in on the predicted class, proved without a solver's word.

A label matters to the margin ``p_c − p_r`` through the models of c and r alone, so it has at most three moves: to the
predicted class, to the rival, elsewhere. Each toggles it in one of the two models, or in both. The relaxation has the
hulls of both models (:mod:`~labelcert.engines.search.relaxation`), tied together by these moves and by the budget.

As there, a solver only suggests multipliers β of the two ties ``f = Q z``. For any β the margin is at least a sum over
labels, whose minimum is evaluated here, with its rounding errors: the best moves that the budget buys. The same numbers
bound all relabellings that contain one given move; where that bound is positive, the move is of no use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import highspy
import numpy as np

from labelcert.arrays import Bool, Float, Index
from labelcert.certificate.proofs import Excluded, PairStep, Step
from labelcert.engines.search import relaxation
from labelcert.engines.search.mixed_integer import Builder, add_budget
from labelcert.engines.search.ranges import FLIPPED, KEPT, Ranges
from labelcert.engines.search.relaxation import Bounds, Multipliers, add_hulls, most_gain
from labelcert.engines.search.solvers.highs import load
from labelcert.problem import Problem

TO_OWN, TO_RIVAL, ELSEWHERE = range(3)

OWN, RIVAL = range(2)

ROUNDS = 3
"""Rounds of tightening ranges and screening moves for one pair and node."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A predicted class and a rival, under a budget.

    Attributes
    ----------
    problem : Problem
        With all its classes.
    classes : (int, int)
        The predicted one, and the rival.
    parts : (Problem, Problem)
        Each of them against the rest.
    ranges : (Ranges, Ranges)
        Proved for all relabellings that are left.
    toggles : (ν, 3, 2) boolean array
        In which of the two models each move of each label toggles it.
    left : (ν, 3) boolean array
        Moves that are left.
    budget : int
    """

    problem: Problem
    classes: tuple[int, int]
    parts: tuple[Problem, Problem]
    ranges: tuple[Ranges, Ranges]
    toggles: Bool
    left: Bool
    budget: int

    @classmethod
    def of(
        cls, problem: Problem, own: int, rival: int, parts: tuple[Problem, Problem], ranges: tuple[Ranges, Ranges]
    ) -> Pair:
        """All moves that the threat allows and that matter to the two classes."""
        a = problem.adversary
        source = problem.codes[a.labels]
        toggles = np.zeros((a.labels.size, 3, 2), dtype=bool)
        toggles[:, :, OWN] = (source == own)[:, None]
        toggles[:, :, RIVAL] = (source == rival)[:, None]
        toggles[:, TO_OWN, OWN] = True
        toggles[:, TO_RIVAL, RIVAL] = True
        third = a.targets.copy()
        third[:, [own, rival]] = False
        mine = (source == own) | (source == rival)
        left = np.stack(
            [a.targets[:, own] & (source != own), a.targets[:, rival] & (source != rival), mine & third.any(axis=1)],
            axis=1,
        )
        budget = ranges[OWN].budget
        pair = cls(problem, (own, rival), parts, ranges, toggles, left & a.affordable(budget)[:, None], budget)
        return replace(pair, left=pair.left & pair.reachable())

    def only(self, moves: Bool) -> Pair:
        """The same with some of its moves."""
        return replace(self, left=self.left & moves)

    def reachable(self) -> Bool:
        """(ν, 3) moves whose sides can occur in both models."""
        labels = self.problem.adversary.labels
        out = np.ones(self.left.shape, dtype=bool)
        for k in (OWN, RIVAL):
            possible = self.ranges[k].possible[labels]
            out &= np.where(self.toggles[:, :, k], possible[:, FLIPPED, None], possible[:, KEPT, None])
        return out

    def target(self, position: int, move: int) -> int:
        """The class that a label becomes; elsewhere: the first other one that the threat allows."""
        if move != ELSEWHERE:
            return self.classes[move]
        third = self.problem.adversary.targets[position].copy()
        third[list(self.classes)] = False
        return int(np.flatnonzero(third)[0])

    def move(self, position: int, target: int) -> int | None:
        """Which move a new class is; None where it does not matter to the two classes."""
        if target in self.classes:
            return self.classes.index(target)
        source = self.problem.codes[self.problem.adversary.labels[position]]
        return ELSEWHERE if source in self.classes else None

    def add_moves(self, b: Builder, flips: tuple[Index, Index]) -> Index:
        """(ν, 3) columns of the moves, tied to the flipped sides (labels × states) of both models, and the budget."""
        a = self.problem.adversary
        move = b.variables("move", self.left.shape, 0.0, self.left.astype(float))
        b.constrain("one move", [(move[:, k], 1.0) for k in range(3)], upper=1.0)
        for k, name in ((OWN, "own"), (RIVAL, "rival")):
            toggled = self.toggles[:, :, k].astype(float)
            inside = np.flatnonzero(np.isin(a.labels, self.parts[k].adversary.labels))
            terms = [(flips[k][:, s], 1.0) for s in range(flips[k].shape[1])]
            terms += [(move[inside, o], -toggled[inside, o]) for o in range(3)]
            b.constrain(f"{name}: toggled by a move", terms, 0.0, 0.0)
        add_budget(b, move, a, self.budget)
        return move


def multipliers(problem: Problem, cost_z: Float, beta: Float) -> Multipliers:
    """One suggestion for ``cost_z·z``."""
    kernel = problem.C * problem.K_train
    beta = relaxation.as_float32(beta)
    size = np.abs(beta)
    nowhere = np.array([-1])
    return Multipliers(
        on_z=(cost_z + kernel @ beta)[:, None],
        on_f=-beta[:, None],
        size_z=(np.abs(cost_z) + np.abs(kernel) @ size)[:, None],
        size_f=size[:, None],
        label=nowhere,
        side=np.array([KEPT]),
        end=np.array([relaxation.LOW]),
        empty=np.array([False]),
        beta=beta[:, None],
        price=np.zeros(1),
    )


def recorded(own: Multipliers, rival: Multipliers) -> PairStep:
    """What was suggested for both models, as a proof that can be evaluated again."""
    return PairStep(own=own.recorded().beta[0], rival=rival.recorded().beta[0])


def least_margins(pair: Pair, own: Multipliers, rival: Multipliers) -> tuple[float, Float]:
    """Proved lower bounds on ``p_c − p_r`` (in units of the cap): over all relabellings, and over those with a move.

    Parameters
    ----------
    own, rival : Multipliers
        One column each, for the score of the predicted class and for minus that of the rival.

    Returns
    -------
    bound : float
    with_move : (ν, 3) array
        ∞ for moves that are not left.
    """
    a, m = pair.problem.adversary, pair.problem.m
    bounds = [Bounds(part, ranges) for part, ranges in zip(pair.parts, pair.ranges, strict=True)]
    sides = [
        np.stack([bound.least(mu, side)[:, 0] for side in (KEPT, FLIPPED)], axis=1)
        for bound, mu in zip(bounds, (own, rival), strict=True)
    ]
    keep = sides[OWN][:, KEPT] + sides[RIVAL][:, KEPT]
    may_keep = pair.ranges[OWN].possible[:, KEPT] & pair.ranges[RIVAL].possible[:, KEPT]
    values = np.zeros(pair.left.shape)
    for k in (OWN, RIVAL):
        value = sides[k][a.labels]
        values += np.where(pair.toggles[:, :, k], value[:, FLIPPED, None], value[:, KEPT, None])
    left = pair.left & pair.reachable()
    values = np.where(left, values, np.inf)
    best = np.full(m, np.inf)
    best[a.labels] = values.min(axis=1)
    costs = np.full(m, pair.budget + 1, dtype=np.int64)
    costs[a.labels] = a.costs
    # Column 0: all relabellings. The others: those with one given move.
    position, move = np.nonzero(left)
    count = 1 + position.size
    forced = np.repeat(~may_keep[:, None], count, axis=1)
    forced[a.labels[position], np.arange(1, count)] = True
    moved = np.repeat(best[:, None], count, axis=1)
    moved[a.labels[position], np.arange(1, count)] = values[position, move]
    budget = pair.budget - np.where(forced, costs[:, None], 0).sum(axis=0)
    total = np.where(forced, moved, keep[:, None]).sum(axis=0)
    choice = ~forced & np.isfinite(moved) & (costs[:, None] <= budget)
    gains = np.maximum(0.0, np.subtract(keep[:, None], moved, where=choice, out=np.zeros((m, count))))
    rounding = 2.0 * (bounds[OWN].rounding(own) + bounds[RIVAL].rounding(rival))
    out = total - most_gain(gains, costs, budget) - rounding
    out = np.where(np.isnan(out), -np.inf, np.where(budget < 0, np.inf, out))
    if own.empty.any() or rival.empty.any():  # multipliers for another purpose: they say nothing about this margin
        out = np.full_like(out, -np.inf)
    with_move = np.full(pair.left.shape, np.inf)
    with_move[position, move] = out[1:]
    return float(out[0]), with_move


class PairRelaxation:
    """The linear program of one pair and one test row, in a solver that suggests multipliers."""

    def __init__(self, pair: Pair, row: Float) -> None:
        self._pair, self._row = pair, row
        b = Builder()
        corners = [
            add_hulls(b, part, ranges, prefix)
            for part, ranges, prefix in zip(pair.parts, pair.ranges, ("own ", "rival "), strict=True)
        ]
        flips = [c[part.adversary.labels, FLIPPED] for c, part in zip(corners, pair.parts, strict=True)]
        self._move = pair.add_moves(b, (flips[OWN], flips[RIVAL]))
        for k, sign in ((OWN, 1.0), (RIVAL, -1.0)):
            signs = np.stack([pair.parts[k].y, -pair.parts[k].y], axis=1)[..., None]
            b.minimise(corners[k], sign * row[:, None, None] * signs * pair.ranges[k].corners()[0])
        model = b.build()
        self._ties = model.rows["own f = Qz"], model.rows["rival f = Qz"]
        self._highs = load(model)
        for option, value in (("threads", 1), ("presolve", "off"), ("solver", "simplex"), ("simplex_strategy", 4)):
            self._highs.setOptionValue(option, value)

    def suggest(self, left: Bool, seconds: float) -> tuple[Multipliers, Multipliers]:
        """Multipliers for the moves that are left; plain ones where the solver has no answer."""
        h, (own, rival) = self._highs, self._pair.parts
        columns = self._move.ravel().astype(np.int32)
        h.changeColsBounds(columns.size, columns, np.zeros(columns.size), left.ravel().astype(float))
        h.setOptionValue("time_limit", h.getRunTime() + max(0.0, seconds))  # HiGHS counts all runs together
        h.run()
        beta = np.zeros((2, own.m))
        if h.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            prices = np.asarray(h.getSolution().row_dual)
            if np.all(np.isfinite(prices)):
                beta = -np.stack([prices[self._ties[OWN]], prices[self._ties[RIVAL]]])
        return multipliers(own, self._row, beta[OWN]), multipliers(rival, -self._row, beta[RIVAL])


def screen(
    pair: Pair, row: Float, left_seconds: Callable[[], float], steps: list[Step | PairStep | Excluded]
) -> Pair | None:
    """The pair without moves that no successful relabelling contains; None: the rival provably cannot win.

    Parameters
    ----------
    pair : Pair
    row : (m,) array
        Test row.
    left_seconds : callable
        Time that is left.
    steps : list
        The proof is added to it.
    """
    program = PairRelaxation(pair, row)
    while True:
        both = program.suggest(pair.left, left_seconds())
        steps.append(recorded(*both))
        bound, with_move = least_margins(pair, *both)
        if bound > 0.0:
            return None
        left = pair.left & ~(with_move > 0.0)
        settled = left.sum() >= 0.9 * pair.left.sum()  # so are no moves at all
        pair = replace(pair, left=left)
        if settled or left_seconds() <= 0.0:
            return pair


def narrow_pair(
    pair: Pair, row: Float, left_seconds: Callable[[], float], steps: list[Step | PairStep | Excluded]
) -> Pair | None:
    """Screen moves, tighten both models' ranges for those that are left, and so on; None: the rival cannot win."""
    found = screen(pair, row, left_seconds, steps)
    for _ in range(ROUNDS):
        if found is None or left_seconds() <= 0.0 or found.left.sum() > 0.7 * pair.left.sum():
            return found
        pair = found
        ranges = tuple(_without_toggles(pair, k, left_seconds, steps) for k in (OWN, RIVAL))
        pair = replace(pair, ranges=(ranges[0], ranges[1]))
        found = screen(replace(pair, left=pair.left & pair.reachable()), row, left_seconds, steps)
    return found


def _without_toggles(
    pair: Pair, k: int, left_seconds: Callable[[], float], steps: list[Step | PairStep | Excluded]
) -> Ranges:
    """Ranges of one model where only the moves that are left can be made."""
    toggled = (pair.left & pair.toggles[:, :, k]).any(axis=1)
    ranges = pair.ranges[k].without_flips(np.asarray(pair.problem.adversary.labels[~toggled], dtype=np.int64))
    tighter, _, blocks = relaxation.tighten(pair.parts[k], ranges, left_seconds=left_seconds)
    steps += [Step("tighten", block, k) for block in blocks]
    return tighter
