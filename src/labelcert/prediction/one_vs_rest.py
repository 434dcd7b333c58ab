"""More than two classes: one model per class against the rest, and the highest score decides.

Moving a label from class a to class b toggles it in the models of a and b alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from labelcert.arrays import Float, Index, Int
from labelcert.losses.solutions import Solution
from labelcert.prediction.highest import Highest
from labelcert.prediction.scoring import LinearScorer
from labelcert.problem import Problem
from labelcert.problem.problem import signs_of
from labelcert.svm.pivoting import UNIT_ROUNDOFF

_CACHE_BYTES = 2e8
_EXACT_CACHE = 4000


class OneVsRest(Highest):
    """The models of all K classes on one kernel; two classes are served, too."""

    enumerated = "toggled sets"

    def __init__(self, problem: Problem, *, linear: bool) -> None:
        self._scores: OrderedDict[bytes, tuple[Float, float]] = OrderedDict()
        self._solutions: OrderedDict[bytes, Solution | None] = OrderedDict()
        self._keep = max(64, int(_CACHE_BYTES / (8 * problem.n_test + 8 * problem.m + 200)))
        super().__init__(problem, linear=linear)

    def scores(self, y: Float) -> tuple[Float, float]:
        """Scores of all nodes after training on ``y``, and one error bound for all of them."""
        key = y.astype(np.int8).tobytes()
        found = self._scores.get(key)
        if found is None:
            training = self.scorer.train(y)
            found = self.scorer.scores(training), training.tau
            self._remember(self._scores, key, found, self._keep)
        return found

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
        if isinstance(self.scorer, LinearScorer) and 4 * nodes.size <= self.problem.n_test:
            p, tau = self.scorer.class_scores(codes, nodes, self.problem.n_classes)
            return p[list(chosen)], np.full(len(chosen), tau)
        labellings = [signs_of(codes, c) for c in chosen]
        found = [self.scores(y) for y in labellings]
        return np.array([scores[nodes] for scores, _ in found]), np.array([tau for _, tau in found])

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
