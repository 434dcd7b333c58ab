"""Every admissible relabelling of any predictor at all: it is asked about one after the other.

No walk is written for such a predictor, so nothing is shared between neighbouring relabellings.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from labelcert.arrays import Float
from labelcert.engines.base import Findings, PlainEngine, Question, Work
from labelcert.engines.control import Control
from labelcert.engines.coupled.coupled_method import every_relabelling, relabelling_counts
from labelcert.engines.pools import Local
from labelcert.engines.seen import MoveNumbers, Seen
from labelcert.engines.walks import Timed
from labelcert.problem import Relabelling

SAMPLE = 6
"""Single changes that are timed."""


@dataclass(frozen=True, eq=False)
class AskedBlock:
    """Some relabellings of one size; none of them or of later ones costs less than ``min_cost``."""

    changes: Sequence[Relabelling]
    min_cost: int
    harmless: bool = False
    """Whether it is proved that none of them changes a prediction."""

    @property
    def stops(self) -> int:
        """How many there are."""
        return len(self.changes)


class AskingMethod(Timed):
    """One question to the predictor for each relabelling."""

    def counts(self, question: Question) -> Float:
        """(B + 1,) how many relabellings within each budget take a training."""
        return relabelling_counts(question)

    def blocks(self, question: Question, control: Control) -> Iterator[AskedBlock]:
        """All relabellings, by size."""
        return blocks_of(question, 1)

    def seconds(self, question: Question, control: Control) -> tuple[Float, str]:
        """As long as some single changes take."""
        counts = self.counts(question)
        spent = 0.0
        some = list(itertools.islice(question.problem.adversary.relabellings(1, question.budget), SAMPLE))
        if some:
            question.changed(some[0])  # compiled first
            started = time.perf_counter()
            question.changed_by(some)
            spent = time.perf_counter() - started
        return counts * spent / max(1, len(some)), f"{counts[-1]:,.6g} relabellings, one by one"

    def run(self, question: Question, control: Control) -> Findings:
        """Ask about all relabellings, by size."""
        moves = MoveNumbers(question.problem.adversary)

        def ask(block: AskedBlock) -> tuple[Seen, bool]:
            return asked(question, moves, block), True

        return every_relabelling(question, control, Local(ask), self.blocks(question, control))


class AskingEngine(PlainEngine):
    """An engine that asks about every admissible relabelling; what it is capable of, and its name, say who predicts."""

    _method = AskingMethod()

    def estimate(self, question: Question, control: Control) -> Work:
        """Count the relabellings, time a few of them, multiply."""
        return self._method.estimate(question, control)

    def reach(self, question: Question, control: Control, seconds: float) -> int:
        """The largest budget that fits into the given time."""
        return self._method.reach(question, control, seconds)

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """One after the other, by size."""
        return self._method.run(question, control)


def blocks_of(question: Question, least: int) -> Iterator[AskedBlock]:
    """Relabellings of at least so many labels, by size."""
    a, budget = question.problem.adversary, question.budget
    cheapest = np.concatenate([[0], np.cumsum(np.sort(a.costs))])
    for size in range(least, a.most_flips(budget) + 1):
        changes = a.relabellings(size, budget)
        while some := list(itertools.islice(changes, question.predictor.together)):
            yield AskedBlock(some, int(cheapest[size]))


def asked(question: Question, moves: MoveNumbers, block: AskedBlock) -> Seen:
    """What each relabelling of a block does."""
    a = question.problem.adversary
    longest = max(1, a.most_flips(question.budget))
    code = np.full((block.stops, longest), -1, dtype=np.int64)
    for s, change in enumerate(block.changes):
        code[s, : len(change)] = moves.number[change.positions, change.targets]
    if block.harmless:
        changed = np.zeros((block.stops, question.nodes.size), dtype=bool)
        unchanged = ~changed
    else:
        changed, unchanged = question.changed_by(block.changes)
    return Seen(np.array([a.cost(change) for change in block.changes]), code, changed, unchanged)
