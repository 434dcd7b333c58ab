"""Branch and bound of our own, for one score: the relaxation prunes subtrees, retraining settles what is left.

A subtree is a set of attacks: some labels are flipped, some are kept, the others are free. It is described by ranges
(:class:`~labelcert.engines.search.ranges.Ranges`) in which a side that is excluded is impossible. A solver suggests
multipliers and thereby the order of branching; every bound is evaluated here, with its rounding errors, and every leaf
is enumerated with retraining. So no verdict rests on a solver.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.certificate import Verdict
from labelcert.certificate.proofs import KEEPS, Excluded, Tree
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


Subtree = TypeVar("Subtree")


class Part(NamedTuple):
    """A subtree as a problem of its own.

    Attributes
    ----------
    made : Relabelling
        What all its attacks contain.
    free : position array
        Labels that may change beside it.
    problem : Problem
        What is left to attack once ``made`` is made; its flippable labels are ``free``.
    """

    made: Relabelling
    free: Int
    problem: Problem

    @classmethod
    def of(cls, problem: Problem, made: Relabelling, targets: Bool) -> Part | None:
        """From what is made and the (ν, K) classes that other labels may become; None where the budget is too small."""
        may = targets.copy()
        may[made.positions] = False
        free = np.flatnonzero(may.any(axis=1)).astype(np.int64)
        rest = problem.after(made, free)
        if rest is None:
            return None
        return cls(made, free, replace(rest, adversary=replace(rest.adversary, targets=may[free])))

    @classmethod
    def within(cls, problem: Problem, ranges: Ranges) -> Part | None:
        """From the sides of a two-class problem that are possible; None where no attack is left."""
        if ranges.empty:
            return None
        a = problem.adversary
        kept, flipped = ranges.possible[a.labels].T
        made = a.flipped(np.flatnonzero(~kept & flipped).astype(np.int64))
        return cls.of(problem, made, a.targets & flipped[:, None])

    @property
    def attacks(self) -> float:
        """How many attacks there are."""
        a = self.problem.adversary
        return a.count_sets(self.problem.max_flips, a.targets.sum(axis=1))

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
    question: Question, ranges: Ranges, row: Float, t: int, *, control: Control, effort: Effort
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
    control : Control
        Its deadline is the node's own.
    effort : Effort
        Counts.
    """
    problem = question.problem
    whole = Tree()
    stack, undecided, root = [(ranges, whole)], False, True
    while stack:
        if control.over():
            return UNDECIDED
        here, tree = stack.pop()
        left, steps = relaxation.narrow(
            problem,
            here,
            row,
            rounds=relaxation.MAX_ROUNDS if root else ROUNDS_INSIDE,
            left_seconds=control.left_seconds,
        )
        tree.steps.extend(steps)
        effort.subtrees += 1
        part = Part.within(problem, left)
        if part is None:
            if root:
                return Judgement(Verdict.ROBUST, by_relaxation=True, proved=True, proof=whole)
            continue
        root = False
        if part.attacks <= LEAF_SETS:
            effort.leaves += 1
            tree.leaf = True
            found = part.retrain(question, np.array([t]), control)
            change = found.radius_changes[0]
            if change is not None and found.radius_upper[0] <= part.problem.max_flips:
                return Judgement(Verdict.VULNERABLE, part.whole(change))
            undecided = undecided or not found.radius_lower[0] > part.problem.max_flips
            continue
        tree.label, halves = branches(problem, left, part, row)
        tree.parts = {new: Tree() for new in halves}
        stack += [(half, tree.parts[new]) for new, half in halves.items()]
    return UNDECIDED if undecided else Judgement(Verdict.ROBUST, proved=True, proof=whole)


def branches(problem: Problem, ranges: Ranges, part: Part, row: Float) -> tuple[int, dict[int, Ranges]]:
    """A label, and the halves of a subtree by what it becomes; the flipped one comes last, and is searched first."""
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
    kept, flipped = without(ranges, label, FLIPPED), without(ranges, label, KEPT)
    return label, {KEEPS: kept, 1 - int(problem.codes[label]): flipped}


def without(ranges: Ranges, label: int, side: int) -> Ranges:
    """The attacks in which a label is not on one side."""
    low = ranges.low.copy()
    low[label, side] = np.inf
    return replace(ranges, low=low)


