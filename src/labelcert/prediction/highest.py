"""The highest of several scores decides: what predictors of more than two classes have in common."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int
from labelcert.losses.solutions import Solution
from labelcert.prediction.fewer import dropping
from labelcert.prediction.predictor import OPEN, SHOWN, TIED, Predictor
from labelcert.problem import Problem
from labelcert.stopping import is_over

GUARD = 1.0 + 1e-9
"""Covers the rounding of the comparisons themselves."""


class Highest(Predictor):
    """One score per class, and the highest one decides.

    Attributes
    ----------
    clean : (K, n) array
        Clean scores, of the scaled rows.
    """

    tie_note = "clean scores"
    clean: Float

    def __init__(self, problem: Problem, *, linear: bool) -> None:
        super().__init__(problem, linear=linear)
        self._lock = threading.Lock()
        nodes = np.arange(problem.n_test)
        self.clean, tau = self._all_scores(problem.codes, nodes)
        self.clean = np.array(self.clean)
        for c in np.flatnonzero(tau > SHOWN * np.abs(self.clean).max(axis=1, initial=0.0)) if not linear else ():
            [exact] = self._solutions_of(problem.codes, [int(c)])
            if exact is not None:
                self.clean[c] = self.scorer.rows @ exact.rounded()[0]
        self.decision = np.ascontiguousarray((self.clean * self.scorer.scale).T)
        self.predicted, self.shown = self._predict(problem.codes, tau)
        # Where float64 has another winner, their difference is noise: what is shown must not contradict the prediction.
        winner = self.decision.argmax(axis=1)
        wrong = np.flatnonzero((self.predicted >= 0) & (winner != self.predicted))
        high, low = self.decision[wrong, winner[wrong]], self.decision[wrong, self.predicted[wrong]]
        self.decision[wrong, winner[wrong]], self.decision[wrong, self.predicted[wrong]] = low, high
        if problem.n_classes == 2:  # shown like the one score of Sign
            tied = self.predicted == TIED
            self.decision, self.shown = np.where(tied, 0.0, self.decision[:, 1]), np.where(tied, 1, self.shown)

    @abstractmethod
    def _all_scores(self, codes: Int, nodes: Index, classes: Sequence[int] | None = None) -> tuple[Float, Float]:
        """(K, n) scores of some nodes by all classes (or some of them), and the (K,) error bounds of the classes."""

    @abstractmethod
    def _solutions_of(self, codes: Int, classes: Sequence[int]) -> list[Solution | None]:
        """What decides beyond float64 for some classes under labels ``codes``; None where that is out of reach."""

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
        if not np.isin(codes, (c, r)).any():  # two classes without labels have the same score
            return 0
        (p, q), tau = self._all_scores(codes, np.array([t]), [c, r])
        if not tau.any():  # these are exact
            return int(np.sign(p[0] - q[0]))
        one, two = self._solutions_of(codes, [c, r])
        if one is None or two is None:
            return None
        return one.compare(two, self.scorer.exact_row(t))

    @dropping
    def changed(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """Another class reaches the score of the predicted one."""
        return self._judged(codes, nodes, *self._all_scores(codes, nodes))

    def _judged(self, codes: Int, nodes: Index, p: Float, tau: Float) -> tuple[Bool, Bool]:
        """The same from (K, n) scores and the (K,) error bounds of the classes."""
        own = self.predicted[nodes]
        columns = np.arange(nodes.size)
        rivals = own[None, :] != np.arange(self.problem.n_classes)[:, None]
        difference = p[own, columns][None, :] - p
        error = GUARD * (tau[own][None, :] + tau[:, None])
        yes = (rivals & (difference < -error)).any(axis=0)
        safe = ~rivals | (difference > error)
        no = safe.all(axis=0)
        for k in np.flatnonzero(~yes & ~no):
            if is_over():  # what is left stays open
                break
            signs = [self.compare(codes, int(nodes[k]), int(own[k]), int(r)) for r in np.flatnonzero(~safe[:, k])]
            yes[k] = any(sign is not None and sign <= 0 for sign in signs)
            no[k] = all(sign is not None and sign > 0 for sign in signs)
        return yes, no

    @dropping
    def margins(self, codes: Int, nodes: Index) -> Float:
        """The score of the predicted class minus that of its strongest rival."""
        p, _ = self._all_scores(codes, nodes)
        own, columns = self.predicted[nodes], np.arange(nodes.size)
        mine = p[own, columns].copy()
        p[own, columns] = -np.inf
        return np.asarray(mine - p.max(axis=0))

    def challengers(self, node: int) -> list[int]:
        """All other classes, by their clean scores."""
        return [c for c in np.argsort(-self.clean[:, node]).tolist() if c != self.predicted[node]]

    @dropping
    def becomes(self, codes: Int, node: int) -> int:
        """The first of the other classes with the highest score."""
        others = [c for c in range(self.problem.n_classes) if c != self.predicted[node]]
        return self.leaders(codes, node, others)[0][0]

    def become(self, codes: Int, nodes: Index) -> Int:
        """At once, but for those whose highest score float64 does not tell."""
        if self.fewer(codes) is not None:
            return super().become(codes, nodes)
        p, tau = self._all_scores(codes, nodes)
        columns = np.arange(nodes.size)
        p[self.predicted[nodes], columns] = -np.inf
        best: Int = p.argmax(axis=0).astype(np.int64)
        close = ~(p[best, columns] - p > GUARD * (tau[best] + tau[:, None]))
        for k in np.flatnonzero(close.sum(axis=0) > 1):  # the highest score is always close to itself
            best[k] = self.becomes(codes, int(nodes[k]))
        return best

    @dropping
    def predicts(self, codes: Int, node: int) -> int:
        """The leader, unless there are several."""
        best, proved = self.leaders(codes, node, list(range(self.problem.n_classes)))
        return OPEN if not proved else best[0] if len(best) == 1 else TIED

    def _remember(self, cache: OrderedDict[bytes, Any], key: bytes, value: Any, most: int) -> None:
        with self._lock:
            cache[key] = value
            if len(cache) > most:
                cache.popitem(last=False)

    def _predict(self, codes: Int, tau: Float) -> tuple[Int, Int]:
        p = self.clean
        shown = p.argmax(axis=0).astype(np.int64)
        close = ~(p[shown, np.arange(shown.size)][None, :] - p > GUARD * (tau[shown][None, :] + tau[:, None]))
        predicted = shown.copy()
        for t in np.flatnonzero(close.sum(axis=0) > 1).tolist():  # the highest score is always close to itself
            best, proved = self.leaders(codes, t, list(range(self.problem.n_classes)))
            shown[t] = best[0]
            predicted[t] = OPEN if not proved else best[0] if len(best) == 1 else TIED
        return predicted, shown
