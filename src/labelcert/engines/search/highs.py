"""HiGHS on linear programs: it suggests multipliers, and nothing rests on its word."""

from __future__ import annotations

import math

import highspy
import numpy as np

from labelcert.arrays import Float
from labelcert.engines.search.mixed_integer import MixedInteger


def load(model: MixedInteger) -> highspy.Highs:
    """A silent HiGHS with the program in it."""
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = model.size
    lp.col_cost_ = model.cost
    lp.col_lower_, lp.col_upper_ = model.lower, model.upper
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = model.matrix.indptr
    lp.a_matrix_.index_ = model.matrix.indices
    lp.a_matrix_.value_ = model.matrix.data
    if model.integer.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(whole)] for whole in model.integer]
    highs.passModel(lp)
    return highs


def simplex(model: MixedInteger) -> highspy.Highs:
    """The same, to be solved by the simplex method again and again, with other costs and bounds."""
    highs = load(model)
    for option, value in (("threads", 1), ("presolve", "off"), ("solver", "simplex"), ("simplex_strategy", 4)):
        highs.setOptionValue(option, value)
    return highs


def duals(highs: highspy.Highs, seconds: float) -> tuple[Float | None, bool]:
    """Solve: the prices of all rows (of none, where the solver has no answer), and whether nothing is feasible.

    Where nothing is feasible, they are a ray that proves it.
    """
    if math.isfinite(seconds):
        highs.setOptionValue("time_limit", highs.getRunTime() + max(0.0, seconds))  # its clock goes on from run to run
    highs.run()
    status, prices = highs.getModelStatus(), None
    if status == highspy.HighsModelStatus.kOptimal:
        prices = np.asarray(highs.getSolution().row_dual)
    elif status == highspy.HighsModelStatus.kInfeasible:
        _, has_ray, ray = highs.getDualRay()  # type: ignore[attr-defined]
        prices = np.asarray(ray) if has_ray else None
    if prices is not None and not np.all(np.isfinite(prices)):
        prices = None
    return prices, status == highspy.HighsModelStatus.kInfeasible


def version() -> str:
    """The version of HiGHS that is installed."""
    return str(highspy.Highs().version())
