"""Tables of scores over toggled sets: for each class a tree of sets, built and filled level by level.

Each level is trained on in blocks, by all workers; see :mod:`labelcert.multiclass.trees` for how.
"""

from __future__ import annotations

import math
import queue
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from labelcert.engines.base import Control
from labelcert.engines.enumerate import no_machine
from labelcert.multiclass.panel import Panel
from labelcert.multiclass.trees import (
    FORBIDDEN,
    LEAF,
    Fill,
    Rules,
    Tree,
    Walker,
    add_children,
    count_children,
    fill_children,
    storage_error,
)
from labelcert.svm.pivoting import new_scratch
from labelcert.svm.scoring import HingeScorer, LinearScorer

Float32 = npt.NDArray[np.float32]
Int = npt.NDArray[np.int64]

CHUNK_STOPS = 2048
SLOT_BYTES = 8 + 8 + 8 + 8 + 8 + 4
"""Memory of one slot beside its scores."""

POOR = 1e-4
"""Error bounds above this, relative to the scores, are worth an exact solution."""

T = TypeVar("T")


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
            more = int(count_children(self.rules, self.tree, self.starts[-2], self.starts[-1]))
            self.complete = more == 0
            self.full = self.levels < depth and self.starts[-1] + more > slots
            if self.complete or self.full or self.levels >= depth:
                return
            self.tree = Tree(*(np.concatenate([array, np.zeros(more, dtype=np.int64)]) for array in self.tree))
            add_children(self.rules, self.tree, self.starts[-2], self.starts[-1], self.starts[-1])
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
            error = storage_error(found[1] * self.fill.shrink, largest)
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
