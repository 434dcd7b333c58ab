"""The predictor of an ensemble: votes, or mean scores, of models that are trained on parts of the labels."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int, Values
from labelcert.engines.partition.parts import Part
from labelcert.losses.solutions import Interval, decided
from labelcert.prediction import OPEN, TIED, Predictor
from labelcert.problem import Problem
from labelcert.problem.budget import meant
from labelcert.stopping import is_over
from labelcert.svm.pivoting import UNIT_ROUNDOFF


class Ensemble(Predictor):
    """One model for each part of the labels, and a rule that combines them.

    k parts, K classes, n test nodes.

    Attributes
    ----------
    parts : sequence of Part
    least : (n,) array
        A rival reaches a class once the sum over all parts of what one has more than the other falls to this: 0, or
        what the margin of a node comes to.

    A margin is in units of ``decision``: of two classes, the signed mean score, or half the lead in shares of the
    votes; with more, the lead of the predicted class. Clean predictions do not depend on it.
    """

    tie_note = "clean parts"

    def __init__(self, problem: Problem, parts: Sequence[Part], margins: Float | None = None) -> None:
        self.problem, self.linear, self.parts = problem, False, parts
        self.least = np.zeros(problem.n_test)
        self._margins = np.zeros(problem.n_test)
        everything = np.arange(problem.n_test)
        self._clean = [self._member(part, part.problem.codes, everything) for part in parts]
        strength = self._clean_strength()
        K, n = strength.shape
        self.shown = strength.argmax(axis=0)
        self.predicted = np.full(n, OPEN, dtype=np.int64)
        lost = np.ones(n, dtype=bool)
        for c in range(K):
            reached, safe = self.rivals(problem.codes, everything, np.full(n, c))
            wins = np.delete(safe, c, axis=0).all(axis=0)
            self.predicted[wins] = self.shown[wins] = c
            lost &= np.delete(reached, c, axis=0).any(axis=0)
        self.predicted[lost] = TIED
        # Where float64 has another winner, their difference is noise: what is shown must not contradict the prediction.
        winner = strength.argmax(axis=0)
        wrong = np.flatnonzero((self.predicted >= 0) & (winner != self.predicted))
        high, low = strength[winner[wrong], wrong], strength[self.predicted[wrong], wrong]
        strength[winner[wrong], wrong], strength[self.predicted[wrong], wrong] = low, high
        if K == 2:
            self.shown[lost] = 1
            sides = (strength[1] - strength[0]) / 2
            self.decision = np.where(lost, 0.0, sides)
        else:
            self.decision = np.ascontiguousarray(strength.T)
        if margins is not None and margins.any():
            self._keep_margins(margins)

    def _keep_margins(self, margins: Float) -> None:
        """From now on, a prediction counts as changed once its lead falls to its margin."""
        self._margins, self.least = margins, self._least(margins)
        decided = np.flatnonzero(self.predicted >= 0)
        changed, unchanged = self.changed(self.problem.codes, decided)
        self.contrary = np.zeros(self.predicted.size, dtype=bool)
        self.contrary[decided[changed]] = True
        self.predicted[decided[~(changed | unchanged)]] = OPEN

    @abstractmethod
    def _least(self, margins: Float) -> Float:
        """(n,) the sums over all parts that margins come to."""

    @property
    def _movers(self) -> int:
        """What a lead in scores or shares of the votes counts in units of a margin: of two classes, both move."""
        return 2 if self.problem.n_classes == 2 else 1

    @abstractmethod
    def _member(self, part: Part, codes: Int, nodes: Index) -> tuple[Values, Values]:
        """What one part has to say about some nodes."""

    @abstractmethod
    def _strength(self, codes: Int, nodes: Index) -> Float:
        """(K, n) share of the votes, or mean score, of each class."""

    def _clean_strength(self) -> Float:
        """The same of the clean labels, to be shown."""
        return self._strength(self.problem.codes, np.arange(self.problem.n_test))

    @abstractmethod
    def rivals(self, codes: Int, nodes: Index, own: Int) -> tuple[Bool, Bool]:
        """(K, n) which classes provably reach class ``own`` under labels ``codes``, and which provably do not."""

    def retrained(self) -> Predictor:
        """The same: it retrains anyway."""
        return self

    def changed(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """Another class reaches the predicted one, or comes as close as the margin."""
        own, columns = self.predicted[nodes], np.arange(nodes.size)
        reached, safe = self.rivals(codes, nodes, own)
        reached[own, columns], safe[own, columns] = False, True
        return np.asarray(reached.any(axis=0)), np.asarray(safe.all(axis=0))

    def margins(self, codes: Int, nodes: Index) -> Float:
        """Strength of the predicted class minus that of its strongest rival, and minus the margin."""
        strength = self._strength(codes, nodes)
        own, columns = self.predicted[nodes], np.arange(nodes.size)
        mine = strength[own, columns].copy()
        strength[own, columns] = -np.inf
        return np.asarray(mine - strength.max(axis=0) - self.least[nodes] / len(self.parts))

    def becomes(self, codes: Int, node: int) -> int:
        """The strongest of the other classes that reach the predicted one."""
        nodes = np.array([node])
        own = int(self.predicted[node])
        reached, _ = self.rivals(codes, nodes, self.predicted[nodes])
        strength = np.where(reached[:, 0], self._strength(codes, nodes)[:, 0], -np.inf)
        strength[own] = -np.inf
        return int(strength.argmax())

    def _said(self, codes: Int, nodes: Index) -> tuple[Values, Values]:
        """(k, K, n) what all parts have to say; only parts whose labels changed are trained."""
        said = []
        for part, clean in zip(self.parts, self._clean, strict=True):
            own = codes[part.index]
            if np.array_equal(own, part.problem.codes):
                said.append((clean[0][:, nodes], clean[1][:, nodes]))
            else:
                said.append(self._member(part, own, nodes))
        return np.array([one for one, _ in said]), np.array([two for _, two in said])


class Votes(Ensemble):
    """Each part votes for the class with its highest score; the class with the most votes is predicted.

    A part whose highest score is shared may vote for any of the classes that share it, as the adversary likes.
    """

    def _member(self, part: Part, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        return part.tops(codes, nodes)

    def _strength(self, codes: Int, nodes: Index) -> Float:
        sure, _ = self._said(codes, nodes)
        return np.asarray((sure / np.maximum(sure.sum(axis=1, keepdims=True), 1)).mean(axis=0))

    def rivals(self, codes: Int, nodes: Index, own: Int) -> tuple[Bool, Bool]:
        """Votes are counted for each rival as it would like ties to be broken."""
        (sure, maybe), least = self._said(codes, nodes), self.least[nodes]
        return lowest_votes(sure, own).sum(axis=0) <= least, lowest_votes(maybe, own).sum(axis=0) > least

    def _least(self, margins: Float) -> Float:
        # Votes are whole numbers; a margin of 1/3 is meant as the fraction, not as the float next to it.
        k = len(self.parts)
        return np.array([min(k, math.floor(k * self._movers * meant(margin))) for margin in margins.tolist()], float)

    def clean_votes(self, nodes: Index, own: Int) -> Int:
        """(k, K, n) what each part adds to the votes of class ``own`` minus those of each rival, at the least."""
        return lowest_votes(self._said(self.problem.codes, nodes)[1], own)


class MeanScores(Ensemble):
    """The class with the highest mean score over all parts is predicted."""

    def _member(self, part: Part, codes: Int, nodes: Index) -> tuple[Float, Float]:
        return part.scores(codes, nodes)

    def _strength(self, codes: Int, nodes: Index) -> Float:
        return np.asarray(self._said(codes, nodes)[0].mean(axis=0))

    def _clean_strength(self) -> Float:
        # What parts show of themselves is sharp, also where float64 is not.
        shown = [part.predictor.decision for part in self.parts]
        return np.asarray(np.mean([np.stack([-one, one]) if one.ndim == 1 else one.T for one in shown], axis=0))

    def rivals(self, codes: Int, nodes: Index, own: Int) -> tuple[Bool, Bool]:
        """Sums of scores, with the sum of their error bounds; in rational numbers where that decides nothing."""
        p, error = self._said(codes, nodes)
        columns = np.arange(nodes.size)
        total, wide = p.sum(axis=0), 1.01 * (error.sum(axis=0) + sum_error(np.abs(p).sum(axis=0), p.shape[0]))
        difference = total[own, columns] - total - self.least[nodes]
        wide = 1.01 * (wide[own, columns] + wide + 4 * UNIT_ROUNDOFF * self.least[nodes])
        reached, safe = difference < -wide, difference > wide
        for r, t in np.argwhere(~reached & ~safe):
            if is_over():  # each takes a while; what is left stays undecided
                break
            if r != own[t]:
                exact = self._exactly(codes, int(nodes[t]), int(own[t]), int(r))
                if exact is not None:
                    reached[r, t], safe[r, t] = exact <= 0, exact > 0
        return reached, safe

    def _least(self, margins: Float) -> Float:
        return np.minimum(len(self.parts) * self._movers * margins, 1e300)

    def _exactly(self, codes: Int, t: int, c: int, r: int) -> int | None:
        """Sign of the summed scores of class ``c`` minus those of ``r`` and the margin; None where undecided."""
        # Of two classes, this is half the difference of the scores: the signed score, as the margin is.
        least = len(self.parts) * Fraction(float(self._margins[t]))
        found = [part.exact_difference(codes[part.index], t, c, r) for part in self.parts]
        known = [difference for difference in found if difference is not None]
        if len(known) < len(found):
            return None

        def total(level: int) -> Interval | None:
            ends = [end for difference in known if (end := difference(level)) is not None]
            if len(ends) < len(known):
                return None
            return sum((low for low, _ in ends), -least), sum((high for _, high in ends), -least)

        return decided(total)


def sum_error(magnitude: Float, terms: int) -> Float:
    """Bound on the rounding error of a sum of this many terms, each rounded a few times before."""
    return 1.01 * UNIT_ROUNDOFF * (terms + 8) * magnitude + 1e-290


def lowest_votes(tops: Bool, own: Int) -> Int:
    """(k, K, n) what each part adds to the votes of class ``own`` minus those of each rival, at the least.

    ``tops`` (k, K, n) are the classes that each part may vote for: -1 where the rival is among them, 0 where some
    other class is, 1 where there is ``own`` alone.
    """
    columns = np.arange(own.size)
    others = tops.copy()
    others[:, own, columns] = False
    return np.where(others, -1, np.where(others.any(axis=1, keepdims=True), 0, 1)).astype(np.int64)


COMBINATIONS: dict[str, type[Votes] | type[MeanScores]] = {"mean": MeanScores, "votes": Votes}
