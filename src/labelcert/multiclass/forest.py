"""Tables of scores over toggled sets: for each class a tree of sets, walked level by level and retrained.

A set of labels toggled in one class is a node of that class's tree; its children add one later label each. All
children of a set lie side by side in memory, so that a set is found by following one number per label. Level s of the
forest holds the sets of size s of all classes. Scores are stored in float32 with an error bound per set that covers
training, rounding and storage; what they leave undecided is decided elsewhere.

Names: K classes, n test nodes, S slots (sets, and a few that the budget or a group's rules out).
"""

from __future__ import annotations

import math
import queue
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from numba import njit

from labelcert.engines.base import Control
from labelcert.engines.enumerate import no_machine
from labelcert.engines.walks import _combine, _copy
from labelcert.multiclass.panel import Panel
from labelcert.svm.pivoting import (
    CAP,
    COLD_TABLEAU,
    FLAGS,
    UNIT_ROUNDOFF,
    Scratch,
    Z,
    bound,
    new_scratch,
    relabel,
    settle,
)
from labelcert.svm.scoring import HingeScorer, LinearScorer

Float = npt.NDArray[np.float64]
Float32 = npt.NDArray[np.float32]
Int = npt.NDArray[np.int64]

LEAF = np.int64(-(2**62))
"""``base`` of a set without children."""

FORBIDDEN = np.int64(2**31 - 1)
"""``cost`` of a slot whose set is not admissible."""

CHUNK_STOPS = 2048
SLOT_BYTES = 8 + 8 + 8 + 8 + 8 + 4
"""Memory of one slot beside its scores."""

TRAININGS, STUCK = range(2)

_STORED = 4.0 * 2.0**-24
_FAINT = 1e-35
"""Covers storage in float32: rounding twice, and underflow."""

POOR = 1e-4
"""Error bounds above this, relative to the scores, are worth an exact solution."""

T = TypeVar("T")


class Rules(NamedTuple):
    """Which labels can be toggled in each class, and at what price.

    Attributes
    ----------
    sizes : (K,) array
        Number of labels that can be toggled in each class.
    labels, costs, groups : (K, ν) arrays
        Their indices, prices and groups (-1: none); padded.
    group_caps : (G,) array
    budget : int
    """

    sizes: Int
    labels: Int
    costs: Int
    groups: Int
    group_caps: Int
    budget: int


class Tree(NamedTuple):
    """Sets of all classes, level by level.

    Attributes
    ----------
    base : (S,) array
        Slot of the child that adds toggle k is ``base + k``; ``LEAF`` where there is none.
    last : (S,) array
        Largest toggle of each set; -1 for the empty set.
    parent : (S,) array
    owner : (S,) array
        Class.
    cost : (S,) array
        ``FORBIDDEN`` where the set is not admissible.
    """

    base: Int
    last: Int
    parent: Int
    owner: Int
    cost: Int


@njit(inline="always")
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


@njit(cache=True)
def _count_children(rules: Any, tree: Any, start: int, end: int) -> int:
    """Slots that the children of sets ``start..end`` take."""
    total = 0
    for s in range(start, end):
        if tree.cost[s] != FORBIDDEN:
            for k in range(tree.last[s] + 1, rules.sizes[tree.owner[s]]):
                if _fits(rules, tree, s, k):
                    total += rules.sizes[tree.owner[s]] - tree.last[s] - 1
                    break
    return total


@njit(cache=True)
def _add_children(rules: Any, tree: Any, start: int, end: int, slot: int) -> None:
    """Write the children of sets ``start..end`` from ``slot`` on."""
    for s in range(start, end):
        tree.base[s] = LEAF
        if tree.cost[s] == FORBIDDEN:
            continue
        c = tree.owner[s]
        some = False
        for k in range(tree.last[s] + 1, rules.sizes[c]):
            if _fits(rules, tree, s, k):
                some = True
                break
        if not some:
            continue
        tree.base[s] = slot - (tree.last[s] + 1)
        for k in range(tree.last[s] + 1, rules.sizes[c]):
            tree.last[slot] = k
            tree.parent[slot] = s
            tree.owner[slot] = c
            tree.base[slot] = LEAF
            tree.cost[slot] = tree.cost[s] + rules.costs[c, k] if _fits(rules, tree, s, k) else FORBIDDEN
            slot += 1


