"""Lower ends of radii: every single change, foretold or retrained, and bounds on several at once."""

from __future__ import annotations

import math

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.engines.base import Attacks, Question
from labelcert.engines.control import Control
from labelcert.engines.linear.spending import Spending
from labelcert.losses.primal import Changes, PrimalMachine
from labelcert.losses.remainders import MOST_FLIPS, Remainders, Together
from labelcert.prediction.by_features import FeaturePredictor, OneForAll
from labelcert.problem import Relabelling

CELLS = 4_000_000
"""Pairs of a node and a move whose scores are looked at together."""

MOST_PAIRS = 1_000_000_000
"""Pairs of which it is kept whether they are in doubt, a byte each; more nodes come one block after the other."""


class Proving:
    """Lower ends for one question.

    Attributes
    ----------
    lower : (n,) array
    curve_upper : (B + 1,) array
    trainings : int
    exact_to : int
        Largest number of changed labels of which all sets are settled for all nodes.
    """

    def __init__(self, question: Question, attacks: Attacks, control: Control, lower: Int) -> None:
        assert isinstance(question.predictor, FeaturePredictor)
        self._question, self._predictor = question, question.predictor
        self._attacks, self._control = attacks, control
        self.lower, self.trainings, self.exact_to = lower.copy(), 0, 0
        self.curve_upper = np.full(question.budget + 1, question.nodes.size, dtype=np.int64)
        a = question.problem.adversary
        self._position, self._target = np.argwhere(a.targets & a.affordable(question.budget)[:, None]).T
        self._cost = a.costs[self._position]
        self._forecasts: list[Remainders] = []
        self._nearest, self._tried = np.zeros(0, dtype=np.int64), np.zeros(self._position.size, dtype=bool)

    def run(self, control: Control) -> None:
        """One change, then two and more."""
        self._control = control
        if self._position.size == 0:
            self.lower[~self._question.contrary] = self._question.budget + 1
            return
        if self._singles():
            self.exact_to = 1
            self._together()

    def sorted_out(self) -> tuple[list[Relabelling], list[Relabelling]]:
        """Single changes that may change a prediction or take the last label from a class; and all others."""
        self._foretell()
        doubtful = self._any_doubtful()
        if any(forecast.rough for forecast in self._forecasts):
            for forecast in self._forecasts:
                forecast.sharpen(np.unique(self._position[doubtful]), self._control.over)
            doubtful &= self._any_doubtful()
        problem = self._question.problem
        if problem.emptied:
            doubtful |= np.bincount(problem.codes)[problem.codes[problem.adversary.labels[self._position]]] == 1
        found = [
            [Relabelling(self._position[[k]], self._target[[k]]) for k in np.flatnonzero(own)]
            for own in (doubtful, ~doubtful)
        ]
        return found[0], found[1]

    def _any_doubtful(self) -> Bool:
        """(moves,) which single changes may change any node."""
        doubtful = np.zeros(self._position.size, dtype=bool)
        step = max(1, MOST_PAIRS // max(1, doubtful.size))
        for start in range(0, self.lower.size, step):
            doubtful |= self._doubtful(np.arange(start, min(start + step, self.lower.size))).any(axis=0)
        return doubtful

    # -- one change --------------------------------------------------------------------------------------------------

    def _singles(self) -> bool:
        """Whether all single changes are settled."""
        budget, moves, n = self._question.budget, self._position.size, self.lower.size
        costs = np.sort(self._question.problem.adversary.costs)
        pair = int(costs[:2].sum()) if costs.size > 1 else budget + 1
        self._foretell()
        step = max(1, MOST_PAIRS // moves)
        counts, settled = np.zeros(moves, dtype=np.int64), True
        for start in range(0, n, step):
            nodes = np.arange(start, min(start + step, n))
            doubtful = self._settle(nodes)
            counts += doubtful.sum(axis=0)
            left = np.where(doubtful, self._cost[None, :], budget + 1).min(axis=1)
            radius = self._attacks.radius[nodes]
            self.lower[nodes] = np.maximum(self.lower[nodes], np.minimum(np.minimum(left, pair), radius))
            settled &= not (doubtful & (self._cost[None, :] < radius[:, None])).any()
        self._close_curve(counts, pair)
        return settled

    def _settle(self, nodes: Int) -> Bool:
        """(k, moves) which single changes may change which of some nodes, after all that was worth training on."""
        doubtful, control = self._doubtful(nodes), self._control
        self._tried[:] = False
        step = 2 * self._predictor.batch_size()
        rough = any(forecast.rough for forecast in self._forecasts)
        todo = self._nearest if self._nearest.size else self._needed(doubtful, nodes)
        while todo.size and not control.over():
            control.report(self.trainings, self.trainings + todo.size)
            self._train(todo[:step], doubtful, nodes)
            todo = self._needed(doubtful, nodes)
            if rough and todo.size > step:
                rough = False
                for forecast in self._forecasts:
                    forecast.sharpen(np.unique(self._position[todo]), control.over)
                doubtful &= self._doubtful(nodes)
                todo = self._needed(doubtful, nodes)
        return doubtful

    def _needed(self, doubtful: Bool, nodes: Int) -> Int:
        """Moves that a node without an attack waits for, or the curve; those first that most nodes wait for."""
        counts = doubtful.sum(axis=0)
        needed = np.zeros(counts.size, dtype=bool)
        for cost in np.unique(self._cost).tolist():
            own = self._cost == cost
            needed |= own & doubtful[self._attacks.radius[nodes] > cost].any(axis=0)
            if self._control.collective and nodes.size == self.lower.size:
                needed |= own & (counts > self._attacks.curve[cost])
        todo = np.flatnonzero(needed & ~self._tried)
        return todo[np.argsort(-counts[todo], kind="stable")]

    def _close_curve(self, counts: Int, pair: int) -> None:
        """No budget below the cost of two changes changes more nodes than one of them may."""
        for budget in range(1, min(pair, self.curve_upper.size)):
            within = self._cost <= budget
            most = int(counts[within].max(initial=0))
            if not self._question.contrary.any():
                self.curve_upper[budget] = most

    def _train(self, chosen: Int, doubtful: Bool, settling: Int) -> None:
        """Retrain on some moves, each alone, to settle some nodes."""
        changes = [Relabelling(self._position[[k]], self._target[[k]]) for k in chosen]
        judged = self._predictor.judge(changes, workers=self._control.workers)
        nodes = self._question.nodes
        self.trainings += len(changes)
        self._tried[chosen] = True
        for b, change in enumerate(changes):
            changed = judged.changed[nodes, b]
            if np.any(changed & (self._cost[chosen[b]] < self._attacks.radius)) or changed.sum() > self._best(
                chosen[b]
            ):
                self._predictor.keep(change, judged, b)
                self._attacks.take(change, changed)
        doubtful[:, chosen] &= ~judged.unchanged[nodes[settling]]

    def _best(self, move: int) -> int:
        cost = int(self._cost[move])
        return int(self._attacks.curve[cost]) if cost < self._attacks.curve.size else 0

    def _foretell(self) -> None:
        """Bounds for every model, if there are any for such models."""
        machines, labels = self._predictor.machines, self._question.problem.adversary.labels
        if all(machine.outputs == 1 and machine.slopes.alike for machine in machines):
            self._forecasts = [Remainders(machine, labels, self._control.over) for machine in machines]

    def _terms(self, c: int, r: int) -> list[tuple[int, float, Bool]]:
        """The models behind the score of a class minus that of a rival: number, multiple, and moves that toggle it."""
        if isinstance(self._predictor, OneForAll):
            return [(0, 2.0 if c == 1 else -2.0, np.ones(self._position.size, dtype=bool))]
        source = self._question.problem.codes[self._question.problem.adversary.labels][self._position]
        return [(q, sign, (source == q) | (self._target == q)) for q, sign in ((c, 1.0), (r, -1.0))]

    def _blocks(self, nodes: Int) -> list[tuple[int, Int]]:
        """Some nodes (ascending) in blocks with one predicted class, as many as are looked at together."""
        step = max(1, CELLS // max(1, self._position.size))
        classes = self._question.predicted[nodes]
        return [
            (c, own[start : start + step])
            for c in np.unique(classes).tolist()
            for own in [nodes[classes == c]]
            for start in range(0, own.size, step)
        ]

    def _gap(self, nodes: Int, c: int, r: int) -> Float:
        """(k,) least lead over a rival on the clean labels."""
        scores, errors = self._predictor.gaps
        at = self._question.nodes[nodes]
        return np.asarray((scores[c, at] - scores[r, at]) - 1.02 * (errors[c, at] + errors[r, at]))

    def _doubtful(self, chosen: Int) -> Bool:
        """(k, moves) which single changes may change which of some nodes, by the forecasts that there are."""
        question, T = self._question, self._predictor.features.T
        out = np.ones((chosen.size, self._position.size), dtype=bool)
        nearest = [np.zeros(0, dtype=np.int64)]
        for c, nodes in self._blocks(chosen) if self._forecasts else ():
            if self._control.over():
                break
            rows, at = T[question.nodes[nodes]], nodes - chosen[0]
            closest = np.full((nodes.size, self._position.size), np.inf)
            for r in range(question.problem.n_classes):
                if r == c:
                    continue
                left = np.repeat(self._gap(nodes, c, r)[:, None], self._position.size, axis=1)
                for q, multiple, toggles in self._terms(c, r):
                    moved, error = self._effects(q, rows)
                    change = multiple * moved - abs(multiple) * error
                    left += np.where(toggles, change[:, self._position], 0.0)
                np.minimum(closest, left, out=closest)  # NaN stays
            out[at] = ~(closest > 0.0)
            nearest.append(closest.argmin(axis=1)[out[at].any(axis=1)])
        # The most promising move for each node in doubt is tried first.
        self._nearest = np.unique(np.concatenate(nearest))
        return out

    def _effects(self, q: int, rows: Float) -> tuple[Float, Float]:
        """(k, ν) by how much a flip of each label moves the scores of some rows by one model, and the errors."""
        forecast, machine = self._forecasts[q], self._predictor.machines[q]
        labels = forecast.movable
        moved = (rows @ machine.M @ machine.X[labels].T) * forecast.impulse
        noise = np.outer(forecast.noise(rows), forecast.noise(machine.X[labels]) * np.abs(forecast.impulse))
        error = np.outer(forecast.length(rows), forecast.alone)
        error += 1.01 * forecast.share * noise
        return moved, 1.01 * error + 1e-290

    # -- several at once ---------------------------------------------------------------------------------------------

    def _together(self) -> None:
        """Sets within each budget, until the bounds get too large."""
        question, a = self._question, self._question.problem.adversary
        if not self._forecasts or not np.any(self._open(2)) or question.budget < 2:
            return
        together, shifts = [], []
        for forecast, machine in zip(self._forecasts, self._predictor.machines, strict=True):
            found = self._shifts(machine)
            if found is None:
                return
            shifts.append(found[0])
            together.append(Together(forecast, *found))
        for budget in range(2, question.budget + 1):
            flips = a.most_flips(budget)
            open_ = self._open(budget)
            if flips > MOST_FLIPS or not open_.any() or self._control.over():
                return
            bounds = [pair.within(flips) for pair in together]
            if not all(math.isfinite(number) for number, _ in bounds):
                return
            robust = self._robust(budget, open_, shifts, bounds)
            self.lower[robust] = np.minimum(budget + 1, self._attacks.radius[robust])

    def _open(self, budget: int) -> Bool:
        """Nodes whose radius may be this."""
        return np.asarray((self.lower == budget) & (self._attacks.radius > budget))

    def _shifts(self, machine: PrimalMachine) -> tuple[Float, Float] | None:
        """By how much each flip alone moves the solution of a model, and how far its gradient is from 0."""
        labels = self._question.problem.adversary.labels
        shift, miss = np.empty((machine.p, labels.size)), np.empty(labels.size)
        step = min(512, machine.batch_size())
        for start in range(0, labels.size, step):
            if self._control.over():
                return None
            own = labels[start : start + step]
            changes = Changes.of([(own[k : k + 1], 1 - machine.codes[own[k : k + 1]]) for k in range(own.size)])
            W = machine.train(changes)
            G, wrong, _ = machine.gradient(W, changes)
            shift[:, start : start + step] = W[:, 0] - machine.w
            miss[start : start + step] = 1.01 * (np.linalg.norm(G[:, 0], axis=0) + wrong)
            self.trainings += own.size
        return shift, miss

    def _robust(self, budget: int, open_: Bool, shifts: list[Float], bounds: list[tuple[float, Float]]) -> Int:
        """Nodes that no set within a budget changes."""
        question, a, T = self._question, self._question.problem.adversary, self._predictor.features.T
        robust = open_.copy()
        for c, every in self._blocks(np.arange(self.lower.size)):
            nodes = every[robust[every]]
            if nodes.size == 0 or self._control.over():
                robust[nodes] = False
                continue
            rows = T[question.nodes[nodes]]
            for r in range(question.problem.n_classes):
                if r == c:
                    continue
                left = self._gap(nodes, c, r)
                gains = np.zeros((nodes.size, self._position.size))
                for q, multiple, toggles in self._terms(c, r):
                    number, each = bounds[q]
                    forecast, machine, size = self._forecasts[q], self._predictor.machines[q], abs(multiple)
                    length = 1.01 * forecast.length(rows)
                    left -= size * length * number
                    gain = -multiple * (rows @ shifts[q]) + size * np.outer(length, each)
                    gain += size * np.outer(np.linalg.norm(rows, axis=1), self._rounding(machine, shifts[q]))
                    gains += np.where(toggles, gain[:, self._position], 0.0)
                best = np.full((a.labels.size, nodes.size), -np.inf)
                np.maximum.at(best, self._position, gains.T)
                bought = Spending(np.maximum(best, 0.0), a, budget).by_budget()[budget]
                robust[nodes] &= left > 1.0001 * bought
        return np.flatnonzero(robust)

    @staticmethod
    def _rounding(machine: PrimalMachine, shift: Float) -> Float:
        """(ν,) rounding of what shifts do to a row of norm 1."""
        size = np.linalg.norm(shift, axis=0) + float(np.linalg.norm(machine.w))
        return np.asarray(4e-16 * (machine.p + 8) * size)
