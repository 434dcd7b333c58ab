"""The engine for linear models by their features, at any number of labels.

One change of a label is foretold with a proved bound, or retrained where that leaves a doubt; more at once are bounded
together. Attacks grow by influences, which are refreshed by retraining. See :mod:`~labelcert.losses.remainders`.
"""

from __future__ import annotations

import time

import numpy as np

from labelcert.engines.base import Attacks, Capabilities, Findings, PlainEngine, Question, Work, within_reach
from labelcert.engines.control import Control
from labelcert.engines.influence.foretold import ForetoldMethod
from labelcert.engines.influence.growing import Growing
from labelcert.engines.influence.proving import Proving
from labelcert.prediction.by_features import FEATURES, FeaturePredictor

SHARE_FOR_FIRST = 0.3
"""Part of the time limit that goes to attacks on nodes that have none."""

SHARE_FOR_PROOFS = 0.6
"""Part of what is left that goes to proofs."""


class Influence(PlainEngine):
    """Small budgets exactly, upper ends for everybody."""

    name = "influence"
    capabilities = Capabilities(
        automatic=True, searches=True, advertised=False, predictors=frozenset({FEATURES}), observes=True
    )

    def estimate(self, question: Question, control: Control) -> Work:
        """As long as one change a label takes, and some attacks; observers want to be shown all relabellings."""
        if question.observers:
            return ForetoldMethod().estimate(question, control)
        return Work("one change is proved or retrained, and attacks are looked for beyond")

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """A first attack on every node, proofs, and then better attacks."""
        if question.observers:
            return ForetoldMethod().run(question, control)
        started = time.perf_counter()
        attacks = Attacks(question, known)
        growing = Growing(question, attacks)
        proving = Proving(question, attacks, control, known.radius_lower)
        if question.budget > 0 and question.nodes.size:
            assert isinstance(question.predictor, FeaturePredictor)
            question.predictor.until(control.over)
            several = question.problem.adversary.most_flips(question.budget) > 1
            if several:
                growing.first(control.part(SHARE_FOR_FIRST))
            proving.run(control.part(SHARE_FOR_PROOFS) if several else control)
            if several:
                growing.improve(proving.lower, control)
            question.predictor.until(lambda: False)
        return Findings(
            radius_lower=proving.lower,
            radius_upper=attacks.radius,
            radius_changes=attacks.radius_changes,
            curve_lower=attacks.curve,
            curve_upper=np.minimum(proving.curve_upper, within_reach(proving.lower, question.budget)),
            curve_changes=attacks.curve_changes,
            statistics={
                "trainings": growing.trainings + proving.trainings,
                "exact_to": proving.exact_to,
                "seconds": time.perf_counter() - started,
            },
        )
