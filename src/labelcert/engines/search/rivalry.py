"""A predicted class and one rival: how far the rival can close in, proved without a solver's word.

Of more than two classes, a label matters to the margin ``p_c − p_r`` through the models of c and r alone, so it has at
most three moves: to the predicted class, to the rival, elsewhere. Each toggles it in one of the two models, or in both.
Of two classes, the rival's score is the negative of the other one: one model has it all, and a move is a flip. The
relaxation has the hulls of each model (:mod:`~labelcert.engines.search.relaxation`), tied together by the moves and by
the budget.

As there, a solver only suggests multipliers β of the ties ``f = Q z``. For any β the margin is at least a sum over
labels, whose minimum is evaluated here, with its rounding errors: the best moves that the budget buys. The same numbers
bound all relabellings that contain one given move; where that bound is positive, the move is of no use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int
from labelcert.certificate.proofs import KEEPS, Excluded, PairStep, Step
from labelcert.engines.search import relaxation
from labelcert.engines.search.highs import duals, simplex
from labelcert.engines.search.margin_ranges import FLIPPED, KEPT, Ranges
from labelcert.engines.search.mixed_integer import Builder, add_budget
from labelcert.engines.search.relaxation import Bounds, Multipliers, Relaxation, add_hulls, least_sum, multipliers
from labelcert.problem import Problem

TO_OWN, TO_RIVAL, ELSEWHERE = range(3)

ROUNDS = 3
"""Rounds of tightening ranges and screening moves for one pair of models and one node."""

ROUNDS_INSIDE = 2
"""Rounds of narrowing one model in subtrees below the root."""

_HUGE = 1e100
"""Stands for infinity where bounds are compared."""

Steps = list[Step | PairStep | Excluded]
"""Where a proof is written down."""


def models_of(n_classes: int) -> list[int]:
    """The classes whose models there are: of two classes, the second one's scores are all there is."""
    return [1] if n_classes == 2 else list(range(n_classes))


