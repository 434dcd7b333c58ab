"""Linear models with weights of labels: every relabelling is trained on, and attacks are grown beyond.

Forecasts of influences do not hold where a changed label changes the weights of others.
"""

from __future__ import annotations

import time

import numpy as np

from labelcert.engines.asking import AskingEngine
from labelcert.engines.base import Attacks, Capabilities, Findings, PlainEngine, Question, within_reach
from labelcert.engines.control import Control
from labelcert.engines.influence.growing import Growing
from labelcert.prediction.by_features import WEIGHTED, FeaturePredictor


class TrainOnAll(AskingEngine):
    """Trains on every admissible relabelling, many at once."""

    name = "enumerate"
    capabilities = Capabilities(automatic=True, advertised=False, predictors=frozenset({WEIGHTED}), observes=True)


class Grown(PlainEngine):
    """Upper ends beyond what is enumerated."""

    name = "influence"
    capabilities = Capabilities(continues=2, searches=True, advertised=False, predictors=frozenset({WEIGHTED}))

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Attacks on every node that is not settled."""
        started = time.perf_counter()
        attacks = Attacks(question, known)
        growing = Growing(question, attacks)
        if question.nodes.size:
            assert isinstance(question.predictor, FeaturePredictor)
            question.predictor.until(control.over)
            growing.first(control)
            growing.improve(known.radius_lower, control)
            question.predictor.until(lambda: False)
        return Findings(
            radius_lower=known.radius_lower,
            radius_upper=attacks.radius,
            radius_changes=attacks.radius_changes,
            curve_lower=attacks.curve,
            curve_upper=np.minimum(known.curve_upper, within_reach(known.radius_lower, question.budget)),
            curve_changes=attacks.curve_changes,
            statistics={"trainings": growing.trainings, "seconds": time.perf_counter() - started},
            drops=True,
        )
