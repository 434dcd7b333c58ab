"""The parts of an ensemble: which labels each one holds, and the model that is trained on them alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int
from labelcert.losses.solutions import Interval
from labelcert.prediction import Predictor, predictor_for
from labelcert.problem import Problem


def assign(names: Sequence[str], parts: int, seed: int) -> Int:
    """(m,) part of each label, by a hash of its name.

    The labels are sorted by the hash and dealt out in turn, so that the sizes of parts differ by at most one. The
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
        return self.predictor.scaled_scores(codes, nodes)

    def tops(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """(K, n) which classes have the highest score under labels ``codes``: provably, and possibly."""
        return self.predictor.leading(codes, nodes)

    def exact_difference(self, codes: Int, t: int, c: int, r: int) -> Callable[[int], Interval | None] | None:
        """Score of class ``c`` minus that of ``r`` for node ``t``, by level of precision; None where out of reach."""
        return self.predictor.exact_difference(codes, t, c, r)


def cut(problem: Problem, part_of: Int) -> list[Part]:
    """The parts of a problem whose kernel is not settled; a part without labels has no say, and is left out."""
    return [Part.of(problem, np.flatnonzero(part_of == k).astype(np.int64)) for k in np.unique(part_of)]
