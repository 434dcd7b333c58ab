"""Nobody predicts: the run was over before a model was trained."""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int
from labelcert.prediction.predictor import OPEN, Predictor
from labelcert.problem import Problem


class Unknown(Predictor):
    """Every prediction is open, and so is what any labels do to it."""

    tie_note = "clean scores"

    def __init__(self, problem: Problem) -> None:
        self.problem, self.linear, n, K = problem, False, problem.n_test, problem.n_classes
        self._on_fewer = {}
        self.predicted, self.shown = np.full(n, OPEN), np.zeros(n, dtype=np.int64)
        self.decision = np.zeros(n if K == 2 else (n, K))

    def changed(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """Nobody knows."""
        return np.zeros(nodes.size, dtype=bool), np.zeros(nodes.size, dtype=bool)

    def margins(self, codes: Int, nodes: Index) -> Float:
        """Nobody knows."""
        return np.zeros(nodes.size)

    def becomes(self, codes: Int, node: int) -> int:
        """Nobody knows."""
        return -1

    def retrained(self) -> Unknown:
        """There is no other one."""
        return self
