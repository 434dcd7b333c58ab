"""Solvers behind one small interface. HiGHS always works; SCIP and Gurobi are extras."""

from __future__ import annotations

from labelcert.engines.search.solvers.base import Answer, Limits, Row, Session, Solver, SolverUnavailable, Status
from labelcert.errors import InvalidInput

SOLVERS = ("highs", "scip", "gurobi")


def get_solver(name: str) -> Solver:
    """The solver of a name, ready to be used.

    Raises
    ------
    InvalidInput
        Unknown name.
    MissingExtra
        The solver is not installed; the message says how to install it.
    SolverUnavailable
        It is installed but cannot be used (no licence, say).
    """
    check_solver(name)
    if name == "highs":
        from labelcert.engines.search.solvers.highs import Highs

        return Highs()
    if name == "scip":
        from labelcert.engines.search.solvers.scip import Scip

        return Scip()
    from labelcert.engines.search.solvers.gurobi import Gurobi

    return Gurobi()


def check_solver(name: str) -> str:
    """A name that :func:`get_solver` knows."""
    if name not in SOLVERS:
        raise InvalidInput(f"solver must be one of {', '.join(SOLVERS)}, got {name!r}")
    return name


__all__ = [
    "SOLVERS",
    "Answer",
    "Limits",
    "Row",
    "Session",
    "Solver",
    "SolverUnavailable",
    "Status",
    "check_solver",
    "get_solver",
]