@dataclass(frozen=True, eq=False)
class Rivalry:
    """A predicted class and a rival, under a budget."""

    problem: Problem  # with all its classes
    classes: tuple[int, int]  # the predicted one, and the rival
    members: tuple[int, ...]  # the classes whose models matter: both, or of two classes the second one
    models: tuple[Problem, ...]  # each of them against the rest
    ranges: tuple[Ranges, ...]  # proved for all relabellings that are left
    toggles: Bool  # (ν, 3, M) in which of the models each move of each label toggles it
    left: Bool  # (ν, 3) moves that are left
    budget: int

    @classmethod
    def of(
        cls, problem: Problem, own: int, rival: int, models: Mapping[int, Problem], ranges: Mapping[int, Ranges]
    ) -> Rivalry:
        """All moves that the threat allows and that matter to the two classes; models and ranges are given by class."""
        a = problem.adversary
        source = problem.codes[a.labels]
        members = tuple(c for c in (own, rival) if c in models)
        enters = np.array([own, rival, -1])[:, None] == np.array(members)
        toggles = (source[:, None, None] == np.array(members)) | enters
        third = a.targets.copy()
        third[:, [own, rival]] = False
        mine = (source == own) | (source == rival)
        left = np.stack(
            [a.targets[:, own] & (source != own), a.targets[:, rival] & (source != rival), mine & third.any(axis=1)],
            axis=1,
        )
        budget = ranges[members[0]].budget
        left &= a.affordable(budget)[:, None]
        mine_of = tuple(models[c] for c in members)
        return cls(
            problem, (own, rival), members, mine_of, tuple(ranges[c] for c in members), toggles, left, budget
        ).only()

    @property
    def signs(self) -> tuple[float, ...]:
        """With which sign the score of each model is in the margin."""
        return tuple(1.0 if c == self.classes[0] else -1.0 for c in self.members)

    def only(self, moves: Bool | bool = True) -> Rivalry:
        """The same with some of its moves: those whose sides can occur in all models."""
        labels, left = self.problem.adversary.labels, self.left & moves
        for k, ranges in enumerate(self.ranges):
            possible = ranges.possible[labels]
            left &= np.where(self.toggles[:, :, k], possible[:, FLIPPED, None], possible[:, KEPT, None])
        return replace(self, left=left)

    @property
    def may_keep(self) -> Bool:
        """(m,) labels that can stay as they are."""
        return np.asarray(np.all([ranges.possible[:, KEPT] for ranges in self.ranges], axis=0))

    @property
    def empty(self) -> bool:
        """Whether nothing is left: some label can neither stay nor move."""
        stuck = ~self.may_keep
        stuck[self.problem.adversary.labels[self.left.any(axis=1)]] = False
        return bool(stuck.any())

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

    def fixed(self, i: int, move: int | None) -> Rivalry:
        """The relabellings in which label ``i`` makes one move, or none."""
        left, label = self.left.copy(), int(self.problem.adversary.labels[i])
        left[i] = False
        if move is not None:
            left[i, move] = True
        gone = [KEPT if move is not None and self.toggles[i, move, k] else FLIPPED for k in range(len(self.ranges))]
        ranges = tuple(r.without(np.array([label]), side) for r, side in zip(self.ranges, gone, strict=True))
        return replace(self, left=left, ranges=ranges)

    def contributions(self, mus: Sequence[Multipliers]) -> tuple[Float, Float, float]:
        """What each label adds to a lower bound on the margin, and what rounding can do to their sum.

        ``mus``: one column each, for the score of each model times its sign.

        Returns
        -------
        keep : (m,) array
        moved : (ν, 3) array
        rounding : float
        """
        labels, rounding = self.problem.adversary.labels, 0.0
        keep, moved = np.zeros(self.problem.m), np.zeros(self.left.shape)
        for k, (model, ranges, mu) in enumerate(zip(self.models, self.ranges, mus, strict=True)):
            bounds = Bounds(model, ranges)
            sides = np.stack([bounds.least(mu, side)[:, 0] for side in (KEPT, FLIPPED)], axis=1)
            keep += sides[:, KEPT]
            value = sides[labels]
            moved += np.where(self.toggles[:, :, k], value[:, FLIPPED, None], value[:, KEPT, None])
            rounding += 2.0 * float(bounds.rounding(mu)[0])
        return keep, moved, rounding


def least_margins(pair: Rivalry, mus: Sequence[Multipliers]) -> tuple[float, Float]:
    """Proved lower bounds on the margin (in units of the cap): over all relabellings, and over those with a move.

    Returns
    -------
    bound : float
    with_move : (ν, 3) array
        ∞ for moves that are not left.
    """
    a, m = pair.problem.adversary, pair.problem.m
    keep, values, rounding = pair.contributions(mus)
    left = pair.only().left
    best, may_move = np.zeros(m), np.zeros(m, dtype=bool)
    best[a.labels] = np.where(left.any(axis=1), np.where(left, values, np.inf).min(axis=1), 0.0)
    may_move[a.labels] = left.any(axis=1)
    costs = np.full(m, pair.budget + 1, dtype=np.int64)
    costs[a.labels] = a.costs
    # Column 0: all relabellings. The others: those with one given move.
    position, move = np.nonzero(left)
    columns = np.arange(1, 1 + position.size)
    kept, may_keep, moved, moves = (
        np.repeat(column[:, None], 1 + position.size, axis=1) for column in (keep, pair.may_keep, best, may_move)
    )
    may_keep[a.labels[position], columns] = False
    moved[a.labels[position], columns] = values[position, move]
    out = least_sum(kept, moved, may_keep, moves, costs=costs, budget=pair.budget, rounding=rounding)
    if any(mu.empty.any() for mu in mus):  # multipliers for another purpose: they say nothing about this margin
        out = np.full_like(out, -np.inf)
    with_move = np.full(pair.left.shape, np.inf)
    with_move[position, move] = out[1:]
    return float(out[0]), with_move


