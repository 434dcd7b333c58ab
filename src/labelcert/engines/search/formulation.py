"""What the search needs of a kind of predictor: programs for single nodes, and for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from labelcert.arrays import Int
from labelcert.engines.search.judging import Decide
from labelcert.engines.search.programs import Program
from labelcert.engines.search.searching import Searching


class Formulation(ABC):
    """The programs of one kind of predictor."""

    def __init__(self, searching: Searching, pool: ThreadPoolExecutor) -> None:
        self.searching = searching
        self.pool = pool

    @abstractmethod
    def compact_step(self, budget: int) -> Decide:
        """Ranges for the budget, then for each node: the relaxation, what it leaves, and at last the solver."""

    @abstractmethod
    def paper_step(self, budget: int) -> Decide:
        """The paper's program of each node."""

    @abstractmethod
    def compact_curve(self, budget: int, nodes: Int) -> Program | None:
        """The program that counts how many of some nodes one attack changes; None where it would be too large."""

    def paper_curve(self, budget: int, nodes: Int) -> Program | None:
        """The same in the paper's formulation, which has it for two classes only."""
        return None

    @abstractmethod
    def statistics(self) -> dict[str, Any]:
        """Plain numbers about the work."""
