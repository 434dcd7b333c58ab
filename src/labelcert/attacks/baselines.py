"""Attacks that hardly look: random labels, and labels near to or far from the decision boundary."""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float
from labelcert.attacks.shared import leads_over, sources, spend, trained, training_scores
from labelcert.problem import Problem, Relabelling


def random_flips(problem: Problem, budget: int, rng: np.random.Generator) -> Relabelling:
    """Flip labels in a random order, each to a random class that it may become."""
    return spend(problem.adversary, budget, rng.random(problem.adversary.targets.shape))


def nearest(problem: Problem, budget: int, rng: np.random.Generator) -> Relabelling:
    """Flip the labels nearest to the clean decision boundary.

    The original knows two classes. With more, the distance is the difference of two scores, and a label becomes the
    class whose boundary is nearest. The attack does not look at the test nodes.
    """
    return spend(problem.adversary, budget, -np.abs(_clean_leads(problem)))


def furthest(problem: Problem, budget: int, rng: np.random.Generator) -> Relabelling:
    """Flip the labels furthest from the clean decision boundary, on the correct side of it.

    The original knows two classes. With more, the distance is the difference of two scores, and a label becomes the
    class with the lowest score. The attack does not look at the test nodes.
    """
    return spend(problem.adversary, budget, _clean_leads(problem))


def _clean_leads(problem: Problem) -> Float:
    """(ν, K) how far each label lies on the correct side of the boundary to every class."""
    scores = training_scores(problem, trained(problem, problem.codes))
    return leads_over(scores[problem.adversary.labels], sources(problem))
