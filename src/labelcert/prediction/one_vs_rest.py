"""More than two classes: one model per class against the rest, and the highest score decides.

Moving a label from class a to class b toggles it in the models of a and b alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int
from labelcert.losses.solutions import Interval, Solution, minus
from labelcert.prediction.fewer import leaving
from labelcert.prediction.highest import Highest
from labelcert.prediction.scoring import Training
from labelcert.problem import Problem, Relabelling
from labelcert.problem.problem import signs_of
from labelcert.svm.pivoting import UNIT_ROUNDOFF

FEW = 4
"""Nodes of which there are so many times more are few: only they are scored."""

_CACHE_BYTES = 2e8
_EXACT_CACHE = 4000


class OneVsRest(Highest):
    """The models of all K classes on one kernel; two classes are served, too."""

    enumerated = "toggled sets"

    def __init__(self, problem: Problem, *, linear: bool) -> None:
        self._scores: OrderedDict[bytes, tuple[Float, float]] = OrderedDict()
        self._trainings: OrderedDict[bytes, Training] = OrderedDict()
        self._solutions: OrderedDict[bytes, Solution | None] = OrderedDict()
        self._keep = max(64, int(_CACHE_BYTES / (8 * problem.n_test + 8 * problem.m + 200)))
        super().__init__(problem, linear=linear)

    def scores(self, y: Float) -> tuple[Float, float]:
        """Scores of all nodes after training on ``y``, and one error bound for all of them."""
        key = y.astype(np.int8).tobytes()
        found = self._scores.get(key)
        if found is None:
            training = self._training(y, key)
            found = self.scorer.scores(training), training.tau
            self._remember(self._scores, key, found, self._keep)
        return found

    def _training(self, y: Float, key: bytes) -> Training:
        found = self._trainings.get(key)
        if found is None:
            found = self.scorer.train(y)
            self._remember(self._trainings, key, found, self._keep)
        return found

    def _scores_of(self, y: Float, nodes: Index) -> tuple[Float, float]:
        """Scores of some nodes; those of all others are left out where nobody has asked for them so far."""
        key = y.astype(np.int8).tobytes()
        if key in self._scores or FEW * nodes.size > self.problem.n_test:
            p, tau = self.scores(y)
            return p[nodes], tau
        training = self._training(y, key)
        return self.scorer.scores(training, nodes), training.tau

    def sharp_scores(self, y: Float) -> tuple[Float, float] | None:
        """Scores from the exact solution, rounded, and their error bound; None where that is out of reach."""
        found = None if self.linear else self._solution(y)
        if found is None:
            return None
        z, beyond = found.rounded()
        error = 1.01 * (UNIT_ROUNDOFF * (y.size + 4) * float(np.linalg.norm(z)) + beyond) + 1e-290
        return self.scorer.rows @ z, error

    def _all_scores(self, codes: Int, nodes: Index, classes: Sequence[int] | None = None) -> tuple[Float, Float]:
        """(K, n) scores of some nodes by all models (or some of them), and the (K,) error bounds of the models."""
        chosen = range(self.problem.n_classes) if classes is None else classes
        few = FEW * nodes.size <= self.problem.n_test
        at_once = self.scorer.class_scores(codes, nodes, self.problem.n_classes) if few else None
        if at_once is not None:
            return at_once[0][list(chosen)], np.full(len(chosen), at_once[1])
        return self._one_by_one(codes, nodes, chosen)

    def _one_by_one(self, codes: Int, nodes: Index, classes: Sequence[int]) -> tuple[Float, Float]:
        found = [self._scores_of(signs_of(codes, c), nodes) for c in classes]
        return np.array([scores for scores, _ in found]), np.array([tau for _, tau in found])

    def changed_by(self, changes: Sequence[Relabelling], nodes: Index) -> tuple[Bool, Bool]:
        """One product scores what all of them train."""
        codes = [self.problem.relabelled(change) for change in changes]
        if self.linear or any(self.fewer(new) is not None for new in codes):
            return super().changed_by(changes, nodes)
        labels = [[signs_of(new, c) for c in range(self.problem.n_classes)] for new in codes]
        keys = [[y.astype(np.int8).tobytes() for y in ys] for ys in labels]
        distinct = {key: y for some, ys in zip(keys, labels, strict=True) for key, y in zip(some, ys, strict=True)}
        trainings = [self._training(y, key) for key, y in distinct.items()]
        P = np.array([training.z for training in trainings]) @ self.scorer.rows[nodes].T
        tau, place = np.array([training.tau for training in trainings]), {key: k for k, key in enumerate(distinct)}
        found = []
        for new, some in zip(codes, keys, strict=True):
            at = [place[key] for key in some]
            found.append(self._judged(new, nodes, P[at], tau[at]))
        changed, unchanged = zip(*found, strict=True)
        return np.array(changed), np.array(unchanged)

    def class_scores(self, codes: Int, nodes: Index) -> tuple[Float, Float]:
        """Those of all models."""
        p, tau = self._one_by_one(codes, nodes, range(self.problem.n_classes))
        return p, tau[:, None]

    @leaving
    def leading(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """By float64 where its error bounds suffice, exactly elsewhere."""
        p, error = self.scaled_scores(codes, nodes)
        winner = p.argmax(axis=0)
        columns = np.arange(nodes.size)
        maybe = ~(p[winner, columns] - p > 1.01 * (error[winner, columns] + error))
        sure = np.zeros_like(maybe)
        clear = maybe.sum(axis=0) == 1
        sure[winner[clear], columns[clear]] = True
        for t in np.flatnonzero(~clear):
            best, proved = self.leaders(codes, int(nodes[t]), list(range(self.problem.n_classes)))
            if proved:
                maybe[:, t] = False
                maybe[best, t] = sure[best, t] = True
        return sure, maybe

    def exact_difference(self, codes: Int, t: int, c: int, r: int) -> Callable[[int], Interval | None] | None:
        """The difference between the scores of two models."""
        row = self.scorer.exact_row(t)
        own, rival = (self.scorer.exact_solution(self.scorer.train(signs_of(codes, k))) for k in (c, r))
        if own is None or rival is None:
            return None
        return lambda level: minus(own.score(row, level), rival.score(row, level))

    def _solutions_of(self, codes: Int, classes: Sequence[int]) -> list[Solution | None]:
        return [self._solution(signs_of(codes, c)) for c in classes]

    def _solution(self, y: Float) -> Solution | None:
        if not self.scorer.exact:
            return None
        key = y.astype(np.int8).tobytes()
        known = self._solutions.get(key)
        if known is not None:
            return known
        found = self.scorer.exact_solution(self.scorer.train(y))
        self._remember(self._solutions, key, found, _EXACT_CACHE)
        return found
