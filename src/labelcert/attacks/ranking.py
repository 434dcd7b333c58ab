"""Attacks that rank labels: at random, by the decision boundary, or by losses and dual variables of support vectors."""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float
from labelcert.attacks.shared import ask, leads_over, sources, spend, trained, training_scores, worth
from labelcert.problem import NOTHING, Problem, Relabelling

ROUNDS = 20
"""Most alternations between training and choosing flips."""

REPETITIONS = 10
"""Number of random models."""

RANDOM_WEIGHTS = (0.1, 0.3, 1.0)
"""What dual variables and margins of a random model count, against the dual variables of the clean one."""


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


def alfa(problem: Problem, budget: int, rng: np.random.Generator) -> Relabelling:
    """Alternate between training on the flipped labels and choosing the flips that fit this training best.

    Every label is there twice, as it is and flipped, and the budget says how many flipped ones are trained on. A pair
    is chosen by a linear program over ``(ε − ξ)``: hinge losses by the flipped and by the clean model. Its solution is
    found by sorting, so that it is always a labelling, and the quadratic program is an ordinary training. The attack
    maximises training losses as the original does. Of all rounds, the one that changes the most test predictions is
    kept; the original keeps the last. With more than two classes, the loss is the sum over all models.
    """
    a, source = problem.adversary, sources(problem)
    question = ask(problem)
    clean = _hinge_losses(training_scores(problem, trained(problem, problem.codes)))[a.labels]
    flipped, tried = np.zeros_like(clean), [NOTHING]
    for _ in range(ROUNDS):
        gain = leads_over(flipped - clean, source)
        change = spend(a, budget, np.where(gain > 0.0, gain / a.costs[:, None], -np.inf))
        if change in tried:
            break
        tried.append(change)
        flipped = _hinge_losses(training_scores(problem, trained(problem, problem.relabelled(change))))[a.labels]
    return max(tried, key=lambda change: worth(question, change))


def biggio(problem: Problem, budget: int, rng: np.random.Generator) -> Relabelling:
    """Flip labels that matter little to the clean model and that a random model would have otherwise.

    First come labels whose clean dual variable is small, whose dual variable under the random model is large, and that
    lie on the wrong side of it. That is repeated with several random models, and with several weights of what they
    say. The original draws random hyperplanes in the feature space; a kernel has none, so that a random model is one
    trained on permuted labels. The original keeps the attack with the largest error on its training points; here it is
    the one that changes the most test predictions. With more than two classes, dual variables add up over all models.
    """
    a, source = problem.adversary, sources(problem)
    question = ask(problem)
    clean = _weights(trained(problem, problem.codes), problem)
    best, most = NOTHING, worth(question, NOTHING)
    for _ in range(REPETITIONS):
        duals = trained(problem, rng.permutation(problem.codes))
        margins = leads_over(training_scores(problem, duals)[a.labels], source)
        by_random = _weights(duals, problem)[:, None] - margins / max(float(np.abs(margins).max(initial=0.0)), 1e-300)
        for weight in RANDOM_WEIGHTS:
            change = spend(a, budget, weight * by_random - clean[:, None])
            found = worth(question, change)
            if found > most:
                best, most = change, found
    return best


def _hinge_losses(scores: Float) -> Float:
    """(m, K) the loss of each point if its label were some class, added over the models of all classes."""
    inside, outside = np.maximum(0.0, 1.0 - scores), np.maximum(0.0, 1.0 + scores)
    return np.asarray(inside - outside + outside.sum(axis=1, keepdims=True))


def _weights(duals: Float, problem: Problem) -> Float:
    """(ν,) dual variables of the labels that may change, added over all models, as shares of the largest one."""
    sizes = np.abs(duals).sum(axis=0)[: problem.m]
    return np.asarray(sizes[problem.adversary.labels] / max(float(sizes.max()), 1e-300))
