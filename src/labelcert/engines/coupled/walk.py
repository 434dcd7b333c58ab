"""The extensions of a few relabellings by one label each: trained together, scored and recorded.

A parent is a relabelling; its children change one later label more. All children of a parent are trained at a time,
from the parent's solution and with its inverse.

Names: K classes, m labels, n test nodes, ν labels that may change, B the largest budget.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from labelcert.arrays import Bool, Float, Int, Signs
from labelcert.losses.softmax import SoftmaxMachine
from labelcert.prediction.coupled import score_errors
from labelcert.prediction.highest import GUARD
from labelcert.problem import Adversary

CHILDREN = 256
"""So many children are trained at a time."""

NONE = -1
"""Fills up the columns of a relabelling behind its last label."""


class Chunk(NamedTuple):
    """Some relabellings to extend.

    Attributes
    ----------
    parents : pair of (P, s) arrays
        Their positions and targets.
    min_cost : int
        The least that a child of any parent of this level or a later one costs.
    """

    parents: tuple[Int, Int]
    min_cost: int


class Found(NamedTuple):
    """What some relabellings do.

    Attributes
    ----------
    radius : (n,) array
        Least cost of a relabelling that provably changes each node.
    radius_moves : (n, 2, L) array
        Its positions and targets.
    most : (B + 1,) array
        Most nodes provably changed at each cost; -1 where there is none.
    most_moves : (B + 1, 2, L) array
    doubts : (D, 2, L) array
        Relabellings whose effect on some nodes is open, and may matter.
    possible : (D,) array
        How many nodes each of them changes at the most.
    trainings : int
    """

    radius: Int
    radius_moves: Int
    most: Int
    most_moves: Int
    doubts: Int
    possible: Int
    trainings: int


class Extend(NamedTuple):
    """Everything that a walk needs: constant, and plain values, so that it can travel as work for a pool.

    Attributes
    ----------
    machine : SoftmaxMachine
    rows : (n, m) array
        Scaled test rows.
    own : (n,) array
        Predicted classes.
    codes : (m,) array
        Clean labels.
    Z, inverse : (K, m) and (Km, Km) arrays
        The clean solution, and from where similar labels are trained.
    adversary : Adversary
    budget : int
    longest : int
        Labels of the longest relabelling.
    """

    machine: SoftmaxMachine
    rows: Float
    own: Int
    codes: Int
    Z: Float
    inverse: Float
    adversary: Adversary
    budget: int
    longest: int

    def new_worker(self) -> None:
        """Nothing is needed."""

    def walk(self, chunk: Chunk, worker: None, flag: Signs) -> tuple[Found, bool]:
        """What the children of some parents do, and whether all of them were looked at."""
        record = _Record(self)
        for positions, targets in zip(*chunk.parents, strict=True):
            if flag[0] != 0:
                return record.found(), False
            self._extend(positions, targets, record)
        return record.found(), True

    def _extend(self, positions: Int, targets: Int, record: _Record) -> None:
        moves = self.adversary.children(positions, self.budget)
        if moves.size == 0:
            return
        parent = self.codes.copy()
        parent[self.adversary.labels[positions]] = targets
        Z, inverse = self.Z, self.inverse
        if positions.size:
            Z = self.machine.train(parent[None], Z, inverse)[0][0]
            inverse = self.machine.inverse(Z)
        for start in range(0, moves.shape[0], CHILDREN):
            some = moves[start : start + CHILDREN]
            codes = np.repeat(parent[None], some.shape[0], axis=0)
            codes[np.arange(some.shape[0]), self.adversary.labels[some[:, 0]]] = some[:, 1]
            solutions, error = self.machine.train(codes, Z, inverse)
            changed, open_ = self._effects(solutions, score_errors(solutions, error))
            both = np.stack([positions, targets])
            chosen = np.concatenate([np.repeat(both[None], some.shape[0], axis=0), some[:, :, None]], axis=2)
            record.enter(chosen, changed, open_)

    def _effects(self, Z: Float, tau: Float) -> tuple[Bool, Bool]:
        """(c, n) nodes that are provably changed, and nodes for which that is open."""
        p = Z @ self.rows.T
        columns = np.arange(self.own.size)
        mine = p[:, self.own, columns].copy()
        p[:, self.own, columns] = -np.inf
        difference = mine - p.max(axis=1)
        error = 2.0 * GUARD * tau[:, None]
        changed = difference < -error
        return changed, ~changed & ~(difference > error)

    def cost_of(self, moves: Int) -> Int:
        """(c,) what relabellings (c, 2, s) cost."""
        positions = moves[:, 0]
        return np.asarray(np.where(positions >= 0, self.adversary.costs[positions], 0).sum(axis=1))


class _Record:
    """The best of what a walk meets."""

    def __init__(self, task: Extend) -> None:
        n, B, L = task.own.size, task.budget, task.longest
        self._task = task
        self._radius = np.full(n, task.adversary.never, dtype=np.int64)
        self._radius_moves = np.full((n, 2, L), NONE, dtype=np.int64)
        self._most = np.full(B + 1, -1, dtype=np.int64)
        self._most_moves = np.full((B + 1, 2, L), NONE, dtype=np.int64)
        self._doubts: list[Int] = []
        self._possible: list[Int] = []
        self._trainings = 0

    def enter(self, moves: Int, changed: Bool, open_: Bool) -> None:
        """Relabellings (c, 2, s) with the nodes (c, n) that they change, and those for which that is open."""
        full = np.full((*moves.shape[:2], self._task.longest), NONE, dtype=np.int64)
        full[:, :, : moves.shape[2]] = moves
        cost = self._task.cost_of(moves)
        self._trainings += cost.size
        cheapest = np.where(changed, cost[:, None], self._task.adversary.never)
        first = cheapest.argmin(axis=0)
        closer = np.flatnonzero(cheapest[first, np.arange(first.size)] < self._radius)
        self._radius[closer] = cost[first[closer]]
        self._radius_moves[closer] = full[first[closer]]
        count = changed.sum(axis=1)
        for k in np.flatnonzero(count > self._most[cost]):
            if count[k] > self._most[cost[k]]:
                self._most[cost[k]], self._most_moves[cost[k]] = count[k], full[k]
        doubtful = np.flatnonzero(open_.any(axis=1))
        self._doubts.append(full[doubtful])
        self._possible.append(count[doubtful] + open_[doubtful].sum(axis=1))

    def found(self) -> Found:
        """All of it."""
        L = self._task.longest
        return Found(
            radius=self._radius,
            radius_moves=self._radius_moves,
            most=self._most,
            most_moves=self._most_moves,
            doubts=np.concatenate([*self._doubts, np.zeros((0, 2, L), dtype=np.int64)]),
            possible=np.concatenate([*self._possible, np.zeros(0, dtype=np.int64)]),
            trainings=self._trainings,
        )
