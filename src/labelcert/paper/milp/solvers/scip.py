"""SCIP: open source."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from labelcert.arrays import Float
from labelcert.engines.search.mixed_integer import INF, MixedInteger
from labelcert.errors import MissingExtra
from labelcert.paper.milp.solvers.session import TOLERANCE, Answer, Ending, Limits, Row

_STATUS = {
    "optimal": Ending.OPTIMAL,
    "primallimit": Ending.DECIDED,
    "duallimit": Ending.DECIDED,
    "timelimit": Ending.TIME_LIMIT,
    "userinterrupt": Ending.INTERRUPTED,
    "infeasible": Ending.INFEASIBLE,
}


class Scip:
    """SCIP, where PySCIPOpt is installed."""

    name = "scip"

    def __init__(self) -> None:
        try:
            import pyscipopt
        except ImportError:
            raise MissingExtra("pyscipopt", "scip", "solver='scip'") from None
        self._scip: Any = pyscipopt

    def version(self) -> str:
        """The version of SCIP that PySCIPOpt brings along."""
        m = self._scip.Model()
        return f"{m.getMajorVersion()}.{m.getMinorVersion()}.{m.getTechVersion()}"

    def open(self, model: MixedInteger, threads: int) -> ScipSession:
        """Load a program. SCIP works on one thread, whatever is asked for."""
        return ScipSession(self._scip, model)


class ScipSession:
    """A program in SCIP."""

    def __init__(self, scip: Any, model: MixedInteger) -> None:
        self._scip = scip
        m = scip.Model()
        m.hideOutput()
        columns = zip(model.integer.tolist(), model.lower.tolist(), model.upper.tolist(), strict=True)
        self._x = [
            m.addVar(vtype="I" if whole else "C", lb=_finite(low), ub=_finite(high)) for whole, low, high in columns
        ]
        starts, at, values = model.matrix.indptr, model.matrix.indices, model.matrix.data
        for r, (low, high) in enumerate(zip(model.row_lower.tolist(), model.row_upper.tolist(), strict=True)):
            part = slice(int(starts[r]), int(starts[r + 1]))
            _add_row(scip, m, self._x, at[part].tolist(), values[part].tolist(), low, high)
        m.setParam("numerics/feastol", TOLERANCE)
        m.setParam("limits/gap", 0.0)
        m.setParam("limits/absgap", 0.0)
        m.setParam("misc/catchctrlc", False)
        self._m = m
        self._limits = Limits()
        m.includeEventhdlr(_watch(scip, self), "labelcert", "stops when asked to")

    def solve(self, cost: Float, limits: Limits, rows: Sequence[Row] = ()) -> Answer:
        """Minimise; SCIP itself stops at either end."""
        m = self._m
        started = time.perf_counter()
        self._limits = limits
        m.freeTransform()
        m.setObjective(self._scip.quicksum(float(c) * self._x[j] for j, c in enumerate(cost) if c != 0.0), "minimize")
        m.setParam("limits/time", min(1e20, max(0.0, limits.seconds)))
        m.setParam("limits/primal", _finite(limits.stop_below, -1e99))
        m.setParam("limits/dual", _finite(limits.stop_above, 1e99))
        added = [
            _add_row(self._scip, m, self._x, row.columns.tolist(), row.coefficients.tolist(), -INF, row.upper)
            for row in rows
        ]
        m.optimize()
        answer = self._answer(time.perf_counter() - started)
        m.freeTransform()
        for constraint in added:
            m.delCons(constraint)
        return answer

    def close(self) -> None:
        """Release the model, whose memory Python does not manage."""
        self._m.freeProb()

    def _answer(self, seconds: float) -> Answer:
        m = self._m
        word, bound = str(m.getStatus()), float(m.getDualbound())
        bound = -INF if bound <= -1e19 else INF if bound >= 1e19 else bound
        objective, x = INF, None
        if m.getNSols() > 0:
            best = m.getBestSol()
            objective, x = float(m.getSolObjVal(best)), np.array([m.getSolVal(best, v) for v in self._x])
        return Answer(_STATUS.get(word, Ending.FAILED), objective, bound, x, int(m.getNTotalNodes()), seconds, word)


def _add_row(scip: Any, m: Any, x: list[Any], columns: list[int], values: list[float], low: float, high: float) -> Any:
    terms = scip.quicksum(value * x[j] for j, value in zip(columns, values, strict=True))
    if low == high:
        return m.addCons(terms == low)
    if np.isinf(low):
        return m.addCons(terms <= high)
    if np.isinf(high):
        return m.addCons(terms >= low)
    return m.addCons(low <= (terms <= high))


def _finite(value: float, unlimited: float | None = None) -> float | None:
    return unlimited if np.isinf(value) else value


def _watch(scip: Any, session: ScipSession) -> Any:
    """An event handler that looks after every node."""

    class Watch(scip.Eventhdlr):  # type: ignore[misc]
        def eventinit(self) -> None:
            self.model.catchEvent(scip.SCIP_EVENTTYPE.NODESOLVED, self)

        def eventexit(self) -> None:
            self.model.dropEvent(scip.SCIP_EVENTTYPE.NODESOLVED, self)

        def eventexec(self, event: Any) -> None:
            limits = session._limits
            limits.report(self.model.getPrimalbound(), self.model.getDualbound())
            if limits.cancelled():
                self.model.interruptSolve()

    return Watch()
