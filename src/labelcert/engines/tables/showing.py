"""Every relabelling, one by one, for observers: read off the tables of toggled sets, without pruning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from labelcert.arrays import Bool, Float32, Int
from labelcert.compiling import compiled
from labelcert.engines.base import Question
from labelcert.engines.seen import Seen
from labelcert.engines.subsets import SingleMoves, blocks_of_sets
from labelcert.engines.tables.options import Options
from labelcert.engines.tables.relabelling_walk import (
    COST,
    FROM,
    GROUP,
    NEXT,
    PLACE_FROM,
    PLACE_TO,
    ROUNDED,
    TO,
    over_cap,
)

SHOWN_AT_ONCE = 8192
"""Relabellings in one batch, about."""


class Extended(NamedTuple):
    """Some relabellings whose extensions are shown."""

    parents: Int  # (P, s) their options
    min_cost: int
    stops: int  # how many extensions there are at most


def extended(question: Question, options: Options, size: int, min_cost: int) -> Iterator[Extended]:
    """All relabellings of one size, as extensions of smaller ones by one later label."""
    table, a = options.table, question.problem.adversary
    labels = np.unique(options.position, return_inverse=True)[1]
    later = labels.max(initial=-1) - labels
    moves = SingleMoves(table[:, COST].copy(), table[:, GROUP].copy(), table[:, NEXT].copy(), later.astype(np.int64))
    block = max(1, SHOWN_AT_ONCE * size // max(1, len(table)))
    for parents in blocks_of_sets(moves, a.group_caps, question.budget, size - 1, block):
        first = table[parents[:, -1], NEXT] if size > 1 else np.zeros(1, dtype=np.int64)
        yield Extended(parents, min_cost, int((len(table) - first).sum()))


def show(
    question: Question, base: Int, P: Float32, tau: Float32, options: Options, chunk: Extended, longest: int, flag: Any
) -> tuple[Seen, bool]:
    """What the extensions of some relabellings do, and whether all of them were looked at."""
    n = question.nodes.size
    cost, code = np.zeros(chunk.stops, dtype=np.int64), np.full((chunk.stops, longest), -1, dtype=np.int64)
    changed, unchanged = (np.empty((chunk.stops, n), dtype=np.bool_) for _ in range(2))
    now = np.zeros(question.problem.n_classes, dtype=np.int64)
    count = _see_children(
        base,
        P,
        tau,
        options.table,
        question.problem.adversary.group_caps,
        question.budget,
        question.segments,
        chunk.parents,
        now,
        cost,
        code,
        changed,
        unchanged,
        flag,
    )
    seen = int(count) if count >= 0 else -1 - int(count)
    return Seen(cost[:seen], code[:seen], changed[:seen], unchanged[:seen]), count >= 0


@compiled(inner=True)
def _see(P: Float32, tau: Float32, now: Int, segments: Int, changed: Bool, unchanged: Bool) -> None:
    """What one relabelling does to each node, where the sets ``now`` are toggled."""
    K = now.shape[0]
    for t in range(changed.shape[0]):
        changed[t] = False
        unchanged[t] = True
    for c in range(K):
        own = P[now[c]]
        for r in range(K):
            if r == c:
                continue
            rival = P[now[r]]
            error = ROUNDED * (tau[now[c]] + tau[now[r]])
            for t in range(segments[c], segments[c + 1]):
                difference = own[t] - rival[t]
                changed[t] |= difference < -error
                unchanged[t] &= difference > error


@compiled()
def _see_children(
    base: Int,
    P: Float32,
    tau: Float32,
    options: Int,
    caps: Int,
    budget: int,
    segments: Int,
    parents: Int,
    now: Int,
    cost: Int,
    code: Int,
    changed: Bool,
    unchanged: Bool,
    stop: Any,
) -> int:
    """Write down all admissible extensions of some relabellings; returns how many there are.

    ``stop[0] != 0`` ends it early: then one more than this, negative.
    """
    size = parents.shape[1]
    count = 0
    for row in range(parents.shape[0]):
        if stop[0] != 0:
            return -1 - count
        for c in range(now.shape[0]):
            now[c] = c
        spent = 0
        first = 0
        for k in range(size):
            o = parents[row, k]
            now[options[o, FROM]] = base[now[options[o, FROM]]] + options[o, PLACE_FROM]
            now[options[o, TO]] = base[now[options[o, TO]]] + options[o, PLACE_TO]
            spent += options[o, COST]
            first = options[o, NEXT]
        for o in range(first, options.shape[0]):
            if spent + options[o, COST] > budget or over_cap(options, caps, parents[row], size, o):
                continue
            a, b = options[o, FROM], options[o, TO]
            x, z = now[a], now[b]
            now[a] = base[x] + options[o, PLACE_FROM]
            now[b] = base[z] + options[o, PLACE_TO]
            _see(P, tau, now, segments, changed[count], unchanged[count])
            now[a] = x
            now[b] = z
            cost[count] = spent + options[o, COST]
            for k in range(size):
                code[count, k] = parents[row, k]
            code[count, size] = o
            count += 1
    return count
