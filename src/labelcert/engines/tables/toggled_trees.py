"""Compiled parts of the tables: trees of toggled sets, training on them, and extremes over subtrees.

A set of labels toggled in one class is a node of that class's tree; its children add one later label each. All
children of a set lie side by side in memory, so that a set is found by following one number per label. Level s of the
forest holds the sets of size s of all classes. Scores are stored in float32 with an error bound per set that covers
training, rounding and storage; what they leave undecided is decided elsewhere.

Names: K classes, n test nodes, S slots (sets, and a few that the budget or a group's rules out).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from labelcert.arrays import Float, Float32, Int
from labelcert.compiling import by_reference, compiled
from labelcert.losses.retraining import SHARP, bound, relabel, settle, solve_child
from labelcert.svm.pivoting import CAP, COLD_TABLEAU, FLAGS, UNIT_ROUNDOFF, Scratch, Z, new_scratch, sharing
from labelcert.svm.walking import combine, copy_scratch

LEAF = np.int64(-(2**62))
"""``base`` of a set without children."""

FORBIDDEN = np.int64(2**31 - 1)
"""``cost`` of a slot whose set is not admissible."""

TRAININGS, STUCK = range(2)
"""Counters of a walker."""

CLASS, MOVES, SIZE = range(3)
"""Where a walker is: the class whose labels it holds, labels toggled since the clean ones, size of its set."""

THERE, NOW = 0, 1
"""Rows of a walker's path: the toggles of the set where it is, and of the set where it goes."""

_STORED = 4.0 * 2.0**-24
_FAINT = 1e-35
"""Covers storage in float32: rounding twice, and underflow."""


@by_reference
class Rules(NamedTuple):
    """Which labels can be toggled in each class, and at what price."""

    sizes: Int  # (K,) number of labels that can be toggled in each class
    # labels, costs, groups: (K, ν) their indices, prices and groups (-1: none); padded
    labels: Int
    costs: Int
    groups: Int
    group_caps: Int  # (G,)
    least: Int  # (K,) the lowest price in each class
    budget: int


@by_reference
class ToggledTree(NamedTuple):
    """Sets of all classes, level by level."""

    base: Int  # (S,) slot of the child that adds toggle k is ``base + k``; ``LEAF`` where there is none
    last: Int  # (S,) largest toggle of each set; -1 for the empty set
    parent: Int  # (S,)
    owner: Int  # (S,) class
    cost: Int  # (S,) ``FORBIDDEN`` where the set is not admissible


@compiled(inner=True)
def _fits(rules: Any, tree: Any, s: int, k: int) -> bool:
    """Whether toggle ``k`` can be added to set ``s``."""
    c = tree.owner[s]
    if tree.cost[s] + rules.costs[c, k] > rules.budget:
        return False
    g = rules.groups[c, k]
    if g < 0:
        return True
    used = rules.costs[c, k]
    up = s
    while tree.last[up] >= 0:
        if rules.groups[c, tree.last[up]] == g:
            used += rules.costs[c, tree.last[up]]
        up = tree.parent[up]
    return used <= rules.group_caps[g]


@compiled(inner=True)
def _has_children(rules: Any, tree: Any, s: int) -> bool:
    """Whether any toggle can be added to set ``s``."""
    c = tree.owner[s]
    if tree.cost[s] == FORBIDDEN or tree.cost[s] + rules.least[c] > rules.budget:
        return False
    some, k = False, tree.last[s] + 1
    while not some and k < rules.sizes[c]:
        some = _fits(rules, tree, s, k)
        k += 1
    return some


@compiled()
def count_children(rules: Any, tree: Any, start: int, end: int) -> int:
    """Slots that the children of sets ``start..end`` take."""
    total = 0
    for s in range(start, end):
        if _has_children(rules, tree, s):
            total += rules.sizes[tree.owner[s]] - tree.last[s] - 1
    return total


@compiled()
def add_children(rules: Any, tree: Any, start: int, end: int, slot: int) -> int:
    """Write the children of sets ``start..end`` from ``slot`` on; returns the slot after them."""
    for s in range(start, end):
        tree.base[s] = LEAF
        if not _has_children(rules, tree, s):
            continue
        c = tree.owner[s]
        tree.base[s] = slot - (tree.last[s] + 1)
        for k in range(tree.last[s] + 1, rules.sizes[c]):
            tree.last[slot] = k
            tree.parent[slot] = s
            tree.owner[slot] = c
            tree.base[slot] = LEAF
            tree.cost[slot] = tree.cost[s] + rules.costs[c, k] if _fits(rules, tree, s, k) else FORBIDDEN
            slot += 1
    return slot


