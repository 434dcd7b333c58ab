"""The worst values of metrics that wrong labels can bring about, from how many nodes of each kind they change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.certificate.metric import CountedMetric
from labelcert.certificate.worst_case import WorstValues
from labelcert.engines.base import Question
from labelcert.engines.observing import Counted
from labelcert.prediction import OPEN
from labelcert.problem import NOTHING, Relabelling

MOST_GROUPS = 4
"""Up to so many groups, walks leave out relabellings that are no worse than others."""

EFFORT = 2000
"""Relabellings that are looked at node by node, because it is open what they change, or into what."""


def with_metrics(question: Question, metrics: Sequence[CountedMetric]) -> Question:
    """The question with a counter of the metrics; its nodes are ordered by prediction, then by what metrics count."""
    if not metrics:
        return question
    nodes = question.nodes
    keys = [key[nodes] for asked in metrics for key in (asked.target, asked.cell)]
    ordered = replace(question, nodes=nodes[np.lexsort((*keys, question.predicted))])
    return replace(ordered, counting=WorstMetrics(ordered, metrics))


@dataclass(frozen=True, eq=False)
class _Hits:
    """How a metric's numbers of hits follow from numbers of nodes that change: affine, for the n nodes of a question.

    - ``low``, ``high`` (2 G,): hits with the clean labels; between them where nodes have no prediction.
    - ``low_by``, ``high_by`` (2 J, 2 G): what each node of a kind adds that changes (J rows), or that is open (J rows).
    """

    low: Float
    high: Float
    low_by: Float
    high_by: Float

    @classmethod
    def of(cls, question: Question, asked: CountedMetric, first: Int) -> _Hits:
        """``first``: one node of each kind."""
        nodes, K, cells = question.nodes, asked.n_classes, 2 * asked.n_groups
        can = (asked.target >= 0) & (asked.target < K)
        counted = asked.cell >= 0
        hit = counted[nodes] & (question.predicted == asked.target[nodes])
        clean = np.bincount(asked.cell[nodes][hit], minlength=cells).astype(np.float64)
        nobody = np.setdiff1d(np.flatnonzero(counted & can), nodes)
        high = clean + np.bincount(asked.cell[nobody], minlength=cells)
        J = first.size
        low_by, high_by = np.zeros((2 * J, cells)), np.zeros((2 * J, cells))
        for j, k in enumerate(first.tolist()):
            t, cell = nodes[k], asked.cell[nodes[k]]
            if cell < 0:
                continue
            if question.predicted[k] == asked.target[t]:
                low_by[[j, J + j], cell] = -1.0
                high_by[j, cell] = -1.0
            elif can[t]:
                high_by[[j, J + j], cell] = 1.0
                low_by[j, cell] = float(K == 2)
        return cls(clean, high, low_by, high_by)

    def forms(self, asked: CountedMetric) -> Int:
        """(·, J) sums of counts that decide how bad a value is, where each node that changes adds its share; or none.

        A gap is the larger one of two differences of shares, in units of one over both sizes.
        """
        J, G = len(self.low_by) // 2, asked.n_groups
        side = {"accuracy": 0, "recall": 0, "false_positive_rate": 1}.get(asked.name)
        if asked.n_classes > 2 or side is None or G > MOST_GROUPS:
            return np.zeros((0, J), dtype=np.int64)
        gains = self.low_by[:J, side::2].T.astype(np.int64)
        if G == 1:
            return gains if asked.highest else -gains
        size = asked.sizes[:, side]
        pairs = [(g, h) for g in range(G) for h in range(G) if g != h]
        return np.array([size[h] * gains[g] - size[g] * gains[h] for g, h in pairs])


class _Worst:
    """What is known about one metric: for each exact cost, values times ``sign``, so that the lowest is the worst."""

    def __init__(self, asked: CountedMetric, budgets: int) -> None:
        self.asked, self.sign = asked, -1.0 if asked.highest else 1.0
        self.reached, self.left = np.full(budgets, np.inf), np.full(budgets, np.inf)
        self.changes: list[Relabelling] = [NOTHING] * budgets

    def ends(self, low: Int, high: Int) -> tuple[Float, Float]:
        """(S,) worst and best values for numbers of hits between these, times ``sign``."""
        worst, best = self.asked.ends(low, high)
        return self.sign * worst, self.sign * best

    def enter(self, cost: int, value: float, change: Relabelling) -> None:
        """Take over an attack that comes to a value at least as bad as this, if that is worse than all others."""
        if value < self.reached[cost]:
            self.reached[cost], self.changes[cost] = value, change


class WorstMetrics:
    """The counter of worst values.

    - ``question``: of n nodes and budgets 0..B, ordered by :func:`with_metrics`.
    - ``reach``: all relabellings that cost less were counted.
    """

    def __init__(self, question: Question, metrics: Sequence[CountedMetric]) -> None:
        self._question = question
        nodes = question.nodes
        keys = np.array([question.predicted, *(k[nodes] for a in metrics for k in (a.target, a.cell))])
        new = np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1
        self.kinds: Int = np.unique(np.concatenate([[0], new, [nodes.size]])).astype(np.int64)
        first = self.kinds[:-1]
        self._hits = [_Hits.of(question, asked, first) for asked in metrics]
        forms = [hits.forms(asked) for hits, asked in zip(self._hits, metrics, strict=True)]
        J = first.size
        self.forms: Int = np.concatenate(forms) if all(map(len, forms)) else np.zeros((0, J), dtype=np.int64)
        self._worst = [_Worst(asked, question.budget + 1) for asked in metrics]
        self._unsure = bool((question.predictor.predicted == OPEN).any())
        self._effort = EFFORT
        # From here on a class may have no labels, and another model predicts.
        a, problem = question.problem.adversary, question.problem
        self._limit = min([a.cost(change) for change in problem.emptied.values()], default=a.never)
        self.reach = 0

    def count(self, counted: Counted) -> None:
        """Take note of a batch."""
        if self._limit <= counted.cost.max(initial=0):
            counted = _cheaper(counted, self._limit)
        both = np.concatenate([counted.changed, counted.open], axis=1).astype(np.float64)
        for worst, hits in zip(self._worst, self._hits, strict=True):
            low = hits.low + both @ hits.low_by
            spread = hits.high - hits.low + both @ (hits.high_by - hits.low_by)
            known = (spread == hits.high - hits.low).all(axis=1) & (not self._unsure)
            value, best = worst.ends(low.astype(np.int64), (low + spread).astype(np.int64))
            self._enter(worst, counted, value, np.where(known, value, best))
            self._look_closer(worst, counted, np.flatnonzero(~known), value)

    def visited(self, cost: int) -> None:
        """All relabellings that cost less were counted."""
        self.reach = max(self.reach, min(cost, self._limit))

    def _enter(self, worst: _Worst, counted: Counted, value: Float, best: Float) -> None:
        """Keep the worst of each cost."""
        least = np.full(worst.reached.size, np.inf)
        np.minimum.at(least, counted.cost, best)
        for cost in np.flatnonzero(least < worst.reached).tolist():
            s = int(np.flatnonzero((counted.cost == cost) & (best == least[cost]))[0])
            worst.enter(cost, float(least[cost]), counted.change(s))

    def _look_closer(self, worst: _Worst, counted: Counted, rows: Int, value: Float) -> None:
        """Ask the predictor about relabellings that may be worse than all that are known."""
        for s in rows[np.argsort(value[rows], kind="stable")].tolist():
            cost = int(counted.cost[s])
            if value[s] >= worst.reached[: cost + 1].min():
                continue
            lowest = float(value[s])
            if self._effort > 0:
                self._effort -= 1
                change = counted.change(s)
                lowest, reached = self._of(worst, change, self._question)
                worst.enter(cost, reached, change)
            worst.left[cost] = min(worst.left[cost], lowest)

    def _of(self, worst: _Worst, change: Relabelling, question: Question) -> tuple[float, float]:
        """Both ends of the value under one relabelling, node by node."""
        asked, nodes = worst.asked, question.nodes
        sure, maybe = question.predictor.leading(question.problem.relabelled(change), nodes)
        can = (asked.target >= 0) & (asked.target < asked.n_classes)
        some, all_ = np.zeros(asked.truth.size, dtype=bool), np.zeros(asked.truth.size, dtype=bool)
        some[nodes] = can[nodes] & maybe[np.where(can, asked.target, 0)[nodes], np.arange(nodes.size)]
        all_[nodes] = some[nodes] & (maybe.sum(axis=0) == 1)
        nobody = np.setdiff1d(np.flatnonzero(can), nodes)
        some[nobody] = True
        cells = 2 * asked.n_groups
        low, high = (_cells(asked, hit, cells) for hit in (all_, some))
        value, best = (float(end[0]) for end in worst.ends(low, high))
        decided = not self._unsure and bool((sure == maybe).all())
        return value, value if decided else best

    def found(self, checker: Question) -> list[tuple[WorstValues, list[Relabelling]]]:
        """Worst values of each metric and the distinct attacks, which ``checker`` has trained on again."""
        return [self._found(worst, checker) for worst in self._worst]

    def _found(self, worst: _Worst, checker: Question) -> tuple[WorstValues, list[Relabelling]]:
        budgets, a = worst.reached.size, self._question.problem.adversary
        proved = np.minimum.accumulate(np.minimum(worst.reached, worst.left))
        proved[self.reach :] = -np.inf
        reached, attack_of, changes = np.full(budgets, np.inf), np.zeros(budgets, dtype=np.int64), list[Relabelling]()
        for cost in np.flatnonzero(np.isfinite(worst.reached)).tolist():
            change = worst.changes[cost]
            if not worst.reached[cost] < reached[cost] or not a.admits(change, cost):
                continue
            value = self._of(worst, change, checker)[1]
            better = (np.arange(budgets) >= cost) & (value < reached)
            reached[better], attack_of[better] = value, len(changes)
            changes.append(change)
        return WorstValues(worst.sign * proved, worst.sign * reached, attack_of), changes


def _cheaper(counted: Counted, limit: int) -> Counted:
    """Those that cost less."""
    rows = np.flatnonzero(counted.cost < limit)
    return Counted(counted.cost[rows], counted.changed[rows], counted.open[rows], lambda s: counted.change(rows[s]))


def _cells(asked: CountedMetric, hit: Bool, cells: int) -> Int:
    """(1, 2 G) numbers of hits."""
    own = asked.cell[hit & (asked.cell >= 0)]
    return np.bincount(own, minlength=cells)[None, :]
