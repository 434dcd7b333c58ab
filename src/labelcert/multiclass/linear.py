"""Scores that are linear in the labels: radii by sorting, exact and relaxed.

For predicted class c and rival r, a label takes a multiple of its kernel entry off the margin ``p_c - p_r``, whatever
happens to other labels. (In units of two entries: a label of c that becomes r takes off 2, one that becomes a third
class 1; a label of neither that becomes r takes off 1; the opposite moves put as much on.) So the best move of each
label is known, and the cheapest attack takes the labels whose best moves gain the most.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from labelcert.engines.closed_form import Spending, first_row
from labelcert.multiclass.panel import Panel
from labelcert.multiclass.question import NOTHING, Question, Relabelling
from labelcert.svm.pivoting import UNIT_ROUNDOFF
from labelcert.svm.scoring import LinearScorer

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]

GREEDY_UPDATES = 2e8
"""Score updates spent on finding attacks beyond the exact part of the curve."""


class Moves(NamedTuple):
    """The best moves of each flippable label against the margin between two classes.

    Attributes
    ----------
    most, least : (ν,) arrays
        Largest and smallest multiple of its kernel entry that a label can take off; 0 where no move helps.
    most_target, least_target : (ν,) arrays
        The classes to become for that.
    """

    most: Int
    least: Int
    most_target: Int
    least_target: Int


def moves(panel: Panel, c: int, r: int) -> Moves:
    """For predicted class ``c`` and rival ``r``."""
    problem = panel.problem
    a = problem.adversary
    source = problem.codes[a.labels]
    K = problem.n_classes
    leave = np.where(source == c, 1, np.where(source == r, -1, 0))
    factors = np.array([leave - (1 if k == c else 0) + (1 if k == r else 0) for k in range(K)]).T
    up = np.where(a.targets, np.maximum(factors, 0), 0)
    down = np.where(a.targets, np.minimum(factors, 0), 0)
    return Moves(up.max(axis=1, initial=0), down.min(axis=1, initial=0), up.argmax(axis=1), down.argmin(axis=1))


def linear_radii(question: Question) -> tuple[Int, Int, list[Relabelling | None]]:
    """Radii as intervals (equal but for undecidable near-ties), and the relabellings that realise them."""
    panel = question.panel
    problem = panel.problem
    a, budget = problem.adversary, problem.max_flips
    n, K = question.nodes.size, problem.n_classes
    lower = np.full(n, budget + 1, dtype=np.int64)
    upper = np.full(n, a.never, dtype=np.int64)
    changes: list[Relabelling | None] = [None] * n
    errors = margin_errors(question)
    for c in range(K):
        columns = np.arange(question.segments[c], question.segments[c + 1])
        if columns.size == 0:
            continue
        rows = panel.scorer.rows[question.nodes[columns]].T
        for r in range(K):
            if r == c:
                continue
            best = moves(panel, c, r)
            side = (problem.codes == c).astype(np.int64) - (problem.codes == r)
            entries = rows[a.labels]
            gains = np.where(entries > 0, best.most[:, None] * entries, best.least[:, None] * entries)
            spending = Spending(gains, a, budget)
            left = (side[:, None] * rows).sum(axis=0)[None, :] - spending.best
            sure = first_row(left < -errors[None, columns])
            maybe = first_row(~(left > errors[None, columns]))
            for k, t in enumerate(columns):
                low = spending.attack(int(maybe[k]), k)[0]
                if low >= upper[t]:
                    continue
                cost, flips = spending.attack(int(sure[k]), k)
                own: Any = entries[:, k]
                if sure[k] != maybe[k]:
                    exact = _exact_attack(question, int(t), side, best)
                    if exact is not None:
                        cost, flips, own = exact
                        low = cost
                lower[t] = min(lower[t], low)
                if flips is not None and cost < upper[t]:
                    upper[t] = cost
                    targets = [best.most_target[i] if own[i] > 0 else best.least_target[i] for i in flips]
                    changes[t] = Relabelling(flips, np.array(targets, dtype=np.int64))
    return lower, upper, changes


def _exact_attack(question: Question, t: int, side: Int, best: Moves) -> tuple[int, Int | None, Any] | None:
    """The cheapest attack on node ``t`` with exact numbers; None where the problem is too large for that."""
    scorer = question.panel.scorer
    assert isinstance(scorer, LinearScorer)
    row = scorer.exact_row(int(question.nodes[t]))
    if row is None:
        return None
    problem = question.panel.problem
    a = problem.adversary
    entries = [row[i] for i in a.labels]
    gains = [
        int(up) * v if v > 0 else int(down) * v for v, up, down in zip(entries, best.most, best.least, strict=True)
    ]
    spending = Spending(np.array(gains, dtype=object)[:, None], a, problem.max_flips)
    margin = sum(int(s) * v for s, v in zip(side, row, strict=True) if s)
    first = first_row(margin - spending.best <= 0)
    return *spending.attack(int(first[0]), 0), entries


def relaxed_radii(question: Question) -> Int:
    """Lower bounds on radii from the extreme scores of each class alone."""
    panel = question.panel
    problem = panel.problem
    n, K, budget = question.nodes.size, problem.n_classes, problem.max_flips
    lower = np.full(n, budget + 1, dtype=np.int64)
    errors = margin_errors(question)
    rows = panel.scorer.rows[question.nodes].T
    predicted = question.predicted
    down, up = np.empty((budget + 1, n)), np.full((budget + 1, n), -np.inf)
    for c in range(K):
        part = problem.one_vs_rest(c)
        signed = part.y[:, None] * rows
        own = predicted == c
        clean = signed.sum(axis=0) / 2
        gains = signed[part.adversary.labels]
        down[:, own] = (clean[None, :] - _by_budget(Spending(gains, part.adversary, budget), budget))[:, own]
        most = clean[None, :] + _by_budget(Spending(-gains, part.adversary, budget), budget)
        up[:, ~own] = np.maximum(up, most)[:, ~own]
    robust = down - up > errors[None, :]
    robust[0] = True  # the clean predictions are decided
    return np.minimum(lower, first_row(~robust))


def _by_budget(spending: Spending, budget: int) -> Float:
    """(B + 1, n) largest gain for each budget."""
    steps = np.minimum(np.arange(budget + 1) // spending.unit, spending.best.shape[0] - 1)
    return np.asarray(spending.best[steps])


def margin_errors(question: Question) -> Float:
    """(n,) bounds on the errors of margins, of sums of gains and of their differences, in units of two entries."""
    scorer = question.panel.scorer
    assert isinstance(scorer, LinearScorer)
    m = question.panel.problem.m
    rounding = 64.0 * UNIT_ROUNDOFF * (m + 4) * np.sqrt(m)
    return np.asarray(1.01 * (rounding + 4.0 * scorer.row_errors[question.nodes] * np.sqrt(m)))


def greedy_changes(question: Question, start: Relabelling = NOTHING) -> list[Relabelling]:
    """From ``start``, step by step the move that changes most nodes (then lowers the most margins); all steps."""
    panel = question.panel
    problem = panel.problem
    a, K, n = problem.adversary, problem.n_classes, question.nodes.size
    rows = panel.scorer.rows[question.nodes].T
    p = np.array([panel.labels_of(problem.codes, c) @ rows for c in range(K)])
    predicted = question.predicted
    columns = np.arange(n)
    source = problem.codes[a.labels]
    left, group_left = problem.max_flips, a.group_caps.copy()
    open_ = np.ones(a.labels.size, dtype=bool)
    steps = int(min(a.most_flips(left), GREEDY_UPDATES / max(1, n * K * K * a.labels.size)))
    chosen: dict[int, int] = {}
    changes = []

    def move(i: int, new: int) -> None:
        p[source[i]] -= 2.0 * rows[a.labels[i]]
        p[new] += 2.0 * rows[a.labels[i]]
        open_[i] = False
        if a.groups[i] >= 0:
            group_left[a.groups[i]] -= a.costs[i]
        chosen[i] = new

    for i, k in zip(start.positions.tolist(), start.targets.tolist(), strict=True):
        move(i, k)
    left -= question.cost(start)
    for _ in range(steps):
        affordable = open_ & (a.costs <= left)
        grouped = a.groups >= 0
        affordable[grouped] &= a.costs[grouped] <= group_left[a.groups[grouped]]
        best: tuple[int, float, int, int] | None = None
        for i in np.flatnonzero(affordable):
            for k in np.flatnonzero(a.targets[i]):
                after = p.copy()
                after[source[i]] -= 2.0 * rows[a.labels[i]]
                after[k] += 2.0 * rows[a.labels[i]]
                own = after[predicted, columns]
                after[predicted, columns] = -np.inf
                margin = own - after.max(axis=0)
                offer = (int((margin < 0).sum()), -float(np.clip(margin, 0, None).sum()), int(i), int(k))
                if best is None or offer[:2] > best[:2]:
                    best = offer
        if best is None:
            break
        move(*best[2:])
        left -= int(a.costs[best[2]])
        order = sorted(chosen)
        changes.append(Relabelling(np.array(order, dtype=np.int64), np.array([chosen[j] for j in order])))
    return changes
