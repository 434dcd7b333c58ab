"""Compiled walks over relabellings, on tables of scores: nothing is trained here.

A relabelling is a list of *options*, one label and its new class each, in ascending order of labels. A walk extends
relabellings option by option and carries along which set is toggled in each class; it cuts off what the extremes over
all descendants of these sets rule out. What float32 cannot decide is noted as a doubt.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from labelcert.arrays import Float32, Int
from labelcert.compiling import by_reference, compiled

NEXT, COST, GROUP, FROM, TO, PLACE_FROM, PLACE_TO = range(7)
"""Columns of options: the first option of the next label, price, group, and two classes with the toggle in each.

In a walk over all relabellings a label moves from class ``FROM`` to ``TO``. In one over pairs the two are the
predicted class and its rival; a place of -1 says that the option does not toggle the label there.
"""

SIZE, FIRST, LAST, BEGIN, END, BUDGET, SKIP, OWN, RIVAL = range(9)
"""Entries of a plan: size of the relabellings, range of their first option, range of nodes, budget, doubts to skip.

In a walk over pairs, also the predicted class and its rival.
"""

DOUBT_COST, DOUBT_NODE, DOUBT_SURE, DOUBT_POSSIBLE = 0, 1, 1, 2
DOUBT_HEAD = 3
"""A doubt is its cost, the node (or the nodes surely and possibly changed), and from ``DOUBT_HEAD`` on its options."""

ROUNDED = np.float32(1.000001)
"""Covers the rounding of sums of two error bounds."""


@by_reference
class ScoreTable(NamedTuple):
    """Scores of all toggled sets."""

    base: Int  # (S,) as in ``ToggledTree``
    # P, tau: (S, n) and (S,)
    P: Float32
    tau: Float32
    # low, high: (·, n) extremes over each set and its descendants, for sets that have any
    low: Float32
    high: Float32


@by_reference
class Path(NamedTuple):
    """Where a walk over relabellings of one size stands, choice by choice."""

    at: Int  # (size,) options chosen
    ids: Int  # (size + 1, K) toggled sets of the classes, before and after each choice
    # spent, rows: (size + 1,) the cost so far, and where it belongs in a table
    spent: Int
    rows: Int


def new_path(size: int, classes: int) -> Path:
    """At the beginning, where nothing is toggled."""
    return Path(
        at=np.zeros(size, dtype=np.int64),
        ids=np.tile(np.arange(classes), (size + 1, 1)),
        spent=np.zeros(size + 1, dtype=np.int64),
        rows=np.zeros(size + 1, dtype=np.int64),
    )


@compiled()
def over_cap(options: Any, caps: Any, at: Any, depth: int, o: int) -> bool:
    """Whether option ``o`` after the first ``depth`` ones exceeds its group's budget."""
    g = options[o, GROUP]
    if g < 0:
        return False
    used = options[o, COST]
    for d in range(depth):
        if options[at[d], GROUP] == g:
            used += options[at[d], COST]
    return used > caps[g]


@compiled()
def walk_pairs(  # noqa: C901
    table: Any,
    options: Int,
    caps: Int,
    plan: Int,
    path: Any,
    radius: Int,
    limit: Int,
    found: Int,
    doubts: Int,
    stop: Any,
) -> int:
    """All relabellings of one size, as far as they matter to one predicted class and one rival.

    Lowers ``radius`` of the nodes ``BEGIN..END`` where one is provably changed
    (options in ``found``). Relabellings that may change a node, at a cost below ``limit``, are noted in ``doubts`` but
    for the first ``SKIP`` of them. Returns the number of doubts met, noted or not; -1 where it was stopped.
    """
    size, begin, end = plan[SIZE], plan[BEGIN], plan[END]
    budget = plan[BUDGET]
    n_options = options.shape[0]
    at, ids, spent = path.at, path.ids, path.spent
    ids[0, 0] = plan[OWN]
    ids[0, 1] = plan[RIVAL]
    met = 0
    d = 0
    at[0] = plan[FIRST] - 1
    while d >= 0:
        at[d] += 1
        o = at[d]
        if o >= (plan[LAST] if d == 0 else n_options):
            d -= 1
            continue
        cost = spent[d] + options[o, COST]
        if cost > budget or over_cap(options, caps, at, d, o):
            continue
        x = ids[d, 0]
        if options[o, PLACE_FROM] >= 0:
            x = table.base[x] + options[o, PLACE_FROM]
        z = ids[d, 1]
        if options[o, PLACE_TO] >= 0:
            z = table.base[z] + options[o, PLACE_TO]
        if d + 1 < size:
            alive = False
            for t in range(begin, end):
                alive = alive or (cost < radius[t] and not table.low[x, t] > table.high[z, t])
            if alive:
                d += 1
                ids[d, 0] = x
                ids[d, 1] = z
                spent[d] = cost
                at[d] = options[o, NEXT] - 1
            if stop[0] != 0:
                return -1
            continue
        error = ROUNDED * (table.tau[x] + table.tau[z])
        near = False
        for t in range(begin, end):
            near |= not table.P[x, t] - table.P[z, t] > error
        if not near:
            continue
        for t in range(begin, end):
            difference = table.P[x, t] - table.P[z, t]
            if difference > error:
                continue
            if difference < -error:
                if cost < radius[t]:
                    radius[t] = cost
                    for k in range(size):
                        found[t, k] = at[k]
            elif cost < limit[t]:
                row = met - plan[SKIP]
                met += 1
                if 0 <= row < doubts.shape[0]:
                    doubts[row, DOUBT_COST] = cost
                    doubts[row, DOUBT_NODE] = t
                    for k in range(size):
                        doubts[row, DOUBT_HEAD + k] = at[k]
    return met