@by_reference
class Fill(NamedTuple):
    """What the trainings need: constant and shared by all workers."""

    retraining: Any
    scores: Float  # (m, n) scaled test rows, transposed
    linear: bool
    duals: bool  # whether what multiplies the test rows is stored, and not their scores
    shared: bool  # whether a set is solved from its parent's tableau without copying it
    many: bool  # whether walks find the clean solution of their class at hand, since training on it takes long
    slack: float  # error of ``scores`` times ``‖y‖₂``, where scores are linear
    ys: Float  # (K, m) clean labels of each class against the rest
    shrink: float  # power of two that brings scores to the range of float32: the largest clean one to about 1
    rough: float  # an error bound that is good enough where a better one takes ten times as long, in these units


@by_reference
class FillWorker(NamedTuple):
    """Everything that one worker writes to; ``child`` is ``svm`` with the parent's tableau."""

    svm: Scratch
    child: Scratch
    parent: Scratch
    y: Float
    p: Float
    p_parent: Float
    here: Int
    path: Int
    counters: Int


def new_fill_worker(fill: Fill, levels: int) -> FillWorker:
    """Working memory of one worker, for sets of up to ``levels`` labels."""
    m, n = fill.scores.shape
    n = m if fill.duals else n
    svm_size = 0 if fill.linear else m
    svm, parent = new_scratch(svm_size), new_scratch(svm_size)
    return FillWorker(
        svm=svm,
        child=sharing(svm, parent),
        parent=parent,
        y=np.zeros(fill.ys.shape[1]),
        p=np.zeros(n),
        p_parent=np.zeros(n),
        here=np.zeros(3, dtype=np.int64),
        path=np.zeros((2, levels + 2), dtype=np.int64),
        counters=np.zeros(2, dtype=np.int64),
    )


@compiled(inner=True)
def _toggle(fill: Any, rules: Any, w: Any, c: int, k: int) -> None:
    i = rules.labels[c, k]
    if not fill.linear:
        relabel(fill.retraining, w.svm, w.y, i, -w.y[i])
        return
    w.y[i] = -w.y[i]
    w.here[MOVES] += 1
    step = 2.0 * w.y[i]
    for t in range(w.p.shape[0]):
        w.p[t] += step * fill.scores[i, t]


@compiled(inner=True)
def _train(fill: Any, w: Any) -> None:
    w.counters[TRAININGS] += 1
    if settle(fill.retraining, w.svm, w.y) < 0:
        w.counters[STUCK] += 1


@compiled(inner=True)
def _start(fill: Any, w: Any, c: int) -> None:
    """Back to the clean labels of class ``c``."""
    m, n = fill.scores.shape
    w.here[CLASS] = c
    w.here[MOVES] = 0
    w.here[SIZE] = 0
    for i in range(fill.ys.shape[1]):
        w.y[i] = fill.ys[c, i]
    if fill.linear:
        for t in range(n):
            w.p[t] = 0.0
        for i in range(m):
            for t in range(n):
                w.p[t] += w.y[i] * fill.scores[i, t]
    else:
        w.svm.v[FLAGS, 0] = COLD_TABLEAU
        for i in range(m):
            w.svm.state[i] = CAP
        _train(fill, w)


@compiled()
def storage_error(error: float, largest: float) -> float:
    """Error bound of scores up to ``largest`` with an error of ``error``, once they and it are stored in float32."""
    return 1.0001 * (1.001 * error + _STORED * largest + _FAINT)


def storage_errors(errors: Float, largest: Float) -> Float:
    """The same for many at once."""
    return 1.0001 * (1.001 * errors + _STORED * largest + _FAINT)


@compiled(inner=True)
def _combine(fill: Any, w: Any) -> None:
    """What is stored, from the solution."""
    if fill.duals:
        for t in range(w.p.shape[0]):
            w.p[t] = w.svm.v[Z, t]
    else:
        combine(fill.scores, w.svm.v[Z], w.p)


@compiled(inner=True)
def _score(fill: Any, w: Any) -> float:
    """Scores of the current labels in ``w.p``; returns their error bound."""
    m = fill.scores.shape[0]
    if fill.linear:
        # |p| never exceeds ‖k‖₁ ≤ √m, so every addition so far erred by at most 2u√m.
        return 1.01 * (UNIT_ROUNDOFF * 4.0 * math.sqrt(m) * (w.here[MOVES] + m + 4) + fill.slack)
    _train(fill, w)
    error, _ = bound(fill.retraining, w.svm, w.y, SHARP)
    _combine(fill, w)
    return error


