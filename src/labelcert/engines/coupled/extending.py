"""The extensions of a few relabellings by one label each: trained together, and what each of them does.

A parent is a relabelling; its children change one later label more. All children of a parent are trained at a time,
from the parent's solution and with its inverse.

Names: K classes, m labels, n test nodes, ν labels that may change, B the largest budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from labelcert.arrays import Bool, Float, Int, Signs
from labelcert.engines.seen import Seen
from labelcert.losses.softmax import SoftmaxMachine
from labelcert.prediction.coupled import score_errors
from labelcert.prediction.highest import GUARD
from labelcert.problem import Adversary
from labelcert.stopping import Stopped, stopped_by

CHILDREN = 256
"""Children that are trained at a time."""


class Parents(NamedTuple):
    """Some relabellings to extend."""

    # positions, targets: (P, s) the labels that each of them changes, and what they become
    positions: Int
    targets: Int
    min_cost: int  # the least that a child of any parent of this level or a later one costs
    stops: int  # how many children there are


class Extend(NamedTuple):
    """Everything that a walk needs: constant, and plain values, so that it can travel as work for a pool."""

    machine: SoftmaxMachine
    rows: Float  # (n, m) scaled test rows
    own: Int  # (n,) predicted classes
    codes: Int  # (m,) clean labels
    # Z, inverse: (K, m) and (Km, Km) the clean solution, and from where similar labels are trained (None: large)
    Z: Float
    inverse: Float | None
    adversary: Adversary
    numbers: Int  # (ν, K) the number of each single move: see ``MoveNumbers``
    budget: int
    longest: int  # labels of the longest relabelling
    drops: bool  # whether classes without labels are dropped; where one is, everything is left open

    @property
    def may_leave(self) -> bool:
        """Always: a task is arrays and numbers."""
        return True

    def for_device(self) -> None:
        """There are no programs for it."""

    def new_worker(self) -> None:
        """Nothing: each chunk allocates what it needs."""

    def walk(self, chunk: Parents, worker: None, flag: Signs) -> tuple[Seen, bool]:
        """What the children of some parents do, and whether all of them were looked at."""
        found = [self._nothing()]
        for positions, targets in zip(chunk.positions, chunk.targets, strict=True):
            if flag[0] != 0:
                break
            with suppress(Stopped), stopped_by(lambda: bool(flag[0])):
                for some in self._extend(positions, targets):
                    found.append(some)  # noqa: PERF402 (what was found before the end is kept)
        seen = Seen(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
        return seen, flag[0] == 0 or seen.cost.size == chunk.stops

    def _nothing(self) -> Seen:
        effects = np.zeros((0, self.own.size), dtype=bool)
        return Seen(np.zeros(0, dtype=np.int64), np.zeros((0, self.longest), dtype=np.int64), effects, effects)

    def _extend(self, positions: Int, targets: Int) -> Iterator[Seen]:
        moves = self.adversary.children(positions, self.budget)
        if moves.size == 0:
            return
        parent = self.codes.copy()
        parent[self.adversary.labels[positions]] = targets
        Z, inverse = self.Z, self.inverse
        if positions.size and not self._dropped(parent[None])[0]:
            Z = self.machine.train(parent[None], Z, inverse)[0][0]
            inverse = self.machine.inverse(Z)
        spent, size = self.adversary.costs[positions].sum(), positions.size
        together = 1 if self.machine.many else CHILDREN
        for start in range(0, moves.shape[0], together):
            some = moves[start : start + together]
            codes = np.repeat(parent[None], some.shape[0], axis=0)
            codes[np.arange(some.shape[0]), self.adversary.labels[some[:, 0]]] = some[:, 1]
            chosen = np.full((some.shape[0], self.longest), -1, dtype=np.int64)
            chosen[:, :size] = self.numbers[positions, targets]
            chosen[:, size] = self.numbers[some[:, 0], some[:, 1]]
            cost = spent + self.adversary.costs[some[:, 0]]
            effects = np.zeros((2, cost.size, self.own.size), dtype=bool)
            whole = ~self._dropped(codes)
            if whole.any():
                solutions, error = self.machine.train(codes[whole], Z, inverse)
                effects[:, whole] = self._effects(solutions, score_errors(solutions, error))
            yield Seen(cost, chosen, *effects)

    def _dropped(self, codes: Int) -> Bool:
        """(B,) whether some class has no labels under labels (B, m), and is dropped."""
        if not self.drops:
            return np.zeros(codes.shape[0], dtype=bool)
        return np.any([np.all(codes != c, axis=1) for c in range(self.Z.shape[0])], axis=0)

    def _effects(self, Z: Float, tau: Float) -> tuple[Bool, Bool]:
        """(c, n) nodes that are provably changed, and nodes that are provably not."""
        p = Z @ self.rows.T
        columns = np.arange(self.own.size)
        mine = p[:, self.own, columns].copy()
        p[:, self.own, columns] = -np.inf
        difference = mine - p.max(axis=1)
        error = 2.0 * GUARD * tau[:, None]
        return difference < -error, difference > error
