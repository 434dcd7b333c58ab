"""What changes where classes without labels are dropped, as estimators of scikit-learn do.

Engines know models of all classes. Where a class has no labels left, such a model differs from the one that predicts in
one way, if each class is trained against the rest: the class cannot be predicted. So a node whose own class has labels
changes with fewer relabellings, and every relabelling without labels of its own class changes it. A model that is
trained on all classes at once becomes another one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from labelcert.arrays import Int
from labelcert.engines.asking import AskingMethod
from labelcert.engines.base import Attacks, Findings, Question, within_reach
from labelcert.engines.control import Control
from labelcert.engines.coupled.coupled_method import relabelling_counts
from labelcert.problem import NOTHING, Relabelling

ASKED_AT_MOST = 5_000
"""Relabellings up to which the predictor is asked about all, for nodes whose witness is none any more."""


def classes_dropped(question: Question, found: Findings, control: Control) -> Findings:
    """Findings about models of all classes as findings about models of those that have labels."""
    problem, a = question.problem, question.problem.adversary
    if not problem.emptied or found.drops or found.read is not None:
        return found
    least = np.full(problem.n_classes, a.never)
    least[list(problem.emptied)] = [a.cost(change) for change in problem.emptied.values()]
    limit = least.min() if problem.coupled else least[question.predicted]
    lower = np.minimum(found.radius_lower, limit)
    attacks = _attacks(question, found)
    closed = attacks.radius.copy()
    doubtful = np.flatnonzero((closed > found.radius_upper) & (lower < closed))
    if doubtful.size and relabelling_counts(question)[-1] <= ASKED_AT_MOST:
        part = replace(question, nodes=question.nodes[doubtful], observers=(), counting=None)
        asked = AskingMethod().run(part, control)
        lower[doubtful] = np.maximum(lower[doubtful], asked.radius_lower)
        for change in dict.fromkeys(change for change in asked.radius_changes if change is not None):
            attacks.enter(change)
    return replace(
        found,
        radius_lower=lower,
        radius_upper=attacks.radius,
        radius_changes=attacks.radius_changes,
        curve_lower=attacks.curve,
        curve_upper=_curve_upper(question, found, lower, least),
        curve_changes=attacks.curve_changes,
        radius_claimed=None,
        curve_claimed=None,
    )


def _attacks(question: Question, found: Findings) -> Attacks:
    """The attacks that leave labels to every class, and what the predictor says of all others."""
    clean, problem = np.unique(question.problem.codes), question.problem
    changes = dict.fromkeys([*found.radius_changes, *found.curve_changes, *problem.emptied.values()])
    others = [c for c in changes if c is not None and np.setdiff1d(clean, problem.relabelled(c)).size]
    gone = np.array([change in others for change in found.radius_changes], dtype=bool)
    curve, curve_changes = found.curve_lower.copy(), list(found.curve_changes)
    for b, change in enumerate(curve_changes):
        if change in others:
            curve[b], curve_changes[b] = (curve[b - 1], curve_changes[b - 1]) if b else (0, NOTHING)
    kept = list[Relabelling | None](None if c in others else c for c in found.radius_changes)
    attacks = Attacks(
        question,
        replace(
            found,
            radius_upper=np.where(gone, problem.adversary.never, found.radius_upper),
            radius_changes=kept,
            curve_lower=curve,
            curve_changes=curve_changes,
        ),
    )
    for change in others:
        attacks.enter(change)
    return attacks


def _curve_upper(question: Question, found: Findings, lower: Int, least: Int) -> Int:
    """Of nodes whose own class can lose its labels, all may change at once, beside those that do anyway."""
    reach = within_reach(lower, question.budget)
    gone = np.searchsorted(np.sort(least[question.predicted]), np.arange(reach.size), side="right")
    before = np.arange(reach.size) < least.min()
    most = found.curve_upper + (reach if question.problem.coupled else gone)
    return np.minimum(np.where(before, found.curve_upper, most), reach)