@by_reference
class Board(NamedTuple):
    """Working memory of a walk over all relabellings: rows over the n nodes, so that loops run over whole rows."""

    # own, foreign: (K, n) 1 where a node is predicted as the class, else 0; minus infinity there, else 0
    own: Float32
    foreign: Float32
    high: Float32  # (K, n) highest scores of the classes, minus infinity for a node's own
    low: Float32  # (n,) lowest score of each node's own class
    # first, third: (K·K, n) see ``_prepare``
    first: Float32
    third: Float32
    fresh: Int  # (K·K,) when each row of ``first`` and ``third`` was prepared
    # now, counts: (K,) and (2,) toggled sets of one relabelling, and how many nodes it changes surely and possibly
    now: Int
    counts: Int


def new_board(segments: Int) -> Board:
    """For nodes sorted by predicted class."""
    K, n = segments.size - 1, int(segments[-1])
    own = np.zeros((K, n), dtype=np.float32)
    for c in range(K):
        own[c, segments[c] : segments[c + 1]] = 1.0
    return Board(
        own=own,
        foreign=np.where(own > 0, -np.inf, 0.0).astype(np.float32),
        high=np.zeros((K, n), dtype=np.float32),
        low=np.zeros(n, dtype=np.float32),
        first=np.zeros((K * K, n), dtype=np.float32),
        third=np.zeros((K * K, n), dtype=np.float32),
        fresh=np.full(K * K, -1, dtype=np.int64),
        now=np.zeros(K, dtype=np.int64),
        counts=np.zeros(2, dtype=np.int64),
    )


@compiled(inner=True)
def _count_within(table: Any, now: Int, segments: Int, bonus: Float32, board: Any) -> int:
    """Nodes that a relabelling with sets ``now`` or one of its extensions may change."""
    K, n = board.own.shape
    high = board.high[0]
    for t in range(n):
        high[t] = -np.inf
    for r in range(K):
        row, foreign = table.high[now[r]], board.foreign[r]
        for t in range(n):
            high[t] = max(high[t], row[t] + foreign[t])
    count = 0
    for c in range(K):
        row = table.low[now[c]]
        for t in range(segments[c], segments[c + 1]):
            count += not row[t] + bonus[t] > high[t]
    return count


@compiled(inner=True)
def _set_up(table: Any, now: Int, segments: Int, bonus: Float32, board: Any) -> None:
    """Highest scores of all rivals and lowest of each node's own class where the sets ``now`` are toggled."""
    K, n = board.own.shape
    for r in range(K):
        row, foreign, high, tau = table.P[now[r]], board.foreign[r], board.high[r], table.tau[now[r]]
        for t in range(n):
            high[t] = row[t] + tau + foreign[t]
        for t in range(segments[r], segments[r + 1]):
            board.low[t] = row[t] - tau + bonus[t]


@compiled(inner=True)
def _prepare(board: Any, a: int, b: int, pair: int, bonus: Float32) -> None:
    """What the classes other than ``a`` and ``b`` say about each node, for moves between these two.

    For nodes predicted as another class: ``first`` is the lowest score of that class, or minus infinity where a third
    class may reach it already. For nodes of ``a`` and ``b``: ``third`` is the highest score of a third class.
    """
    K, n = board.own.shape
    first, third = board.first[pair], board.third[pair]
    for t in range(n):
        third[t] = -np.inf
    for r in range(K):
        if r not in (a, b):
            high = board.high[r]
            for t in range(n):
                third[t] = max(third[t], high[t])
    own_a, own_b, low = board.own[a], board.own[b], board.low
    for t in range(n):
        if own_a[t] + own_b[t] > 0:
            first[t] = bonus[t]
        else:
            first[t] = low[t] if low[t] > third[t] else -np.inf
            third[t] = -np.inf


