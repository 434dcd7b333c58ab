"""More than two classes: one model per class against the rest, and the highest score decides.

Moving a label from class a to class b toggles it in the models of a and b alone.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int
from labelcert.prediction.predictor import OPEN, TIED, Predictor
from labelcert.prediction.scoring import LinearScorer
from labelcert.problem import Problem
from labelcert.problem.problem import signs_of
from labelcert.svm.pivoting import UNIT_ROUNDOFF

_CACHE_BYTES = 2e8
_EXACT_CACHE = 4000

GUARD = 1.0 + 1e-9
"""Covers the rounding of the comparisons themselves."""


class OneVsRest(Predictor):
    """The models of all K classes on one kernel; two classes are served, too.

    Attributes
    ----------
    clean : (K, n) array
        Clean scores, of the scaled rows.
    """

    tie_note = "clean scores"

    def __init__(self, problem: Problem, *, linear: bool) -> None:
        super().__init__(problem, linear=linear)
        self._scores: OrderedDict[bytes, tuple[Float, float]] = OrderedDict()
        self._solutions: OrderedDict[bytes, tuple[list[Any], Any] | None] = OrderedDict()
        self._lock = threading.Lock()
        self._keep = max(64, int(_CACHE_BYTES / (8 * problem.n_test + 8 * problem.m + 200)))
        self.clean = np.array([self.scores(signs_of(problem.codes, c))[0] for c in range(problem.n_classes)])
        self.decision = np.ascontiguousarray((self.clean * self.scorer.scale).T)
        self.predicted, self.shown = self._predict(problem.codes)
        # Where float64 has another winner, their difference is noise: what is shown must not contradict the prediction.
        winner = self.decision.argmax(axis=1)
        wrong = np.flatnonzero((self.predicted >= 0) & (winner != self.predicted))
        high, low = self.decision[wrong, winner[wrong]], self.decision[wrong, self.predicted[wrong]]
        self.decision[wrong, winner[wrong]], self.decision[wrong, self.predicted[wrong]] = low, high
        if problem.n_classes == 2:  # shown like the one score of Sign
            tied = self.predicted == TIED
            self.decision, self.shown = np.where(tied, 0.0, self.decision[:, 1]), np.where(tied, 1, self.shown)

    def scores(self, y: Float) -> tuple[Float, float]:
        """Scores of all nodes after training on ``y``, and one error bound for all of them."""
        key = y.astype(np.int8).tobytes()
        found = self._scores.get(key)
        if found is None:
            training = self.scorer.train(y)
            found = self.scorer.scores(training), training.tau
            self._remember(self._scores, key, found, self._keep)
        return found

    def leaders(self, codes: Int, t: int, candidates: list[int]) -> tuple[list[int], bool]:
        """The classes that share the highest score for node ``t`` under labels ``codes``, ascending.

        Also whether that is proved; where it is not, they are those of float64.
        """
        found, tau = self._all_scores(codes, np.array([t]), candidates)
        p = found[:, 0]
        top = int(p.argmax())
        best = [candidates[top]]
        for k in np.flatnonzero(~(p[top] - p > GUARD * (tau[top] + tau))):
            if k != top:
                sign = self.compare(codes, t, best[0], candidates[k])
                if sign is None:
                    return [candidates[top]], False
                best = best if sign > 0 else [*best, candidates[k]] if sign == 0 else [candidates[k]]
        return sorted(best), True

    def compare(self, codes: Int, t: int, c: int, r: int) -> int | None:
        """Sign of the score of ``c`` minus that of ``r`` for node ``t``, exactly; None where that is out of reach."""
        (p, q), tau = self._all_scores(codes, np.array([t]), [c, r])
        if not tau.any():  # these are exact
            return int(np.sign(p[0] - q[0]))
        one, two = (self._solution(signs_of(codes, k)) for k in (c, r))
        if one is None or two is None:
            return None
        row = self.scorer.integer_row(t)
        left = sum(k * v for k, v in zip(row, one[0], strict=True)) * two[1]
        right = sum(k * v for k, v in zip(row, two[0], strict=True)) * one[1]
        return int(left > right) - int(left < right)

    def changed(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """Another class reaches the score of the predicted one."""
        p, tau = self._all_scores(codes, nodes)
        own = self.predicted[nodes]
        columns = np.arange(nodes.size)
        rivals = own[None, :] != np.arange(self.problem.n_classes)[:, None]
        difference = p[own, columns][None, :] - p
        error = GUARD * (tau[own][None, :] + tau[:, None])
        yes = (rivals & (difference < -error)).any(axis=0)
        safe = ~rivals | (difference > error)
        no = safe.all(axis=0)
        for k in np.flatnonzero(~yes & ~no):
            signs = [self.compare(codes, int(nodes[k]), int(own[k]), int(r)) for r in np.flatnonzero(~safe[:, k])]
            yes[k] = any(sign is not None and sign <= 0 for sign in signs)
            no[k] = all(sign is not None and sign > 0 for sign in signs)
        return yes, no

    def margins(self, codes: Int, nodes: Index) -> Float:
        """The score of the predicted class minus that of its strongest rival."""
        p, _ = self._all_scores(codes, nodes)
        own, columns = self.predicted[nodes], np.arange(nodes.size)
        mine = p[own, columns].copy()
        p[own, columns] = -np.inf
        return np.asarray(mine - p.max(axis=0))

    def becomes(self, codes: Int, node: int) -> int:
        """The first of the other classes with the highest score."""
        others = [c for c in range(self.problem.n_classes) if c != self.predicted[node]]
        return self.leaders(codes, node, others)[0][0]

    def sharp_scores(self, y: Float) -> tuple[Float, float] | None:
        """Scores from the exact solution, rounded, and their error bound; None where that is out of reach."""
        found = None if self.linear else self._solution(y)
        if found is None:
            return None
        numerators, denominator = found
        z = np.array([float(Fraction(int(v), int(denominator))) for v in numerators])
        error = 1.01 * UNIT_ROUNDOFF * (y.size + 4) * float(np.linalg.norm(z)) + 1e-290
        return self.scorer.rows @ z, error

    def _all_scores(self, codes: Int, nodes: Index, classes: Sequence[int] | None = None) -> tuple[Float, Float]:
        """(K, n) scores of some nodes by all models (or some of them), and the (K,) error bounds of the models."""
        chosen = range(self.problem.n_classes) if classes is None else classes
        if isinstance(self.scorer, LinearScorer) and 4 * nodes.size <= self.problem.n_test:
            p, tau = self.scorer.class_scores(codes, nodes, self.problem.n_classes)
            return p[list(chosen)], np.full(len(chosen), tau)
        labellings = [signs_of(codes, c) for c in chosen]
        found = [self.scores(y) for y in labellings]
        return np.array([scores[nodes] for scores, _ in found]), np.array([tau for _, tau in found])

    def _solution(self, y: Float) -> tuple[list[Any], Any] | None:
        if not self.scorer.exact:
            return None
        key = y.astype(np.int8).tobytes()
        if key in self._solutions:
            return self._solutions[key]
        found = self.scorer.exact_solution(self.scorer.train(y))
        self._remember(self._solutions, key, found, _EXACT_CACHE)
        return found

    def _remember(self, cache: OrderedDict[bytes, Any], key: bytes, value: Any, most: int) -> None:
        with self._lock:
            cache[key] = value
            if len(cache) > most:
                cache.popitem(last=False)

    def _predict(self, codes: Int) -> tuple[Int, Int]:
        p, tau = self.clean, np.array([self.scores(signs_of(codes, c))[1] for c in range(self.problem.n_classes)])
        shown = p.argmax(axis=0).astype(np.int64)
        close = ~(p[shown, np.arange(shown.size)][None, :] - p > GUARD * (tau[shown][None, :] + tau[:, None]))
        predicted = shown.copy()
        for t in np.flatnonzero(close.sum(axis=0) > 1).tolist():  # the highest score is always close to itself
            best, proved = self.leaders(codes, t, list(range(self.problem.n_classes)))
            shown[t] = best[0]
            predicted[t] = OPEN if not proved else best[0] if len(best) == 1 else TIED
        return predicted, shown
