"""Cutting an enumeration into chunks that are walked independently.

Chunks come in ascending order of the cheapest set they hold, so that whenever a run stops, everything cheaper
than the first unfinished chunk is settled.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from labelcert.arrays import Int, Signs
from labelcert.engines.cube.cube_walk import Walker, walk, walk_children
from labelcert.engines.cube.recording import Found, Walk, new_found
from labelcert.svm.walking import MANY_LABELS

CUBE_BITS = 12
LEVEL_STOPS = 4096
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


def cube_chunks(task: Walk) -> Iterator[Chunk]:
    """The whole cube of labellings."""
    bits = cube_bits(task)
    low = min(CUBE_BITS, bits)
    prefixes = np.arange(1 << (bits - low), dtype=np.int64)
    cheapest = np.zeros(prefixes.size, dtype=np.int64)
    for b in range(bits - low):
        cheapest += ((prefixes >> b) & 1) * task.costs[low + b]
    if task.mirror:
        dearest = cheapest + task.costs[:low].sum()
        cheapest = np.minimum(cheapest, task.total - dearest)
    for k in np.argsort(cheapest, kind="stable"):
        yield CubeChunk(min_cost=int(cheapest[k]), stops=1 << low, prefix=int(prefixes[k]), low=low)


def level_chunks(task: Walk) -> Iterator[Chunk]:
    """All sets within budget, by size; ends at the first size that no admissible set has."""
    yield CubeChunk(min_cost=0, stops=1, prefix=0, low=0)
    nu = int(task.affordable.size)
    cheapest = np.cumsum(np.sort(task.costs[task.affordable]))
    for size in range(1, nu + 1):
        if cheapest[size - 1] > task.budget:
            return
        leaves = max(1.0, math.comb(nu, size) / math.comb(nu - 1, size - 1))
        block = max(1, round(LEVEL_STOPS / leaves))
        parents = admissible_parents(task, size - 1)
        empty = True
        while rows := list(itertools.islice(parents, block)):
            empty = False
            array = np.array(rows, dtype=np.int64).reshape(len(rows), size - 1)
            last = array[:, -1] if size > 1 else np.full(len(rows), -1)
            yield LevelChunk(min_cost=int(cheapest[size - 1]), stops=int((nu - 1 - last).sum()), parents=array)
        if empty:
            return


def admissible_parents(task: Walk, size: int) -> Iterator[tuple[int, ...]]:
    """Admissible sets of a size that leave a later label to add; they count affordable positions, in order."""
    nu = int(task.affordable.size)
    if task.group_caps.size == 0 and np.all(task.costs[task.affordable] == task.costs[task.affordable[0]]):
        # With equal costs and no groups every set of an affordable size is admissible.
        return itertools.combinations(range(nu - 1), size)
    costs = task.costs[task.affordable].tolist()
    groups = task.groups[task.affordable].tolist()
    left = task.group_caps.tolist()
    return _extend((), 0, size, task.budget, nu - 1, costs, groups, left)


def _extend(
    chosen: tuple[int, ...],
    first: int,
    missing: int,
    budget: int,
    end: int,
    costs: list[int],
    groups: list[int],
    left: list[int],
) -> Iterator[tuple[int, ...]]:
    """All admissible ways to add ``missing`` more positions below ``end``; flips only ever add cost."""
    if missing == 0:
        yield chosen
        return
    for k in range(first, end - missing + 1):
        cost, group = costs[k], groups[k]
        if cost > budget or (group >= 0 and cost > left[group]):
            continue
        if group >= 0:
            left[group] -= cost
        yield from _extend((*chosen, k), k + 1, missing - 1, budget - cost, end, costs, groups, left)
        if group >= 0:
            left[group] += cost
