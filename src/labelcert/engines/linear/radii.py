"""Radii where scores are linear in the labels: by sorting, exact and relaxed.

For predicted class c and rival r, a label takes a multiple of its kernel entry off the margin ``p_c - p_r``, whatever
happens to other labels. (In units of two entries: a label of c that becomes r takes off 2, one that becomes a third
class 1; a label of neither that becomes r takes off 1; the opposite moves put as much on.) So the best move of each
label is known, and the cheapest attack takes the labels whose best moves gain the most. With two classes there is one
rival, and the margin in these units is the score itself.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from labelcert.arrays import Bool, Float, Int, Signs
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.engines.linear.spending import Spending, bytes_per_node, first_row
from labelcert.problem import Problem, Relabelling
from labelcert.svm.pivoting import UNIT_ROUNDOFF

_BLOCK_BYTES = 64e6


class Moves(NamedTuple):
    """The best moves of each flippable label against the margin between two classes.

    Attributes
    ----------
    most, least : (ν,) arrays
        Largest and smallest multiple of its kernel entry that a label can take off; 0 where no move helps.
    most_target, least_target : (ν,) arrays
        The classes to become for that.
    """

    most: Signs
    least: Signs
    most_target: Int
    least_target: Int

    def change(self, positions: Int, positive: Bool) -> Relabelling:
        """The relabelling that makes the best moves of some labels, by the signs of their kernel entries."""
        return Relabelling(positions, np.where(positive, self.most_target[positions], self.least_target[positions]))


def moves(problem: Problem, c: int, r: int) -> Moves:
    """For predicted class ``c`` and rival ``r``."""
    a = problem.adversary
    source = problem.codes[a.labels]
    leave = (source == c).astype(np.int8) - (source == r).astype(np.int8)
    factors = np.stack([leave - np.int8(k == c) + np.int8(k == r) for k in range(problem.n_classes)])
    factors[~a.targets.T] = 0
    up, down = np.maximum(factors, 0), np.minimum(factors, 0)
    return Moves(up.max(axis=0), down.min(axis=0), up.argmax(axis=0), down.argmin(axis=0))


class Radii(NamedTuple):
    """Radii of the n nodes of a question as intervals, equal but for near-ties beyond exact arithmetic.

    Attributes
    ----------
    lower, upper : (n,) arrays
    changes : list of n relabellings or None
        They realise ``upper``.
    """

    lower: Int
    upper: Int
    changes: list[Relabelling | None]


def linear_radii(question: Question, control: Control) -> Radii:
    """All radii: against every rival, the least budget whose best purchase takes the margin to zero.

    Of nodes that are not reached in time, no more is said than that the model predicts what it predicts.
    """
    a, budget = question.problem.adversary, question.budget
    n = question.nodes.size
    radii = Radii(np.full(n, budget + 1, dtype=np.int64), np.full(n, a.never, dtype=np.int64), [None] * n)
    errors = margin_errors(question)
    segments = question.segments
    block = max(1, int(_BLOCK_BYTES / bytes_per_node(a, budget)))

    def work(task: tuple[int, Int]) -> None:
        c, columns = task
        if control.over():
            radii.lower[columns] = np.where(question.contrary[columns], 0, 1)
            return
        for r in range(segments.size - 1):
            if r != c:
                _against(question, c, r, columns, errors, radii)

    tasks = [
        (c, np.arange(start, min(start + block, segments[c + 1])))
        for c in range(segments.size - 1)
        for start in range(segments[c], segments[c + 1], block)
    ]
    if control.workers == 1 or len(tasks) == 1:
        for task in tasks:
            work(task)
    else:
        with ThreadPoolExecutor(control.workers) as pool:
            list(pool.map(work, tasks))
    return radii


def _against(question: Question, c: int, r: int, columns: Int, errors: Float, radii: Radii) -> None:
    """Enter what rival ``r`` can do to some nodes predicted as ``c``."""
    problem, a = question.problem, question.problem.adversary
    rows = question.predictor.scorer.rows[question.nodes[columns]]
    best = moves(problem, c, r)
    side = (problem.codes == c).astype(np.int64) - (problem.codes == r)
    entries = rows if a.labels.size == problem.m else rows[:, a.labels]
    # No multiple of ``most`` is below zero, none of ``least`` above: the larger product is that of the entry's sign.
    spending = Spending(np.maximum(best.most * entries, best.least * entries).T, a, question.budget)
    left = (rows @ side.astype(np.float64))[None, :] - spending.best
    exact = errors[columns] == 0
    sure = first_row((left < -errors[None, columns]) | ((left == 0) & exact[None, :]))
    maybe = first_row(~(left > errors[None, columns]))
    for k, t in enumerate(columns.tolist()):
        low = spending.cost(int(maybe[k]), k)
        if low >= radii.upper[t]:
            continue
        positive: Bool = entries[k] > 0
        cost, flips = spending.attack(int(sure[k]), k)
        if sure[k] != maybe[k]:
            decided = _exact_attack(question, t, side, best)
            if decided is not None:
                cost, flips, positive = decided
                low = cost
        radii.lower[t] = min(radii.lower[t], low)
        if flips is not None and cost < radii.upper[t]:
            radii.upper[t], radii.changes[t] = cost, best.change(flips, positive[flips])


def _exact_attack(question: Question, t: int, side: Int, best: Moves) -> tuple[int, Int | None, Bool] | None:
    """The cheapest attack on node ``t`` with exact numbers; None where the problem is too large for that.

    Also which of the flippable labels have a positive entry.
    """
    scorer = question.predictor.scorer
    row = scorer.exact_weights(int(question.nodes[t]))
    if row is None:
        return None
    a = question.problem.adversary
    entries = [row[i] for i in a.labels]
    gains = [
        int(up) * v if v > 0 else int(down) * v for v, up, down in zip(entries, best.most, best.least, strict=True)
    ]
    spending = Spending(np.array(gains, dtype=object)[:, None], a, question.budget)
    margin = sum(int(s) * v for s, v in zip(side, row, strict=True) if s)
    first = first_row(margin - spending.best <= 0)
    return *spending.attack(int(first[0]), 0), np.array([v > 0 for v in entries], dtype=bool)


def relaxed_radii(question: Question) -> Int:
    """Lower bounds on radii from the extreme scores of each class alone."""
    problem, budget, n = question.problem, question.budget, question.nodes.size
    errors = margin_errors(question)
    rows = question.predictor.scorer.rows[question.nodes].T
    predicted = question.predicted
    down, up = np.empty((budget + 1, n)), np.full((budget + 1, n), -np.inf)
    for c in range(problem.n_classes):
        part = problem.one_vs_rest(c)
        signed = part.y[:, None] * rows
        own = predicted == c
        clean = signed.sum(axis=0) / 2
        gains = signed[part.adversary.labels]
        down[:, own] = (clean[None, :] - Spending(gains, part.adversary, budget).by_budget())[:, own]
        most = clean[None, :] + Spending(-gains, part.adversary, budget).by_budget()
        up[:, ~own] = np.maximum(up, most)[:, ~own]
    robust = down - up > errors[None, :]
    robust[0] = ~question.contrary  # the clean predictions are decided
    return np.minimum(budget + 1, first_row(~robust))


def margin_errors(question: Question) -> Float:
    """(n,) bounds on the errors of margins, of sums of gains and of their differences, in units of two entries.

    Between any two labellings ``±1``, the difference of their products with a row that is off by ε is off by at most
    ``2 ε √m``, which is ``ε √m`` in these units.
    """
    scorer = question.predictor.scorer
    m = question.problem.m
    rounding = np.where(scorer.exact_sums[question.nodes], 0.0, 64.0 * UNIT_ROUNDOFF * (m + 4) * np.sqrt(m))
    return np.asarray(1.01 * (rounding + scorer.row_errors[question.nodes] * np.sqrt(m)))
