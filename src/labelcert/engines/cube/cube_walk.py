"""Compiled walks over label flips: every admissible labelling is visited, scored and recorded.

A walk visits labellings one flip apart (Gray code over a cube of labels, or all one-flip extensions of a block
of parent sets). At every stop the model is retrained from its neighbour's tableau (hinge loss; where scores are linear
in the labels there is nothing to train). The labelling is then scored and recorded, see :mod:`.recording`.

Names: m labels, n test nodes, ν flippable labels, W = ⌈ν/64⌉ words of a set of flips, B the largest budget.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from labelcert.arrays import Float, Int, Words
from labelcert.compiling import by_reference, compiled
from labelcert.engines.bitsets import words_for
from labelcert.engines.cube.recording import (
    BATCH,
    GLOBAL_PROOFS,
    ROUNDS,
    SOLVED,
    STUCK,
    Batch,
    CubeWork,
    add,
    flush,
    new_batch,
    record,
)
from labelcert.losses.retraining import LOOSE, SHARP, bound, relabel, settle, solve_child
from labelcert.svm.pivoting import FLAGS, UNIT_ROUNDOFF, Scratch, Z, new_scratch, sharing
from labelcert.svm.walking import combine, copy_scratch


@by_reference
class CubeWorker(NamedTuple):
    """Everything that one worker writes to during a walk.

    ``clean`` is the training that all walks start from, ``child`` is ``svm`` with the parent's tableau.
    """

    svm: Scratch
    child: Scratch
    y: Float
    p: Float
    bits: Words
    group_used: Int
    cost: Int
    parent: Scratch
    clean: Scratch
    batch: Batch


def new_cube_worker(task: CubeWork) -> CubeWorker:
    """Working memory of one worker for ``task``."""
    m, n = task.scores.shape
    words = words_for(task.labels.size)
    svm_size = 0 if task.linear else m
    svm, parent = new_scratch(svm_size), new_scratch(svm_size)
    return CubeWorker(
        svm=svm,
        child=sharing(svm, parent),
        y=task.y.copy(),
        p=np.zeros(n),
        bits=np.zeros(words, dtype=np.uint64),
        group_used=np.zeros(task.group_caps.size, dtype=np.int64),
        cost=np.zeros(1, dtype=np.int64),
        parent=parent,
        clean=new_scratch(svm_size),
        batch=new_batch(task),
    )


@compiled(inner=True)
def _count(task: Any, w: Any, position: int) -> None:
    """Put one label into the set of flips, or take it out, and keep cost and groups up to date."""
    word, bit = position >> 6, np.uint64(position & 63)
    w.bits[word] ^= np.uint64(1) << bit
    sign = 1 if (w.bits[word] >> bit) & np.uint64(1) else -1
    w.cost[0] += sign * task.costs[position]
    if task.groups[position] >= 0:
        w.group_used[task.groups[position]] += sign * task.costs[position]


@compiled(inner=True)
def _flip(task: Any, w: Any, position: int) -> None:
    """Flip one label (by its position among the flippable ones), or flip it back; the model follows."""
    _count(task, w, position)
    i = task.labels[position]
    if task.linear:
        w.y[i] = -w.y[i]
    else:
        there = (w.bits[position >> 6] >> np.uint64(position & 63)) & np.uint64(1)
        relabel(task.retraining, w.svm, w.y, i, task.made[position] if there else task.y[i])


@compiled(inner=True)
def _reset(task: Any, w: Any) -> None:
    """Back to the clean labels."""
    for i in range(task.y.shape[0]):
        w.y[i] = task.y[i]
    for k in range(w.bits.shape[0]):
        w.bits[k] = np.uint64(0)
    for g in range(w.group_used.shape[0]):
        w.group_used[g] = 0
    w.cost[0] = 0


@compiled(inner=True)
def _within(task: Any, w: Any) -> bool:
    """Whether the current set respects the budget and every group's own."""
    if w.cost[0] > task.budget:
        return False
    for g in range(task.group_caps.shape[0]):
        if w.group_used[g] > task.group_caps[g]:
            return False
    return True


@compiled(inner=True)
def _mirror_within(task: Any, w: Any) -> bool:
    """The same for the complement of the current set."""
    if not task.mirror or task.total - w.cost[0] > task.budget:
        return False
    for g in range(task.group_caps.shape[0]):
        if task.group_totals[g] - w.group_used[g] > task.group_caps[g]:
            return False
    return True


@compiled(inner=True)
def _train(task: Any, w: Any, found: Any) -> None:
    """Retrain on the current labels, from the tableau at hand."""
    rounds = settle(task.retraining, w.svm, w.y)
    found.counters[SOLVED] += 1
    if rounds < 0:
        found.counters[STUCK] += 1
        rounds = -rounds
    found.counters[ROUNDS] += rounds


@compiled(inner=True)
def _bound(task: Any, w: Any, found: Any, sharp: bool) -> float:
    """Error bound of the scores that the current training gives."""
    tau, proof = bound(task.retraining, w.svm, w.y, sharp)
    found.counters[GLOBAL_PROOFS - 1 + proof] += 1
    return tau


@compiled(inner=True)
def _row(task: Any, w: Any) -> int:
    """Where the current set belongs in the table of lowest scores."""
    row = w.cost[0]
    for g in range(task.strides.shape[0]):
        row += task.strides[g] * w.group_used[g]
    return row


@compiled(inner=True)
def _sure(p: Float, tau: float) -> bool:
    """Whether the sign of every score is proved."""
    for t in range(p.shape[0]):
        if not abs(p[t]) > tau:
            return False
    return True


