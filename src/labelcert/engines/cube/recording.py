"""What walks over labellings find: which nodes each labelling changes, and how little that costs.

A walk trains; here its labellings are scored. With few labels they are scored in batches, in single precision with a
proved error; what that leaves open is scored in double precision. Scores too close to zero for the error bound are not
guessed: the labelling is noted as a doubt and decided later in rational arithmetic.

Names: m labels, n test nodes, ν flippable labels, W = ⌈ν/64⌉ words of a set of flips, B the largest budget.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from labelcert.arrays import Bool, Float, Float32, Int, Signs, Words
from labelcert.compiling import by_reference, compiled
from labelcert.engines.bitsets import words_for
from labelcert.engines.seen import Counts, Seen
from labelcert.svm.pivoting import REORDER
from labelcert.svm.walking import combine

SOLVED, ROUNDS, GLOBAL_PROOFS, LOCAL_PROOFS, GAP_PROOFS, STUCK, DOUBTS, SEEN, COUNTED = range(9)
N_COUNTERS = 9


@by_reference
class CubeWork(NamedTuple):
    """What to walk over: constant during a run and shared by all workers."""

    retraining: Any  # the model (ignored where ``linear``)
    # (m, n) test rows, transposed, each scaled by a power of two to norm at most 1 and multiplied by the sign of the
    # clean prediction: a node is changed where its score is at most 0
    scores: Float
    short: Float32  # (tiles, m · TILE) ``scores`` in single precision, see ``in_tiles``
    linear: bool  # scores are ``scores.T @ y``, with no training at all
    slack: float  # error of ``scores`` itself, in the sense of ``bound`` times ``‖y‖₂``
    y: Float  # (m,) clean labels, ±1
    labels: Int  # (ν,) indices of the labels that may be flipped
    made: Float  # (ν,) what each of them becomes: the other sign, or 0 where it is removed
    # costs, groups: (ν,) cost of each flip and its group (-1: none)
    costs: Int
    groups: Int
    affordable: Int  # positions that some admissible set contains (used by levels, not by cubes)
    # group_caps, group_totals: (G,) budget of each group, and the cost of flipping all of it
    group_caps: Int
    group_totals: Int
    budget: int  # largest total cost B
    total: int  # cost of flipping all ν labels
    mirror: bool  # visit the complement of each set too, whose scores are the negatives (all labels flippable)
    rows: int  # rows of the table of lowest scores; 0 where nobody asks for it
    last_row: int  # the row of the set of all labels
    strides: Int  # (G,) a set belongs into the row of its cost, plus so much for each unit spent in a group
    radius: Int  # (n,) what is known when a chunk begins: least cost at which each node is changed
    most: Int  # (B + 1,) the same for the most nodes changed at each cost (-1: nothing)
    observed: bool  # whether to write down what every single labelling does
    # (J + 1,) where each of J kinds of nodes begins, in their order, and the end; all nodes are of one kind, unless
    # somebody counts. ``counted``: whether to write down how many of each kind every labelling changes.
    kinds: Int
    counted: bool
    # (L, J) sums of these counts that are looked for, the larger the better: what is no more than known for its cost is
    # not written down. Without any, everything is. ``left`` (L, tiles + 1): the most that nodes from a tile on can add.
    forms: Int
    left: Int
    largest: Int  # (L, B + 1) the largest sums within each budget that are known when a chunk begins


@by_reference
class CubeSummary(NamedTuple):
    """What one chunk proved."""

    # (n,) least cost of a set that provably changes each node; ``radius_set`` (n, W) is that set, if it was found here
    radius: Int
    radius_set: Words
    # (B + 1,) most nodes provably changed by one set of that cost, where this is more than at any lower cost;
    # ``most_set`` (B + 1, W) is that set, if it was found here
    most: Int
    most_set: Words
    best: Int  # (B + 1,) the running maximum of ``most``
    doubt: Int  # (·, D) undecided labellings, in the columns ``DOUBT_COST`` and following; ``doubt_set`` (·, W)
    doubt_set: Words
    counters: Int  # (9,) see the names ``SOLVED`` and following
    # (R, n) lower bound on the score of each node over the sets of each row; infinite where none was visited.
    # ``low_set`` (R, n, W) is a set that comes closest to it.
    low: Float
    low_set: Words
    # seen_cost, seen_set: (V,) and (V, W) every labelling, if they are observed; else V is 0
    seen_cost: Int
    seen_set: Words
    # seen_changed, seen_unchanged: (V, n) nodes that it provably changes, and nodes that it provably does not
    seen_changed: Bool
    seen_unchanged: Bool
    # (L, B + 1) the largest sums within each budget that were written down
    largest: Int
    # count_cost, count_set: (V,) and (V, W) labellings that were written down, if they are counted; else V is 0
    count_cost: Int
    count_set: Words
    # (V, 2, J) nodes of each kind that it provably changes, and nodes about which that is open
    count_kinds: Int
    kinds: Int

    def counts(self) -> Counts:
        """All labellings that were walked, with how many nodes of each kind they change."""
        return Counts(self.count_cost, self.count_set, self.count_kinds[:, 0], self.count_kinds[:, 1])

    def seen(self) -> Seen:
        """All labellings that were walked, with what each does."""
        return Seen(self.seen_cost, self.seen_set, self.seen_changed, self.seen_unchanged)

    def used(self) -> CubeSummary:
        """Without unused room for doubts and labellings."""
        doubts, seen = int(self.counters[DOUBTS]), int(self.counters[SEEN])
        return self._replace(
            doubt=self.doubt[:doubts].copy(),
            doubt_set=self.doubt_set[:doubts].copy(),
            seen_cost=self.seen_cost[:seen],
            seen_set=self.seen_set[:seen],
            seen_changed=self.seen_changed[:seen],
            seen_unchanged=self.seen_unchanged[:seen],
            count_cost=self.count_cost[: self.counters[COUNTED]],
            count_set=self.count_set[: self.counters[COUNTED]],
            count_kinds=self.count_kinds[: self.counters[COUNTED]],
        )


DOUBT_COST, DOUBT_SURE, DOUBT_POSSIBLE, DOUBT_CLOSER, DOUBT_NODES = range(5)
"""Columns of a doubt: cost, nodes surely changed, nodes in doubt, how many of these are not known to change as cheaply,
and from ``DOUBT_NODES`` on the first of the latter."""

NAMED_NODES = 8
"""Nodes that a doubt names."""


def new_summary(task: CubeWork, stops: int) -> CubeSummary:
    """Empty results of a chunk with at most ``stops`` stops."""
    n = task.scores.shape[1]
    words = words_for(task.labels.size)
    doubts = stops * (2 if task.mirror else 1)
    seen = doubts if task.observed else 0
    counted = doubts if task.counted else 0
    return CubeSummary(
        radius=task.radius.copy(),
        radius_set=np.zeros((n, words), dtype=np.uint64),
        most=task.most.copy(),
        most_set=np.zeros((task.budget + 1, words), dtype=np.uint64),
        best=np.maximum.accumulate(task.most),
        doubt=np.zeros((doubts, DOUBT_NODES + NAMED_NODES), dtype=np.int64),
        doubt_set=np.empty((doubts, words), dtype=np.uint64),
        counters=np.zeros(N_COUNTERS, dtype=np.int64),
        low=np.full((task.rows, n), np.inf),
        low_set=np.zeros((task.rows, n, words), dtype=np.uint64),
        seen_cost=np.empty(seen, dtype=np.int64),
        seen_set=np.empty((seen, words), dtype=np.uint64),
        seen_changed=np.empty((seen, n), dtype=np.bool_),
        seen_unchanged=np.empty((seen, n), dtype=np.bool_),
        largest=task.largest.copy(),
        count_cost=np.empty(counted, dtype=np.int64),
        count_set=np.empty((counted, words), dtype=np.uint64),
        count_kinds=np.zeros((counted, 2, task.kinds.size - 1), dtype=np.int64),
        kinds=task.kinds,
    )


@compiled(inner=True)
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


@compiled(inner=True)
def _see(p: Float, sign: float, tau: float, cost: int, bits: Words, found: Any) -> None:
    """Write down what one labelling does to each node."""
    k = found.counters[SEEN]
    found.counters[SEEN] += 1
    found.seen_cost[k] = cost
    for w in range(bits.shape[0]):
        found.seen_set[k, w] = bits[w]
    changed, unchanged = found.seen_changed[k], found.seen_unchanged[k]
    for t in range(p.shape[0]):
        changed[t] = sign * p[t] < -tau
        unchanged[t] = sign * p[t] > tau


@compiled(inner=True)
def _tell(cost: int, bits: Words, found: Any) -> int:
    """The row for what one labelling does to each kind of nodes."""
    k = found.counters[COUNTED]
    found.counters[COUNTED] += 1
    found.count_cost[k] = cost
    for w in range(bits.shape[0]):
        found.count_set[k, w] = bits[w]
    return k


@compiled(inner=True)
def _count_kinds(p: Float, sign: float, tau: float, cost: int, bits: Words, found: Any) -> None:
    """Write down how many nodes of each kind one labelling changes."""
    k = _tell(cost, bits, found)
    for j in range(found.kinds.shape[0] - 1):
        for t in range(found.kinds[j], found.kinds[j + 1]):
            v = sign * p[t]
            sure = v < -tau
            found.count_kinds[k, 0, j] += sure
            found.count_kinds[k, 1, j] += not (sure or v > tau)


@compiled(inner=True)
def _closer(p: Any, sign: float, tau: float, first: int, width: int, cost: int, bits: Words, found: Any) -> None:
    """Enter a set as the cheapest that changes the nodes from ``first`` on with ``sign·p < −τ``, where it is."""
    for t in range(width):
        if sign * p[t] < -tau and cost < found.radius[first + t]:
            found.radius[first + t] = cost
            for k in range(bits.shape[0]):
                found.radius_set[first + t, k] = bits[k]


@compiled(inner=True)
def _more(changed: int, cost: int, bits: Words, found: Any) -> None:
    """Enter a set that changes ``changed`` nodes, if no set as cheap changes as many."""
    if changed > found.best[cost]:
        found.most[cost] = changed
        for k in range(bits.shape[0]):
            found.most_set[cost, k] = bits[k]
        while cost < found.best.shape[0] and found.best[cost] < changed:
            found.best[cost] = changed
            cost += 1


@compiled(inner=True)
def record(p: Float, sign: float, tau: float, cost: int, row: int, bits: Words, found: Any) -> None:
    """Enter one labelling: nodes with ``sign·p < −τ`` are changed, those within ``τ`` are in doubt.

    ``row`` is where its scores belong among the lowest ones, if there is such a table.
    """
    n = p.shape[0]
    if found.low.shape[0] > 0:
        _lower(p, sign, tau, row, bits, found)
    if found.seen_cost.shape[0] > 0:
        _see(p, sign, tau, cost, bits, found)
    if found.count_cost.shape[0] > 0:
        _count_kinds(p, sign, tau, cost, bits, found)
    changed: Any = np.int64(0)
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
        _closer(p, sign, tau, 0, n, cost, bits, found)
    _more(changed, cost, bits, found)
    if closer_doubt > 0 or (doubtful > 0 and changed + doubtful > found.best[cost]):
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


# -- in batches --------------------------------------------------------------------------------------------------------

BATCH = 64
"""Labellings that are scored together."""

TILE = 256
"""Nodes that are scored together: their rows stay in the nearest cache."""

_SHORT_ROUNDOFF = 2.0**-24
_SHORT_TINY = 1e-36
"""More than all underflows of one score in single precision."""

SETTLED, PENDING, IN_DOUBT = range(3)


@by_reference
class Batch(NamedTuple):
    """Trained labellings that wait to be scored, each with its complement."""

    # z, tau: (S, m) and (S,) solutions, and the error bounds of their scores
    z: Float
    tau: Float
    # short, short_tau: (S, m) and (S,) the same in single precision, scaled by a power of two
    short: Float32
    short_tau: Float32
    cost: Int  # (S, 2) cost of each set and of its complement; -1 where it is not admissible
    row: Int  # (S, 2) where both belong in the table of lowest scores
    bits: Words  # (S, 2, W) the set and its complement
    changed: Int  # (S, 2) nodes changed, among those scored so far
    kinds: Int  # (S, 2, J) the same for each kind of nodes
    state: Signs  # (S,)
    size: Int  # (1,) how many labellings there are
    p: Float32  # (TILE,) scores in single precision
    deepest: Int  # (tiles + 1,) largest radius known in each tile and the ones after it


def in_tiles(rows: Float) -> Float32:
    """(m, n) rows in single precision: each tile holds the entries of label 0, then those of label 1, and so on."""
    m, n = rows.shape
    tiles = -(-n // TILE)
    short = _aligned(tiles * m * TILE).reshape(tiles, m, TILE)
    for tile in range(tiles):
        part = rows[:, tile * TILE : (tile + 1) * TILE]
        short[tile, :, : part.shape[1]] = part
    return short.reshape(tiles, m * TILE)


def _aligned(size: int) -> Float32:
    """Zeros that begin where a line of the cache does: a third faster."""
    memory = np.zeros(4 * size + 64, dtype=np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + 4 * size].view(np.float32)


def new_batch(task: CubeWork) -> Batch:
    """Room for as many labellings as are decided at a time; none is in it yet."""
    m, n = task.scores.shape
    return Batch(
        z=np.zeros((BATCH, m)),
        tau=np.zeros(BATCH),
        short=np.zeros((BATCH, m), dtype=np.float32),
        short_tau=np.zeros(BATCH, dtype=np.float32),
        cost=np.zeros((BATCH, 2), dtype=np.int64),
        row=np.zeros((BATCH, 2), dtype=np.int64),
        bits=np.zeros((BATCH, 2, words_for(task.labels.size)), dtype=np.uint64),
        changed=np.zeros((BATCH, 2), dtype=np.int64),
        kinds=np.zeros((BATCH, 2, task.kinds.size - 1), dtype=np.int64),
        state=np.zeros(BATCH, dtype=np.int8),
        size=np.zeros(1, dtype=np.int64),
        p=_aligned(TILE),
        deepest=np.zeros(-(-n // TILE) + 1, dtype=np.int64),
    )


@compiled(inner=True)
def add(task: Any, batch: Any, z: Float, tau: float, cost: int, mirror_cost: int, bits: Words) -> None:
    """Put a labelling at the end of a batch that has room."""
    s = batch.size[0]
    batch.size[0] += 1
    m = z.shape[0]
    top = 0.0
    for i in range(m):
        batch.z[s, i] = z[i]
        top = max(top, abs(z[i]))
    words = bits.shape[0]
    for k in range(words):
        batch.bits[s, 0, k] = bits[k]
        batch.bits[s, 1, k] = ~bits[k]
    spare = 64 * words - task.labels.shape[0]
    if spare > 0:
        batch.bits[s, 1, words - 1] &= (~np.uint64(0)) >> np.uint64(spare)
    batch.tau[s] = tau
    batch.cost[s, 0], batch.cost[s, 1] = cost, mirror_cost
    batch.changed[s, 0] = batch.changed[s, 1] = 0
    batch.kinds[s] = 0
    batch.state[s] = IN_DOUBT
    if task.rows == 0 and not task.observed and 1e-250 < top < 1e250 and tau < np.inf:
        scale = math.ldexp(1.0, -math.frexp(top)[1])
        norm2 = 0.0
        for i in range(m):
            batch.short[s, i] = z[i] * scale
            norm2 += (z[i] * scale) ** 2
        error = tau * scale + 1.02 * (m + 4) * _SHORT_ROUNDOFF * math.sqrt(norm2) + _SHORT_TINY
        batch.short_tau[s] = 1.0001 * error
        batch.state[s] = PENDING


@compiled(inner=True, fastmath=REORDER)
def _short_scores(rows: Float32, z: Float32, p: Float32) -> None:
    """Scores of the nodes of a tile, four labels at a time."""
    for t in range(TILE):
        p[t] = np.float32(0.0)
    m = z.shape[0]
    i = 0
    while i + 4 <= m:
        z0, z1, z2, z3 = z[i], z[i + 1], z[i + 2], z[i + 3]
        k = i * TILE
        for t in range(TILE):
            p[t] += (z0 * rows[k + t] + z1 * rows[k + TILE + t]) + (
                z2 * rows[k + 2 * TILE + t] + z3 * rows[k + 3 * TILE + t]
            )
        i += 4
    while i < m:
        for t in range(TILE):
            p[t] += z[i] * rows[i * TILE + t]
        i += 1


@compiled(inner=True, fastmath=REORDER)
def _short_counts(p: Float32, tau: float, begin: int, end: int) -> tuple[int, int]:
    """How many scores are surely negative, and how many surely positive (as floats, whose sums take vectors)."""
    negative = np.float32(0.0)
    positive = np.float32(0.0)
    for t in range(begin, end):
        negative += np.float32(1.0) if p[t] < -tau else np.float32(0.0)
        positive += np.float32(1.0) if p[t] > tau else np.float32(0.0)
    return int(negative), int(positive)


@compiled(inner=True, fastmath=REORDER)
def _short_negative(p: Float32, begin: int, end: int) -> int:
    """How many decided scores are negative."""
    negative = np.float32(0.0)
    for t in range(begin, end):
        negative += np.float32(1.0) if p[t] < np.float32(0.0) else np.float32(0.0)
    return int(negative)


@compiled(inner=True)
def _decide(task: Any, batch: Any, s: int, first: int, width: int) -> tuple[int, int, bool]:
    """Score in double precision where single precision leaves a sign open: further counts, and whether all is decided.

    Decided scores become infinite.
    """
    negative, positive, open_ = 0, 0, 0
    tau = batch.tau[s]
    for t in range(width):
        if batch.p[t] < -batch.short_tau[s] or batch.p[t] > batch.short_tau[s]:
            continue
        score = 0.0
        for i in range(batch.z.shape[1]):
            score += batch.z[s, i] * task.scores[i, first + t]
        if score < -tau:
            batch.p[t] = -np.inf
            negative += 1
        elif score > tau:
            batch.p[t] = np.inf
            positive += 1
        else:
            open_ += 1
    return negative, positive, open_ == 0


@compiled(inner=True)
def _short_kinds(task: Any, batch: Any, s: int, first: int, width: int) -> None:
    """Count the nodes of each kind that a tile with decided scores holds and both labellings change."""
    for j in range(task.kinds.shape[0] - 1):
        begin, end = max(first, task.kinds[j]), min(first + width, task.kinds[j + 1])
        if begin < end:
            negative = _short_negative(batch.p, begin - first, end - first)
            batch.kinds[s, 0, j] += negative
            batch.kinds[s, 1, j] += end - begin - negative


@compiled(inner=True)
def _larger(task: Any, batch: Any, s: int, side: int, tile: int, found: Any) -> bool:
    """Whether a sum may become larger than all known ones of its cost, with the nodes from a tile on still to come."""
    for f in range(task.forms.shape[0]):
        possible = task.left[f, tile]
        for j in range(task.forms.shape[1]):
            possible += task.forms[f, j] * batch.kinds[s, side, j]
        if possible > found.largest[f, batch.cost[s, side]]:
            return True
    return task.forms.shape[0] == 0


@compiled(inner=True)
def _write_down(task: Any, batch: Any, s: int, side: int, found: Any) -> None:
    """Write down how many nodes of each kind a labelling changes, all of which are decided."""
    cost = batch.cost[s, side]
    k = _tell(cost, batch.bits[s, side], found)
    for j in range(batch.kinds.shape[2]):
        found.count_kinds[k, 0, j] = batch.kinds[s, side, j]
    for f in range(task.forms.shape[0]):
        total: Any = np.int64(0)
        for j in range(task.forms.shape[1]):
            total += task.forms[f, j] * batch.kinds[s, side, j]
        for b in range(cost, found.largest.shape[1]):
            found.largest[f, b] = max(found.largest[f, b], total)


@compiled(inner=True)
def _score_tile(task: Any, batch: Any, found: Any, s: int, tile: int) -> None:
    """Score the nodes of one tile under one labelling, unless the answer can no longer matter."""
    n = task.scores.shape[1]
    first = tile * TILE
    width = min(TILE, n - first)
    tau = batch.short_tau[s]
    _short_scores(task.short[tile], batch.short[s], batch.p)
    negative, positive = _short_counts(batch.p, tau, 0, width)
    if negative + positive < width:
        less, more, decided = _decide(task, batch, s, first, width)
        if not decided:
            batch.state[s] = IN_DOUBT
            return
        negative += less
        positive += more
    batch.changed[s, 0] += negative
    batch.changed[s, 1] += positive
    if task.counted:
        _short_kinds(task, batch, s, first, width)
    needed = False
    for side in range(2):
        cost = batch.cost[s, side]
        if cost < 0:
            continue
        if cost < batch.deepest[tile]:
            _closer(batch.p, 1.0 - 2.0 * side, tau, first, width, cost, batch.bits[s, side], found)
        possible = batch.changed[s, side] + n - first - width
        needed = needed or possible > found.best[cost] or cost < batch.deepest[tile + 1]
        if task.counted and not needed:
            needed = _larger(task, batch, s, side, tile + 1, found)
    if not needed:
        batch.state[s] = SETTLED


@compiled(inner=True)
def flush(task: Any, batch: Any, p: Float, found: Any) -> None:
    """Score and record all labellings of a batch, which is empty then; ``p`` has room for all scores."""
    n = task.scores.shape[1]
    tiles = batch.deepest.shape[0] - 1
    batch.deepest[tiles] = -1
    for tile in range(tiles - 1, -1, -1):
        deepest = batch.deepest[tile + 1]
        for t in range(tile * TILE, min(n, (tile + 1) * TILE)):
            deepest = max(deepest, found.radius[t])
        batch.deepest[tile] = deepest
    for tile in range(tiles):
        for s in range(batch.size[0]):
            if batch.state[s] == PENDING:
                _score_tile(task, batch, found, s, tile)
    for s in range(batch.size[0]):
        if batch.state[s] == IN_DOUBT:
            combine(task.scores, batch.z[s], p)
        for side in range(2):
            cost = batch.cost[s, side]
            if cost >= 0 and batch.state[s] == IN_DOUBT:
                record(p, 1.0 - 2.0 * side, batch.tau[s], cost, batch.row[s, side], batch.bits[s, side], found)
            elif cost >= 0:
                _more(batch.changed[s, side], cost, batch.bits[s, side], found)
                if task.counted and batch.state[s] == PENDING and _larger(task, batch, s, side, tiles, found):
                    _write_down(task, batch, s, side, found)
    batch.size[0] = 0
