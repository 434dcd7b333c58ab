"""Cutting an enumeration into chunks that are walked independently.

Chunks come in ascending order of the cheapest set they hold, so that whenever a run stops, everything cheaper
than the first unfinished chunk is settled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from labelcert.arrays import Int, Signs
from labelcert.compiling import compiled
from labelcert.engines.cube.cube_walk import Walker, walk, walk_children
from labelcert.engines.cube.recording import Found, Walk, new_found
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

    def walk(self, task: Walk, walker: Walker, flag: Signs) -> tuple[Found, bool]:
        """Visit everything; also returns whether the chunk was finished."""
        found = new_found(task, self.stops)
        return found, walk(task, walker, found, self.prefix, self.low, _NO_PARENTS, flag)


@dataclass(frozen=True, eq=False)
class LevelChunk:
    """All sets that extend one of a block of parents by one later label."""

    min_cost: int
    stops: int
    parents: Int

    @classmethod
    def of(cls, task: Walk, min_cost: int, parents: Int) -> LevelChunk:
        """The extensions of some parents."""
        chunk = cls(min_cost, 0, parents)
        return replace(chunk, stops=int((task.affordable.size - chunk.first_child).sum()))

    @property
    def first_child(self) -> Int:
        """(f,) the first affordable position that each parent can add."""
        size = self.parents.shape[1]
        return self.parents[:, -1] + 1 if size else np.zeros(len(self.parents), dtype=np.int64)

    def walk(self, task: Walk, walker: Walker, flag: Signs) -> tuple[Found, bool]:
        """Visit everything; also returns whether the chunk was finished."""
        found = new_found(task, self.stops)
        if task.y.size > MANY_LABELS and not task.linear:
            return found, walk_children(task, walker, found, self.parents, flag)
        return found, walk(task, walker, found, 0, -1, self.parents, flag)


Chunk = CubeChunk | LevelChunk


def cube_bits(task: Walk) -> int:
    """Dimension of the cube to walk: one less where complements come for free."""
    return int(task.labels.size) - (1 if task.mirror else 0)


def cube_chunks(task: Walk, stops: int = CHUNK_STOPS) -> Iterator[Chunk]:
    """The whole cube of labellings, in chunks of so many stops (a power of two)."""
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


def level_chunks(task: Walk, stops: int = CHUNK_STOPS) -> Iterator[Chunk]:
    """All sets within budget, by size, in chunks of about so many; ends at the first size that none has."""
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


def admissible_parents(task: Walk, size: int, block: int) -> Iterator[Int]:
    """Blocks of admissible sets of a size that leave a later label to add; they count affordable positions."""
    if size == 0:
        yield np.zeros((1, 0), dtype=np.int64)
        return
    costs, groups = task.costs[task.affordable], task.groups[task.affordable]
    chosen, used = np.full(size, -1, dtype=np.int64), np.zeros(task.group_caps.size, dtype=np.int64)
    while True:
        rows = np.empty((block, size), dtype=np.int64)
        count = _next_sets(costs, groups, task.group_caps, task.budget, chosen, used, rows)
        if count:
            yield rows[:count]
        if count < block:
            return


@compiled()
def _next_sets(  # noqa: C901
    costs: Int, groups: Int, caps: Int, budget: int, chosen: Int, used: Int, rows: Int
) -> int:
    """Fill rows with the admissible sets that come after ``chosen`` in lexicographic order; returns how many there are.

    ``chosen`` is the last set then, or begins with -1 before the first one; ``used`` is scratch. The last position is
    in none of them.
    """
    size = chosen.shape[0]
    end = costs.shape[0] - 1
    count = 0
    spent = 0
    for g in range(used.shape[0]):
        used[g] = 0
    d = 0
    placed = 0  # so many of the chosen count as spent
    if chosen[0] >= 0:
        d = size - 1
        placed = size
        for k in chosen:
            spent += costs[k]
            if groups[k] >= 0:
                used[groups[k]] += costs[k]
    while count < rows.shape[0]:
        k = chosen[d]
        if placed > d:
            placed = d
            spent -= costs[k]
            if groups[k] >= 0:
                used[groups[k]] -= costs[k]
        k += 1
        while k <= end - (size - d) and (
            spent + costs[k] > budget or (groups[k] >= 0 and used[groups[k]] + costs[k] > caps[groups[k]])
        ):
            k += 1
        if k > end - (size - d):
            if d == 0:
                return count
            d -= 1
            continue
        chosen[d] = k
        placed = d + 1
        spent += costs[k]
        if groups[k] >= 0:
            used[groups[k]] += costs[k]
        if d + 1 < size:
            d += 1
            chosen[d] = k
            continue
        for j in range(size):
            rows[count, j] = chosen[j]
        count += 1
    return count
