"""A model whose scores are linear in the labels, with labels that may lie between classes."""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.attacks.shared import sources
from labelcert.engines.base import Question
from labelcert.problem import Relabelling


class LinearModel:
    """Stands in for the attacked model: scores are ``maps @ one-hot(labels)``.

    A *move* is how much of a label goes to another class: (ν, K) arrays hold one for every label that may change and
    every class, between 0 and 1.

    Parameters
    ----------
    question : Question
        Its clean predictions are those that should change.
    maps : (n, m) array
        One row for each node of the question.
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
