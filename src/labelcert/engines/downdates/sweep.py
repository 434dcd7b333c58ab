"""Compiled: what every set of moves does that extends a given one by a later move.

With ``B = (Q + λI)⁻¹``, dual variables ``α = By`` and ``h_t = B k_t``, the model without the labels S has the dual
variables ``α − B_:S w`` with ``w = B_SS⁻¹ α_S``, which are 0 on S, and the scores ``k_t·α − h_t,S·w``. A label that
changes adds a multiple of a column of B to α. So a set of moves costs one small system for each class, and one product
as long as the set for each node. A parent's Cholesky factor of ``B_SS`` grows by one row for each child.

The bound. Dual variables ``z`` that are 0 on S, whatever they are, miss those of the model by at most
``‖(Az − y)_R‖ / λ_min(A)`` on the labels R that are left, with ``A = Q + λI``. With ``‖AB_:j − e_j‖ ≤ ε``,
``‖Aα − y‖ ≤ ρ``, ``‖A_:j‖ ≤ a`` and what is left of the small system, ``δ = α_S − B_SS w``, that residual is at most
``ρ + ε Σ|w| + a Σ|δ|``, and ε more for every unit by which labels change. Each term has a constant that covers the
rounding of what multiplies it, so that the error of every score is at most
``bound[0] + bound[1] Σ|w| + bound[2] Σ|δ| + bound[3] Σ|change|``. Every comparison is written so that NaN decides
nothing.

An intercept b that is not regularised borders A by a number c, and y by a 0; ``b/c`` is the last dual variable, and c
the last entry of each row. Everything above holds for that matrix, too, with a last row and column that are never
removed, and another bound on the inverse of what is left. Where that is not empty, with ``A_RR ≽ φ`` and ``‖A‖ ≤ L``,
its blocks are at most ``1/φ``, ``√(L/φ)/c`` and ``L/c²``. So its norm is at most ``1/φ + L/c²``.

Names: m labels (and the intercept), n nodes, K classes, o moves, k moves of a parent.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from labelcert.arrays import Bool, Float, Int, Signs
from labelcert.compiling import by_reference, compiled
from labelcert.svm.pivoting import UNIT_ROUNDOFF

AFAR = 1e150
"""What is added to the lead of nodes after moves that the budget does not pay for."""


@by_reference
class Downdating(NamedTuple):
    """The model, its moves and the budget: constant during a run."""

    B: Float  # (m, m)
    H: Float  # (n, o) entry of h_t for the label of each move
    rows: Float  # (n, m) h_t
    alpha: Float  # (K, m)
    clean: Float  # (n, K) scores of scaled rows
    own: Int  # (n,) predicted classes
    codes: Int  # (m,)
    # label, target, cost, group: (o,) of each move, by label; target K: the label is removed
    label: Int
    target: Int
    cost: Int
    group: Int
    caps: Int  # (G,)
    budget: int
    bound: Float  # (5,) see above; and the largest entry of B
    listing: bool  # whether doubts can be decided one by one


@by_reference
class Room(NamedTuple):
    """Working memory of one worker; k is the most moves of a set."""

    factor: Float  # (k, k) Cholesky factor of B_SS of the parent
    dual: Float  # (K, k) α_S with the parent's changes
    part: Float  # (K, k) factor⁻¹ times it
    row: Float  # (k,) factor⁻¹ B_Sj
    out: Int  # (k,) the labels S of the parent
    lead: Float  # (o,)
    pad: Float  # (o,)
    w: Float  # (K, k, o) the solutions of the small systems
    last: Float  # (K, o) what multiplies the last move's own entry of h_t
    error: Float  # (K, o)
    base: Float  # (n, K) scores with the parent's changes
    sure: Signs  # (o,)
    maybe: Signs  # (o,)
    used: Int  # (G,)


@by_reference
class Tally(NamedTuple):
    """What a block of parents proved."""

    radius: Int  # (n,) least cost of a set that provably changes each node
    by: Int  # (n, 2) that set: the parent's number in the block, and the last move
    open_radius: Int  # (n,) least cost of a set that may change each node, and is not listed
    most: Int  # (B + 1,) the most nodes that a set of that cost provably changes
    most_by: Int  # (B + 1, 2)
    open_most: Int  # (B + 1,) the most nodes that a set that is not listed may change
    sure: Int  # (o,) how many nodes each child changes
    maybe: Int  # (o,)
    near: Bool  # (o,) whether a child may lower a radius
    doubts: Int  # (·, 4) parent, last move, cost, nodes that may change
    counters: Int  # (2,) how many of these are used, and how many children were looked at


@compiled(inner=True)
def _made(task: Any, r: Any, moves: Any, p: int) -> int:
    """What the parent's moves do to scores and budgets of groups; returns the number of labels removed."""
    K = task.alpha.shape[0]
    size = 0
    for g in range(r.used.shape[0]):
        r.used[g] = 0
    for t in range(task.own.shape[0]):
        for c in range(K):
            r.base[t, c] = task.clean[t, c]
    for k in range(moves.shape[1]):
        q = moves[p, k]
        if task.group[q] >= 0:
            r.used[task.group[q]] += task.cost[q]
        if task.target[q] == K:
            r.out[size] = task.label[q]
            size += 1
            continue
        old, new = task.codes[task.label[q]], task.target[q]
        for t in range(task.own.shape[0]):
            r.base[t, old] -= 2.0 * task.H[t, q]
            r.base[t, new] += 2.0 * task.H[t, q]
    return size


