"""A compiled walk over the relabellings of one part, on tables of scores: the lowest value that each state reaches."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from labelcert.arrays import Float, Float32, Int
from labelcert.compiling import by_reference, compiled
from labelcert.engines.tables.relabelling_walk import COST, FROM, GROUP, NEXT, PLACE_FROM, PLACE_TO, TO, over_cap

Small = np.ndarray[Any, np.dtype[np.int16]]


@by_reference
class Scores(NamedTuple):
    """Scores of all toggled sets of one part.

    Attributes
    ----------
    base : (S,) array
        As in :class:`~labelcert.engines.tables.toggled_trees.ToggledTree`.
    P, tau : (S, n) and (S,) arrays
    """

    base: Int
    P: Float32
    tau: Float32


@by_reference
class Low(NamedTuple):
    """The lowest value of each node against each rival, by state.

    Attributes
    ----------
    value : (rows, K, n) array
        Infinite where nothing was visited.
    options : (rows, K, n, L) array
        The relabelling that reaches it: its options, and -1 behind the last one.
    """

    value: Float
    options: Small


def new_low(rows: int, classes: int, nodes: int, longest: int) -> Low:
    """Nothing visited yet, for relabellings of up to ``longest`` labels."""
    return Low(
        value=np.full((rows, classes, nodes), np.inf),
        options=np.full((rows, classes, nodes, max(1, longest)), -1, dtype=np.int16),
    )


@compiled(inner=True)
def _enter(low: Any, row: int, r: int, t: int, value: float, at: Int) -> None:
    if not value >= low.value[row, r, t]:
        low.value[row, r, t] = value if value == value else -np.inf
        for k in range(low.options.shape[3]):
            low.options[row, r, t, k] = at[k] if k < at.shape[0] else -1


@compiled()
def enter_scores(scores: Any, now: Int, own: Int, row: int, at: Int, low: Any) -> None:
    """Scores of the own class minus those of each rival, where the sets ``now`` are toggled, at the least."""
    K = now.shape[0]
    for t in range(own.shape[0]):
        c = own[t]
        mine = np.float64(scores.P[now[c], t]) - np.float64(scores.tau[now[c]])
        for r in range(K):
            if r != c:
                rival = np.float64(scores.P[now[r], t]) + np.float64(scores.tau[now[r]])
                _enter(low, row, r, t, mine - rival, at)


@compiled()
def enter_votes(scores: Any, now: Int, own: Int, row: int, at: Int, low: Any) -> None:
    """Votes: -1 where the rival may have the highest score, 0 where another class may, 1 else."""
    K = now.shape[0]
    for t in range(own.shape[0]):
        c = own[t]
        best = -np.inf
        for o in range(K):
            best = max(best, np.float64(scores.P[now[o], t]) - np.float64(scores.tau[now[o]]))
        others = False
        for o in range(K):
            if o != c:
                others |= not np.float64(scores.P[now[o], t]) + np.float64(scores.tau[now[o]]) < best
        for r in range(K):
            if r != c:
                if not others:
                    value = 1.0
                elif not np.float64(scores.P[now[r], t]) + np.float64(scores.tau[now[r]]) < best:
                    value = -1.0
                else:
                    value = 0.0
                _enter(low, row, r, t, value, at)


@compiled()
def walk_lowest(
    scores: Any,
    options: Int,
    caps: Int,
    strides: Int,
    path: Any,
    size: int,
    first: int,
    last: int,
    budget: int,
    own: Int,
    votes: bool,
    low: Any,
    stop: Any,
) -> bool:
    """All relabellings of one size whose first option is one of ``first..last``.

    A relabelling belongs into the row of its cost and of what it spends in groups. Returns whether it was finished;
    ``stop[0] != 0`` ends it early.
    """
    n_options = options.shape[0]
    K = low.value.shape[1]
    at, ids, spent, rows = path.at, path.ids, path.spent, path.rows
    d = 0
    at[0] = first - 1
    while d >= 0:
        at[d] += 1
        o = at[d]
        if o >= (last if d == 0 else n_options):
            d -= 1
            continue
        cost = spent[d] + options[o, COST]
        if cost > budget or over_cap(options, caps, at, d, o):
            continue
        row = rows[d] + options[o, COST]
        if options[o, GROUP] >= 0:
            row += strides[options[o, GROUP]] * options[o, COST]
        a, b = options[o, FROM], options[o, TO]
        for c in range(K):
            ids[d + 1, c] = ids[d, c]
        ids[d + 1, a] = scores.base[ids[d, a]] + options[o, PLACE_FROM]
        ids[d + 1, b] = scores.base[ids[d, b]] + options[o, PLACE_TO]
        if d + 1 < size:
            d += 1
            spent[d] = cost
            rows[d] = row
            at[d] = options[o, NEXT] - 1
            if stop[0] != 0:
                return False
        elif votes:
            enter_votes(scores, ids[d + 1], own, row, at, low)
        else:
            enter_scores(scores, ids[d + 1], own, row, at, low)
    return True
