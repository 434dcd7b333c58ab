"""Branch and bound of our own, for one model per class: as :mod:`~labelcert.engines.search.branching`, with moves.

A label that matters to a pair of classes has up to three moves; a subtree fixes some labels to one move or to none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.certificate import Verdict
from labelcert.certificate.proofs import KEEPS, Excluded, PairStep, Tree
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.engines.search.branching import Counting, Effort, Part
from labelcert.engines.search.judging import UNDECIDED, Judgement
from labelcert.engines.search.pairs import OWN, RIVAL, Pair, least_margins, multipliers, narrow_pair, recorded, screen
from labelcert.engines.search.ranges import FLIPPED, KEPT, Ranges
from labelcert.engines.search.relaxation import Relaxation
from labelcert.problem import Problem, Relabelling

LEAF_RELABELLINGS = 50_000
"""A subtree with at most so many relabellings is a leaf: all of them are retrained."""


def decide_rival(
    question: Question,
    pair: Pair,
    row: Float,
    t: int,
    *,
    control: Control,
    left_seconds: Callable[[], float],
    effort: Effort,
    steps: Sequence[PairStep] = (),
) -> Judgement:
    """Whether a rival can win node ``t`` within the budget of a question.

    ``steps`` is the proof behind the moves that are missing in ``pair`` already.
    """
    whole = Tree(steps=list(steps))
    stack, undecided, root = [(pair, whole)], False, True
    while stack:
        if left_seconds() <= 0.0:
            return UNDECIDED
        here, tree = stack.pop()
        effort.subtrees += 1
        left = (narrow_pair if root else screen)(here, row, left_seconds, tree.steps)
        if left is None and root:
            return Judgement(Verdict.ROBUST, by_relaxation=True, proved=True, proof=whole)
        root = False
        part = None if left is None else _part(left)
        if left is None or part is None:
            continue
        if part.attacks <= LEAF_RELABELLINGS:
            effort.leaves += 1
            tree.leaf = True
            found = _settle(question, part, t, control)
            if found.verdict is Verdict.VULNERABLE:
                return found
            undecided = undecided or found.verdict is Verdict.UNKNOWN
            continue
        tree.label, halves = _branches(left, part, row)
        tree.parts = {new: Tree() for new in halves}
        stack += [(half, tree.parts[new]) for new, half in halves.items()]
    return UNDECIDED if undecided else Judgement(Verdict.ROBUST, proved=True, proof=whole)


def _part(pair: Pair) -> Part | None:
    """The relabellings that are left, as a problem."""
    a = pair.problem.adversary
    forced = ~_may_keep(pair)[a.labels] & (pair.left.sum(axis=1) == 1)
    targets = np.zeros(a.targets.shape, dtype=bool)
    for i, o in zip(*np.nonzero(pair.left), strict=True):
        targets[i, pair.target(int(i), int(o))] = True
    made = Relabelling.of({int(i): int(targets[i].argmax()) for i in np.flatnonzero(forced)})
    return Part.of(replace(pair.problem, max_flips=pair.budget), made, targets)


def _may_keep(pair: Pair) -> Bool:
    return np.asarray(pair.ranges[OWN].possible[:, KEPT] & pair.ranges[RIVAL].possible[:, KEPT])


def _settle(question: Question, part: Part, t: int, control: Control) -> Judgement:
    """Retrain all relabellings of a leaf."""
    yes, no = question.changed(part.made, np.array([t]))
    if yes[0]:
        return Judgement(Verdict.VULNERABLE, part.made)
    found = part.retrain(question, np.array([t]), control)
    change = found.radius_changes[0]
    if change is not None and found.radius_upper[0] <= part.problem.max_flips:
        return Judgement(Verdict.VULNERABLE, part.whole(change))
    proved = bool(no[0]) and found.radius_lower[0] > part.problem.max_flips
    return Judgement(Verdict.ROBUST if proved else Verdict.UNKNOWN, proved=True)


def _branches(pair: Pair, part: Part, row: Float) -> tuple[int, dict[int, Pair]]:
    """A label, and the parts of a subtree by what it becomes, the most promising one last (it is searched first)."""
    own, rival = (
        multipliers(p, sign * row, _prices(p, r, sign * row))
        for p, r, sign in zip(pair.parts, pair.ranges, (1.0, -1.0), strict=True)
    )
    _, with_move = least_margins(pair, own, rival)
    values = np.where(pair.left, with_move, np.inf)[part.free]
    i = int(part.free[int(values.min(axis=1).argmin())])
    moves = np.flatnonzero(pair.left[i])
    order = moves[np.argsort(-with_move[i, moves])]
    parts = {pair.target(i, int(o)): _fixed(pair, i, int(o)) for o in order}
    return int(pair.problem.adversary.labels[i]), {KEEPS: _fixed(pair, i, None), **parts}


def _prices(part: Problem, ranges: Ranges, row: Float) -> Float:
    """Multipliers of the tie ``f = Qz`` that a solver suggests for one model alone."""
    return -Relaxation(part, ranges).suggest(row, np.zeros_like(row)).on_f[:, 0]


def _fixed(pair: Pair, i: int, move: int | None) -> Pair:
    """The relabellings in which label ``i`` makes one move, or none."""
    left = pair.left.copy()
    left[i] = False
    label = pair.problem.adversary.labels[i]
    ranges = []
    for k in (OWN, RIVAL):
        low = pair.ranges[k].low.copy()
        toggled = move is not None and bool(pair.toggles[i, move, k])
        low[label, KEPT if toggled else FLIPPED] = np.inf
        ranges.append(replace(pair.ranges[k], low=low))
    if move is not None:
        left[i, move] = True
    return replace(pair, left=left, ranges=(ranges[0], ranges[1]))


class Moves(NamedTuple):
    """A subtree of relabellings: what is made, and what other labels may become.

    Attributes
    ----------
    made : Relabelling
    targets : (ν, K) array
    rivals : (n, K) array
        Rivals that are not excluded, for each node.
    """

    made: Relabelling
    targets: Bool
    rivals: Bool


class MoveCounting(Counting[Moves]):
    """For one model per class.

    Parameters
    ----------
    parts : list of K problems
        Each class against the rest.
    ranges : list of K ranges
        Proved for all relabellings within the budget.
    rows : (n, m) array
        Test rows of all nodes.
    """

    def __init__(
        self, question: Question, parts: list[Problem], ranges: list[Ranges], rows: Float, effort: Effort
    ) -> None:
        super().__init__(question, effort)
        self._parts, self._ranges, self._rows = parts, ranges, rows

    def leaf_size(self) -> int:
        """As for single nodes."""
        return LEAF_RELABELLINGS

    def alive(self, here: Moves) -> Int:
        """Nodes that some rival may win."""
        return np.flatnonzero(here.rivals.any(axis=1))

    def part(self, here: Moves) -> Part | None:
        """From the moves that are left."""
        return Part.of(self._question.problem, here.made, here.targets)

    def halves(self, here: Moves, i: int) -> dict[int, Moves]:
        """Kept, and with each of its moves."""
        kept = here.targets.copy()
        kept[i] = False
        moved = {int(k): Moves(here.made.plus(i, int(k)), kept, here.rivals) for k in np.flatnonzero(here.targets[i])}
        return {KEEPS: here._replace(targets=kept), **moved}

    def examined(self, here: Moves, over: Callable[[], bool]) -> tuple[Moves, Float, Excluded]:
        """Bounds on the margins of all nodes and rivals; a label promises a small margin with one of its moves."""
        question = self._question
        problem, a = question.problem, question.problem.adversary
        targets = here.targets.copy()
        targets[here.made.positions, here.made.targets] = True
        narrower = replace(problem, adversary=replace(a, targets=targets))
        ranges = [self._restricted(c, here, targets) for c in range(problem.n_classes)]
        programs = [Relaxation(part, r) for part, r in zip(self._parts, ranges, strict=True)]
        nothing = np.zeros(problem.m)
        alive, least = here.rivals.copy(), np.full(a.labels.size, np.inf)
        source = problem.codes[a.labels]
        gone: list[tuple[int, int, PairStep]] = []
        for t in np.flatnonzero(alive.any(axis=1)).tolist():
            if over():
                break
            own, row = int(question.predicted[t]), self._rows[t]
            mine = programs[own].suggest(row, nothing)
            for r in np.flatnonzero(alive[t]).tolist():
                pair = Pair.of(narrower, own, r, (self._parts[own], self._parts[r]), (ranges[own], ranges[r]))
                # Moves that are made between other classes are paid for, too.
                elsewhere = ~np.isin(source[here.made.positions], (own, r)) & ~np.isin(here.made.targets, (own, r))
                spent = int(a.costs[here.made.positions[elsewhere]].sum())
                pair = replace(pair, budget=pair.budget - spent)
                other = programs[r].suggest(-row, nothing)
                bound, with_move = least_margins(pair, mine, other)
                alive[t, r] = not bound > 0.0
                if alive[t, r]:
                    least = np.minimum(least, np.where(pair.left, with_move, np.inf).min(axis=1))
                else:
                    gone.append((int(question.nodes[t]), r, recorded(mine, other)))
        excluded = Excluded(
            nodes=np.array([t for t, _, _ in gone], dtype=np.int32),
            rivals=np.array([r for _, r, _ in gone], dtype=np.int32),
            own=np.array([step.own for _, _, step in gone], dtype=np.float32).reshape(-1, problem.m),
            other=np.array([step.rival for _, _, step in gone], dtype=np.float32).reshape(-1, problem.m),
        )
        return here._replace(rivals=alive), -least, excluded

    def _restricted(self, c: int, here: Moves, targets: Bool) -> Ranges:
        """Ranges of one class in a subtree."""
        problem, a = self._question.problem, self._question.problem.adversary
        source = problem.codes[a.labels]
        may = np.where(source == c, targets.any(axis=1), targets[:, c])
        low = self._ranges[c].low.copy()
        low[a.labels[~may], FLIPPED] = np.inf
        made, new = here.made.positions, here.made.targets
        toggled = (source[made] == c) | (new == c)
        low[a.labels[made[toggled]], KEPT] = np.inf
        low[a.labels[made[~toggled]], FLIPPED] = np.inf
        return replace(self._ranges[c], low=low)