class Fill(NamedTuple):
    """What the trainings need: constant and shared by all workers.

    Attributes
    ----------
    machine : Machine
    scores : (m, n) array
        Scaled test rows, transposed.
    linear : bool
    slack : float
        Error of ``scores`` times ``‖y‖₂``, where scores are linear.
    ys : (K, m) array
        Clean labels of each class against the rest.
    shrink : float
        Power of two that brings scores to the range of float32.
    """

    machine: Any
    scores: Float
    linear: bool
    slack: float
    ys: Float
    shrink: float


class Walker(NamedTuple):
    """Everything that one worker writes to."""

    svm: Scratch
    parent: Scratch
    y: Float
    p: Float
    p_parent: Float
    here: Int
    path: Int
    counters: Int


@njit(inline="always")
def _toggle(fill: Any, rules: Any, w: Any, c: int, k: int) -> None:
    i = rules.labels[c, k]
    if not fill.linear:
        relabel(fill.machine, w.svm, w.y, i)
        return
    w.y[i] = -w.y[i]
    w.here[1] += 1
    step = 2.0 * w.y[i]
    for t in range(w.p.shape[0]):
        w.p[t] += step * fill.scores[i, t]


@njit(inline="always")
def _train(fill: Any, w: Any) -> None:
    w.counters[TRAININGS] += 1
    if settle(fill.machine, w.svm, w.y) < 0:
        w.counters[STUCK] += 1


@njit(inline="always")
def _start(fill: Any, w: Any, c: int) -> None:
    """Back to the clean labels of class ``c``."""
    m, n = fill.scores.shape
    w.here[0] = c
    w.here[1] = 0
    w.here[2] = 0
    for i in range(m):
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


@njit(cache=True, nogil=True)
def _store(fill: Any, w: Any, P: Float32, tau: Float32, row: int) -> None:
    """Scores of the current labels and their error bound, in float32."""
    m, n = fill.scores.shape
    if fill.linear:
        # |p| never exceeds ‖k‖₁ ≤ √m, so every addition so far erred by at most 2u√m.
        error = 1.01 * (UNIT_ROUNDOFF * 4.0 * math.sqrt(m) * (w.here[1] + m + 4) + fill.slack)
    else:
        error, _ = bound(fill.machine, w.svm, w.y)
        _combine(fill.scores, w.svm.v[Z], w.p)
    largest = 0.0
    for t in range(n):
        v = w.p[t] * fill.shrink
        largest = max(largest, abs(v))
        P[row, t] = v
    error = 1.001 * error * fill.shrink + _STORED * largest + _FAINT
    if largest < 1e30 and error < 1e30:
        tau[row] = 1.0001 * error
        return
    tau[row] = np.inf
    for t in range(n):
        P[row, t] = 0.0


@njit(cache=True, nogil=True)
def fill_children(
    fill: Any, rules: Any, tree: Any, w: Any, P: Float32, tau: Float32, offset: int, start: int, end: int, stop: Any
) -> bool:
    """Train on all children of sets ``start..end``; their rows are their slots minus ``offset``.

    Without an offset, empty sets among the parents are stored, too. Returns whether it was finished; ``stop[0] != 0``
    ends it early.
    """
    w.here[0] = -1
    for s in range(start, end):
        root = tree.last[s] < 0
        if tree.base[s] == LEAF and not root:
            continue
        c = tree.owner[s]
        if w.here[0] != c:
            _start(fill, w, c)
        # From the last set to this one: out with what it has not, in with what is new.
        size = 0
        up = s
        while tree.last[up] >= 0:
            w.path[1, size] = tree.last[up]
            size += 1
            up = tree.parent[up]
        for way in range(2):
            for a in range(w.here[2] if way == 0 else size):
                common = False
                for b in range(size if way == 0 else w.here[2]):
                    common = common or w.path[way, a] == w.path[1 - way, b]
                if not common:
                    _toggle(fill, rules, w, c, w.path[way, a])
        for a in range(size):
            w.path[0, a] = w.path[1, a]
        w.here[2] = size
        if not fill.linear:
            _train(fill, w)
        if root and offset == 0:
            _store(fill, w, P, tau, s)
        if tree.base[s] == LEAF:
            continue
        moves = w.here[1]
        if fill.linear:
            for t in range(w.p.shape[0]):
                w.p_parent[t] = w.p[t]
        else:
            _copy(w.svm, w.parent)
        for k in range(tree.last[s] + 1, rules.sizes[c]):
            row = tree.base[s] + k
            if tree.cost[row] == FORBIDDEN:
                tau[row - offset] = np.inf
                for t in range(w.p.shape[0]):
                    P[row - offset, t] = 0.0
                continue
            _toggle(fill, rules, w, c, k)
            if not fill.linear:
                _train(fill, w)
            _store(fill, w, P, tau, row - offset)
            i = rules.labels[c, k]
            w.y[i] = -w.y[i]
            if fill.linear:
                w.here[1] = moves
                for t in range(w.p.shape[0]):
                    w.p[t] = w.p_parent[t]
            else:
                _copy(w.parent, w.svm)
            if stop[0] != 0:
                return False
    return True


