"""What tests ask about mixed-integer programs."""

from __future__ import annotations

import numpy as np

from labelcert.engines.search.mixed_integer import MixedInteger


def violation(model: MixedInteger, x: np.ndarray) -> float:
    """By how much a point misses the constraints, at the most; integrality included."""
    activity = model.matrix @ x
    gaps = [model.row_lower - activity, activity - model.row_upper, model.lower - x, x - model.upper]
    gaps.append(np.abs(x - np.round(x))[model.integer])
    return max((float(g.max()) for g in gaps if g.size), default=0.0)