@compiled(inner=True)
def _visit_child(task: Any, w: Any, found: Any, position: int) -> None:
    """Visit the parent's set with one position more, from the parent's tableau, and go back."""
    i = task.labels[position]
    before = w.y[i]
    _count(task, w, position)
    if _within(task, w):
        tau, proof = solve_child(task.retraining, w.parent, w.child, w.y, i, task.made[position])
        combine(task.scores, w.svm.v[Z], w.p)
        if tau < np.inf and _sure(w.p, tau):
            found.counters[SOLVED] += 1
            found.counters[GLOBAL_PROOFS - 1 + proof] += 1
        else:
            w.y[i] = before
            copy_scratch(w.parent, w.svm)
            relabel(task.retraining, w.svm, w.y, i, task.made[position])
            _train(task, w, found)
            tau = _bound(task, w, found, LOOSE)
            combine(task.scores, w.svm.v[Z], w.p)
            if not _sure(w.p, tau):
                tau = _bound(task, w, found, SHARP)
                combine(task.scores, w.svm.v[Z], w.p)
        record(w.p, 1.0, tau, w.cost[0], _row(task, w), w.bits, found)
    _count(task, w, position)
    w.y[i] = before


@compiled(inner=True)
def _visit(task: Any, w: Any, found: Any) -> None:
    """Train on the current set, to be scored later, together with its complement where that is admissible."""
    here = _within(task, w)
    there = _mirror_within(task, w)
    if not (here or there):
        return
    b = w.batch
    cost = w.cost[0] if here else -1
    mirror_cost = task.total - w.cost[0] if there else -1
    row = _row(task, w)
    b.row[b.size[0], 0] = row
    b.row[b.size[0], 1] = task.last_row - row
    if task.linear:
        add(task, b, w.y, linear_error(task), cost, mirror_cost, w.bits)
    else:
        _train(task, w, found)
        tau = _bound(task, w, found, SHARP)
        add(task, b, w.svm.v[Z], tau, cost, mirror_cost, w.bits)
    if b.size[0] == BATCH:
        flush(task, b, w.p, found)


@compiled()
def linear_error(task: Any) -> float:
    """Error bound of ``scores.T @ y``: ``|p|`` never exceeds ``‖k‖₁ ≤ √m``."""
    m = task.scores.shape[0]
    return 1.01 * (UNIT_ROUNDOFF * 4.0 * math.sqrt(m) * (m + 4) + task.slack)


@njit(inline="always")  # here and below: called at one place
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


@compiled(inner=True)
def _move(task: Any, w: Any, parents: Any, row: int) -> None:
    """From the last parent to this one: out with what it has not, then in with what is new."""
    size = parents.shape[1]
    for k in range(2 * size):
        old, column = k < size, k % size
        if row == 0 and old:
            continue
        if row > 0 and parents[row, column] == parents[row - 1, column]:
            continue
        _flip(task, w, task.affordable[parents[row - 1 if old else row, column]])


@njit(inline="always")
def _walk_level(task: Any, w: Any, found: Any, parents: Any, stop: Any) -> bool:
    """All sets made of one parent and one later affordable position.

    ``parents`` is (·, size − 1), its rows ascending and counting affordable positions. Every set is one flip away
    from its parent, whose tableau it starts from.
    """
    size = parents.shape[1]
    for row in range(parents.shape[0]):
        _move(task, w, parents, row)
        if not task.linear:
            _train(task, w, found)
            copy_scratch(w.svm, w.parent)
        first = parents[row, size - 1] + 1 if size > 0 else 0
        for k in range(first, task.affordable.shape[0]):
            position = task.affordable[k]
            i = task.labels[position]
            before = w.y[i]
            _flip(task, w, position)
            _visit(task, w, found)
            if task.linear:
                _flip(task, w, position)
            else:
                _count(task, w, position)
                w.y[i] = before
                copy_scratch(w.parent, w.svm)
            if stop[0] != 0:
                return False
    return True


@compiled(inner=True)
def _begin(task: Any, w: Any) -> None:
    """From the clean labels, whose training is made once for all chunks and hence not counted."""
    _reset(task, w)
    if not task.linear:
        if w.clean.v[FLAGS, 0] != 0.0:
            settle(task.retraining, w.clean, w.y)
        copy_scratch(w.clean, w.svm)
    w.batch.size[0] = 0


@compiled()
def walk(task: Any, w: Any, found: Any, prefix: int, low: int, parents: Any, stop: Any) -> bool:
    """CubeWork a cube (``low ≥ 0``) or the extensions of a block of parents (``low < 0``), from the clean labels.

    Returns whether the walk was finished; ``stop[0] != 0`` ends it early. One function for both, since compiling
    it twice would double the time of the first call.
    """
    _begin(task, w)
    cube = low >= 0
    finished = _walk_cube(task, w, found, prefix, low, stop) if cube else _walk_level(task, w, found, parents, stop)
    flush(task, w.batch, w.p, found)
    return finished


@compiled()
def walk_children(task: Any, w: Any, found: Any, parents: Any, stop: Any) -> bool:
    """The same for the extensions of parents with many labels, which share the tableaus of their parents."""
    _begin(task, w)
    size = parents.shape[1]
    for row in range(parents.shape[0]):
        _move(task, w, parents, row)
        _train(task, w, found)
        copy_scratch(w.svm, w.parent)
        first = parents[row, size - 1] + 1 if size > 0 else 0
        for k in range(first, task.affordable.shape[0]):
            _visit_child(task, w, found, task.affordable[k])
            if stop[0] != 0:
                return False
        copy_scratch(w.parent, w.svm)
    return True