@njit(cache=True, nogil=True)
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


class Forest:
    """The trees of all classes, built level by level as far as memory allows.

    Parameters
    ----------
    panel : Panel
    nodes : (n,) array
        Test nodes, in the order of the tables' columns.
    slots : float
        Most sets to hold.
    depth : int
        Largest size of a set to hold.
    budget : int, optional
        Largest cost of a set to hold; the problem's by default.

    Attributes
    ----------
    starts : list of int
        First slot of each level; the last entry is the number of slots.
    complete, full : bool
        Whether every admissible set is in it, and whether it ended because more sets would not fit.
    place : (K, ν) array
        Toggle of each flippable label in each class; -1 where it cannot be toggled there.
    """

    def __init__(
        self, panel: Panel, nodes: npt.NDArray[np.intp], slots: float, depth: int, budget: int | None = None
    ) -> None:
        problem = panel.problem
        K = problem.n_classes
        codes = problem.codes
        a = problem.adversary
        self.panel = panel
        self.nodes = nodes
        parts = [a.toggling(codes, c) for c in range(K)]
        sizes = np.array([part.labels.size for part in parts], dtype=np.int64)
        widest = int(sizes.max(initial=0))

        def padded(name: str) -> Int:
            out = np.zeros((K, widest), dtype=np.int64)
            for c, part in enumerate(parts):
                out[c, : sizes[c]] = getattr(part, name)
            return out

        limit = problem.max_flips if budget is None else budget
        self.rules = Rules(sizes, padded("labels"), padded("costs"), padded("groups"), a.group_caps, limit)
        self.place = np.full((K, a.labels.size), -1, dtype=np.int64)
        for c in range(K):
            self.place[c, np.isin(a.labels, parts[c].labels)] = np.arange(sizes[c])
        self._grow(K, slots, depth)
        scorer = panel.scorer
        largest = float(np.abs(panel.clean).max(initial=0.0))
        self.fill = Fill(
            machine=scorer.machine if isinstance(scorer, HingeScorer) else no_machine(),
            scores=np.ascontiguousarray(scorer.rows[nodes].T),
            linear=panel.linear,
            slack=scorer.slack if isinstance(scorer, LinearScorer) else 0.0,
            ys=np.array([panel.labels_of(codes, c) for c in range(K)]),
            shrink=2.0 ** -round(math.log2(largest)) if largest > 0.0 else 1.0,
        )
        self.counters = np.zeros(2, dtype=np.int64)
        self.sharpened = 0

    @property
    def levels(self) -> int:
        """Largest size of a set."""
        return len(self.starts) - 2

    def _grow(self, K: int, slots: float, depth: int) -> None:
        self.tree = Tree(
            base=np.full(K, LEAF),
            last=np.full(K, -1, dtype=np.int64),
            parent=np.full(K, -1, dtype=np.int64),
            owner=np.arange(K, dtype=np.int64),
            cost=np.zeros(K, dtype=np.int64),
        )
        self.starts = [0, K]
        while True:
            more = int(_count_children(self.rules, self.tree, self.starts[-2], self.starts[-1]))
            self.complete = more == 0
            self.full = self.levels < depth and self.starts[-1] + more > slots
            if self.complete or self.full or self.levels >= depth:
                return
            self.tree = Tree(*(np.concatenate([array, np.zeros(more, dtype=np.int64)]) for array in self.tree))
            _add_children(self.rules, self.tree, self.starts[-2], self.starts[-1], self.starts[-1])
            self.starts.append(self.starts[-1] + more)

    def new_walker(self) -> Walker:
        """Working memory of one worker."""
        m, n = self.fill.scores.shape
        svm_size = 0 if self.fill.linear else m
        return Walker(
            svm=new_scratch(svm_size),
            parent=new_scratch(svm_size),
            y=np.zeros(m),
            p=np.zeros(n),
            p_parent=np.zeros(n),
            here=np.zeros(3, dtype=np.int64),
            path=np.zeros((2, self.levels + 2), dtype=np.int64),
            counters=np.zeros(2, dtype=np.int64),
        )

    def chunks(self, level: int) -> Iterator[tuple[int, int, int]]:
        """Parents ``(start, end)`` of one level's sets in blocks, and the number of sets in each."""
        if level == 0:
            return
        start, end = self.starts[level - 1], self.starts[level]
        has = self.tree.base[start:end] != LEAF
        children = np.where(has, self.rules.sizes[self.tree.owner[start:end]] - self.tree.last[start:end] - 1, 0)
        total = np.cumsum(children)
        at, done = 0, 0
        while at < end - start:
            to = max(at + 1, int(np.searchsorted(total, done + CHUNK_STOPS, side="right")))
            stops = int(total[to - 1]) - done
            if stops or level == 1:
                yield start + at, start + to, stops
            at, done = to, int(total[to - 1])

    def fill_level(self, level: int, P: Float32, tau: Float32, control: Control, done: float, total: float) -> bool:
        """Train on all sets of a level (from 1; with the first, on the clean labels too); whether it was finished."""
        walkers: queue.SimpleQueue[Walker] = queue.SimpleQueue()
        for _ in range(control.workers):
            walkers.put(self.new_walker())

        def work(chunk: tuple[int, int, int]) -> bool:
            w = walkers.get()
            try:
                return fill_children(self.fill, self.rules, self.tree, w, P, tau, 0, chunk[0], chunk[1], control.flag)
            finally:
                walkers.put(w)

        fine = True
        for chunk, finished in in_order(self.chunks(level), work, control):
            fine = fine and finished
            done += chunk[2]
            control.report(min(done, total), total)
        while not walkers.empty():
            self.counters += walkers.get().counters
        if not fine or control.flag[0]:
            return False
        start, end = (0 if level == 1 else self.starts[level]), self.starts[level + 1]
        self.sharpen(start, P[start:end], tau[start:end], control)
        return True

    def sharpen(self, start: int, P: Float32, tau: Float32, control: Control) -> None:
        """Replace scores with a poor error bound, on ill-conditioned kernels, by those of the exact solution.

        Parameters
        ----------
        start : int
            Slot of the first row.
        P, tau : (·, n) and (·,) arrays
        control : Control
            Rows that are left when the run has to stop keep their bounds, which are valid.
        """
        suspect = np.flatnonzero((tau > POOR) & (self.tree.cost[start : start + tau.size] != FORBIDDEN))
        poor = suspect[~(tau[suspect] <= POOR * np.abs(P[suspect]).max(axis=1, initial=0.0))]
        for row in poor:
            if control.over():
                return
            c, labels = self.toggles(start + int(row))
            y = self.fill.ys[c].copy()
            y[labels] = -y[labels]
            found = self.panel.sharp_scores(y)
            if found is None:
                return
            p = found[0][self.nodes] * self.fill.shrink
            largest = float(np.abs(p).max(initial=0.0))
            error = 1.0001 * (1.001 * found[1] * self.fill.shrink + _STORED * largest + _FAINT)
            if largest < 1e30 and error < float(tau[row]):
                P[row] = p
                tau[row] = np.nextafter(np.float32(error), np.float32(np.inf))
            self.sharpened += 1

    def toggles(self, s: int) -> tuple[int, list[int]]:
        """Class and label indices of a set."""
        c, labels = int(self.tree.owner[s]), []
        while self.tree.last[s] >= 0:
            labels.append(int(self.rules.labels[c, self.tree.last[s]]))
            s = int(self.tree.parent[s])
        return c, labels[::-1]


def in_order(chunks: Iterator[T], work: Callable[[T], Any], control: Control) -> Iterator[tuple[T, Any]]:
    """Results of all chunks, on all workers, in order; ends early when the run has to stop."""
    pending: deque[tuple[T, Future[Any]]] = deque()
    with ThreadPoolExecutor(control.workers) as pool:
        while True:
            while len(pending) < 3 * control.workers and not control.over():
                chunk = next(chunks, None)
                if chunk is None:
                    break
                pending.append((chunk, pool.submit(work, chunk)))
            if not pending:
                return
            try:
                result = pending[0][1].result(timeout=0.1)
            except NotYet:
                control.over()
                continue
            yield pending.popleft()[0], result