@compiled(inner=True, error_model="numpy")
def _factored(task: Any, r: Any, moves: Any, p: int, size: int) -> bool:
    """The parent's factor and right-hand sides; False where the factor fails."""
    K = task.alpha.shape[0]
    for s in range(size):
        _grow(task, r, s, r.out[s])
        d = task.B[r.out[s], r.out[s]]
        for e in range(s):
            r.factor[s, e] = r.row[e]
            d -= r.row[e] * r.row[e]
        if not d > 0.0:
            return False
        r.factor[s, s] = math.sqrt(d)
        for c in range(K):
            r.dual[c, s] = _dual(task, moves, p, c, r.out[s])
            v = r.dual[c, s]
            for e in range(s):
                v -= r.factor[s, e] * r.part[c, e]
            r.part[c, s] = v / r.factor[s, s]
    return True


@compiled(inner=True)
def _dual(task: Any, moves: Any, p: int, c: int, i: int) -> float:
    """``α_i`` of a class, with the parent's changes."""
    v = task.alpha[c, i]
    K = task.alpha.shape[0]
    for k in range(moves.shape[1]):
        q = moves[p, k]
        if task.target[q] < K:
            if task.codes[task.label[q]] == c:
                v -= 2.0 * task.B[i, task.label[q]]
            elif task.target[q] == c:
                v += 2.0 * task.B[i, task.label[q]]
    return v


@compiled(inner=True, error_model="numpy")
def _grow(task: Any, r: Any, size: int, j: int) -> None:
    """``row = factor⁻¹ B_Sj``."""
    for s in range(size):
        v = task.B[r.out[s], j]
        for e in range(s):
            v -= r.factor[s, e] * r.row[e]
        r.row[s] = v / r.factor[s, s]


