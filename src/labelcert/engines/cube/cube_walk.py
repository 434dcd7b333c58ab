"""Compiled walks over label flips: every admissible labelling is visited, scored and recorded.

A walk visits labellings one flip apart (Gray code over a cube of labels, or all one-flip extensions of a block
of parent sets). At every stop the model is retrained from its neighbour's tableau (hinge loss) or updated by one
vector (where scores are linear in the labels), all test nodes are scored, and what is *proved* goes into
:class:`Found`. Scores too close to zero for the error bound are not guessed: the labelling is noted as a doubt
and decided later in rational arithmetic.

Names: m labels, n test nodes, ν flippable labels, W = ⌈ν/64⌉ words of a set of flips, B the largest budget.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from labelcert.arrays import Float, Int, Words
from labelcert.engines.bitsets import words_for
from labelcert.svm.error_bound import bound
from labelcert.svm.pivoting import CAP, COLD_TABLEAU, FLAGS, UNIT_ROUNDOFF, Scratch, Z, new_scratch, relabel, settle
from labelcert.svm.walking import MANY_LABELS, combine, copy_scratch, solve_child

SOLVED, ROUNDS, GLOBAL_PROOFS, LOCAL_PROOFS, GAP_PROOFS, STUCK, DOUBTS = range(7)
N_COUNTERS = 7


class Walk(NamedTuple):
    """What to walk over: constant during a run and shared by all workers.

    Attributes
    ----------
    machine : Machine
        The SVM (ignored where ``linear``).
    scores : (m, n) array
        Test rows, transposed, each scaled by a power of two to norm at most 1 and multiplied by the sign of
        the clean prediction: a node is changed where its score is at most 0.
    linear : bool
        Scores are ``scores.T @ y``, with no training at all.
    slack : float
        Error of ``scores`` itself, in the sense of :func:`~labelcert.svm.error_bound.bound` times ``‖y‖₂``.
    y : (m,) array
        Clean labels, ±1.
    labels : (ν,) array
        Indices of the labels that may be flipped.
    costs, groups : (ν,) arrays
        Cost of each flip and its group (-1: none).
    affordable : array
        Positions that some admissible set contains (used by levels, not by cubes).
    group_caps, group_totals : (G,) arrays
        Budget of each group, and the cost of flipping all of it.
    budget : int
        Largest total cost B.
    total : int
        Cost of flipping all ν labels.
    mirror : bool
        Visit the complement of each set too, whose scores are the negatives (all labels flippable).
    rows : int
        Rows of the table of lowest scores; 0 where nobody asks for it.
    strides : (G,) array
        A set belongs into the row of its cost, plus so much for each unit spent in a group.
    """

    machine: Any
    scores: Float
    linear: bool
    slack: float
    y: Float
    labels: Int
    costs: Int
    groups: Int
    affordable: Int
    group_caps: Int
    group_totals: Int
    budget: int
    total: int
    mirror: bool
    rows: int
    strides: Int


class Found(NamedTuple):
    """What one chunk proved.

    Attributes
    ----------
    radius : (n,) array
        Least cost of a set that provably changes each node; ``radius_set`` (n, W) is that set.
    most : (B + 1,) array
        Most nodes provably changed by one set of exactly that cost (-1: none visited); ``most_set`` (B + 1, W).
    doubt : (·, D) array
        Undecided labellings, in the columns ``DOUBT_COST`` and following; ``doubt_set`` (·, W).
    counters : (7,) array
        See the names ``SOLVED`` and following.
    low : (R, n) array
        Lower bound on the score of each node over the sets of each row; infinite where none was visited.
        ``low_set`` (R, n, W) is a set that comes closest to it.
    """

    radius: Int
    radius_set: Words
    most: Int
    most_set: Words
    doubt: Int
    doubt_set: Words
    counters: Int
    low: Float
    low_set: Words


class Walker(NamedTuple):
    """Everything that one worker writes to during a walk."""

    svm: Scratch
    y: Float
    p: Float
    bits: Words
    mirror_bits: Words
    group_used: Int
    tally: Int
    parent: Scratch


COST, MOVES = 0, 1

DOUBT_COST, DOUBT_SURE, DOUBT_POSSIBLE, DOUBT_CLOSER, DOUBT_NODES = range(5)
"""Columns of a doubt: cost, nodes surely changed, nodes in doubt, how many of these are not known to change as cheaply,
and from ``DOUBT_NODES`` on the first of the latter."""

NAMED_NODES = 8
"""Nodes that a doubt names."""

UNCHANGED = np.iinfo(np.int64).max
"""Radius of a node that no visited set changes."""


def new_walker(task: Walk) -> Walker:
    """Working memory of one worker for ``task``."""
    m, n = task.scores.shape
    words = words_for(task.labels.size)
    svm_size = 0 if task.linear else m
    return Walker(
        svm=new_scratch(svm_size),
        y=task.y.copy(),
        p=np.zeros(n),
        bits=np.zeros(words, dtype=np.uint64),
        mirror_bits=np.zeros(words, dtype=np.uint64),
        group_used=np.zeros(task.group_caps.size, dtype=np.int64),
        tally=np.zeros(2, dtype=np.int64),
        parent=new_scratch(svm_size),
    )


def new_found(task: Walk, stops: int) -> Found:
    """Empty results of a chunk with at most ``stops`` stops."""
    n = task.scores.shape[1]
    words = words_for(task.labels.size)
    doubts = stops * (2 if task.mirror else 1)
    return Found(
        radius=np.full(n, UNCHANGED, dtype=np.int64),
        radius_set=np.zeros((n, words), dtype=np.uint64),
        most=np.full(task.budget + 1, -1, dtype=np.int64),
        most_set=np.zeros((task.budget + 1, words), dtype=np.uint64),
        doubt=np.zeros((doubts, DOUBT_NODES + NAMED_NODES), dtype=np.int64),
        doubt_set=np.empty((doubts, words), dtype=np.uint64),
        counters=np.zeros(N_COUNTERS, dtype=np.int64),
        low=np.full((task.rows, n), np.inf),
        low_set=np.zeros((task.rows, n, words), dtype=np.uint64),
    )


@njit(inline="always")
def _count(task: Any, w: Any, position: int) -> None:
    """Put one label into the set of flips, or take it out, and keep cost and groups up to date."""
    word, bit = position >> 6, np.uint64(position & 63)
    w.bits[word] ^= np.uint64(1) << bit
    sign = 1 if (w.bits[word] >> bit) & np.uint64(1) else -1
    w.tally[COST] += sign * task.costs[position]
    if task.groups[position] >= 0:
        w.group_used[task.groups[position]] += sign * task.costs[position]


@njit(cache=True, nogil=True)
def _flip(task: Any, w: Any, position: int) -> None:
    """Flip one label (by its position among the flippable ones); the model follows."""
    _count(task, w, position)
    i = task.labels[position]
    if not task.linear:
        relabel(task.machine, w.svm, w.y, i)
        return
    w.y[i] = -w.y[i]
    w.tally[MOVES] += 1
    step = 2.0 * w.y[i]
    for t in range(w.p.shape[0]):
        w.p[t] += step * task.scores[i, t]


@njit(inline="always")
def _reset(task: Any, w: Any) -> None:
    """Back to the clean labels, with fresh scores."""
    m, n = task.scores.shape
    for i in range(m):
        w.y[i] = task.y[i]
    for k in range(w.bits.shape[0]):
        w.bits[k] = np.uint64(0)
    for g in range(w.group_used.shape[0]):
        w.group_used[g] = 0
    w.tally[COST] = 0
    w.tally[MOVES] = 0
    if task.linear:
        for t in range(n):
            w.p[t] = 0.0
        for i in range(m):
            for t in range(n):
                w.p[t] += w.y[i] * task.scores[i, t]
    else:
        w.svm.v[FLAGS, 0] = COLD_TABLEAU
        for i in range(m):
            w.svm.state[i] = CAP


@njit(inline="always")
def _within(task: Any, w: Any) -> bool:
    """Whether the current set respects the budget and every group's own."""
    if w.tally[COST] > task.budget:
        return False
    for g in range(task.group_caps.shape[0]):
        if w.group_used[g] > task.group_caps[g]:
            return False
    return True


