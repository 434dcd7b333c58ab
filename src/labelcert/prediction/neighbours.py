"""Nearest neighbours whose rows may be removed: the next ones take their places.

Rows that are as far away as each other may come in any order, since nobody knows which of them an estimator takes once
others are gone. What holds for all orders is proved.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from labelcert.arrays import Bool, Float, Index, Int
from labelcert.compiling import compiled
from labelcert.prediction.predictor import Predictor
from labelcert.problem import Problem

NEIGHBOURS = "nearest neighbours"
"""Who predicts: the majority of the rows that are near, of those that are left."""

NOBODY = -1
"""Instead of a class, where no row is left that could vote, or fewer than the estimator asks for."""


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """The rows around n test points, the nearest first.

    Attributes
    ----------
    index : (n, w) array
        Numbers of rows; -1 behind the last one.
    band : (n, w) array
        Rows with the same number may come in any order; ascending.
    edge : (n, w) array
        Rows of which nobody knows whether they are near enough.
    k : int
        How many rows vote; 0: all of them.
    whole : bool
        Whether all rows that there are have been looked at.
    outlier : int
        What is predicted where no row votes; ``NOBODY`` where the estimator refuses to predict.
    predicted : (n,) array
        What the estimator says about the clean labels.
    """

    index: Int
    band: Int
    edge: Bool
    k: int
    whole: bool
    outlier: int
    predicted: Int
    kind: str = NEIGHBOURS

    def predictor(self, problem: Problem) -> NeighbourPredictor:
        """Of these labels."""
        return NeighbourPredictor(problem, self)

    def digest(self, sha256: str) -> str:
        """With the rows in their order."""
        h = hashlib.sha256(f"{sha256} {self.k} {self.outlier} {self.index.shape}".encode())
        for array in (self.index, self.band, self.edge, self.predicted):
            h.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
        return h.hexdigest()


class NeighbourPredictor(Predictor):
    """The class with the most votes; the first one of several."""

    tie_note = "clean scores"

    def __init__(self, problem: Problem, near: Neighbourhoods) -> None:
        self.problem, self.linear, self.near = problem, False, near
        self.predicted = near.predicted
        self.shown = np.where(near.predicted == NOBODY, 0, near.predicted)
        votes = self._votes(problem.codes, np.arange(problem.n_test))
        self.decision = (votes[:, 1] - votes[:, 0]) / 2 if problem.n_classes == 2 else votes

    def changed(self, codes: Int, nodes: Index) -> tuple[Bool, Bool]:
        """Whatever the order of rows that are as far away as each other."""
        near, found = self.near, np.zeros(nodes.size, dtype=np.int64)
        scratch = np.zeros((2, self.problem.n_classes), dtype=np.int64)
        judged(
            *(near.index, near.band, near.edge, near.k, near.whole, near.outlier),
            *(codes, np.asarray(nodes, dtype=np.int64), self.predicted, scratch[0], scratch[1], found),
        )
        return found == 1, found == 0

    def margins(self, codes: Int, nodes: Index) -> Float:
        """Votes of the predicted class minus the most of another one."""
        votes, own = self._votes(codes, nodes), self.predicted[nodes]
        mine = votes[np.arange(own.size), own]
        votes[np.arange(own.size), own] = -np.inf
        return np.asarray(mine - votes.max(axis=1))

    def becomes(self, codes: Int, node: int) -> int:
        """The first of the other classes with the most votes."""
        votes = self._votes(codes, np.array([node]))[0]
        votes[self.predicted[node]] = -np.inf
        return int(votes.argmax())

    def _votes(self, codes: Int, nodes: Index) -> Float:
        """(n, K) of the rows that are left, in the order in which they are listed."""
        near, K = self.near, self.problem.n_classes
        index = near.index[nodes]
        left = np.where(index >= 0, codes[index], K)
        counted = left < K
        if near.k:
            counted &= np.cumsum(counted, axis=1) <= near.k
        return np.stack([(counted & (left == c)).sum(axis=1) for c in range(K)], axis=1).astype(np.float64)


@compiled()
def judged(
    index: Int,
    band: Int,
    edge: Bool,
    k: int,
    whole: bool,
    outlier: int,
    codes: Int,
    nodes: Int,
    predicted: Int,
    inner: Int,
    some: Int,
    found: Int,
) -> None:
    """Find 1 where another class is predicted, 0 where the same one is, and -1 where that depends on the order.

    ``inner`` and ``some`` are (K,) scratch: votes that count, and of those that may come in any order.
    """
    K = inner.size
    for at in range(nodes.size):
        t = nodes[at]
        inner[:] = 0
        some[:] = 0
        i, need = 0, -1
        while i < index.shape[1] and index[t, i] >= 0:
            if k > 0:
                some[:] = 0
            here = band[t, i]
            while i < index.shape[1] and index[t, i] >= 0 and band[t, i] == here:
                c = codes[index[t, i]]
                if c < K and k == 0 and not edge[t, i]:
                    inner[c] += 1
                elif c < K:
                    some[c] += 1
                i += 1
            if k > 0 and inner.sum() + some.sum() >= k:
                need = k - inner.sum()
                break
            if k > 0:
                for c in range(K):
                    inner[c] += some[c]
        if k > 0 and need < 0:
            found[at] = 1 if whole else -1
            continue
        keeps = _may_keep(inner, some, need, predicted[t], outlier)
        loses = _may_lose(inner, some, need, predicted[t], outlier)
        found[at] = -1 if keeps and loses else 1 if loses else 0


@compiled(inner=True)
def _may_keep(inner: Int, some: Int, need: int, own: int, outlier: int) -> bool:
    """Whether so many of some rows (any, if -1) can be taken so that the predicted class wins."""
    taken = some[own] if need < 0 else min(some[own], need)
    mine, room = inner[own] + taken, 0
    if need < 0 and mine == 0:
        return inner.sum() == 0 and outlier == own
    for c in range(inner.size):
        if c != own:
            most = mine - inner[c] - (1 if c < own else 0)
            if most < 0:
                return False
            room += min(most, some[c])
    return need < 0 or room >= need - taken


@compiled(inner=True)
def _may_lose(inner: Int, some: Int, need: int, own: int, outlier: int) -> bool:
    """Whether they can be taken so that another class wins."""
    if need < 0 and inner.sum() == 0 and outlier != own:
        return True
    for c in range(inner.size):
        if c == own:
            continue
        taken = some[c] if need < 0 else min(some[c], need)
        left = 0 if need < 0 else max(0, need - taken - (some.sum() - some[c] - some[own]))
        lead = inner[c] + taken - inner[own] - left
        if inner[c] + taken > 0 and (lead > 0 or (lead == 0 and c < own)):
            return True
    return False
