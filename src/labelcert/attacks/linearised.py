"""Attacks through a model whose scores are linear in the labels: it has a gradient, and nothing is retrained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.special

from labelcert.arrays import Bool, Float, Int
from labelcert.attacks.shared import ask, last, sources, spend
from labelcert.engines.base import Question
from labelcert.engines.linear.greedy import greedy_changes
from labelcert.engines.stepwise import by_merit, grow
from labelcert.losses import LINEAR
from labelcert.prediction import predictor_for
from labelcert.prediction.scoring import ridge_rows, unit_rows
from labelcert.problem import NOTHING, Adversary, Problem, Relabelling

STEPS = 40
"""Steps of gradient ascent."""

STEP = 0.25
"""The largest change of a move in one step."""

TEMPERATURE = 0.5
"""How far sampled labels are from whole ones."""


class LinearModel:
    """Stands in for the attacked model: scores are ``maps @ one-hot(labels)``, for (n, m) maps of the question's nodes.

    A *move* is how much of a label goes to another class: (ν, K) arrays hold one for every label that may change and
    every class, between 0 and 1. The question's clean predictions are those that should change.
    """

    def __init__(self, question: Question, maps: Float) -> None:
        problem = question.problem
        self._labels, self._source = problem.adversary.labels, sources(problem)
        self._maps, self._own = maps, question.predicted
        self._clean = maps @ np.eye(problem.n_classes)[problem.codes]
        self._shape = problem.adversary.targets.shape
        typical = float(np.abs(self._rivalry(self._clean)[0]).mean()) if self._own.size else 0.0
        self._unit = typical if typical > 0.0 else 1.0

    def leads(self, moves: Float) -> Float:
        """(n,) score of the predicted class minus that of its strongest rival, in units of the typical clean lead."""
        return self._rivalry(self._scores(moves))[0] / self._unit

    def gradient(self, moves: Float) -> Float:
        """(ν, K) by how much ``Σ −tanh(lead)`` rises with each move: nearly the number of changed predictions."""
        leads, rival = self._rivalry(self._scores(moves))
        weight, rows = (1.0 - np.tanh(leads / self._unit) ** 2) / self._unit, np.arange(self._own.size)
        pull = np.zeros_like(self._clean)
        pull[rows, rival] += weight
        pull[rows, self._own] -= weight
        by_class = self._maps[:, self._labels].T @ pull
        return np.asarray(by_class - by_class[np.arange(self._source.size), self._source][:, None])

    def worth(self, change: Relabelling) -> tuple[int, float]:
        """How many predictions a relabelling changes, and ``Σ −tanh(lead)``."""
        leads = self.leads(self.moves(change))
        return int(np.sum(leads <= 0.0)), -float(np.tanh(leads).sum())

    def moves(self, change: Relabelling) -> Float:
        """A relabelling as moves."""
        moves = np.zeros(self._shape)
        moves[change.positions, change.targets] = 1.0
        return moves

    def _scores(self, moves: Float) -> Float:
        """(n, K): what a label gives to other classes, its own one loses."""
        difference = moves.copy()
        difference[np.arange(self._source.size), self._source] -= moves.sum(axis=1)
        return np.asarray(self._clean + self._maps[:, self._labels] @ difference)

    def _rivalry(self, scores: Float) -> tuple[Float, Int]:
        """(n,) leads of the predicted classes, and their strongest rivals."""
        rows = np.arange(self._own.size)
        rivals = scores.copy()
        rivals[rows, self._own] = -np.inf
        rival = rivals.argmax(axis=1)
        return scores[rows, self._own] - scores[rows, rival], rival


def ridge_gradient(problem: Problem, budget: int, rng: np.random.Generator) -> Relabelling:
    """Let labels lie between classes, ascend the loss of kernel ridge regression, and round.

    The kernel stays, and kernel ridge regression with ``λ = 1/(2C)`` stands in for the attacked model, as the
    original lets regression with a neural tangent kernel stand in for a graph network. Projected gradient ascent on a
    loss ``−tanh`` of the test leads takes the place of the original's solver. For one node and two classes, that is
    sorting.
    """
    question = ask(problem)
    model, a = LinearModel(question, _ridge_maps(question)), problem.adversary
    moves = np.zeros(a.targets.shape)
    for _ in range(STEPS):
        moves = _projected(moves + STEP * _direction(model.gradient(moves), a), a, budget)
    rest = _direction(model.gradient(moves), a)
    return spend(a, budget, np.where((moves > 1e-3) | (rest > 0.0), moves + 1e-6 * rest, -np.inf))


def lafak(problem: Problem, budget: int, rng: np.random.Generator) -> Relabelling:
    """Flip one label after the other: the one with the largest gradient of a smooth loss, at the labels so far.

    The original linearises a graph network, solves it in closed form under the square loss, and replaces counting by a
    tanh; that is kernel ridge regression here, and the tanh stays. The original samples labels near whole ones and
    attacks two classes at a time; here whole labels are flipped one by one, among all classes.
    """
    question = ask(problem)
    return _by_gradient(LinearModel(question, _ridge_maps(question)), problem.adversary, budget)


def label_propagation(problem: Problem, budget: int, rng: np.random.Generator) -> Relabelling:
    """Attack label propagation along the kernel, greedily and by sampling, and keep the better attack.

    The kernel with rows of sum 1 (of absolute values) takes the place of the graph. It has no edges between test nodes,
    so that propagation takes a single step. The greedy solver flips the label that changes the most predictions. The
    probabilistic one ascends an expected loss over the probabilities of flips, sampled through a relaxation, and flips
    what is most probable. Both are the original's; the loss is ``−tanh`` of the test leads for all classes.
    """
    question = ask(problem)
    rows = problem.K_test[question.nodes]
    totals = np.abs(rows).sum(axis=1, keepdims=True)
    maps = rows / np.where(totals > 0.0, totals, 1.0)
    model = LinearModel(question, maps)
    steps = greedy_changes(linear_question(question, maps, budget))
    options = [NOTHING, *steps, _by_sampling(model, problem.adversary, budget, rng)]
    return max(options, key=model.worth)


def linear_question(question: Question, maps: Float, budget: int) -> Question:
    """The same predictions, asked about a model with given maps, within a budget."""
    problem = replace(question.problem, loss=LINEAR, K_test=maps, max_flips=budget)
    return Question.ask(predictor_for(problem, linear=True).with_predictions(question.predicted))


def _ridge_maps(question: Question) -> Float:
    """(n, m) what multiplies the labels in kernel ridge regression without an intercept."""
    rows, scale = unit_rows(question.problem.K_test[question.nodes])
    return np.asarray(ridge_rows(replace(question.problem, loss="square"), rows)[0] * scale[:, None])


def _by_gradient(model: LinearModel, a: Adversary, budget: int) -> Relabelling:
    """Change by change, as long as the gradient promises anything."""

    def merit(change: Relabelling, may: Bool) -> Float:
        gain = model.gradient(model.moves(change)) / a.costs[:, None]
        return np.where(gain > 0.0, gain, -np.inf)

    return last(grow(by_merit(a, budget, merit)))


def _by_sampling(model: LinearModel, a: Adversary, budget: int, rng: np.random.Generator) -> Relabelling:
    """Ascend over the log-odds of flips."""
    odds = np.where(a.targets, 0.0, -np.inf)
    for _ in range(STEPS):
        odds = _shifted(odds, a, budget)
        sample = scipy.special.expit((odds + rng.logistic(size=odds.shape)) / TEMPERATURE)
        gradient = model.gradient(_single(sample)) * sample * (1.0 - sample)
        odds = np.where(a.targets, np.clip(odds + 4.0 * STEP * _direction(gradient, a), -50.0, 50.0), -np.inf)
    return spend(a, budget, odds)


def _shifted(odds: Float, a: Adversary, budget: int) -> Float:
    """Log-odds that the budget pays for on average."""
    return odds - _multiplier(lambda x: _cost(scipy.special.expit(odds - x), a), budget)


def _direction(gradient: Float, a: Adversary) -> Float:
    """The gradient of what may change, so that its largest entry is 1."""
    allowed = np.where(a.targets, gradient, 0.0)
    largest = float(np.abs(allowed).max(initial=0.0))
    return allowed / largest if largest > 0.0 else allowed


def _projected(moves: Float, a: Adversary, budget: int) -> Float:
    """The moves that the budget pays for, near to these; group budgets wait until rounding."""
    costs = a.costs[:, None].astype(np.float64)
    x = _multiplier(lambda x: _cost(np.clip(moves - x * costs, 0.0, 1.0), a), budget)
    return _single(np.clip(moves - x * costs, 0.0, 1.0))


def _single(moves: Float) -> Float:
    """Moves of labels that give away no more than themselves."""
    return np.asarray(moves / np.maximum(1.0, moves.sum(axis=1, keepdims=True)))


def _cost(moves: Float, a: Adversary) -> float:
    return float((moves.sum(axis=1) * a.costs).sum())


def _multiplier(cost: Callable[[float], float], budget: int) -> float:
    """The smallest non-negative number at which a falling cost is within the budget."""
    if cost(0.0) <= budget:
        return 0.0
    low, high = 0.0, 1.0
    while cost(high) > budget and high < 1e6:
        low, high = high, 2.0 * high
    for _ in range(25):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cost(middle) > budget else (low, middle)
    return high