@njit(inline="always")
def _mirror_within(task: Any, w: Any) -> bool:
    """The same for the complement of the current set."""
    if not task.mirror or task.total - w.tally[COST] > task.budget:
        return False
    for g in range(task.group_caps.shape[0]):
        if task.group_totals[g] - w.group_used[g] > task.group_caps[g]:
            return False
    return True


@njit(inline="always")
def _train(task: Any, w: Any, found: Any) -> None:
    """Retrain on the current labels, from the tableau at hand."""
    rounds = settle(task.machine, w.svm, w.y)
    found.counters[SOLVED] += 1
    if rounds < 0:
        found.counters[STUCK] += 1
        rounds = -rounds
    found.counters[ROUNDS] += rounds


@njit(inline="always")
def _score(task: Any, w: Any, found: Any) -> float:
    """Scores of all test nodes under the current labels, in ``w.p``; returns their error bound ``τ``."""
    m = task.scores.shape[0]
    if task.linear:
        # |p| never exceeds ‖k‖₁ ≤ √m, so every addition so far erred by at most 2u√m.
        return 1.01 * (UNIT_ROUNDOFF * 4.0 * math.sqrt(m) * (w.tally[MOVES] + m + 4) + task.slack)
    _train(task, w, found)
    tau, proof = bound(task.machine, w.svm, w.y, m <= MANY_LABELS)
    combine(task.scores, w.svm.v[Z], w.p)
    if m > MANY_LABELS:
        doubtful = False
        for t in range(w.p.shape[0]):
            doubtful = doubtful or not abs(w.p[t]) > tau
        if doubtful:
            tau, proof = bound(task.machine, w.svm, w.y, True)
            combine(task.scores, w.svm.v[Z], w.p)
    found.counters[GLOBAL_PROOFS - 1 + proof] += 1
    return tau


