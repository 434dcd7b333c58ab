"""Gurobi: commercial; its free licence covers models of up to 2,000 rows and columns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from labelcert.arrays import Float
from labelcert.engines.search.mixed_integer import INF, MixedInteger
from labelcert.errors import MissingExtra
from labelcert.paper.milp.solvers.session import TOLERANCE, Answer, Ending, Limits, Row, SolverUnavailable

_ALTERNATIVE = "solver='highs' needs no licence"


class Gurobi:
    """The solver, with whatever licence is there."""

    name = "gurobi"

    def __init__(self) -> None:
        try:
            import gurobipy
        except ImportError:
            raise MissingExtra("gurobipy", "gurobi", "solver='gurobi'") from None
        self._gp: Any = gurobipy
        try:
            self._env().dispose()
        except gurobipy.GurobiError as error:
            raise SolverUnavailable(f"Gurobi is installed but cannot start ({error}); {_ALTERNATIVE}") from None

    def version(self) -> str:
        """The version of Gurobi that is installed."""
        return ".".join(str(part) for part in self._gp.gurobi.version())

    def open(self, model: MixedInteger, threads: int) -> GurobiSession:
        """Load a program into an environment of its own."""
        return GurobiSession(self._gp, self._env(), model, threads)

    def _env(self) -> Any:
        env = self._gp.Env(empty=True)
        env.setParam("OutputFlag", 0)
        env.start()
        return env


class GurobiSession:
    """A program in Gurobi."""

    def __init__(self, gp: Any, env: Any, model: MixedInteger, threads: int) -> None:
        self._gp = gp
        self._env = env
        self._model = model
        m = gp.Model(env=env)
        kinds = np.where(model.integer, "I", "C")
        self._x = m.addMVar(model.lower.size, lb=model.lower, ub=model.upper, vtype=kinds)
        for sense, side in (("<", model.row_upper), (">", model.row_lower)):
            kept = np.isfinite(side) & ((model.row_lower != model.row_upper) if sense == "<" else True)
            equal = kept & (model.row_lower == model.row_upper)
            for rows, kind in ((kept & ~equal, sense), (equal, "=")):
                if rows.any():
                    m.addMConstr(model.matrix[np.flatnonzero(rows)], self._x, kind, side[rows])
        tolerances = dict.fromkeys(("FeasibilityTol", "OptimalityTol", "IntFeasTol"), TOLERANCE)
        for parameter, value in {**tolerances, "MIPGap": 0.0, "MIPGapAbs": 0.0, "Threads": threads}.items():
            m.setParam(parameter, value)
        m.update()
        self._m = m

    def solve(self, cost: Float, limits: Limits, rows: Sequence[Row] = ()) -> Answer:
        """Minimise; Gurobi itself stops at either end."""
        m = self._m
        gp = self._gp
        started = time.perf_counter()
        m.reset()
        m.setObjective(np.asarray(cost, dtype=float) @ self._x, gp.GRB.MINIMIZE)
        m.setParam("TimeLimit", max(0.0, limits.seconds))
        m.setParam("BestObjStop", limits.stop_below)
        m.setParam("BestBdStop", limits.stop_above)
        added = [m.addConstr(row.coefficients @ self._x[row.columns] <= row.upper) for row in rows]
        try:
            m.optimize(lambda model, where: self._on_event(model, where, limits))
            return self._answer(limits, time.perf_counter() - started)
        except gp.GurobiError as error:
            if error.errno == gp.GRB.Error.SIZE_LIMIT_EXCEEDED:
                r, n = self._model.size
                raise SolverUnavailable(
                    f"a model of {r} rows and {n} columns is over the size of Gurobi's licence; {_ALTERNATIVE}"
                ) from None
            return Answer(Ending.FAILED, INF, -INF, None, 0, time.perf_counter() - started, str(error))
        finally:
            for constraint in added:
                m.remove(constraint)

    def close(self) -> None:
        """Release model and licence."""
        self._m.dispose()
        self._env.dispose()

    def _answer(self, limits: Limits, seconds: float) -> Answer:
        m, codes = self._m, self._gp.GRB
        status = {
            codes.OPTIMAL: Ending.OPTIMAL,
            codes.USER_OBJ_LIMIT: Ending.DECIDED,
            codes.TIME_LIMIT: Ending.TIME_LIMIT,
            codes.INTERRUPTED: Ending.INTERRUPTED,
            codes.INFEASIBLE: Ending.INFEASIBLE,
        }.get(m.Status, Ending.FAILED)
        objective, x = (float(m.ObjVal), np.asarray(self._x.X)) if m.SolCount > 0 else (INF, None)
        bound = float(m.ObjBound) if m.Status != codes.INFEASIBLE else INF
        return Answer(status, objective, bound, x, int(m.NodeCount), seconds, f"Gurobi status {m.Status}")

    def _on_event(self, model: Any, where: int, limits: Limits) -> None:
        callback = self._gp.GRB.Callback
        if where == callback.MIP:
            limits.report(model.cbGet(callback.MIP_OBJBST), model.cbGet(callback.MIP_OBJBND))
        if where in (callback.MIP, callback.POLLING) and limits.cancelled():
            model.terminate()
