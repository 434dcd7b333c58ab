"""The lowest scores that labellings of each cost reach."""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Int
from labelcert.engines.base import Question
from labelcert.engines.bitsets import positions_of, words_for
from labelcert.engines.cube.cutting import LabellingChunk
from labelcert.engines.cube.recording import CubeSummary
from labelcert.engines.walks import Collector
from labelcert.problem import Relabelling


class Lowest(Collector):
    """Lower bounds on the signed scores of n nodes, by what labellings cost.

    - ``strides`` (G,): a labelling belongs into the row of its cost, plus so much for each unit that it spends in a
      group.
    - ``low`` (R, n): of the scaled rows; infinite where no labelling was visited.
    - ``frontier``: all labellings that cost less were visited.
    """

    def __init__(self, question: Question, strides: Int, rows: int) -> None:
        n, words = question.nodes.size, words_for(question.problem.adversary.labels.size)
        self._adversary = question.problem.adversary
        self.strides, self.rows = strides, rows
        self.low = np.full((rows, n), np.inf)
        self.low_set = np.zeros((rows, n, words), dtype=np.uint64)
        self.frontier = question.budget + 1

    def collect(self, found: CubeSummary, chunk: LabellingChunk) -> None:
        """Take over a chunk's results."""
        lower = found.low < self.low
        self.low[lower] = found.low[lower]
        self.low_set[lower] = found.low_set[lower]

    def unvisited(self, cost: int) -> None:
        """Learn that some labellings of this cost or more were not visited."""
        self.frontier = min(self.frontier, cost)

    def change(self, row: int, t: int) -> Relabelling:
        """A labelling that comes closest to a bound."""
        return self._adversary.flipped(positions_of(self.low_set[row, t]))