def gains(pair: Rivalry, mus: Sequence[Multipliers]) -> Float:
    """(ν,) by how much the best move of each label lowers the bound."""
    keep, moved, _ = pair.contributions(mus)
    best = np.where(pair.left, moved, np.inf).min(axis=1)
    return np.asarray(np.maximum(0.0, keep[pair.problem.adversary.labels] - best))


def screened(pair: Rivalry, mus: Sequence[Multipliers], steps: Steps) -> Rivalry | None:
    """The pair without moves that a bound excludes; None: the rival provably cannot win. The proof goes to ``steps``.

    Of one model, the proof is about the bound alone: single flips have better multipliers of their own.
    """
    bound, with_move = least_margins(pair, mus)
    if len(mus) == 2:
        steps.append(PairStep(own=mus[0].recorded().beta[0], rival=mus[1].recorded().beta[0]))
        pair = replace(pair, left=pair.left & ~(with_move > 0.0))
    elif bound > 0.0:
        steps.append(Step("screen", mus[0].recorded()))
    return None if bound > 0.0 else pair


def narrowed(
    pair: Rivalry, row: Float, left_seconds: Callable[[], float], steps: Steps, *, root: bool
) -> Rivalry | None:
    """The pair with tighter ranges, and without moves that no successful relabelling contains; None: there is none.

    - ``steps``: the proof is added to it.
    - ``root``: whether to take the time that only the root of a search is worth.
    """
    if len(pair.models) == 2:
        return _tightened(pair, row, left_seconds, steps, ROUNDS if root else 0)
    ranges, found = relaxation.narrow(
        pair.models[0],
        pair.ranges[0],
        pair.signs[0] * row,
        rounds=relaxation.MAX_ROUNDS if root else ROUNDS_INSIDE,
        left_seconds=left_seconds,
    )
    steps += found
    pair = replace(pair, ranges=(ranges,)).only()
    return None if pair.empty else pair


def _tightened(
    pair: Rivalry, row: Float, left_seconds: Callable[[], float], steps: Steps, rounds: int
) -> Rivalry | None:
    """Screen moves of two models, tighten both models' ranges for those that are left, and so on."""
    found = _without_moves(pair, row, left_seconds, steps)
    for _ in range(rounds):
        if found is None or left_seconds() <= 0.0 or found.left.sum() > 0.7 * pair.left.sum():
            break
        pair = found
        ranges = []
        for k, (model, known) in enumerate(zip(pair.models, pair.ranges, strict=True)):
            toggled = (pair.left & pair.toggles[:, :, k]).any(axis=1)
            known = known.without(pair.problem.adversary.labels[~toggled], FLIPPED)
            tighter, _, blocks = relaxation.tighten(model, known, left_seconds=left_seconds)
            steps += [Step("tighten", block, k) for block in blocks]
            ranges.append(tighter)
        pair = replace(pair, ranges=tuple(ranges))
        found = _without_moves(pair.only(), row, left_seconds, steps)
    return found


def _without_moves(pair: Rivalry, row: Float, left_seconds: Callable[[], float], steps: Steps) -> Rivalry | None:
    """The pair without moves that no successful relabelling contains, by one linear program again and again."""
    program = PairRelaxation(pair, row)
    while True:
        found = screened(pair, program.suggest(pair.left, left_seconds()), steps)
        if found is None:
            return None
        settled = found.left.sum() >= 0.9 * pair.left.sum()  # so are no moves at all
        pair = found
        if settled or left_seconds() <= 0.0:
            return pair


