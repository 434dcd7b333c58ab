"""One model per class, and which predictions a relabelling provably changes.

As :mod:`labelcert.svm.scoring` for signs: float64 with proved error bounds, rational arithmetic where that is not
enough. What a multi-class certificate says rests on :class:`Panel`.
"""

from __future__ import annotations

from collections import OrderedDict
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.problem import Problem
from labelcert.svm.pivoting import UNIT_ROUNDOFF
from labelcert.svm.scoring import HingeScorer, LinearScorer, Scorer

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

TIED, OPEN = -1, -2
"""Clean prediction of a node whose highest score is shared, and of one that cannot be decided."""

_CACHE_BYTES = 2e8
_EXACT_CACHE = 4000

GUARD = 1.0 + 1e-9
"""Covers the rounding of the comparisons themselves."""


class Panel:
    """The models of all K classes on one kernel.

    Parameters
    ----------
    problem : Problem
        With K > 2 classes.
    linear : bool
        Scores are linear in the labels: the square loss, or every label of every class at its cap.

    Attributes
    ----------
    problem : Problem
    scorer : Scorer
        Scores any labels ±1; the same for all classes.
    clean : (K, n) array
        Clean scores, of the scaled rows.
    predicted : (n,) array
        Predicted class of each node; ``TIED`` or ``OPEN`` where there is none.
    shown : (n,) array
        The class to show as prediction: the first of those with the highest score.
    decision : (n, K) array
        Clean scores, for information.
    """

    def __init__(self, problem: Problem, *, linear: bool) -> None:
        self.problem = problem
        self.linear = linear
        first = problem.one_vs_rest(0)
        self.scorer: Scorer = LinearScorer(first) if linear else HingeScorer(first)
        self._scores: OrderedDict[bytes, tuple[Float, float]] = OrderedDict()
        self._solutions: OrderedDict[bytes, tuple[list[Any], Any] | None] = OrderedDict()
        self._keep = max(64, int(_CACHE_BYTES / (8 * problem.n_test + 8 * problem.m + 200)))
        codes = problem.codes
        clean = [self.scores(self.labels_of(codes, c)) for c in range(problem.n_classes)]
        self.clean = np.array([p for p, _ in clean])
        self.decision = np.ascontiguousarray((self.clean * self.scorer.scale).T)
        self.predicted, self.shown = self._predict(codes)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.problem.n_classes

    @staticmethod
    def labels_of(codes: Int, c: int) -> Float:
        """Labels of class ``c`` against the rest."""
        return np.where(codes == c, 1.0, -1.0)

    def relabel(self, positions: Int, targets: Int) -> Int:
        """(m,) classes of all labels after some of the flippable ones (by position) became other classes."""
        codes = self.problem.codes
        codes[self.problem.adversary.labels[positions]] = targets
        return codes

    def scores(self, y: Float) -> tuple[Float, float]:
        """Scores of all nodes after training on ``y``, and one error bound for all of them."""
        key = y.astype(np.int8).tobytes()
        found = self._scores.get(key)
        if found is None:
            found = self.scorer.approximate(y)
            self._scores[key] = found
            if len(self._scores) > self._keep:
                self._scores.popitem(last=False)
        return found

    def leaders(self, codes: Int, t: int, candidates: list[int]) -> tuple[list[int], bool]:
        """The classes that share the highest score for node ``t`` under labels ``codes``, ascending.

        Also whether that is proved; where it is not, they are those of float64.
        """
        found = [self.scores(self.labels_of(codes, c)) for c in candidates]
        p, tau = np.array([scores[t] for scores, _ in found]), np.array([error for _, error in found])
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
        one, two = (self._solution(self.labels_of(codes, k)) for k in (c, r))
        if one is None or two is None:
            return None
        row = self.scorer.integer_row(t)
        left = sum(k * v for k, v in zip(row, one[0], strict=True)) * two[1]
        right = sum(k * v for k, v in zip(row, two[0], strict=True)) * one[1]
        return int(left > right) - int(left < right)

    def changed(self, codes: Int, nodes: npt.NDArray[np.intp]) -> tuple[Bool, Bool]:
        """Nodes provably changed by labels ``codes``, and nodes provably unchanged (both False: undecided).

        A node is changed where another class reaches the score of its predicted class.
        """
        p = np.empty((self.n_classes, nodes.size))
        tau = np.empty(self.n_classes)
        for c in range(self.n_classes):
            scores, tau[c] = self.scores(self.labels_of(codes, c))
            p[c] = scores[nodes]
        own = self.predicted[nodes]
        columns = np.arange(nodes.size)
        rivals = own[None, :] != np.arange(self.n_classes)[:, None]
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

    def sharp_scores(self, y: Float) -> tuple[Float, float] | None:
        """Scores from the exact solution, rounded, and their error bound; None where that is out of reach."""
        found = None if self.linear else self._solution(y)
        if found is None:
            return None
        numerators, denominator = found
        z = np.array([float(Fraction(int(v), int(denominator))) for v in numerators])
        error = 1.01 * UNIT_ROUNDOFF * (y.size + 4) * float(np.linalg.norm(z)) + 1e-290
        return self.scorer.rows @ z, error

    def _solution(self, y: Float) -> tuple[list[Any], Any] | None:
        if not self.scorer.exact:
            return None
        key = y.astype(np.int8).tobytes()
        if key not in self._solutions:
            self.scorer.approximate(y, np.zeros(0, dtype=np.intp))
            self._solutions[key] = self.scorer.exact_solution(y)
            if len(self._solutions) > _EXACT_CACHE:
                self._solutions.popitem(last=False)
        return self._solutions[key]

    def _predict(self, codes: Int) -> tuple[Int, Int]:
        n = self.problem.n_test
        predicted, shown = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        for t in range(n):
            best, proved = self.leaders(codes, t, list(range(self.n_classes)))
            shown[t] = best[0]
            predicted[t] = OPEN if not proved else best[0] if len(best) == 1 else TIED
        return predicted, shown
