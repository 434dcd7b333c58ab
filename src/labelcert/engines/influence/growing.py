"""Upper ends of radii: attacks on all nodes at once, grown by influences that retraining refreshes.

At a model that was trained on an attack, the influence of every label on a node's margin says what each change is
worth, those that are made already included. The next attack takes the most valuable ones, as many as should be enough.
All nodes are attacked side by side, and every attack that is trained on is tried on all nodes.
"""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.engines.base import Attacks, Question
from labelcert.engines.control import Control
from labelcert.prediction.by_features import FeaturePredictor
from labelcert.problem import NOTHING, Relabelling

ROUNDS = 4
"""Rounds over all nodes without a time limit, after the first attack that works."""

FIRST_ROUNDS = 12
"""Rounds until every node has an attack."""


class Growing:
    """Attacks for one question.

    Attributes
    ----------
    trainings : int
    """

    def __init__(self, question: Question, attacks: Attacks, control: Control) -> None:
        assert isinstance(question.predictor, FeaturePredictor)
        self._question, self._predictor = question, question.predictor
        self._attacks, self._control = attacks, control
        n = question.nodes.size
        self.trainings = 0
        self._at: list[Relabelling] = [NOTHING] * n
        self._margin, self._rival = np.empty(n), np.zeros(n, dtype=np.int64)
        self._extra = np.full(n, 0.02)
        self._tired = np.zeros(n, dtype=np.int64)

    def first(self) -> None:
        """An attack on every node, if only a bad one."""
        n = self._question.nodes.size
        clean = self._predictor.judge([NOTHING], keep=True)
        nodes = self._question.nodes
        self._margin[:], self._rival[:] = clean.margins[nodes, 0], clean.rivals[nodes, 0]
        for _ in range(FIRST_ROUNDS):
            todo = np.flatnonzero(self._attacks.radius > self._question.budget)
            todo = todo[self._tired[todo] < FIRST_ROUNDS]
            if todo.size == 0:
                break
            self._round(todo)
        self._tired = np.zeros(n, dtype=np.int64)

    def improve(self, lower: Int) -> None:
        """Round by round, until the time is over or nothing gets better."""
        rounds = 0
        while not self._control.over() and (self._control.deadline is not None or rounds < ROUNDS):
            todo = np.flatnonzero((lower < self._attacks.radius) & (self._tired < 3))
            if todo.size == 0:
                return
            self._round(todo)
            rounds += 1

    def _round(self, todo: Int) -> None:
        """One more attack on each of some nodes."""
        size = max(1, min(self._predictor.batch_size(), 256))
        for start in range(0, todo.size, size):
            if self._control.over():
                return
            self._attack(todo[start : start + size])

    def _attack(self, nodes: Int) -> None:
        at = self._question.nodes[nodes]
        values = self._predictor.values(at, self._rival[nodes], [self._at[t] for t in nodes])
        changes = [self._chosen(t, values[b]) for b, t in enumerate(nodes.tolist())]
        known: dict[Relabelling, int] = {}
        for change in changes:
            known.setdefault(change, len(known))
        judged = self._predictor.judge(list(known), workers=self._control.workers)
        self.trainings += len(known)
        everyone = self._question.nodes
        for change, b in known.items():
            changed = judged.changed[everyone, b]
            cost = self._question.problem.adversary.cost(change)
            if cost <= self._question.budget and len(change):
                better = np.any(changed & (cost < self._attacks.radius)) or changed.sum() > self._attacks.curve[cost]
                if better:
                    self._predictor.keep(change, judged, b)
                    self._attacks.take(change, changed)
        for change, t in zip(changes, nodes.tolist(), strict=True):
            b, node = known[change], everyone[t]
            worked = bool(judged.changed[node, b])
            # One label less where it worked; more than foretold where it did not.
            self._extra[t] = 0.0 if worked else max(0.02, 1.6 * self._extra[t])
            same = change == self._at[t]
            self._tired[t] += 1 if same or (self._attacks.radius[t] < self._question.budget + 1 and not worked) else 0
            self._at[t], self._margin[t] = change, judged.margins[node, b]
            self._rival[t] = judged.rivals[node, b]

    def _chosen(self, t: int, values: Float) -> Relabelling:
        """The most valuable changes, as many as should change a node, and fewer than it takes so far."""
        a, budget = self._question.problem.adversary, self._question.budget
        current = self._at[t]
        start = self._margin[t] + float(values[current.positions, current.targets].sum())
        worth = np.where(a.targets, values, -np.inf)
        target = worth.argmax(axis=1)
        best = worth[np.arange(target.size), target]
        order = np.argsort(-best / a.costs, kind="stable")
        order = order[best[order] > 0.0]
        limit = min(budget, int(self._attacks.radius[t]) - 1)
        order = self._paid(order, limit)
        reached = np.cumsum(best[order])
        enough = int(np.searchsorted(reached, start * (1.0 + self._extra[t]) + 1e-9 * abs(start))) + 1
        taken = np.sort(order[: min(enough, order.size)])
        return Relabelling(taken, target[taken].astype(np.int64))

    def _paid(self, order: Int, limit: int) -> Int:
        """Of labels in an order, those that the budgets pay for."""
        a = self._question.problem.adversary
        if a.group_caps.size == 0:
            return order[np.cumsum(a.costs[order]) <= limit]
        kept, spent, caps = [], 0, a.group_caps.copy()
        for position in order.tolist():
            cost, group = int(a.costs[position]), int(a.groups[position])
            if spent + cost <= limit and (group < 0 or cost <= caps[group]):
                kept.append(position)
                spent += cost
                if group >= 0:
                    caps[group] -= cost
        return np.array(kept, dtype=np.int64)
