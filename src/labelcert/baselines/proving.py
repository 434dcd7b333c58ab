"""What a baseline proves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labelcert.arrays import Int
from labelcert.prediction import Predictor


@dataclass(frozen=True, eq=False)
class Proved:
    """What a baseline proves."""

    predictor: Predictor
    """The clean predictions of the model that it speaks of, and that model's problem."""
    lower: Int
    """(n,) lower ends of the radii of all test nodes. Those of nodes without a prediction do not count."""
    statistics: dict[str, Any]
