"""Good attacks on single nodes and on all at once: upper ends for whatever nobody can prove to be robust.

An attack grows change by change (:mod:`~labelcert.engines.stepwise`). The effect of every further change is foretold
from the solution at hand, at no cost; only the most promising ones are trained on. What comes out is entered into
:class:`~labelcert.engines.base.Attacks`, which trains on it with error bounds, and tries it on all nodes.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import numpy as np

from labelcert.arrays import Bool, Float, Int, Signs
from labelcert.engines.base import Attacks, Findings, Question, within_reach
from labelcert.engines.control import Control
from labelcert.engines.stepwise import Step, by_merit, fixed, grow
from labelcert.problem import NOTHING, Problem, Relabelling
from labelcert.problem.problem import signs_of
from labelcert.stopping import Stopped

TRIED = 6
"""Promising changes that are trained on in each step, where there is time for more than the first, which is nearly as
good."""

SAMPLE = 100
"""Nodes of a class that an attack on all of them goes by."""

CACHE_BYTES = 3e8
"""Memory for trained models."""


class TrainedModel(NamedTuple):
    """One model under some labels."""

    scores: Float  # (n,)
    # y, z, state: (m,) labels, what multiplies the test rows, and the states that the training found
    y: Float
    z: Float
    state: Signs

    def effects(self, problem: Problem, rows: Float) -> Float:
        """(k, m) by how much the scores of k test rows should change if one label is flipped."""
        return problem.trained_with.response(problem.K_train, problem.C, self.y, self.z, self.state, rows)


class Attacker:
    """Looks for attacks on the nodes of one question.

    - ``question``: about a model that is retrained.
    - ``attacks``: the best known so far; improved.
    - ``over``: whether to stop.
    """

    def __init__(self, question: Question, attacks: Attacks, over: Callable[[], bool]) -> None:
        self._question, self._attacks, self._over = question, attacks, over
        problem = question.problem
        self._rows = question.predictor.scorer.rows[question.nodes]
        self._source = problem.codes[problem.adversary.labels]
        self._models: OrderedDict[bytes, TrainedModel] = OrderedDict()
        self._bytes = 0

    @contextmanager
    def until(self, end: float) -> Iterator[None]:
        """Stop at some time (on the monotonic clock), too."""
        over = self._over
        self._over = lambda: over() or time.monotonic() > end
        try:
            yield
        finally:
            self._over = over

    def attack_nodes(self, lower: Int) -> None:
        """Try to change every node whose radius is open, at the least cost."""
        radius = self._attacks.radius
        open_ = np.flatnonzero(lower < radius)
        for t in open_[np.argsort(-radius[open_], kind="stable")].tolist():  # first those without an attack so far
            if self._over():
                return
            if lower[t] >= radius[t]:  # an attack on another node has settled it
                continue
            self._attack_node(t, min(self._question.budget, int(radius[t]) - 1))

    def attack_classes(self) -> None:
        """An upper end for all nodes of a class, if only a bad one: twice as many labels in every step."""
        a, budget = self._question.problem.adversary, self._question.budget
        for c in np.unique(self._question.predicted).tolist():
            nodes = np.flatnonzero((self._question.predicted == c) & (self._attacks.radius > budget))
            if nodes.size == 0:
                continue
            some = nodes[:: max(1, nodes.size // SAMPLE)]
            gains = -self._foretold(NOTHING, some).mean(axis=0) / a.costs[:, None]
            change = NOTHING
            for change in self._steps(by_merit(a, budget, fixed(gains)), NOTHING):
                if len(change).bit_count() == 1:
                    self._attacks.enter(change)
                if np.all(self._attacks.radius[nodes] <= budget):
                    break
            self._attacks.enter(change)

    def attack_all(self) -> None:
        """Try to change as many nodes as possible, within every budget."""
        self._grow(np.arange(self._question.nodes.size), self._question.budget)

    def improve(self, lower: Int, rounds: float) -> None:
        """Try to do better, round by round: without a part of each attack, and on a part of the nodes.

        - ``lower`` (n,): lower ends of radii: what they settle is left alone.
        - ``rounds``: how often. Infinite: until the time is over, or nothing is left to do.
        """
        rng = np.random.default_rng(0)
        budget = self._question.budget
        while rounds > 0 and not self._over():
            rounds -= 1
            attacks = self._attacks
            todo = np.flatnonzero((lower < attacks.radius) & (attacks.radius <= budget))
            for t in rng.permutation(todo).tolist():
                change = attacks.radius_changes[t]
                if self._over() or change is None or len(change) < 2:
                    continue
                dropped = rng.choice(change.positions, rng.integers(1, len(change)), replace=False)
                rest = Relabelling.of({p: k for p, k in change.moves.items() if p not in dropped})
                self._attack_node(t, int(attacks.radius[t]) - 1, rest, TRIED)
            reachable = np.flatnonzero(lower <= budget)
            if np.all(attacks.curve >= within_reach(lower, budget)):
                if todo.size == 0:
                    return
            else:
                self._grow(rng.permutation(reachable)[: rng.integers(1, reachable.size + 1)], budget)

    def _attack_node(self, t: int, budget: int, start: Relabelling = NOTHING, tried: int = 1) -> None:
        found = self._grow(np.array([t]), budget, start, tried)
        if found is not None:
            self._attacks.enter(self._shrunk(found, t))

    def margins(self, change: Relabelling) -> Float:
        """(n,) score of the predicted class minus the highest other one, in float64."""
        scores = self._scores(change)
        own, rival = self._classes(scores)
        columns = np.arange(own.size)
        return np.asarray(scores[own, columns] - scores[rival, columns])

    # -- one attack --------------------------------------------------------------------------------------------------

    def _steps(self, step: Step, start: Relabelling) -> Iterator[Relabelling]:
        """What grows step by step until the time is over."""
        return grow(lambda change: None if self._over() else step(change), start)

    def _grow(self, nodes: Int, budget: int, start: Relabelling = NOTHING, tried: int = TRIED) -> Relabelling | None:
        """Change by change, until all of some nodes change."""

        def gains(change: Relabelling, may: Bool) -> Float:
            """How much closer to changing each move should bring the nodes, for what it costs."""
            margins = self.margins(change)[nodes]
            after = self._distance(margins[:, None, None] + self._foretold(change, nodes))
            return np.asarray((self._distance(margins) - after) / a.costs[:, None])

        def best(change: Relabelling, merit: Float) -> tuple[int, int]:
            """Of the most promising moves, the one that does it best."""
            order = np.argsort(-merit, axis=None)[:tried]
            positions, targets = np.unravel_index(order[np.isfinite(merit.ravel()[order])], merit.shape)
            options = list(zip(positions.tolist(), targets.tolist(), strict=True))
            if len(options) == 1:
                return options[0]
            before = self._distance(self.margins(change)[nodes])

            def trained(move: tuple[int, int]) -> float:
                after = self._distance(self.margins(change.plus(*move))[nodes])
                return float((after - before) / float(a.costs[move[0]]))

            return min(options, key=trained)

        a = self._question.problem.adversary
        for change in self._steps(by_merit(a, budget, gains, best), start):
            if nodes.size > 1:
                self._attacks.enter(change)
            if np.all(self.margins(change)[nodes] < 0.0):
                return change
        return None

    @staticmethod
    def _distance(margins: Float) -> Float:
        """How far nodes (first axis) are from changing, together; beyond a typical margin, more hardly counts."""
        if margins.shape[0] == 1:
            return np.asarray(margins[0])
        scale = np.abs(margins).mean(axis=0) + 1e-300
        return np.asarray(np.where(margins < 0.0, 0.0, 1.0 + margins / (np.abs(margins) + scale)).sum(axis=0))

    def _foretold(self, change: Relabelling, nodes: Int) -> Float:
        """(k, ν, K) by how much each change should change the margins of k nodes."""
        problem, a = self._question.problem, self._question.problem.adversary
        models = self._models_of(change)
        rows = self._rows[nodes]
        effects = np.zeros((len(models), nodes.size, a.labels.size))
        for k, (model, sign) in enumerate(models):
            if not self._over():  # then nothing is grown any more
                effects[k] = sign * model.effects(problem, rows)[:, a.labels]
        own, rival = (which[nodes] for which in self._classes(self._scores(change)))
        columns = np.arange(nodes.size)
        by_own, by_rival = effects[own, columns], effects[rival, columns]
        out = np.zeros((nodes.size, *a.targets.shape))
        for k in range(problem.n_classes):
            out[:, :, k] += np.where((self._source[None, :] == own[:, None]) | (own[:, None] == k), by_own, 0.0)
            out[:, :, k] -= np.where((self._source[None, :] == rival[:, None]) | (rival[:, None] == k), by_rival, 0.0)
        return out

    def _shrunk(self, change: Relabelling, t: int) -> Relabelling:
        """The attack without changes that it does not need."""
        for i in change.positions.tolist():
            fewer = Relabelling.of({p: k for p, k in change.moves.items() if p != i})
            if len(fewer) and self.margins(fewer)[t] < 0.0:
                change = fewer
        return change

    # -- models ------------------------------------------------------------------------------------------------------

    def _classes(self, scores: Float) -> tuple[Int, Int]:
        """(n,) the predicted class of each node, and its strongest rival under some scores (K, n)."""
        own = self._question.predicted
        rivals = scores.copy()
        rivals[own, np.arange(own.size)] = -np.inf
        return own, rivals.argmax(axis=0)

    def _scores(self, change: Relabelling) -> Float:
        """(K, n) scores of all classes."""
        return np.stack([sign * model.scores for model, sign in self._models_of(change)])

    def _models_of(self, change: Relabelling) -> list[tuple[TrainedModel, float]]:
        """The model of each class, and the sign of its scores: of two classes, one is the negative of the other."""
        problem = self._question.problem
        codes = problem.relabelled(change)
        if problem.n_classes == 2:
            model = self._model(signs_of(codes, 1))
            return [(model, -1.0), (model, 1.0)]
        return [(self._model(signs_of(codes, c)), 1.0) for c in range(problem.n_classes)]

    def _model(self, y: Float) -> TrainedModel:
        key = y.astype(np.int8).tobytes()
        if key not in self._models:
            model = self._models[key] = self._train(y)
            self._bytes += sum(array.nbytes for array in model)
            while self._bytes > CACHE_BYTES and len(self._models) > 1:
                _, oldest = self._models.popitem(last=False)
                self._bytes -= sum(array.nbytes for array in oldest)
        return self._models[key]

    def _train(self, y: Float) -> TrainedModel:
        training = self._question.predictor.scorer.train(y, sharp=False)
        assert training.state is not None
        return TrainedModel(self._rows @ training.z, y, training.z, training.state)


def upper_ends(question: Question, control: Control) -> Findings:
    """An attack on every node, if only a bad one, in little time."""
    attacks, lower = Attacks(question), Findings.nothing(question).radius_lower
    if question.nodes.size:
        control.note("attacks on all nodes of a class")
        with suppress(Stopped):  # what is found until then counts
            Attacker(question, attacks, control.over).attack_classes()
    return attacks.findings(lower, {})