@compiled(inner=True, error_model="numpy")
def _child(task: Any, r: Any, moves: Any, p: int, size: int, q: int) -> None:
    """The small systems of one child, and the error bounds that follow from what is left of them."""
    K = task.alpha.shape[0]
    j, target = task.label[q], task.target[q]
    _grow(task, r, size, j)
    d = task.B[j, j]
    for s in range(size):
        d -= r.row[s] * r.row[s]
    changes = 0.0
    for k in range(moves.shape[1]):
        changes += 2.0 if task.target[moves[p, k]] < K else 0.0
    for c in range(K if K > 2 else 1):
        change, own, wj = 0.0, 0.0, 0.0
        if target == K:
            own = _dual(task, moves, p, c, j)
            wj = own
            for s in range(size):
                wj -= r.row[s] * r.part[c, s]
            wj /= d
        elif task.codes[j] == c:
            change = -2.0
        elif target == c:
            change = 2.0
        for s in range(size - 1, -1, -1):
            v = r.part[c, s] + (change - wj) * r.row[s]
            for e in range(s + 1, size):
                v -= r.factor[e, s] * r.w[c, e, q]
            r.w[c, s, q] = v / r.factor[s, s]
        r.last[c, q] = wj - change
        error = _error(task, r, c, q, size, changes, change, own, wj)
        some = size + 1 < task.codes.shape[0]  # without any label, there is nothing that bounds would be about
        r.error[c, q] = error if (some and d > 0.0) or target < K else np.inf
    if K == 2:  # one model is the negative of the other
        for s in range(size):
            r.w[1, s, q] = -r.w[0, s, q]
        r.last[1, q] = -r.last[0, q]
        r.error[1, q] = r.error[0, q]


@compiled(inner=True)
def _error(task: Any, r: Any, c: int, q: int, size: int, changes: float, change: float, own: float, wj: float) -> float:
    """The error bound of the scores of one class for one child, see above."""
    j = task.label[q]
    total, left, terms = abs(wj), 0.0, 0.0
    for s in range(size):
        i = r.out[s]
        v = r.dual[c, s] + change * task.B[i, j] - wj * task.B[i, j]
        terms += abs(r.dual[c, s]) + (abs(change) + abs(wj)) * abs(task.B[i, j])
        total += abs(r.w[c, s, q])
        for e in range(size):
            v -= task.B[i, r.out[e]] * r.w[c, e, q]
            terms += abs(task.B[i, r.out[e]] * r.w[c, e, q])
        left += abs(v)
    if task.target[q] == task.alpha.shape[0]:
        v = own - task.B[j, j] * wj
        terms += abs(own) + abs(task.B[j, j] * wj)
        for e in range(size):
            v -= task.B[j, r.out[e]] * r.w[c, e, q]
            terms += abs(task.B[j, r.out[e]] * r.w[c, e, q])
        left += abs(v)
    # What the sums above lose in rounding, and those of `_dual`, one for each row of the system.
    rounding = UNIT_ROUNDOFF * (4.0 * r.row.shape[0] + 8.0) * (terms + (size + 1.0) * changes * task.bound[4])
    error = task.bound[0] + task.bound[1] * total + task.bound[2] * 1.01 * (left + rounding)
    return 1.01 * (error + task.bound[3] * (changes + abs(change)))


@compiled(inner=True, fastmath={"reassoc", "contract"})
def _leads(task: Any, r: Any, t: int, b: int, size: int, first: int) -> None:
    """The lead of node ``t`` over class ``b`` after each child."""
    a, o = task.own[t], task.label.shape[0]
    start = r.base[t, a] - r.base[t, b]
    for q in range(first, o):
        r.lead[q] = start + r.pad[q] - task.H[t, q] * (r.last[a, q] - r.last[b, q])
    for s in range(size):
        h = task.rows[t, r.out[s]]
        for q in range(first, o):
            r.lead[q] -= h * (r.w[a, s, q] - r.w[b, s, q])


@compiled(inner=True)
def _judge(task: Any, r: Any, found: Any, t: int, size: int, first: int) -> None:
    """What all children do to one node."""
    a, o, K = task.own[t], task.label.shape[0], task.alpha.shape[0]
    for q in range(first, o):
        r.sure[q] = 0
        r.maybe[q] = 0
    for b in range(K):
        if b == a:
            continue
        _leads(task, r, t, b, size, first)
        for q in range(first, o):
            error = r.error[a, q] + r.error[b, q]
            r.sure[q] |= r.lead[q] < -error
            r.maybe[q] |= not r.lead[q] > error
    for q in range(first, o):
        found.sure[q] += r.sure[q]
        found.maybe[q] += r.maybe[q]


