"""Good attacks on all nodes at once where scores are linear: step by step, the move that changes the most."""

from __future__ import annotations

import itertools

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.engines.base import Question
from labelcert.engines.stepwise import by_merit, grow, highest
from labelcert.problem import NOTHING, Relabelling
from labelcert.problem.problem import signs_of
from labelcert.stopping import is_over

GREEDY_UPDATES = 2e8
"""Score updates spent on finding attacks: nodes, times labels, times pairs of classes, times steps."""

GREEDY_CELLS = 4e6
"""Nodes times labels beyond which single steps would need too much memory."""


def greedy_changes(question: Question, start: Relabelling = NOTHING) -> list[Relabelling]:
    """From ``start``, step by step the move that changes most nodes (then lowers the most margins); all steps.

    There is none once the run is over.
    """
    problem, a = question.problem, question.problem.adversary
    K, n = problem.n_classes, question.nodes.size
    source = problem.codes[a.labels]
    if float(n) * a.labels.size > GREEDY_CELLS:
        return []
    rows = question.predictor.scorer.rows[question.nodes].T
    codes = problem.relabelled(start)
    p = np.array([signs_of(codes, c) @ rows for c in range(K)])

    def merit(change: Relabelling, may: Bool) -> Float:
        """In which order moves are: most nodes changed, then the smallest margins left."""
        changed, pull = np.full(may.shape, -1), np.full(may.shape, -np.inf)
        for s, k in np.argwhere(~np.eye(K, dtype=bool)).tolist():
            options = np.flatnonzero(may[:, k] & (source == s))
            margin = _margins_after(question.predicted, p, 2.0 * rows[a.labels[options]], s, k)
            changed[options, k] = (margin < 0).sum(axis=1)
            pull[options, k] = -np.clip(margin, 0, None).sum(axis=1)
        place = np.empty(may.size)
        place[np.lexsort((-pull.ravel(), -changed.ravel()))] = np.arange(may.size)
        return -place.reshape(may.shape)

    def choose(change: Relabelling, merit: Float) -> tuple[int, int]:
        i, k = highest(change, merit)
        p[source[i]] -= 2.0 * rows[a.labels[i]]
        p[k] += 2.0 * rows[a.labels[i]]
        return i, k

    steps = int(min(a.most_flips(question.budget), GREEDY_UPDATES / max(1, n * K * K * a.labels.size)))
    growing = itertools.islice(grow(by_merit(a, question.budget, merit, choose), start), steps)
    return list(itertools.takewhile(lambda _: not is_over(), growing))


def _margins_after(predicted: Int, p: Float, steps: Float, s: int, k: int) -> Float:
    """(options, n) margins that are left after each of some labels moves from class ``s`` to ``k``.

    Parameters
    ----------
    predicted : (n,) array
    p : (K, n) array
        Scores now.
    steps : (options, n) array
        What each label takes off the scores of ``s`` and adds to those of ``k``.
    """
    columns = np.arange(predicted.size)
    rivals = p.copy()
    rivals[predicted, columns] = -np.inf
    rivals[[s, k]] = -np.inf
    third = rivals.max(axis=0)
    left, joined = p[s] - steps, p[k] + steps
    own = np.where(predicted == s, left, np.where(predicted == k, joined, p[predicted, columns]))
    high = np.maximum(np.where(predicted == s, -np.inf, left), np.where(predicted == k, -np.inf, joined))
    return np.asarray(own - np.maximum(high, third))
