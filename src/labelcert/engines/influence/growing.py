"""Upper ends of radii: attacks on all nodes at once, grown by influences that retraining refreshes.

First attacks serve a whole class at once. At a model that was trained on an attack, the influence of every label on a
node's margin says what each change is worth, those that are made already included. The next attack takes the most
valuable ones, as many as should be enough. All nodes are attacked side by side, and every attack that is trained on is
tried on all nodes.
"""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.engines.base import Attacks, Question
from labelcert.engines.control import Control
from labelcert.prediction.by_features import FeaturePredictor, Judged
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

    def __init__(self, question: Question, attacks: Attacks) -> None:
        assert isinstance(question.predictor, FeaturePredictor)
        self._question, self._predictor = question, question.predictor
        self._attacks = attacks
        n = question.nodes.size
        self.trainings = 0
        self._at: list[Relabelling] = [NOTHING] * n
        self._margin, self._rival = np.empty(n), np.zeros(n, dtype=np.int64)
        self._extra = np.full(n, 0.02)
        self._tired = np.zeros(n, dtype=np.int64)

    def first(self, control: Control) -> None:
        """An attack on every node, if only a bad one."""
        self._control = control
        n = self._question.nodes.size
        clean = self._predictor.judge([NOTHING], keep=True)
        nodes = self._question.nodes
        self._margin[:], self._rival[:] = clean.margins[nodes, 0], clean.rivals[nodes, 0]
        self._classes()
        for _ in range(FIRST_ROUNDS):
            todo = np.flatnonzero(self._attacks.radius > self._question.budget)
            todo = todo[self._tired[todo] < FIRST_ROUNDS]
            if todo.size == 0:
                break
            self._round(todo)
        self._tired = np.zeros(n, dtype=np.int64)

    def improve(self, lower: Int, control: Control) -> None:
        """Round by round, until the time is over or nothing gets better."""
        self._control = control
        rounds = 0
        while not self._control.over() and (self._control.deadline is not None or rounds < ROUNDS):
            todo = np.flatnonzero((lower < self._attacks.radius) & (self._tired < 3))
            if todo.size == 0:
                return
            self._round(todo[np.argsort(-self._attacks.radius[todo], kind="stable")])
            rounds += 1

    def _round(self, todo: Int) -> None:
        """One more attack on each of some nodes."""
        # What every label is worth takes an array of all labels and classes for each node.
        size = max(1, min(self._predictor.batch_size() // self._question.problem.n_classes, 256))
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
        judged = self._predictor.judge(list(known), workers=self._control.workers, hurry=True)
        self.trainings += len(known)
        everyone = self._question.nodes
        self._take(list(known), judged)
        for change, t in zip(changes, nodes.tolist(), strict=True):
            b, node = known[change], everyone[t]
            worked = bool(judged.changed[node, b])
            # One label less where it worked; more than foretold where it did not.
            self._extra[t] = 0.0 if worked else max(0.02, 1.6 * self._extra[t])
            same = change == self._at[t]
            self._tired[t] += 1 if same or (self._attacks.radius[t] < self._question.budget + 1 and not worked) else 0
            self._at[t], self._margin[t] = change, judged.margins[node, b]
            self._rival[t] = judged.rivals[node, b]

    def _take(self, changes: list[Relabelling], judged: Judged) -> None:
        """Improve all that some attacks can, and keep those that do."""
        for b, change in enumerate(changes):
            changed = judged.changed[self._question.nodes, b]
            cost = self._question.problem.adversary.cost(change)
            if cost <= self._question.budget and len(change):
                better = np.any(changed & (cost < self._attacks.radius)) or changed.sum() > self._attacks.curve[cost]
                if better:
                    self._predictor.keep(change, judged, b)
                    self._attacks.take(change, changed)

    def _classes(self) -> None:
        """More and more labels of a class, those first that pull most: attacks on all that is predicted as it."""
        a, budget, segments = self._question.problem.adversary, self._question.budget, self._question.segments
        source, changes = self._question.problem.codes[a.labels], list[Relabelling]()
        for c in range(segments.size - 1):
            members = np.arange(segments[c], segments[c + 1])
            if members.size == 0 or self._control.over():
                continue
            t = int(members[np.argsort(self._margin[members])[members.size // 2]])
            (values,) = self._predictor.values(self._question.nodes[[t]], self._rival[[t]], [NOTHING])
            target, best = self._best(values)
            own = np.flatnonzero((source == c) & np.isfinite(best))
            order = self._paid(own[np.argsort(-best[own], kind="stable")], budget)
            sizes = np.unique(np.ceil(order.size * 0.5 ** np.arange(0.0, 6.0, 0.5)).astype(np.int64))
            chosen = [np.sort(order[:size]) for size in sizes.tolist()]
            changes += [Relabelling(taken, target[taken].astype(np.int64)) for taken in chosen if taken.size]
        changes = list(dict.fromkeys(changes))
        if changes:
            self._take(changes, self._predictor.judge(changes, workers=self._control.workers, hurry=True))
            self.trainings += len(changes)

    def _best(self, values: Float) -> tuple[Int, Float]:
        """What each label should become, and what that is worth."""
        worth = np.where(self._question.problem.adversary.targets, values, -np.inf)
        target = worth.argmax(axis=1)
        return target, worth[np.arange(target.size), target]

    def _chosen(self, t: int, values: Float) -> Relabelling:
        """The most valuable changes, as many as should change a node, and fewer than it takes so far."""
        current = self._at[t]
        start = self._margin[t] + float(values[current.positions, current.targets].sum())
        limit = min(self._question.budget, int(self._attacks.radius[t]) - 1)
        target, best = self._best(values)
        order = np.argsort(-best / self._question.problem.adversary.costs, kind="stable")
        order = self._paid(order[best[order] > 0.0], limit)
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
