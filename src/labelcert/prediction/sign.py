"""Two classes: the sign of one score decides."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int, Signs
from labelcert.losses.solutions import NOTHING, Interval, minus
from labelcert.prediction.fewer import dropping, leaving
from labelcert.prediction.predictor import OPEN, SHOWN, TIED, Predictor
from labelcert.problem import Problem
from labelcert.problem.problem import signs_of


class Sign(Predictor):
    """One model whose positive scores mean ``classes[1]``."""

    tie_note = "clean score"
    enumerated = "labellings"
    one_score = True

    def __init__(self, problem: Problem, *, linear: bool) -> None:
        super().__init__(problem, linear=linear)
        training = self.scorer.train(problem.y, sharp=self.scorer.exact)
        clean = self.scorer.signs(training)
        decided = np.abs(clean) <= 1
        scores = self.scorer.scores(training)
        if not linear and training.tau > SHOWN * np.abs(scores).max(initial=0.0):
            exact = self.scorer.exact_solution(training)
            scores = scores if exact is None else self.scorer.rows @ exact.rounded()[0]
        self.decision = scores * self.scorer.scale
        # Where float64 has the wrong sign, its magnitude is noise: what is shown must not contradict the prediction.
        wrong = decided & (np.sign(self.decision) != clean)
        self.decision[wrong] = clean[wrong] * np.maximum(np.abs(self.decision[wrong]), np.finfo(np.float64).tiny)
        self.shown = np.where(decided, clean >= 0, self.decision >= 0).astype(np.int64)
        self.predicted = np.where(decided, np.where(clean == 0, TIED, self.shown), OPEN)

    @dropping
    def changed(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """The sign is the other one, or the score is zero."""
        signs: Signs = self.scorer.signs(self.scorer.train(signs_of(codes, 1), sharp=False), nodes)
        side = signs * self._sides(nodes)
        decided = np.abs(signs) <= 1
        return decided & (side <= 0), decided & (side > 0)

    @dropping
    def margins(self, codes: Int, nodes: Index) -> Float:
        """The score times its clean sign."""
        return self.scorer.scores(self.scorer.train(signs_of(codes, 1), sharp=False), nodes) * self._sides(nodes)

    @dropping
    def becomes(self, codes: Int, node: int) -> int:
        """The other one of two classes."""
        return 1 - int(self.predicted[node])

    def class_scores(self, codes: Int, nodes: Index) -> tuple[Float, Float]:
        """The score, and its negative."""
        training = self.scorer.train(signs_of(codes, 1))
        one = self.scorer.scores(training, nodes)
        return np.array([-one, one]), np.full((2, 1), training.tau)

    @leaving
    def leading(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """By the sign of the score."""
        signs = self.scorer.signs(self.scorer.train(signs_of(codes, 1)), nodes)
        decided = np.abs(signs) <= 1
        sure = np.array([decided & (signs <= 0), decided & (signs >= 0)])
        return sure, sure | ~decided

    @dropping
    def predicts(self, codes: Int, node: int) -> int:
        """The class that the sign of the score stands for; ``TIED`` at exactly 0."""
        sign = int(self.scorer.signs(self.scorer.train(signs_of(codes, 1)), np.array([node]))[0])
        return {-1: 0, 0: TIED, 1: 1}.get(sign, OPEN)

    def exact_difference(self, codes: Int, t: int, c: int, r: int) -> Callable[[int], Interval | None] | None:
        """Half the difference, for every labelling alike."""
        row, one = self.scorer.exact_row(t), self.scorer.exact_solution(self.scorer.train(signs_of(codes, 1)))
        if one is None:
            return None
        return lambda level: one.score(row, level) if c > r else minus(NOTHING, one.score(row, level))