class Counting(ABC, Generic[Subtree]):
    """The most nodes that one attack within a budget changes.

    A node is excluded from a subtree where a relaxation proves that none of its attacks changes it. A subtree whose
    other nodes are no more than a known attack changes is pruned.

    Parameters
    ----------
    question : Question
    effort : Effort
        Counts.
    """

    def __init__(self, question: Question, effort: Effort) -> None:
        self._question = question
        self._effort = effort

    def search(
        self, root: Subtree, best: int, control: Control, enter: Callable[[Relabelling], tuple[int, bool]]
    ) -> tuple[int, Tree]:
        """A proved upper end, given an attack that changes ``best`` nodes, and its proof.

        The upper end is the most where nothing stays open.

        Parameters
        ----------
        enter : callable
            Takes note of an attack; returns how many nodes it provably changes, and whether that is decided for all.
        """
        whole = Tree()
        stack, possible = [(root, whole)], best
        while stack:
            here, tree = stack.pop()
            if self.alive(here).size <= best:
                continue
            if control.over():
                possible = max(possible, *(self.alive(other).size for other, _ in [(here, tree), *stack]))
                break
            self._effort.subtrees += 1
            part = self.part(here)
            if part is None:
                continue
            here, promise, excluded = self.examined(here, control.over)
            tree.steps.append(excluded)
            if self.alive(here).size <= best:
                continue
            if part.attacks > self.leaf_size():
                position = int(part.free[int(promise[part.free].argmax())])
                tree.label = int(self._question.problem.adversary.labels[position])
                halves = self.halves(here, position)
                tree.parts = {what: Tree() for what in halves}
                stack += [(half, tree.parts[what]) for what, half in halves.items()]
                continue
            self._effort.leaves += 1
            tree.leaf = True
            best, upper = self._leaf(part, self.alive(here), best, control, enter)
            possible = max(possible, best, upper)
        return max(best, possible), whole

    @abstractmethod
    def leaf_size(self) -> int:
        """How many attacks a leaf may have."""

    @abstractmethod
    def alive(self, here: Subtree) -> Int:
        """Nodes that are not excluded."""

    @abstractmethod
    def part(self, here: Subtree) -> Part | None:
        """The attacks of a subtree, as a problem; None where there are none."""

    @abstractmethod
    def examined(self, here: Subtree, over: Callable[[], bool]) -> tuple[Subtree, Float, Excluded]:
        """The subtree after the relaxation has excluded what it can, how promising each label is, and the proof.

        Nodes that it does not come to before the time is ``over`` are not excluded.
        """

    @abstractmethod
    def halves(self, here: Subtree, i: int) -> dict[int, Subtree]:
        """The parts of a subtree in which label ``i`` stays (-1), and in which it becomes each class."""

    def _leaf(
        self, part: Part, nodes: Int, best: int, control: Control, enter: Callable[[Relabelling], tuple[int, bool]]
    ) -> tuple[int, int]:
        """Retrain all attacks of a subtree: the best known afterwards, and an upper end.

        Nodes that are excluded do not change, so that counts are those of all nodes.
        """
        yes, no = self._question.changed(part.made, nodes)
        if int(yes.sum()) > best:
            best = enter(part.made)[0]
        found = part.retrain(self._question, nodes, control)
        if int(found.curve_lower[-1]) > best:
            best = enter(part.whole(found.curve_changes[-1]))[0]
        return best, max(int((~no).sum()), int(found.curve_upper[-1]))


class Flips(NamedTuple):
    """A subtree of attacks on two classes: proved ranges, and the nodes that are not excluded."""

    ranges: Ranges
    nodes: Int


class FlipCounting(Counting[Flips]):
    """For one score.

    Parameters
    ----------
    rows : (m, n) array
        Signed test rows of all nodes.
    """

    def __init__(self, question: Question, rows: Float, effort: Effort) -> None:
        super().__init__(question, effort)
        self._rows = rows

    def leaf_size(self) -> int:
        """As for single nodes."""
        return LEAF_SETS

    def alive(self, here: Flips) -> Int:
        """Nodes that are not excluded."""
        return here.nodes

    def part(self, here: Flips) -> Part | None:
        """From the sides that are possible."""
        return Part.within(self._question.problem, here.ranges)

    def examined(self, here: Flips, over: Callable[[], bool]) -> tuple[Flips, Float, Excluded]:
        """Bounds on the scores of all nodes; a label promises what its flip takes off them."""
        problem = self._question.problem
        program, bounds = Relaxation(problem, here.ranges), Bounds(problem, here.ranges)
        nothing = np.zeros(problem.m)
        mu = program.suggest(self._rows[:, here.nodes[0]], nothing)
        more = (program.suggest(self._rows[:, t], nothing) for t in here.nodes[1:])
        mu = Multipliers.join([mu, *itertools.takewhile(lambda _: not over(), more)])
        left = np.ones(here.nodes.size, dtype=bool)
        left[: mu.label.size] = alive = ~(bounds.evaluate(mu) > 0.0)
        gains = np.maximum(0.0, bounds.least(mu, KEPT) - bounds.least(mu, FLIPPED))[:, alive].sum(axis=1)
        gone = mu.recorded(~alive).beta
        excluded = Excluded(
            nodes=self._question.nodes[here.nodes[~left]].astype(np.int32),
            rivals=1 - self._question.predicted[here.nodes[~left]].astype(np.int32),
            own=gone,
            other=gone[:0],
        )
        return here._replace(nodes=here.nodes[left]), gains[problem.adversary.labels], excluded

    def halves(self, here: Flips, i: int) -> dict[int, Flips]:
        """Kept, and flipped."""
        problem = self._question.problem
        label = int(problem.adversary.labels[i])
        kept, flipped = (here._replace(ranges=without(here.ranges, label, side)) for side in (FLIPPED, KEPT))
        return {KEEPS: kept, 1 - int(problem.codes[label]): flipped}
