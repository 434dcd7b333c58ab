"""The parts of an ensemble: which labels each one holds, and the model that is trained on them alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int
from labelcert.losses.solutions import NOTHING, Interval, minus
from labelcert.prediction import OneVsRest, Predictor, Sign, predictor_for
from labelcert.problem import Problem
from labelcert.problem.problem import signs_of
from labelcert.svm.pivoting import UNIT_ROUNDOFF


def assign(names: Sequence[str], parts: int, seed: int) -> Int:
    """(m,) part of each label, by a hash of its name.

    The labels are sorted by the hash and dealt out in turn, so that the sizes of parts differ by one at the most. The
    labels themselves, their order and the kernel have no influence.

    Examples
    --------
    >>> assign(["a", "b", "c", "d"], 2, seed=0).tolist()
    [1, 0, 0, 1]
    """
    keys = [hashlib.sha256(f"{seed}\x1f{name}".encode()).digest() for name in names]
    order = sorted(range(len(names)), key=lambda i: (keys[i], i))
    out = np.empty(len(names), dtype=np.int64)
    out[order] = np.arange(len(names)) % parts
    return out


@dataclass(frozen=True, eq=False)
class Part:
    """Some of the labels, and the model that is trained on them.

    K classes of the whole ensemble; n test nodes.

    Attributes
    ----------
    index : array
        Which labels, ascending.
    positions : array
        Positions of those that may change, among ``Adversary.labels`` of the ensemble.
    problem : Problem
        Of these labels alone.
    predictor : Predictor
    """

    index: Int
    positions: Int
    problem: Problem
    predictor: Predictor

    @classmethod
    def of(cls, problem: Problem, index: Int) -> Part:
        """One part of a problem whose kernel is not settled."""
        own = problem.restricted(index).settled()
        return cls(
            index=index,
            positions=np.flatnonzero(np.isin(problem.adversary.labels, index)).astype(np.int64),
            problem=own,
            predictor=predictor_for(own, linear=own.trained_with.always_linear),
        )

    def scores(self, codes: Int, nodes: Index) -> tuple[Float, Float]:
        """(K, n) scores of some nodes under labels ``codes`` of this part, and bounds on their errors."""
        predictor, scale = self.predictor, self.predictor.scorer.scale[nodes]
        if isinstance(predictor, Sign):
            training = predictor.scorer.train(signs_of(codes, 1))
            one = predictor.scorer.scores(training, nodes)
            p, tau = np.array([-one, one]), np.full((2, 1), training.tau)
        else:
            assert isinstance(predictor, OneVsRest)
            found = [predictor.scores(signs_of(codes, c)) for c in range(self.problem.n_classes)]
            p, tau = np.array([scores[nodes] for scores, _ in found]), np.array([[error] for _, error in found])
        # A little more than the bound, so that a sum of two of them may be rounded.
        return p * scale, (1.01 * tau + 8 * UNIT_ROUNDOFF * np.abs(p)) * scale

    def tops(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """(K, n) which classes have the highest score under labels ``codes``: provably, and possibly.

        Several where it is shared.
        """
        predictor, K = self.predictor, self.problem.n_classes
        if isinstance(predictor, Sign):
            signs = predictor.scorer.signs(predictor.scorer.train(signs_of(codes, 1)), nodes)
            decided = np.abs(signs) <= 1
            sure = np.array([decided & (signs <= 0), decided & (signs >= 0)])
            return sure, sure | ~decided
        assert isinstance(predictor, OneVsRest)
        p, error = self.scores(codes, nodes)
        winner = p.argmax(axis=0)
        columns = np.arange(nodes.size)
        maybe = ~(p[winner, columns] - p > 1.01 * (error[winner, columns] + error))
        sure = np.zeros_like(maybe)
        clear = maybe.sum(axis=0) == 1
        sure[winner[clear], columns[clear]] = True
        for t in np.flatnonzero(~clear):
            best, proved = predictor.leaders(codes, int(nodes[t]), list(range(K)))
            if proved:
                maybe[:, t] = False
                maybe[best, t] = sure[best, t] = True
        return sure, maybe

    def exact_difference(self, codes: Int, t: int, c: int, r: int) -> Callable[[int], Interval | None] | None:
        """Score of class ``c`` minus that of ``r`` for node ``t``, by level of precision; None where out of reach."""
        scorer, row = self.predictor.scorer, self.predictor.scorer.exact_row(t)
        if isinstance(self.predictor, Sign):
            one = scorer.exact_solution(scorer.train(signs_of(codes, 1)))
            if one is None:
                return None
            # Half the difference, in every part.
            return lambda level: one.score(row, level) if c > r else minus(NOTHING, one.score(row, level))
        own, rival = (scorer.exact_solution(scorer.train(signs_of(codes, k))) for k in (c, r))
        if own is None or rival is None:
            return None
        return lambda level: minus(own.score(row, level), rival.score(row, level))


def cut(problem: Problem, part_of: Int) -> list[Part]:
    """The parts of a problem whose kernel is not settled; a part without labels has no say, and is left out."""
    return [Part.of(problem, np.flatnonzero(part_of == k).astype(np.int64)) for k in np.unique(part_of)]
