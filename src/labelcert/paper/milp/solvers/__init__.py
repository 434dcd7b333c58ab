"""Solvers behind one small interface. HiGHS always works; SCIP and Gurobi are extras."""

from __future__ import annotations

from labelcert.engines.control import check_solver
from labelcert.paper.milp.solvers.session import Answer, Ending, Limits, Row, Session, Solver, SolverUnavailable


def get_solver(name: str) -> Solver:
    """The solver of a name, ready to be used; errors say what is missing: the solver itself, or its licence."""
    check_solver(name)
    if name == "highs":
        from labelcert.paper.milp.solvers.highs_mip import Highs

        return Highs()
    if name == "scip":
        from labelcert.paper.milp.solvers.scip import Scip

        return Scip()
    from labelcert.paper.milp.solvers.gurobi import Gurobi

    return Gurobi()


__all__ = ["Answer", "Ending", "Limits", "Row", "Session", "Solver", "SolverUnavailable", "get_solver"]
