"""Branch and bound of our own, for one score: the relaxation prunes subtrees, retraining settles what is left.

A subtree is a set of attacks: some labels are flipped, some are kept, the others are free. It is described by ranges
(:class:`~labelcert.engines.search.ranges.Ranges`) in which a side that is excluded is impossible. A solver suggests
multipliers and thereby the order of branching; every bound is evaluated here, with its rounding errors, and every leaf
is enumerated with retraining. So no verdict rests on a solver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.certificate import Verdict
from labelcert.engines.base import Findings, Question
from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.search import relaxation
from labelcert.engines.search.judging import UNDECIDED, Judgement
from labelcert.engines.search.ranges import FLIPPED, KEPT, Ranges
from labelcert.engines.search.relaxation import Bounds, Multipliers, Relaxation
from labelcert.problem import Problem, Relabelling

LEAF_SETS = 300_000
"""A subtree with at most so many attacks is a leaf: all of them are retrained."""

ROUNDS_INSIDE = 2
"""Rounds of narrowing in subtrees below the root."""

_HUGE = 1e100
"""Stands for infinity where bounds are compared."""


class Part(NamedTuple):
    """A subtree as a problem of its own.

    Attributes
    ----------
    made : Relabelling
        The flips that all its attacks contain.
    free : position array
        Labels that may be flipped beside them.
    problem : Problem
        What is left to attack once ``made`` is made; its flippable labels are ``free``.
    """

    made: Relabelling
    free: Int
    problem: Problem

    @classmethod
    def of(cls, problem: Problem, ranges: Ranges) -> Part | None:
        """From the sides that are possible; None where no attack is left."""
        a = problem.adversary
        possible = ranges.possible
        if ranges.empty:
            return None
        kept, flipped = possible[a.labels, KEPT], possible[a.labels, FLIPPED]
        made = a.flipped(np.flatnonzero(~kept & flipped).astype(np.int64))
        free = np.flatnonzero(kept & flipped).astype(np.int64)
        rest = problem.after(made, free)
        return None if rest is None else cls(made, free, rest)

    @property
    def attacks(self) -> float:
        """How many attacks there are."""
        return self.problem.adversary.count_sets(self.problem.max_flips)

    def whole(self, change: Relabelling) -> Relabelling:
        """An attack on the rest, together with what is made already."""
        inside = dict(zip(self.free[change.positions].tolist(), change.targets.tolist(), strict=True))
        return Relabelling.of({**self.made.moves, **inside})

    def retrain(self, question: Question, nodes: Int, control: Control) -> Findings:
        """Enumerate all attacks of the subtree."""
        part = Question(self.problem, question.predictor, question.nodes[nodes])
        return Enumerate().run(part, control, Findings.nothing(part))


@dataclass
class Effort:
    """What a search cost."""

    subtrees: int = 0
    leaves: int = 0


def decide_node(
    question: Question,
    ranges: Ranges,
    row: Float,
    t: int,
    *,
    deadline: float,
    over: Callable[[], bool],
    effort: Effort,
) -> Judgement:
    """Whether some attack within the budget of a question changes node ``t``.

    Parameters
    ----------
    question : Question
    ranges : Ranges
        Proved for all attacks within the budget.
    row : (m,) array
        Signed test row of the node.
    t : int
    deadline : float
        When leaves have to stop.
    over : callable
    effort : Effort
        Counts.
    """
    problem = question.problem
    stack, undecided, root = [ranges], False, True
    while stack:
        if over():
            return UNDECIDED
        here = stack.pop()
        left = relaxation.narrow(problem, here, row, rounds=relaxation.MAX_ROUNDS if root else ROUNDS_INSIDE, over=over)
        effort.subtrees += 1
        part = Part.of(problem, left)
        if part is None:
            if root:
                return Judgement(Verdict.ROBUST, by_relaxation=True, proved=True)
            continue
        root = False
        if part.attacks <= LEAF_SETS:
            effort.leaves += 1
            found = part.retrain(question, np.array([t]), Control(workers=1, deadline=deadline))
            change = found.radius_changes[0]
            if change is not None and found.radius_upper[0] <= part.problem.max_flips:
                return Judgement(Verdict.VULNERABLE, part.whole(change))
            undecided = undecided or not found.radius_lower[0] > part.problem.max_flips
            continue
        stack += branches(problem, left, part, row)
    return UNDECIDED if undecided else Judgement(Verdict.ROBUST, proved=True)


def branches(problem: Problem, ranges: Ranges, part: Part, row: Float) -> list[Ranges]:
    """The two halves of a subtree; the one with a flip comes last, so that it is searched first."""
    nothing = np.zeros_like(row)
    program, bounds = Relaxation(problem, ranges), Bounds(problem, ranges)
    labels = problem.adversary.labels[part.free]
    values = np.empty((2, labels.size))
    for side in (KEPT, FLIPPED):
        mu = Multipliers.join([program.suggest(row, nothing, (int(i), side)) for i in labels])
        values[side] = np.clip(bounds.evaluate(mu), -_HUGE, _HUGE)
    least = values.min()
    # The product rule of mixed-integer solvers: both halves should become harder to attack.
    gain = np.maximum(values - least, 1e-9).prod(axis=0)
    label = int(labels[int(gain.argmax())])
    return [without(ranges, label, FLIPPED), without(ranges, label, KEPT)]


def without(ranges: Ranges, label: int, side: int) -> Ranges:
    """The attacks in which a label is not on one side."""
    low = ranges.low.copy()
    low[label, side] = np.inf
    return replace(ranges, low=low)


class Counting:
    """The most nodes that one attack within a budget changes.

    A node is excluded from a subtree where the relaxation proves that none of its attacks changes it. A subtree whose
    nodes that are not excluded are no more than a known attack changes is pruned.

    Parameters
    ----------
    question : Question
    ranges : Ranges
        Proved for all attacks within the budget.
    rows : (m, n) array
        Signed test rows of all nodes.
    nodes : array
        Nodes that may change at all.
    effort : Effort
        Counts.
    """

    def __init__(self, question: Question, ranges: Ranges, rows: Float, nodes: Int, effort: Effort) -> None:
        self._question, self._rows, self._nodes = question, rows, nodes
        self._ranges = ranges
        self._effort = effort

    def search(
        self, best: int, control: Control, enter: Callable[[Relabelling], tuple[int, bool]], over: Callable[[], bool]
    ) -> int:
        """A proved upper end, given an attack that changes ``best`` nodes; it is the most where nothing stays open.

        Parameters
        ----------
        enter : callable
            Takes note of an attack; returns how many nodes it provably changes, and whether that is decided for all.
        """
        problem = self._question.problem
        everywhere = np.ones(self._nodes.size, dtype=bool)
        stack: list[tuple[Ranges, Bool]] = [(self._ranges, everywhere)]
        possible = best
        while stack:
            here, alive = stack.pop()
            if int(alive.sum()) <= best:
                continue
            if over():
                possible = max([possible, int(alive.sum()), *(int(nodes.sum()) for _, nodes in stack)])
                break
            self._effort.subtrees += 1
            part = Part.of(problem, here)
            if part is None:
                continue
            alive, values = self._alive(here, alive)
            if int(alive.sum()) <= best:
                continue
            if part.attacks <= LEAF_SETS:
                self._effort.leaves += 1
                lower, upper = self._leaf(part, alive, best, control, enter)
                best, possible = max(best, lower), max(possible, upper)
                continue
            label = int(problem.adversary.labels[part.free[int(values[part.free].argmax())]])
            stack += [(without(here, label, FLIPPED), alive), (without(here, label, KEPT), alive)]
        return max(best, possible)

    def _alive(self, ranges: Ranges, alive: Bool) -> tuple[Bool, Float]:
        """Nodes that are not excluded, and for each flippable label how much its flip takes off their scores."""
        problem = self._question.problem
        program, bounds = Relaxation(problem, ranges), Bounds(problem, ranges)
        nothing = np.zeros(problem.m)
        candidates = np.flatnonzero(alive)
        mu = Multipliers.join([program.suggest(self._rows[:, self._nodes[k]], nothing) for k in candidates])
        left = ~(bounds.evaluate(mu) > 0.0)
        alive = alive.copy()
        alive[candidates] = left
        gains = np.maximum(0.0, bounds.least(mu, KEPT) - bounds.least(mu, FLIPPED))[:, left].sum(axis=1)
        return alive, gains[problem.adversary.labels]

    def _leaf(
        self, part: Part, alive: Bool, best: int, control: Control, enter: Callable[[Relabelling], tuple[int, bool]]
    ) -> tuple[int, int]:
        """Retrain all attacks of a subtree."""
        found = part.retrain(self._question, self._nodes[alive], control)
        lower, upper = int(found.curve_lower[-1]), int(found.curve_upper[-1])
        if lower > best:
            # Nodes that are excluded here do not change, so the count is that of all nodes.
            best = enter(part.whole(found.curve_changes[-1]))[0]
        return best, upper