@compiled(inner=True, forceinline=True)
def _count_child(table: Any, x: int, z: int, board: Any, a: int, b: int, pair: int) -> int:
    """Nodes that one more move, which leads to set ``x`` of class ``a`` and ``z`` of ``b``, may change."""
    tx, tz = table.tau[x], table.tau[z]
    row_a, row_b = table.P[x], table.P[z]
    own_a, own_b, foreign_a, foreign_b = board.own[a], board.own[b], board.foreign[a], board.foreign[b]
    first, third = board.first[pair], board.third[pair]
    safe = 0
    for t in range(first.shape[0]):
        low = first[t] + own_a[t] * (row_a[t] - tx) + own_b[t] * (row_b[t] - tz)
        high = max(max(row_a[t] + tx + foreign_a[t], row_b[t] + tz + foreign_b[t]), third[t])
        safe += 1 if low > high else 0
    return first.shape[0] - safe


@compiled(inner=True)
def _count_surely(table: Any, now: Int, segments: Int, bonus: Float32, out: Int) -> None:
    """Nodes surely changed (``out[0]``) and possibly changed (``out[1]``) where the sets ``now`` are toggled."""
    K = now.shape[0]
    out[0] = 0
    out[1] = 0
    for c in range(K):
        own = now[c]
        for t in range(segments[c], segments[c + 1]):
            if bonus[t] > 0:
                continue
            sure = False
            possible = False
            for r in range(K):
                if r != c:
                    difference = table.P[own, t] - table.P[now[r], t]
                    error = ROUNDED * (table.tau[own] + table.tau[now[r]])
                    sure |= difference < -error
                    possible |= not difference > error
            out[0] += sure
            out[1] += possible


@compiled()
def walk_all(  # noqa: C901
    table: Any,
    options: Int,
    caps: Int,
    plan: Int,
    path: Any,
    segments: Int,
    bonus: Float32,
    board: Any,
    best: Int,
    found: Int,
    doubts: Int,
    stop: Any,
) -> int:
    """All relabellings of one size: the most nodes that one of them changes.

    Nodes are sorted by predicted class c: ``segments[c]..segments[c + 1]``. ``bonus`` is 0 for nodes that count and
    infinite for others. ``best[b]`` (non-decreasing) is the most that is known to be changed at cost b; it is raised,
    and the options that do it go to ``found[cost]``. Relabellings that may change more are noted in ``doubts`` but for
    the first ``SKIP`` of them. Returns the number of doubts met; -1 where it was stopped.
    """
    size, budget = plan[SIZE], plan[BUDGET]
    n_options = options.shape[0]
    K = segments.shape[0] - 1
    at, ids, spent = path.at, path.ids, path.spent
    fresh, now, counts = board.fresh, board.now, board.counts
    cheapest = budget + 1
    for o in range(n_options):
        cheapest = min(cheapest, options[o, COST])
    met = 0
    visited = 0
    d = 0
    at[0] = plan[FIRST] - 1
    _set_up(table, ids[0], segments, bonus, board)
    while d >= 0:
        at[d] += 1
        o = at[d]
        if o >= (plan[LAST] if d == 0 else n_options):
            d -= 1
            continue
        cost = spent[d] + options[o, COST]
        if cost > budget or over_cap(options, caps, at, d, o):
            continue
        a, b = options[o, FROM], options[o, TO]
        x = table.base[ids[d, a]] + options[o, PLACE_FROM]
        z = table.base[ids[d, b]] + options[o, PLACE_TO]
        if d + 1 < size:
            for c in range(K):
                ids[d + 1, c] = ids[d, c]
            ids[d + 1, a] = x
            ids[d + 1, b] = z
            spent[d + 1] = cost
            if cost + cheapest <= budget:
                count = _count_within(table, ids[d + 1], segments, bonus, board)
                if count > best[cost + cheapest]:
                    d += 1
                    at[d] = options[o, NEXT] - 1
                    if d + 1 == size:
                        visited += 1
                        _set_up(table, ids[d], segments, bonus, board)
            if stop[0] != 0:
                return -1
            continue
        pair = min(a, b) * K + max(a, b)
        if fresh[pair] != visited:
            fresh[pair] = visited
            _prepare(board, a, b, pair, bonus)
        count = _count_child(table, x, z, board, a, b, pair)
        if count <= best[cost]:
            continue
        for c in range(K):
            now[c] = ids[d, c]
        now[a] = x
        now[b] = z
        _count_surely(table, now, segments, bonus, counts)
        if counts[0] > best[cost]:
            for k in range(size):
                found[cost, k] = at[k]
            found[cost, size] = counts[0]
            k = cost
            while k <= budget and best[k] < counts[0]:
                best[k] = counts[0]
                k += 1
        if counts[1] > best[cost]:
            row = met - plan[SKIP]
            met += 1
            if 0 <= row < doubts.shape[0]:
                doubts[row, DOUBT_COST] = cost
                doubts[row, DOUBT_SURE] = counts[0]
                doubts[row, DOUBT_POSSIBLE] = counts[1]
                for k in range(size):
                    doubts[row, DOUBT_HEAD + k] = at[k]
    return met