@compiled(inner=True)
def _score_child(fill: Any, w: Any, i: int) -> float:
    """The same for the parent's labels with one more toggled, without copying a tableau where that is good enough."""
    error, _ = solve_child(fill.retraining, w.parent, w.child, w.y, i, -w.y[i])
    largest = 0.0
    if error < np.inf:
        _combine(fill, w)
        for t in range(w.p.shape[0] if not fill.duals else 0):
            largest = max(largest, abs(w.p[t]))
    if error <= max(2.0 * _STORED * largest, fill.rough / fill.shrink):
        w.counters[TRAININGS] += 1
        return error
    w.y[i] = -w.y[i]
    copy_scratch(w.parent, w.svm)
    relabel(fill.retraining, w.svm, w.y, i, -w.y[i])
    return _score(fill, w)


@compiled(inner=True)
def _store(fill: Any, w: Any, P: Float32, tau: Float32, row: int, error: float) -> None:
    """The scores in ``w.p`` and their error bound, in float32."""
    n = w.p.shape[0]
    largest = 0.0
    for t in range(n):
        v = w.p[t] * fill.shrink
        largest = max(largest, abs(v))
        P[row, t] = v
    error = storage_error(error * fill.shrink, largest)
    if largest < 1e30 and error < 1e30:
        tau[row] = error
        return
    tau[row] = np.inf
    for t in range(n):
        P[row, t] = 0.0


@compiled()
def fill_children(  # noqa: C901
    fill: Any, rules: Any, tree: Any, w: Any, P: Float32, tau: Float32, offset: int, start: int, end: int, stop: Any
) -> bool:
    """Train on all children of sets ``start..end``; their rows are their slots minus ``offset``.

    Returns whether it was finished; ``stop[0] != 0`` ends it early. The worker is at the clean labels of the first
    set's class, or nowhere (-1).
    """
    for s in range(start, end):
        if tree.base[s] == LEAF:
            continue
        c = tree.owner[s]
        if w.here[CLASS] != c:
            _start(fill, w, c)
        # From the last set to this one: out with what it has not, in with what is new.
        size = 0
        up = s
        while tree.last[up] >= 0:
            w.path[NOW, size] = tree.last[up]
            size += 1
            up = tree.parent[up]
        for way in range(2):
            for a in range(w.here[SIZE] if way == 0 else size):
                common = False
                for b in range(size if way == 0 else w.here[SIZE]):
                    common = common or w.path[way, a] == w.path[1 - way, b]
                if not common:
                    _toggle(fill, rules, w, c, w.path[way, a])
        for a in range(size):
            w.path[THERE, a] = w.path[NOW, a]
        w.here[SIZE] = size
        if not fill.linear:
            _train(fill, w)
        moves = w.here[MOVES]
        if fill.linear:
            for t in range(w.p.shape[0]):
                w.p_parent[t] = w.p[t]
        else:
            copy_scratch(w.svm, w.parent)
        for k in range(tree.last[s] + 1, rules.sizes[c]):
            row = tree.base[s] + k
            if tree.cost[row] == FORBIDDEN:
                tau[row - offset] = np.inf
                for t in range(w.p.shape[0]):
                    P[row - offset, t] = 0.0
                continue
            i = rules.labels[c, k]
            if fill.shared:
                error = _score_child(fill, w, i)
            else:
                _toggle(fill, rules, w, c, k)
                error = _score(fill, w)
            _store(fill, w, P, tau, row - offset, error)
            w.y[i] = -w.y[i]
            if fill.linear:
                w.here[MOVES] = moves
                for t in range(w.p.shape[0]):
                    w.p[t] = w.p_parent[t]
            elif not fill.shared:
                copy_scratch(w.parent, w.svm)
            if stop[0] != 0:
                return False
        if fill.shared:
            copy_scratch(w.parent, w.svm)
    return True


@compiled()
def subtree_extremes(tree: Any, rules: Any, P: Float32, tau: Float32, filled: int, low: Float32, high: Float32) -> None:
    """Least and largest possible score of each set and all that descend from it, of ``filled`` slots.

    For the first sets of the forest, those that ``low`` and ``high`` have rows for.
    """
    inner, n = low.shape
    for s in range(inner - 1, -1, -1):
        for t in range(n):
            low[s, t] = P[s, t] - tau[s]
            high[s, t] = P[s, t] + tau[s]
        if tree.cost[s] == FORBIDDEN or tree.base[s] == LEAF:
            continue
        for k in range(tree.last[s] + 1, rules.sizes[tree.owner[s]]):
            child = tree.base[s] + k
            if child >= filled or tree.cost[child] == FORBIDDEN:
                continue
            if child < inner:
                for t in range(n):
                    low[s, t] = min(low[s, t], low[child, t])
                    high[s, t] = max(high[s, t], high[child, t])
            else:
                for t in range(n):
                    low[s, t] = min(low[s, t], P[child, t] - tau[child])
                    high[s, t] = max(high[s, t], P[child, t] + tau[child])
