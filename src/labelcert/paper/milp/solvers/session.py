"""What every solver takes and returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from labelcert.arrays import Float, Index
from labelcert.engines.search.mixed_integer import INF, MixedInteger
from labelcert.errors import LabelcertError

TOLERANCE = 1e-9
"""Feasibility, integrality and dual tolerances that every solver is asked for."""


class SolverUnavailable(LabelcertError):
    """A solver is not installed, has no licence, or its licence does not cover a model's size."""


class Ending(StrEnum):
    """How a solve ended, in words that all solvers share."""

    OPTIMAL = "optimal"
    DECIDED = "decided"
    TIME_LIMIT = "time limit"
    INTERRUPTED = "interrupted"
    INFEASIBLE = "infeasible"
    FAILED = "failed"


@dataclass(frozen=True)
class Limits:
    """When to stop: also once a solution of at most ``stop_below``, or a bound of at least ``stop_above``, decides."""

    seconds: float = INF
    stop_below: float = -INF
    stop_above: float = INF
    cancelled: Callable[[], bool] = lambda: False
    """Asked now and then; True stops the solver."""
    report: Callable[[float, float], None] = lambda incumbent, bound: None


@dataclass(frozen=True, eq=False)
class Answer:
    """What a solver says; nothing of it is believed without a check."""

    status: Ending
    objective: float
    """Value of the best solution found (+∞: none)."""
    bound: float
    """No solution is better than this, by the solver's own arithmetic (-∞: nothing known)."""
    x: Float | None
    tree_nodes: int
    seconds: float
    detail: str
    """The solver's own word for its status."""


@dataclass(frozen=True, eq=False)
class Row:
    """One constraint ``coefficients · x[columns] ≤ upper`` that holds for a single solve."""

    columns: Index
    coefficients: Float
    upper: float


class Session(Protocol):
    """A program loaded into a solver, to be solved again and again."""

    def solve(self, cost: Float, limits: Limits, rows: Sequence[Row] = ()) -> Answer:
        """Minimise ``cost·x`` under additional rows."""

    def close(self) -> None:
        """Release the solver's memory."""


class Solver(Protocol):
    """A solver that is installed and usable."""

    name: str

    def version(self) -> str:
        """Of the solver itself."""

    def open(self, model: MixedInteger, threads: int) -> Session:
        """Load a program, to be solved on this many threads."""
