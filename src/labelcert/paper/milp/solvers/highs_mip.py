"""HiGHS on mixed-integer programs: open source, always there, the default."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import highspy
import numpy as np
from highspy import HighsModelStatus as Ended

from labelcert.arrays import Float
from labelcert.engines.search.highs import load, version
from labelcert.engines.search.mixed_integer import INF, MixedInteger
from labelcert.paper.milp.solvers.session import TOLERANCE, Answer, Ending, Limits, Row

_STATUS = {
    Ended.kOptimal: Ending.OPTIMAL,
    Ended.kObjectiveTarget: Ending.DECIDED,
    Ended.kObjectiveBound: Ending.DECIDED,
    Ended.kTimeLimit: Ending.TIME_LIMIT,
    Ended.kInterrupt: Ending.INTERRUPTED,
    Ended.kInfeasible: Ending.INFEASIBLE,
}


class Highs:
    """HiGHS, which comes with labelcert."""

    name = "highs"

    def version(self) -> str:
        """The version of HiGHS that is installed."""
        return version()

    def open(self, model: MixedInteger, threads: int) -> HighsSession:
        """Load a program; HiGHS always gets one thread."""
        return HighsSession(model)


class HighsSession:
    """A program in HiGHS."""

    def __init__(self, model: MixedInteger) -> None:
        self._model = model
        self._highs = load(model)
        for option, value in (
            ("mip_feasibility_tolerance", TOLERANCE),
            ("primal_feasibility_tolerance", TOLERANCE),
            ("dual_feasibility_tolerance", TOLERANCE),
            ("mip_rel_gap", 0.0),
            ("mip_abs_gap", 0.0),
            ("presolve", "off"),  # at these tolerances it has been seen to lose optimal solutions
            ("threads", 1),  # fixed by the first run in a process: HiGHS refuses to run with another number later
        ):
            self._highs.setOptionValue(option, value)
        self._limits = Limits()
        self._decided = False
        self._highs.setCallback(self._on_event, None)
        self._highs.startCallback(highspy.cb.HighsCallbackType.kCallbackMipInterrupt)

    def solve(self, cost: Float, limits: Limits, rows: Sequence[Row] = ()) -> Answer:
        """Minimise; the callback stops it as soon as the question is decided."""
        h = self._highs
        n_rows, n = self._model.size
        started = time.perf_counter()
        self._limits, self._decided = limits, False
        h.clearSolver()
        h.changeColsCost(n, np.arange(n, dtype=np.int32), np.asarray(cost, dtype=float))
        h.setOptionValue("time_limit", max(0.0, limits.seconds))
        h.setOptionValue("objective_target", limits.stop_below)
        for row in rows:
            h.addRow(-INF, row.upper, row.columns.size, row.columns.astype(np.int32), row.coefficients)
        try:
            h.run()
            return self._answer(time.perf_counter() - started)
        finally:
            if rows:
                h.deleteRows(len(rows), np.arange(n_rows, n_rows + len(rows), dtype=np.int32))

    def close(self) -> None:
        """Nothing is held beyond the object."""
        self._highs.clear()

    def _answer(self, seconds: float) -> Answer:
        h = self._highs
        info, ended = h.getInfo(), h.getModelStatus()
        status = _STATUS.get(ended, Ending.FAILED)
        if status is Ending.INTERRUPTED and self._decided:
            status = Ending.DECIDED
        objective, x = INF, None
        if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
            objective, x = float(info.objective_function_value), np.asarray(h.getSolution().col_value)
        bound, nodes = float(info.mip_dual_bound), int(info.mip_node_count)
        return Answer(status, objective, bound, x, nodes, seconds, h.modelStatusToString(ended))

    def _on_event(self, kind: Any, message: str, out: Any, back: Any, data: Any) -> None:
        limits = self._limits
        limits.report(out.mip_primal_bound, out.mip_dual_bound)
        self._decided = bool(out.mip_dual_bound >= limits.stop_above)
        back.user_interrupt = self._decided or limits.cancelled()  # HiGHS remembers an earlier True
