"""Every admissible relabelling of a linear model by its features, for whoever wants to be shown all of them.

Most single changes are proved to leave all predictions as they are, and take no training.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from labelcert.arrays import Float
from labelcert.engines.asking import AskedBlock, AskingMethod, blocks_of
from labelcert.engines.base import Attacks, Question
from labelcert.engines.control import Control
from labelcert.engines.influence.proving import Proving
from labelcert.problem import Relabelling


class ForetoldMethod(AskingMethod):
    """One question to the predictor for each relabelling whose effect is not foretold."""

    def counts(self, question: Question) -> Float:
        """Those of two labels and more: nobody can say before how many single changes are in doubt."""
        a = question.problem.adversary
        single = [int(a.targets[a.costs <= budget].sum()) for budget in range(question.budget + 1)]
        return np.maximum(super().counts(question) - single, 0.0)

    def blocks(self, question: Question, control: Control) -> Iterator[AskedBlock]:
        """Single changes in doubt, all other single changes, and then sets of more."""
        a, step = question.problem.adversary, question.predictor.together
        if question.budget > 0 and a.labels.size:
            proving = Proving(question, Attacks(question), control, np.ones(question.nodes.size, dtype=np.int64))
            doubtful, harmless = proving.sorted_out()
            cheapest = int(a.costs.min())
            for changes, harmless_ones in ((doubtful, False), (harmless, True)):
                for some in _some(changes, step):
                    yield AskedBlock(some, cheapest, harmless_ones)
        yield from blocks_of(question, 2)


def _some(changes: Iterable[Relabelling], step: int) -> Iterator[list[Relabelling]]:
    left = iter(changes)
    while some := list(itertools.islice(left, step)):
        yield some
