"""What all attacks share: the model that they attack, and how they spend a budget."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.engines.base import Question
from labelcert.engines.stepwise import by_merit, fixed, grow
from labelcert.prediction import predictor_for
from labelcert.problem import NOTHING, Adversary, Problem, Relabelling


def ask(problem: Problem) -> Question:
    """The test nodes that have a clean prediction, and the model that is retrained."""
    return Question.ask(predictor_for(problem, linear=problem.trained_with.always_linear))


def sources(problem: Problem) -> Int:
    """(ν,) the clean class of each label that the adversary may change."""
    return problem.codes[problem.adversary.labels]


def spend(adversary: Adversary, budget: int, merit: Float) -> Relabelling:
    """Make the best changes first, by (ν, K) merits, as long as the budgets pay for them; ``-inf``: never."""
    return last(grow(by_merit(adversary, budget, fixed(merit))))


def last(steps: Iterable[Relabelling]) -> Relabelling:
    """The last step of an attack that grows; the clean labels where there is none."""
    return [NOTHING, *steps][-1]


def worth(question: Question, change: Relabelling) -> tuple[int, float]:
    """How many predictions a relabelling changes in float64, and minus the lead that is left to the others."""
    problem = question.problem
    leads = question.predictor.margins(problem.relabelled(change), question.nodes)
    return int(np.sum(leads <= 0.0)), -float(np.maximum(leads, 0.0).sum())


def training_scores(problem: Problem, duals: Float) -> Float:
    """(m, K) scores of the labelled points by all classes, from (K, m) duals of :meth:`.Loss.train_classes`."""
    return np.asarray(problem.trained_with.rows(problem.K_train) @ duals.T)


def trained(problem: Problem, codes: Int) -> Float:
    """(K, m) what multiplies the rows after training on labels ``codes``, for each class."""
    return problem.trained_with.train_classes(problem.K_train, codes, problem.n_classes, problem.C)


def leads_over(scores: Float, source: Int) -> Float:
    """(ν, K) by how much the score of each label's own class exceeds that of every class."""
    return np.asarray(scores[np.arange(source.size), source][:, None] - scores)
