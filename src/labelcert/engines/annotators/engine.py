"""The engine for adversaries who own annotators."""

from __future__ import annotations

import time
from typing import Any, cast

import numpy as np

from labelcert.arrays import Bool
from labelcert.engines.annotators.linear import LinearOwners
from labelcert.engines.annotators.retrained import RetrainedOwners
from labelcert.engines.base import Capabilities, Findings, PlainEngine, Question
from labelcert.engines.control import Control
from labelcert.prediction import Predictor, predictor_for
from labelcert.problem import Problem
from labelcert.problem.owners import OwnerAdversary
from labelcert.problem.problem import ONE_MODEL

TABLE_CELLS = 2_000_000
"""Nodes times annotators up to which it is kept what each annotator can do alone."""


FEW_LABELLINGS, FEW_SETS = 2.0**16, 2_000
"""Labellings, and sets of annotators, up to which the curve is walked although scores are linear."""


class AnnotatorEngine(PlainEngine):
    """Sums over annotators and sets of them where scores are linear; every set's labellings elsewhere."""

    name = "annotators"
    capabilities = Capabilities(automatic=True, advertised=False, predictors=frozenset({ONE_MODEL}), owners=True)

    def refuses(self, problem: Problem) -> str | None:
        """Classes that may lose all of their labels, where such a class is dropped."""
        if problem.emptied:
            return (
                "within this budget, annotators may take the last label from a class, which is then dropped; give a "
                "smaller max_flips, or trust a label of each class"
            )
        return None

    def predictor(self, problem: Problem) -> Predictor:
        """Linear wherever that is proved for all that annotators can do."""
        return predictor_for(problem, linear=problem.by is None and problem.is_linear())

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Radii and curve, and what each annotator can do alone."""
        started = time.perf_counter()
        method = sets_of_annotators(question, control)
        method.run()
        curve_upper, a = method.curve_upper, cast(OwnerAdversary, question.problem.adversary)
        if question.predictor.linear and control.collective and _few(a, question):
            walked = RetrainedOwners(question, control, method.attacks)
            walked.run()
            curve_upper = np.minimum(curve_upper, walked.curve_upper)
        statistics: dict[str, Any] = {"trainings": method.trainings, "sets_of_annotators": method.sets}
        if question.nodes.size * a.prices.size <= TABLE_CELLS and not control.over():
            statistics |= alone_of(question, a, method.alone())
        statistics["seconds"] = time.perf_counter() - started
        return method.attacks.findings(method.lower, statistics, curve_upper)


def sets_of_annotators(question: Question, control: Control) -> LinearOwners | RetrainedOwners:
    """What finds out what sets of annotators can do."""
    return (LinearOwners if question.predictor.linear else RetrainedOwners)(question, control)


def _few(a: OwnerAdversary, question: Question) -> bool:
    """Whether all that annotators can do is soon walked through."""
    labellings = float(question.problem.n_classes) ** min(a.labels.size, 64)
    return labellings <= FEW_LABELLINGS and a.count_sets_by_price(question.budget).sum() <= FEW_SETS


def alone_of(question: Question, a: OwnerAdversary, found: dict[int, tuple[Bool, Bool]]) -> dict[str, list[list[int]]]:
    """Test nodes that each annotator provably changes alone, and those that are open."""
    none = np.zeros(question.nodes.size, dtype=bool)
    every = np.where(a.prices[:, None] > 0, ~none, none)
    pairs = [found.get(k, (none, every[k])) for k in range(a.prices.size)]
    return {
        "alone": [np.sort(question.nodes[sure]).tolist() for sure, _ in pairs],
        "perhaps_alone": [np.sort(question.nodes[maybe & ~sure]).tolist() for sure, maybe in pairs],
    }