@njit(cache=True, nogil=True)
def _lower(p: Float, sign: float, tau: float, row: int, bits: Words, found: Any) -> None:
    """Enter ``sign·p − τ`` into a row of lowest scores; a score that is no number counts as minus infinity."""
    n = p.shape[0]
    low = found.low[row]
    lower = 0
    for t in range(n):
        lower += not sign * p[t] - tau >= low[t]
    if lower == 0:
        return
    for t in range(n):
        v = sign * p[t] - tau
        if not v >= low[t]:
            low[t] = v if v == v else -np.inf
            for k in range(bits.shape[0]):
                found.low_set[row, t, k] = bits[k]


@njit(cache=True, nogil=True)
def _record(p: Float, sign: float, tau: float, cost: int, row: int, bits: Words, found: Any) -> None:
    """Enter one labelling: nodes with ``sign·p < −τ`` are changed, those within ``τ`` are in doubt.

    ``row`` is where its scores belong among the lowest ones, if there is such a table.
    """
    n = p.shape[0]
    if found.low.shape[0] > 0:
        _lower(p, sign, tau, row, bits, found)
    changed = 0
    doubtful = 0
    closer = 0
    closer_doubt = 0
    for t in range(n):
        v = sign * p[t]
        near = cost < found.radius[t]
        sure = v < -tau
        unsure = not (sure or v > tau)
        changed += sure
        doubtful += unsure
        closer += sure and near
        closer_doubt += unsure and near
    if closer > 0:
        for t in range(n):
            if sign * p[t] < -tau and cost < found.radius[t]:
                found.radius[t] = cost
                for k in range(bits.shape[0]):
                    found.radius_set[t, k] = bits[k]
    if changed > found.most[cost]:
        found.most[cost] = changed
        for k in range(bits.shape[0]):
            found.most_set[cost, k] = bits[k]
    if closer_doubt > 0 or (doubtful > 0 and changed + doubtful > found.most[cost]):
        d = found.counters[DOUBTS]
        found.doubt[d, DOUBT_COST] = cost
        found.doubt[d, DOUBT_SURE] = changed
        found.doubt[d, DOUBT_POSSIBLE] = doubtful
        found.doubt[d, DOUBT_CLOSER] = closer_doubt
        named = 0
        t = 0
        while named < min(closer_doubt, NAMED_NODES):
            v = sign * p[t]
            if cost < found.radius[t] and not (v < -tau or v > tau):
                found.doubt[d, DOUBT_NODES + named] = t
                named += 1
            t += 1
        for k in range(bits.shape[0]):
            found.doubt_set[d, k] = bits[k]
        found.counters[DOUBTS] += 1


@njit(inline="always")
def _row(task: Any, w: Any) -> int:
    """Where the current set belongs in the table of lowest scores."""
    row = w.tally[COST]
    for g in range(task.strides.shape[0]):
        row += task.strides[g] * w.group_used[g]
    return row


@njit(inline="always")
def _mirror_row(task: Any, w: Any) -> int:
    """The same for the complement of the current set."""
    row = task.total - w.tally[COST]
    for g in range(task.strides.shape[0]):
        row += task.strides[g] * (task.group_totals[g] - w.group_used[g])
    return row


@njit(inline="always")
def _score_from_parent(task: Any, w: Any, found: Any, i: int) -> float:
    """Scores of the parent's labels with label ``i`` flipped; infinite where some node stays in doubt."""
    tau, proof = solve_child(task.machine, w.parent, w.svm, w.y, i)
    if tau < np.inf:
        combine(task.scores, w.svm.v[Z], w.p)
        for t in range(w.p.shape[0]):
            if not abs(w.p[t]) > tau:
                return np.inf
        found.counters[SOLVED] += 1
        found.counters[GLOBAL_PROOFS - 1 + proof] += 1
    return tau


