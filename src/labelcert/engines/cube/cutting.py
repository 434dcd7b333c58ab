"""Cutting an enumeration into chunks that are walked independently.

Chunks come in ascending order of the cheapest set they hold, so that whenever a run stops, everything cheaper
than the first unfinished chunk is settled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from labelcert.arrays import Int, Signs
from labelcert.engines.cube.cube_walk import CubeWorker, walk, walk_children
from labelcert.engines.cube.recording import CubeSummary, CubeWork, new_summary
from labelcert.engines.subsets import SingleMoves, blocks_of_sets
from labelcert.losses.retraining import begin
from labelcert.stopping import Stopped, stopped_by
from labelcert.svm.pivoting import heeding
from labelcert.svm.walking import MANY_LABELS

CHUNK_STOPS = 4096
_NO_PARENTS = np.zeros((0, 0), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class CubeChunk:
    """All subsets of the first ``low`` flippable labels, joined to one set of the later ones."""

    min_cost: int
    stops: int
    prefix: int
    low: int

    def walk(self, task: CubeWork, walker: CubeWorker, flag: Signs) -> tuple[CubeSummary, bool]:
        """Visit everything; also returns whether the chunk was finished."""
        found = new_summary(task, self.stops)
        if not ready(task, walker, flag):
            return found, False
        return found, walk(task, heeding(walker, flag), found, self.prefix, self.low, _NO_PARENTS, flag)

    def halves(self, task: CubeWork) -> tuple[CubeChunk, CubeChunk]:
        """Without and with the last of its labels."""
        lower, upper = (CubeChunk(self.min_cost, self.stops // 2, 2 * self.prefix + k, self.low - 1) for k in (0, 1))
        return lower, upper


@dataclass(frozen=True, eq=False)
class LevelChunk:
    """All sets that extend one of a block of parents by one later label."""

    low: ClassVar[int] = -1
    """It is no cube."""

    min_cost: int
    stops: int
    parents: Int

    @classmethod
    def of(cls, task: CubeWork, min_cost: int, parents: Int) -> LevelChunk:
        """The extensions of some parents."""
        chunk = cls(min_cost, 0, parents)
        return replace(chunk, stops=int((task.affordable.size - chunk.first_child).sum()))

    @property
    def first_child(self) -> Int:
        """(f,) the first affordable position that each parent can add."""
        size = self.parents.shape[1]
        return self.parents[:, -1] + 1 if size else np.zeros(len(self.parents), dtype=np.int64)

    def walk(self, task: CubeWork, walker: CubeWorker, flag: Signs) -> tuple[CubeSummary, bool]:
        """Visit everything; also returns whether the chunk was finished."""
        found = new_summary(task, self.stops)
        if not ready(task, walker, flag):
            return found, False
        walker = heeding(walker, flag)
        if task.y.size > MANY_LABELS and not task.linear:
            return found, walk_children(task, walker, found, self.parents, flag)
        return found, walk(task, walker, found, 0, self.low, self.parents, flag)

    def halves(self, task: CubeWork) -> tuple[LevelChunk, LevelChunk]:
        """Its first parents, and the others."""
        middle = len(self.parents) // 2
        first, second = (LevelChunk.of(task, self.min_cost, half) for half in np.split(self.parents, [middle]))
        return first, second


LabellingChunk = CubeChunk | LevelChunk


def ready(task: CubeWork, walker: CubeWorker, flag: Signs) -> bool:
    """Train on the clean labels, where that is not left to the walk; False where the run is over before."""
    if not task.linear:
        try:
            with stopped_by(lambda: bool(flag[0])):
                begin(task.retraining, walker.clean, task.y)
        except Stopped:
            return False
    return True


def cube_bits(task: CubeWork) -> int:
    """Dimension of the cube to walk: one less where complements come for free."""
    return int(task.labels.size) - (1 if task.mirror else 0)


def cube_chunks(task: CubeWork, stops: int = CHUNK_STOPS) -> Iterator[LabellingChunk]:
    """The whole cube of labellings, in chunks of ``stops`` labellings each (a power of two)."""
    bits = cube_bits(task)
    low = min(stops.bit_length() - 1, bits)
    prefixes = np.arange(1 << (bits - low), dtype=np.int64)
    cheapest = np.zeros(prefixes.size, dtype=np.int64)
    for b in range(bits - low):
        cheapest += ((prefixes >> b) & 1) * task.costs[low + b]
    if task.mirror:
        dearest = cheapest + task.costs[:low].sum()
        cheapest = np.minimum(cheapest, task.total - dearest)
    for k in np.argsort(cheapest, kind="stable"):
        yield CubeChunk(min_cost=int(cheapest[k]), stops=1 << low, prefix=int(prefixes[k]), low=low)


def level_chunks(task: CubeWork, stops: int = CHUNK_STOPS) -> Iterator[LabellingChunk]:
    """All sets within budget, by size, in chunks of about ``stops`` sets each; ends at the first size that none has."""
    yield CubeChunk(min_cost=0, stops=1, prefix=0, low=0)
    nu = int(task.affordable.size)
    cheapest = np.cumsum(np.sort(task.costs[task.affordable]))
    for size in range(1, nu + 1):
        if cheapest[size - 1] > task.budget:
            return
        leaves = max(1.0, math.comb(nu, size) / math.comb(nu - 1, size - 1))
        block = max(1, round(stops / leaves))
        empty = True
        for parents in admissible_parents(task, size - 1, block):
            empty = False
            yield LevelChunk.of(task, int(cheapest[size - 1]), parents)
        if empty:
            return


def admissible_parents(task: CubeWork, size: int, block: int) -> Iterator[Int]:
    """Blocks of admissible sets of a size that leave a later label to add; they count affordable positions."""
    count = task.affordable.size
    moves = SingleMoves(
        cost=task.costs[task.affordable],
        group=task.groups[task.affordable],
        following=np.arange(1, count + 1),
        later=np.arange(count - 1, -1, -1),
    )
    yield from blocks_of_sets(moves, task.group_caps, task.budget, size, block)
