"""Exact certificates by visiting every admissible labelling.

The paper calls this hopeless beyond one or two flips. It is not: neighbouring labellings share nearly all of
their solution, so that a retraining costs microseconds, and one pass answers every node and every budget.
"""

from __future__ import annotations

from labelcert.engines.asking import AskingMethod
from labelcert.engines.base import Capabilities, Findings, PlainEngine, Question, Work
from labelcert.engines.control import Control
from labelcert.engines.coupled.coupled_method import CoupledMethod
from labelcert.engines.cube.labellings import CubeMethod
from labelcert.engines.removing import RemovingMethod
from labelcert.engines.tables.table_method import TableMethod

Walking = CubeMethod | TableMethod | CoupledMethod | AskingMethod | RemovingMethod

WALKS: dict[str, Walking] = {
    "labellings": CubeMethod(),
    "toggled sets": TableMethod(),
    "relabellings": CoupledMethod(),
    "answers": AskingMethod(),
}
"""How models are enumerated, by what their predictors say about themselves: see :attr:`.Predictor.enumerated`."""


def _walk(question: Question) -> Walking:
    return RemovingMethod() if question.problem.adversary.removes else WALKS[question.predictor.enumerated]


class Enumerate(PlainEngine):
    """Looks at every admissible labelling."""

    name = "enumerate"
    capabilities = Capabilities(automatic=True, observes=True, removes=True)

    def estimate(self, question: Question, control: Control) -> Work:
        """Count the trainings, time a few of them, multiply."""
        return _walk(question).estimate(question, control)

    def reach(self, question: Question, control: Control, seconds: float) -> int:
        """The largest budget that fits into the given time."""
        return _walk(question).reach(question, control, seconds)

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Walk in the way that fits the predictor: over labellings, tables of class pairs, or extensions."""
        return _walk(question).run(question, control)
