"""Exact certificates by visiting every admissible labelling.

The paper calls this hopeless beyond one or two flips. It is not: neighbouring labellings share nearly all of
their solution, so that a retraining costs microseconds, and one pass answers every node and every budget.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from labelcert.arrays import Bool
from labelcert.engines.asking import AskingMethod
from labelcert.engines.base import Capabilities, Findings, PlainEngine, Question, Work
from labelcert.engines.control import Control
from labelcert.engines.coupled.coupled_method import CoupledMethod, relabelling_counts
from labelcert.engines.cube.labellings import CubeMethod
from labelcert.engines.removing import RemovingMethod
from labelcert.engines.seen import CountingShown
from labelcert.engines.tables.table_method import TableMethod
from labelcert.engines.walks import last_fitting
from labelcert.problem.owners import OwnerAdversary

MOST_COUNTED = 2e8
"""Relabellings times nodes up to which walks that prune are asked to show everything, where somebody counts."""

Walking = CubeMethod | TableMethod | CoupledMethod | AskingMethod | RemovingMethod

WALKS: dict[str, Walking] = {
    "labellings": CubeMethod(),
    "toggled sets": TableMethod(),
    "relabellings": CoupledMethod(),
    "answers": AskingMethod(),
}
"""How models are enumerated, by what their predictors say about themselves: see :attr:`.Predictor.enumerated`."""


MOST_WALKED = 2e9
"""The same where scores are linear in the labels, and nothing but metrics asks for a walk."""

MOST_RELABELLINGS = 2e6
"""No more relabellings than this are counted beside other work."""


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
        method = _walk(question)
        if question.counting is None or isinstance(method, CubeMethod):  # which counts while it walks
            return method.run(question, control)
        plain = replace(question, counting=None)
        if not _few(question, MOST_COUNTED)[-1]:
            return method.run(plain, control)
        counting = CountingShown(question, question.counting)
        found = method.run(replace(plain, observers=(*question.observers, counting)), control)
        counting.settle(control)
        return found

    def counted_soon(self, question: Question) -> int:
        """The largest budget whose relabellings can all be counted in a moment; -1 where that is not worth it."""
        a = question.problem.adversary
        if question.counting is None or isinstance(a, OwnerAdversary) or not question.predictor.linear:
            return -1
        return last_fitting(_few(question, MOST_COUNTED if a.removes else MOST_WALKED))


def _few(question: Question, most: float) -> Bool:
    """(B + 1,) whether there are few relabellings within each budget, alone and times nodes."""
    counts = relabelling_counts(question)
    return np.asarray((counts <= MOST_RELABELLINGS) & (counts * question.nodes.size <= most))
