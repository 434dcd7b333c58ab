"""Good attacks on all nodes at once where scores are linear: step by step, the move that changes the most."""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.engines.base import Question
from labelcert.problem import NOTHING, Relabelling
from labelcert.problem.problem import signs_of

GREEDY_UPDATES = 2e8
"""Score updates spent on finding attacks: nodes, times labels, times pairs of classes, times steps."""

GREEDY_CELLS = 4e6
"""Nodes times labels beyond which single steps would need too much memory."""


def greedy_changes(question: Question, start: Relabelling = NOTHING) -> list[Relabelling]:
    """From ``start``, step by step the move that changes most nodes (then lowers the most margins); all steps."""
    problem, a = question.problem, question.problem.adversary
    K, n = problem.n_classes, question.nodes.size
    source = problem.codes[a.labels]
    if float(n) * a.labels.size > GREEDY_CELLS:
        return []
    rows = question.predictor.scorer.rows[question.nodes].T
    codes = problem.relabelled(start)
    p = np.array([signs_of(codes, c) @ rows for c in range(K)])
    change, changes = start, []
    steps = int(min(a.most_flips(question.budget), GREEDY_UPDATES / max(1, n * K * K * a.labels.size)))
    for _ in range(steps):
        affordable = a.affordable(question.budget - a.cost(change), change.positions)
        best: tuple[int, float, int, int] | None = None
        for s, k in zip(*np.nonzero(~np.eye(K, dtype=bool)), strict=True):
            options = np.flatnonzero(affordable & (source == s) & a.targets[:, k])
            if options.size:
                offer = _best_move(question.predicted, p, 2.0 * rows[a.labels[options]], int(s), int(k))
                offered = (*offer[:2], -int(options[offer[2]]), -int(k))
                best = offered if best is None else max(best, offered)
        if best is None:
            break
        i, k = -best[2], -best[3]
        p[source[i]] -= 2.0 * rows[a.labels[i]]
        p[k] += 2.0 * rows[a.labels[i]]
        change = change.plus(i, k)
        changes.append(change)
    return changes


def _best_move(predicted: Int, p: Float, steps: Float, s: int, k: int) -> tuple[int, float, int]:
    """Among labels that move from class ``s`` to ``k``: nodes changed, minus the margins left, and which label it is.

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
    margin = own - np.maximum(high, third)
    changed = (margin < 0).sum(axis=1)
    pull = -np.clip(margin, 0, None).sum(axis=1)
    pick = int(np.lexsort((-pull, -changed))[0])
    return int(changed[pick]), float(pull[pick]), pick
