"""Sets of single moves that the budgets pay for, in blocks: what walks extend by one move more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from labelcert.arrays import Int
from labelcert.compiling import compiled


class SingleMoves(NamedTuple):
    """Moves of one label each, in ascending order of labels."""

    # cost, group: (o,) price, and group of the label (-1: none)
    cost: Int
    group: Int
    following: Int  # (o,) the first move of the next label
    later: Int  # (o,) how many labels come later


def blocks_of_sets(moves: SingleMoves, caps: Int, budget: int, size: int, block: int) -> Iterator[Int]:
    """(·, size) ascending admissible sets of moves of different labels that leave a later label to add."""
    if size == 0:
        yield np.zeros((1, 0), dtype=np.int64)
        return
    chosen, used = np.full(size, -1, dtype=np.int64), np.zeros(caps.size, dtype=np.int64)
    while True:
        rows = np.empty((block, size), dtype=np.int64)
        count = _next_sets(*moves, caps, budget, chosen, used, rows)
        if count:
            yield rows[:count]
        if count < block:
            return


@compiled(inner=True)
def _pay(costs: Int, groups: Int, used: Int, k: int, sign: int) -> int:
    """Pay for a move, or take the money back."""
    if groups[k] >= 0:
        used[groups[k]] += sign * costs[k]
    return sign * costs[k]


@compiled()
def _next_sets(
    costs: Int, groups: Int, following: Int, later: Int, caps: Int, budget: int, chosen: Int, used: Int, rows: Int
) -> int:
    """Fill rows with the sets that come after ``chosen`` in lexicographic order; returns how many there are.

    ``chosen`` is the last set then, or begins with -1 before the first one; ``used`` is scratch.
    """
    size = chosen.shape[0]
    moves = costs.shape[0]
    count = 0
    spent = 0
    for g in range(used.shape[0]):
        used[g] = 0
    d = 0
    placed = 0  # how many of the chosen are paid for
    if chosen[0] >= 0:
        d = size - 1
        placed = size
        for k in chosen:
            spent += _pay(costs, groups, used, k, 1)
    while count < rows.shape[0]:
        k = chosen[d]
        if placed > d:
            placed = d
            spent += _pay(costs, groups, used, k, -1)
        k += 1
        while (
            k < moves
            and later[k] >= size - d
            and (spent + costs[k] > budget or (groups[k] >= 0 and used[groups[k]] + costs[k] > caps[groups[k]]))
        ):
            k += 1
        if k >= moves or later[k] < size - d:
            if d == 0:
                return count
            d -= 1
            continue
        chosen[d] = k
        placed = d + 1
        spent += _pay(costs, groups, used, k, 1)
        if d + 1 < size:
            d += 1
            chosen[d] = following[k] - 1
            continue
        for j in range(size):
            rows[count, j] = chosen[j]
        count += 1
    return count
