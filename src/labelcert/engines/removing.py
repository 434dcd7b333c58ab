"""Walks in which labels can be absent.

Of two classes, a walk over labellings knows single moves: a label becomes the other class, or takes no part. Where a
label may do both, the two moves share a budget that pays for one of them. Elsewhere each relabelling is asked about.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from labelcert.arrays import Int
from labelcert.engines.asking import AskingMethod
from labelcert.engines.base import Findings, Question, Work
from labelcert.engines.control import Control
from labelcert.engines.cube.labellings import CubeMethod
from labelcert.engines.observing import Observer, Visited
from labelcert.problem import Adversary, Relabelling


class RemovingMethod:
    """All labellings with some labels absent: a walk over moves where there is one, and every answer elsewhere."""

    def estimate(self, question: Question, control: Control) -> Work:
        """As of the walk that is made."""
        moves = Moves.of(question)
        return AskingMethod().estimate(question, control) if moves is None else moves.estimate(control)

    def reach(self, question: Question, control: Control, seconds: float) -> int:
        """As of the walk that is made."""
        moves = Moves.of(question)
        if moves is None:
            return AskingMethod().reach(question, control, seconds)
        return CubeMethod().reach(moves.question, control, seconds)

    def run(self, question: Question, control: Control) -> Findings:
        """Walk, or ask."""
        moves = Moves.of(question)
        return AskingMethod().run(question, control) if moves is None else moves.run(control)


@dataclass(frozen=True, eq=False)
class Moves:
    """A question in which everything that can happen to a label is a label of its own.

    - ``position`` (o,): the position of each move among the labels that are asked about.
    """

    asked: Question
    question: Question
    position: Int

    @classmethod
    def of(cls, question: Question) -> Moves | None:
        """None where no walk over labellings serves: more classes, or groups whose limits pairs would be beside."""
        a, predictor = question.problem.adversary, question.predictor
        if not (predictor.one_score and predictor.scorer.trains_without):
            return None
        position, target = np.argwhere(a.targets).T.astype(np.int64)
        pairs = np.flatnonzero(a.targets.sum(axis=1) > 1)
        if pairs.size and a.group_caps.size:
            return None
        limited = np.full(a.labels.size, -1)
        limited[pairs] = np.arange(pairs.size)
        single = np.zeros((position.size, a.targets.shape[1]), dtype=bool)
        single[np.arange(position.size), target] = True
        adversary = replace(
            a,
            labels=a.labels[position],
            costs=a.costs[position],
            groups=limited[position] if pairs.size else a.groups[position],
            group_caps=a.costs[pairs] if pairs.size else a.group_caps,
            targets=single,
        )
        problem, own = replace(question.problem, adversary=adversary), copy(predictor)
        own.problem = replace(predictor.problem, adversary=adversary)
        observers = [_Told(one, position, a) for one in question.observers]
        moved = replace(question, problem=problem, predictor=own, observers=observers)
        return cls(question, moved, position)

    def estimate(self, control: Control) -> Work:
        """As of the walk."""
        return CubeMethod().estimate(self.question, control)

    def run(self, control: Control) -> Findings:
        """What the walk found, as relabellings of the question that was asked."""
        found = CubeMethod().run(self.question, control)
        return replace(
            found,
            radius_changes=[None if change is None else self._back(change) for change in found.radius_changes],
            curve_changes=[self._back(change) for change in found.curve_changes],
        )

    def _back(self, change: Relabelling) -> Relabelling:
        return _back(self.position, change)


def _back(position: Int, change: Relabelling) -> Relabelling:
    return Relabelling(position[change.positions], change.targets)


@dataclass(frozen=True, eq=False)
class _Told:
    """An observer who is shown moves as relabellings."""

    observer: Observer
    position: Int
    adversary: Adversary

    def observe(self, visited: Visited) -> None:
        """Show a batch."""
        of_label = np.zeros((self.position.size, self.adversary.labels.size), dtype=bool)
        of_label[np.arange(self.position.size), self.position] = True
        self.observer.observe(
            replace(
                visited,
                change=lambda s: _back(self.position, visited.change(s)),
                flipped=lambda: visited.flipped() @ of_label,
            )
        )

    def unvisited(self, cost: int) -> None:
        """Pass it on."""
        self.observer.unvisited(cost)