@compiled(inner=True)
def _closer(task: Any, r: Any, found: Any, t: int, p: int, spent: int, first: int) -> None:
    """Enter the children that change one node more cheaply than is known, and those that may."""
    for q in range(first, task.label.shape[0]):
        if r.maybe[q] == 0 or r.pad[q] > 0.0:
            continue
        cost = spent + task.cost[q]
        if cost >= found.radius[t]:
            continue
        if r.sure[q] != 0:
            found.radius[t] = cost
            found.by[t, 0] = p
            found.by[t, 1] = q
        else:
            found.near[q] = True
            if not task.listing:
                found.open_radius[t] = min(found.open_radius[t], cost)


@compiled(inner=True)
def _count(task: Any, r: Any, found: Any, p: int, spent: int, first: int) -> None:
    """Enter the children that change most, and the doubts."""
    for q in range(first, task.label.shape[0]):
        if r.pad[q] > 0.0:
            continue
        cost = spent + task.cost[q]
        if found.sure[q] > found.most[cost]:
            found.most[cost] = found.sure[q]
            found.most_by[cost, 0] = p
            found.most_by[cost, 1] = q
        if found.maybe[q] > found.sure[q] and (found.near[q] or found.maybe[q] > found.most[cost]):
            if task.listing:
                d = found.counters[0]
                found.counters[0] += 1
                found.doubts[d, 0] = p
                found.doubts[d, 1] = q
                found.doubts[d, 2] = cost
                found.doubts[d, 3] = found.maybe[q]
            else:
                found.open_most[cost] = max(found.open_most[cost], found.maybe[q])


@compiled(inner=True)
def _children(task: Any, r: Any, found: Any, moves: Any, p: int, first: int, spent: int) -> int:
    """The small systems of all children that the budgets pay for; returns the number of labels that the parent removes.

    It is 0 where its factor fails, and then nothing is decided. And -1 where there are no children.
    """
    o, K = task.label.shape[0], task.alpha.shape[0]
    size = _made(task, r, moves, p)
    sound = _factored(task, r, moves, p, size)
    size = size if sound else 0
    some = 0
    for q in range(first, o):
        g = task.group[q]
        fits = spent + task.cost[q] <= task.budget
        fits = fits and (g < 0 or r.used[g] + task.cost[q] <= task.caps[g])
        some += fits
        r.pad[q] = 0.0 if fits else AFAR
        found.sure[q] = 0
        found.maybe[q] = 0
        found.near[q] = False
        if sound and fits:
            _child(task, r, moves, p, size, q)
            continue
        for c in range(K):
            r.last[c, q] = 0.0
            r.error[c, q] = np.inf if fits else 0.0
            for s in range(size):
                r.w[c, s, q] = 0.0
    found.counters[1] += some
    return size if some > 0 else -1


@compiled()
def sweep(task: Any, r: Any, found: Any, moves: Any, stop: Any) -> int:
    """All children of a block of parents, (N, k) numbers of moves, ascending; returns how many parents are done."""
    for p in range(moves.shape[0]):
        if stop[0] != 0:
            return p
        spent, first = 0, 0
        for k in range(moves.shape[1]):
            spent += task.cost[moves[p, k]]
            first = moves[p, k] + 1
        while moves.shape[1] > 0 and first < task.label.shape[0] and task.label[first] == task.label[first - 1]:
            first += 1  # one move of each label
        size = _children(task, r, found, moves, p, first, spent)
        if size < 0:
            continue
        for t in range(task.own.shape[0]):
            _judge(task, r, found, t, size, first)
            if found.radius[t] > spent:
                _closer(task, r, found, t, p, spent, first)
        _count(task, r, found, p, spent, first)
    return moves.shape[0]