class PairRelaxation:
    """The linear program of one pair of models and one test row, in a solver that suggests multipliers."""

    def __init__(self, pair: Rivalry, row: Float) -> None:
        self._pair, self._row = pair, row
        a, b = pair.problem.adversary, Builder()
        corners = [
            add_hulls(b, model, ranges, f"{k} ")
            for k, (model, ranges) in enumerate(zip(pair.models, pair.ranges, strict=True))
        ]
        self._move = b.variables("move", pair.left.shape, 0.0, pair.left.astype(float))
        b.constrain("one move", [(self._move[:, o], 1.0) for o in range(3)], upper=1.0)
        for k, (corner, model, sign) in enumerate(zip(corners, pair.models, pair.signs, strict=True)):
            # A label is on the flipped side where it makes a move that toggles it.
            inside = np.flatnonzero(np.isin(a.labels, model.adversary.labels))
            flips, toggled = corner[model.adversary.labels, FLIPPED], pair.toggles[inside, :, k].astype(float)
            terms: list[tuple[Index, float | Float]] = [(flips[:, state], 1.0) for state in range(flips.shape[1])]
            terms += [(self._move[inside, o], -toggled[:, o]) for o in range(3)]
            b.constrain(f"{k} toggled by a move", terms, 0.0, 0.0)
            signs = np.stack([model.y, -model.y], axis=1)[..., None]
            b.minimise(corner, sign * row[:, None, None] * signs * pair.ranges[k].corners()[0])
        add_budget(b, self._move, a, pair.budget)
        program = b.build()
        self._ties = [program.rows[f"{k} f = Qz"] for k in range(len(corners))]
        self._highs = simplex(program)

    def suggest(self, left: Bool, seconds: float) -> list[Multipliers]:
        """Multipliers for the moves that are left; plain ones where the solver has no answer."""
        h, pair = self._highs, self._pair
        columns = self._move.ravel().astype(np.int32)
        h.changeColsBounds(columns.size, columns, np.zeros(columns.size), left.ravel().astype(float))
        prices, empty = duals(h, seconds)
        betas = [np.zeros(pair.problem.m) if prices is None or empty else -prices[tie] for tie in self._ties]
        return [
            multipliers(model, sign * self._row, beta)
            for model, sign, beta in zip(pair.models, pair.signs, betas, strict=True)
        ]


def branches(pair: Rivalry, free: Int, row: Float) -> tuple[int, dict[int, Rivalry]]:
    """A label to branch on, and the parts of a subtree by what it becomes: the most promising comes last.

    ``free`` are the labels to choose from.
    """
    signed, a = [sign * row for sign in pair.signs], pair.problem.adversary
    programs = [Relaxation(model, ranges) for model, ranges in zip(pair.models, pair.ranges, strict=True)]
    if len(programs) == 1:
        i = int(free[_harder(programs[0], Bounds(pair.models[0], pair.ranges[0]), signed[0], a.labels[free]).argmax()])
        moves = np.flatnonzero(pair.left[i])
    else:
        betas = [program.suggest(r).beta[:, 0] for program, r in zip(programs, signed, strict=True)]
        mus = [multipliers(model, r, beta) for model, r, beta in zip(pair.models, signed, betas, strict=True)]
        _, with_move = least_margins(pair, mus)
        i = int(free[np.where(pair.left, with_move, np.inf)[free].min(axis=1).argmin()])
        moves = np.flatnonzero(pair.left[i])
        moves = moves[np.argsort(-with_move[i, moves])]
    parts = {pair.target(i, o): pair.fixed(i, o) for o in moves.tolist()}
    return int(a.labels[i]), {KEEPS: pair.fixed(i, None), **parts}


def _harder(program: Relaxation, bounds: Bounds, row: Float, labels: Int) -> Float:
    """How much harder to attack both halves become with each label, by the product rule of mixed-integer solvers."""
    values = np.empty((2, labels.size))
    for side in (KEPT, FLIPPED):
        mu = Multipliers.join([program.suggest(row, fixed=(int(i), side)) for i in labels])
        values[side] = np.clip(bounds.evaluate(mu), -_HUGE, _HUGE)
    return np.asarray(np.maximum(values - values.min(), 1e-9).prod(axis=0))
