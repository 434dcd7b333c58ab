"""Clean predictions that were decided block by block, when the rows behind them are gone."""

from __future__ import annotations

from typing import Any, NoReturn

from labelcert.arrays import Float, Int
from labelcert.prediction.predictor import Predictor
from labelcert.problem import Problem


class Gathered(Predictor):
    """What other predictors decided about the clean labels.

    Parameters
    ----------
    problem : Problem
    predicted, shown, decision : arrays
        Of all test nodes, as in :class:`Predictor`.
    """

    tie_note = "clean scores"

    def __init__(self, problem: Problem, predicted: Int, shown: Int, decision: Float) -> None:
        self.problem, self.linear = problem, True
        self.predicted, self.shown, self.decision = predicted, shown, decision

    def _gone(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("the rows of gathered predictions are not kept")

    changed = margins = becomes = _gone
