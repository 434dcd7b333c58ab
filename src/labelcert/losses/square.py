"""The square loss: kernel ridge regression, whose scores are linear in the labels. Nothing is ever retrained."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import scipy.linalg

from labelcert.arrays import Float, Int, Signs
from labelcert.losses.base import Loss


class GivenRows(Loss):
    """Rows that somebody gave are multiplied by the labels: nothing is trained, and there is no kernel."""

    kind = "linear"
    formula = "none: scores are given as linear maps of the labels"
    always_linear = True

    def train(self, Q: Float, y: Float, C: float) -> Float:
        """The labels themselves."""
        return y

    def machine(self, Q: Float, C: float, min_eig: float, rows: Float) -> NoReturn:
        """There is none."""
        raise NotImplementedError(f"scores of the {self.name} loss are linear: nothing is retrained")

    def exactly(self, Q: Float, C: float) -> NoReturn:
        """Exact numbers come from the linear map itself."""
        raise NotImplementedError(f"scores of the {self.name} loss are linear: nothing is retrained")

    def largest_dual(self, m: int, C: float) -> float:
        """What multiplies the rows are the labels."""
        return 1.0

    def one_flip(self, machine: Any, rows: Float, movable: Int) -> NoReturn:
        """Read off the linear map by whoever has it."""
        raise NotImplementedError(f"scores of the {self.name} loss are linear: nothing is retrained")

    def response(self, Q: Float, C: float, y: Float, z: Float, state: Signs, rows: Float) -> NoReturn:
        """Read off the linear map by whoever has it."""
        raise NotImplementedError(f"scores of the {self.name} loss are linear: nothing is retrained")


class Square(GivenRows):
    """``(1 − y f)²``."""

    kind = "square"
    formula = "(1 − yf)²: kernel ridge regression"
    ridge = True

    def train(self, Q: Float, y: Float, C: float) -> Float:
        """One linear system, with ``λ = 1/(2C)``."""
        return np.asarray(scipy.linalg.solve(Q + np.eye(y.size) / (2 * C), y, assume_a="pos"))