@njit(inline="always")
def _visit_child(task: Any, w: Any, found: Any, position: int) -> None:
    """Visit the parent's set with one position more, from the parent's tableau, and go back."""
    i = task.labels[position]
    _count(task, w, position)
    if _within(task, w):
        tau = _score_from_parent(task, w, found, i)
        if not tau < np.inf:
            w.y[i] = task.y[i]
            copy_scratch(w.parent, w.svm)
            relabel(task.machine, w.svm, w.y, i)
            tau = _score(task, w, found)
        _record(w.p, 1.0, tau, w.tally[COST], _row(task, w), w.bits, found)
    _count(task, w, position)
    w.y[i] = task.y[i]


@njit(inline="always")
def _visit(task: Any, w: Any, found: Any) -> None:
    """Score and record the current set, and its complement where that is admissible."""
    here = _within(task, w)
    there = _mirror_within(task, w)
    if not (here or there):
        return
    tau = _score(task, w, found)
    if here:
        _record(w.p, 1.0, tau, w.tally[COST], _row(task, w), w.bits, found)
    if there:
        for k in range(w.bits.shape[0]):
            w.mirror_bits[k] = ~w.bits[k]
        spare = 64 * w.bits.shape[0] - task.labels.shape[0]
        if spare > 0:
            w.mirror_bits[-1] &= (~np.uint64(0)) >> np.uint64(spare)
        _record(w.p, -1.0, tau, task.total - w.tally[COST], _mirror_row(task, w), w.mirror_bits, found)


@njit(inline="always")
def _walk_cube(task: Any, w: Any, found: Any, prefix: int, low: int, stop: Any) -> bool:
    """All subsets of the first ``low`` flippable labels, joined to the set ``prefix`` of the later ones.

    Bit ``b`` of ``prefix`` is position ``low + b``. Consecutive sets differ in one label (Gray code).
    """
    b = 0
    while prefix >> b:
        if (prefix >> b) & 1:
            _flip(task, w, low + b)
        b += 1
    for step in range(1, (1 << low) + 1):
        _visit(task, w, found)
        position = 0
        while not (step >> position) & 1:
            position += 1
        if position < low:
            _flip(task, w, position)
        if (step & 63) == 0 and stop[0] != 0:
            return step == 1 << low
    return True


@njit(inline="always")
def _walk_level(task: Any, w: Any, found: Any, parents: Any, stop: Any) -> bool:
    """All sets made of one parent and one later affordable position.

    ``parents`` is (·, size − 1), its rows ascending and counting affordable positions. Every set is one flip away
    from its parent, whose tableau it starts from.
    """
    size = parents.shape[1]
    for row in range(parents.shape[0]):
        for k in range(2 * size):
            # First out with what the last parent had and this one has not, then in with what is new.
            old, column = k < size, k % size
            if row == 0 and old:
                continue
            if row > 0 and parents[row, column] == parents[row - 1, column]:
                continue
            _flip(task, w, task.affordable[parents[row - 1 if old else row, column]])
        if not task.linear:
            _train(task, w, found)
            copy_scratch(w.svm, w.parent)
        first = parents[row, size - 1] + 1 if size > 0 else 0
        for k in range(first, task.affordable.shape[0]):
            position = task.affordable[k]
            if not task.linear and task.y.shape[0] > MANY_LABELS:
                _visit_child(task, w, found, position)
                if stop[0] != 0:
                    return False
                continue
            _flip(task, w, position)
            _visit(task, w, found)
            if task.linear:
                _flip(task, w, position)
            else:
                _count(task, w, position)
                i = task.labels[position]
                w.y[i] = -w.y[i]
                copy_scratch(w.parent, w.svm)
            if stop[0] != 0:
                return False
        if not task.linear:
            copy_scratch(w.parent, w.svm)
    return True


@njit(cache=True, nogil=True)
def walk(task: Any, w: Any, found: Any, prefix: int, low: int, parents: Any, stop: Any) -> bool:
    """Walk a cube (``low ≥ 0``) or the extensions of a block of parents (``low < 0``), from the clean labels.

    Returns whether the walk was finished; ``stop[0] != 0`` ends it early. One function for both, since compiling
    it twice would double the time of the first call.
    """
    _reset(task, w)
    if not task.linear:
        _train(task, w, found)
    if low >= 0:
        return _walk_cube(task, w, found, prefix, low, stop)
    return _walk_level(task, w, found, parents, stop)
