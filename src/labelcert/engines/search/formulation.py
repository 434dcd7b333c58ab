"""What the search needs of a kind of predictor: proofs and programs for single nodes, and for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from labelcert.arrays import Int
from labelcert.certificate.proofs import Tree
from labelcert.engines.search.branching import Effort
from labelcert.engines.search.judging import Decide
from labelcert.engines.search.programs import Program
from labelcert.engines.search.searching import Searching


class Formulation(ABC):
    """The search of one kind of predictor."""

    def __init__(self, searching: Searching, pool: ThreadPoolExecutor) -> None:
        self.searching = searching
        self.pool = pool
        self.effort = Effort()
        self.range_seconds = 0.0
        self.mean_range: dict[str, float] = {}

    @staticmethod
    @abstractmethod
    def leaf_size() -> int:
        """How many attacks a leaf may have."""

    @abstractmethod
    def step(self, budget: int) -> Decide:
        """Ranges for the budget, then branch and bound for each node."""

    @abstractmethod
    def most_changed(self, budget: int, nodes: Int, best: int) -> tuple[int, Tree]:
        """A proved upper end of how many of some nodes one attack changes, given that one changes ``best``."""

    @abstractmethod
    def paper_step(self, budget: int) -> Decide:
        """The paper's program of each node."""

    def paper_curve(self, budget: int, nodes: Int) -> Program | None:
        """The paper's collective program; it has one for two classes only."""
        return None

    def statistics(self) -> dict[str, Any]:
        """Plain numbers about the work."""
        return {
            "subtrees": self.effort.subtrees,
            "leaves_retrained": self.effort.leaves,
            "seconds_for_ranges": self.range_seconds,
            "mean_range": self.mean_range,
        }
