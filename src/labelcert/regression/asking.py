"""From rows and targets to what wrong targets can do."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Text, frozen
from labelcert.checking import whole_number
from labelcert.engines.linear.spending import spending_work
from labelcert.errors import InvalidInput, WorkTooLarge
from labelcert.memory import require_memory
from labelcert.problem import Threat
from labelcert.problem.validation import check_seconds
from labelcert.regression.changes import Changes
from labelcert.regression.moves import Moved, moved
from labelcert.regression.result import RegressionCertificate
from labelcert.regression.rows import TargetMap

USUAL_CHANGES = 1000
"""Largest budget where none is asked for."""


def checked_targets(y: npt.ArrayLike) -> Float:
    """(m,) numbers, none of them missing."""
    try:
        targets = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("targets must be numbers; certify a classifier with labelcert.from_sklearn") from None
    if targets.ndim != 1 or targets.size == 0:
        raise InvalidInput(f"targets must be one number for each training point, got shape {targets.shape}")
    if not np.isfinite(targets).all():
        raise InvalidInput("targets must not be missing or infinite; leave these rows out")
    return targets


def certified_targets(
    rows: TargetMap,
    y: npt.ArrayLike,
    *,
    change: Any,
    max_changes: int | None = None,
    threshold: npt.ArrayLike | None = None,
    threat: Threat | None = None,
    time_limit: float | None = None,
    coefficients: TargetMap | None = None,
    names: Text | None = None,
    target_names: Text | None = None,
    features: Text | None = None,
    model: str = "",
) -> RegressionCertificate:
    """What :func:`labelcert.certify_regression` returns, for rows of any linear model."""
    started = time.monotonic()
    limit = check_seconds("time_limit", time_limit)
    targets = checked_targets(y)
    if rows.m != targets.size:
        raise InvalidInput(f"H must have one column per target, {targets.size}, got {rows.m}")
    changes = Changes.of(targets, change, threat)
    a = changes.adversary
    budget = min(a.full_budget, USUAL_CHANGES)
    if max_changes is not None:
        budget = min(whole_number("max_changes", max_changes), a.full_budget)
    aims = None if threshold is None else _aims(threshold, rows.n)
    several = () if coefficients is None else (coefficients,)
    values = sum(one.n for one in (rows, *several))
    require_memory(
        3 * 16 * values * (budget + 1),
        f"moves of {values} values at {budget + 1} budgets",
        "give a smaller max_changes",
    )
    work = spending_work(a, budget, values, 4)
    if work.advice is not None and limit is None:
        raise WorkTooLarge(f"the work is too large: {work.reason}; give a smaller max_changes, or a time_limit")

    def over() -> bool:
        return limit is not None and time.monotonic() - started > limit

    own = [moved(one, targets, changes, budget, np.zeros(one.n), over) for one in several]
    found = moved(rows, targets, changes, budget, aims, over)
    none = Moved(
        *(np.zeros(0),) * 2, *(np.zeros((0, budget + 1)),) * 2, np.zeros(0), *(np.zeros(0, dtype=np.int64),) * 2
    )
    coefficient = own[0] if own else none
    moves = [*found.moves, *coefficient.moves]
    sizes = [0 if move is None else move[0].size for move in moves]
    parts = {
        "predictions": found.value,
        "shift_up": found.up,
        "shift_down": found.down,
        "slack": found.slack,
        "threshold": np.full(rows.n, np.nan) if aims is None else aims,
        "radius_lower": found.lower,
        "radius_upper": found.upper,
        "coefficients": coefficient.value,
        "coefficient_shift_up": coefficient.up,
        "coefficient_shift_down": coefficient.down,
        "coefficient_slack": coefficient.slack,
        "coefficient_radius_lower": coefficient.lower,
        "coefficient_radius_upper": coefficient.upper,
        "targets": targets,
        "down": changes.down,
        "up": changes.up,
        "move_starts": np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        "moved_targets": np.concatenate([np.zeros(0, dtype=np.int64), *(m[0] for m in moves if m is not None)]),
        "moved_to": np.concatenate([np.zeros(0), *(m[1] for m in moves if m is not None)]),
        "names": names,
        "target_names": target_names,
        "features": features,
    }
    unit = "changes" if threat is None or threat.costs is None else "cost units"
    if threat is not None and threat.annotators is not None:
        unit = "annotators" if threat.prices is None else "cost units"
    return RegressionCertificate(
        **{name: None if part is None else frozen(np.asarray(part)) for name, part in parts.items()},  # type: ignore[arg-type]
        max_changes=budget,
        never=a.never,
        unit=unit,
        model=model,
        threat=repr(threat) if threat is not None else "",
        stopped=over(),
        seconds=time.monotonic() - started,
    )


def _aims(threshold: npt.ArrayLike, n: int) -> Float:
    aims = np.asarray(threshold, dtype=np.float64)
    if aims.shape not in ((), (n,)) or not np.isfinite(aims).all():
        raise InvalidInput(f"threshold must be one number, or one for each of the {n} predictions")
    return np.broadcast_to(aims, (n,)).copy()
