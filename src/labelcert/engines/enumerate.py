"""Exact certificates by visiting every admissible labelling.

The paper calls this hopeless beyond one or two flips. It is not: neighbouring labellings share nearly all of
their solution, so that a retraining costs microseconds, and one pass answers every node and every budget.
"""

from __future__ import annotations

from labelcert.engines.base import Capabilities, Findings, Question, Work
from labelcert.engines.control import Control
from labelcert.engines.cube.walking import CubeMethod
from labelcert.engines.tables.method import TableMethod
from labelcert.prediction import OneVsRest, Predictor, Sign, predictor_for
from labelcert.problem import Problem

METHODS: dict[type[Predictor], CubeMethod | TableMethod] = {Sign: CubeMethod(), OneVsRest: TableMethod()}
"""How each kind of predictor is enumerated: one score over all labellings, or K tables over toggled labels."""


class Enumerate:
    """Every admissible labelling."""

    name = "enumerate"
    capabilities = Capabilities(automatic=True)

    def refuses(self, problem: Problem) -> str | None:
        """Nothing: only size can be in the way."""
        return None

    def predictor(self, problem: Problem) -> Predictor:
        """Retraining (hinge) or linear maps (square loss)."""
        return predictor_for(problem, linear=problem.loss == "square")

    def estimate(self, question: Question, control: Control) -> Work:
        """Count the trainings, time a few of them, multiply."""
        return METHODS[type(question.predictor)].estimate(question, control)

    def reach(self, question: Question, control: Control, seconds: float) -> int:
        """The largest budget that fits into so many seconds."""
        return METHODS[type(question.predictor)].reach(question, control, seconds)

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Walk and decide."""
        return METHODS[type(question.predictor)].run(question, control)
