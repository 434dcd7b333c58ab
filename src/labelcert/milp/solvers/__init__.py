"""Solvers behind one small interface. HiGHS always works; SCIP and Gurobi are extras."""

from __future__ import annotations

from labelcert.errors import InvalidInput
from labelcert.milp.solvers.base import Answer, Limits, Row, Session, Solver, SolverUnavailable, Status

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
    if name == "highs":
        from labelcert.milp.solvers.highs import Highs

        return Highs()
    if name == "scip":
        from labelcert.milp.solvers.scip import Scip

        return Scip()
    if name == "gurobi":
        from labelcert.milp.solvers.gurobi import Gurobi

        return Gurobi()
    raise InvalidInput(f"solver must be one of {', '.join(SOLVERS)}, got {name!r}")


__all__ = ["SOLVERS", "Answer", "Limits", "Row", "Session", "Solver", "SolverUnavailable", "Status", "get_solver"]
