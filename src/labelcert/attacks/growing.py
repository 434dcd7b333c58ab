"""The attack of this package: it grows change by change on the model itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from labelcert.attacks.linearised import lafak
from labelcert.attacks.shared import ask, worth
from labelcert.engines.attacking import Attacker
from labelcert.engines.base import Attacks, Findings
from labelcert.engines.linear.greedy import greedy_changes
from labelcert.problem import Problem, Relabelling
from labelcert.stopping import is_over

ROUNDS = 10
"""Rounds of improvement."""

ONE_AGAINST_THE_REST = {"cross_entropy": "logistic", "cross_entropy_intercept": "logistic_intercept"}
"""What stands in for losses that train all classes at once, where there are more than two."""


def greedy(problem: Problem, budget: int, rng: np.random.Generator) -> Relabelling:
    """Grow an attack change by change, on each class and on all nodes, retrain on the most promising, and improve it.

    Where scores are linear in the labels, the best change of each step is found by counting, without retraining. With
    losses that train all classes at once, models of one class against the rest stand in.
    """
    within = replace(problem, max_flips=budget)
    if problem.coupled:
        within = replace(within, loss=ONE_AGAINST_THE_REST[problem.loss])
    question = ask(within)
    if problem.trained_with.always_linear:
        steps = greedy_changes(question)  # none where there are too many nodes and labels
        return max(steps, key=lambda change: worth(question, change)) if steps else lafak(problem, budget, rng)
    attacks, lower = Attacks(question), Findings.nothing(question).radius_lower
    attacker = Attacker(question, attacks, is_over)
    if question.nodes.size == 1:
        attacker.attack_nodes(lower)
    elif question.nodes.size:
        attacker.attack_classes()
        attacker.attack_all()
    attacker.improve(lower, ROUNDS)
    return attacks.curve_changes[-1]
