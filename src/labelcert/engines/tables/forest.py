"""Tables of scores over toggled sets: for each class a tree of sets, built and filled level by level.

Each level is trained on in blocks, by all workers; see :mod:`labelcert.engines.tables.toggled_trees` for how.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from copy import copy
from typing import NamedTuple

import numpy as np

from labelcert.arrays import Float, Float32, Index, Int, Signs
from labelcert.engines.control import Control
from labelcert.engines.pools import DeviceLoad, chunk_stops
from labelcert.engines.tables.options import Options
from labelcert.engines.tables.toggled_trees import (
    CLASS,
    FORBIDDEN,
    LEAF,
    MOVES,
    SIZE,
    Fill,
    Rules,
    ToggledTree,
    add_children,
    count_children,
    fill_children,
    new_fill_worker,
    storage_error,
    storage_errors,
)
from labelcert.engines.walks import Collector, collect_all
from labelcert.losses.retraining import begin
from labelcert.prediction import OneVsRest
from labelcert.problem import Problem
from labelcert.problem.problem import signs_of
from labelcert.stopping import Stopped, is_over, stopped_by
from labelcert.svm.pivoting import LARGEST_COLD, heeding, new_scratch, overwrite
from labelcert.svm.walking import MANY_LABELS

CHUNK_STOPS = 2048
SLOT_BYTES = 8 + 8 + 8 + 8 + 8 + 4
"""Memory of one slot beside its scores."""

PRODUCT_CELLS = 1e6
"""Scores that one matrix product finds."""

MANY_NODES = 32
"""With more test nodes, and many labels, a matrix product scores them."""

ROUGH, FINE = 1e-3, 1e-5
"""Error bounds that are good enough, in units of the largest score: for duals that are kept, and for tables."""

POOR = 1e-4
"""Error bounds above this, relative to the scores, are worth an exact solution."""


def with_scores(duals: Float32, tau: Float32, scores: Float) -> tuple[Float32, Float32]:
    """Scores and their error bounds, from duals and theirs.

    ``scores`` (m, n) are transposed rows of norms of at most 1. Most duals of support vector machines are 0 in all of
    a few neighbouring sets, and are left out.
    """
    P, bounds = np.empty((len(duals), scores.shape[1]), dtype=np.float32), np.empty(len(duals))
    step = int(np.clip(PRODUCT_CELLS / max(1, scores.shape[1]), 32, 512))
    for start in range(0, len(duals), step):
        rows = slice(start, start + step)
        used = np.flatnonzero(duals[rows].any(axis=0))
        z = duals[rows, used].astype(np.float64)
        p = z @ scores[used]
        size = np.sqrt(np.einsum("sm,sm->s", z, z))
        errors = tau[rows] + 2.0**-23 * size  # duals were rounded to float32, and the product is one of float64
        bounds[rows], P[rows] = storage_errors(errors, np.abs(p).max(axis=1, initial=0.0)), p
    return P, bounds.astype(np.float32)


class Siblings(NamedTuple):
    """The children of the sets ``start..end`` of a forest: a chunk of one level."""

    start: int
    end: int
    stops: int  # how many children they have
    min_cost: int = 0  # levels are finished or not; nobody asks


class Filler:
    """What one worker fills tables with.

    With many labels, it keeps the clean solution of one class, which LAPACK finds in steps that can be stopped:
    compiled code would train on it from nothing, and ask nobody whether the run is over.

    - ``own``: working memory.
    """

    def __init__(self, fill: Fill, levels: int) -> None:
        self.own = new_fill_worker(fill, levels)
        self._clean = new_scratch(self.own.svm.state.size if fill.many else 0)
        self._class = -1

    def start(self, fill: Fill, c: int) -> None:
        """Go to the clean labels of class ``c``, where that is not left to the walk.

        Raises
        ------
        Stopped
            The run is over.
        """
        own = self.own
        own.here[CLASS] = -1
        if not fill.many:
            return
        if self._class != c:
            self._class = -1
            self._clean.chill()
            begin(fill.retraining, self._clean, fill.ys[c].copy())
            self._class = c
        overwrite(own.svm, self._clean)
        own.y[:] = fill.ys[c]
        own.here[CLASS], own.here[MOVES], own.here[SIZE] = c, 0, 0


class FillTask(NamedTuple):
    """Training on the sets of a forest, as work for a pool."""

    fill: Fill
    rules: Rules
    tree: ToggledTree
    levels: int
    scores: bool  # whether a matrix product turns duals into scores

    @property
    def may_leave(self) -> bool:
        """Always: a task is arrays and numbers."""
        return True

    def for_device(self) -> DeviceLoad | None:
        """What fills tables on a device; every score of every set comes back."""
        if not (self.fill.linear or self.fill.retraining.on_device):
            return None
        return DeviceLoad("tables", self.fill.ys.shape[1], float(self.tree.last.size), 4 * self.fill.scores.shape[1])

    def new_worker(self) -> Filler:
        """Working memory of one worker."""
        return Filler(self.fill, self.levels)

    def walk(self, chunk: Siblings, worker: Filler, flag: Signs) -> tuple[Filled, bool]:
        """Train on one chunk; also returns whether it was finished."""
        start, end, stops, _ = chunk
        P, tau = np.empty((stops, worker.own.p.size), dtype=np.float32), np.empty(stops, dtype=np.float32)
        parents = np.flatnonzero(self.tree.base[start:end] != LEAF)
        first = 0
        if parents.size:
            parent = start + parents[0]
            first = int(self.tree.base[parent] + self.tree.last[parent] + 1)
        worker.own.counters[:] = 0
        known = self.fill, self.rules, self.tree, heeding(worker.own, flag), P, tau, first
        finished = True
        try:
            for begins, ends in self._parts(start, end):
                with stopped_by(lambda: bool(flag[0])):
                    worker.start(self.fill, int(self.tree.owner[begins]))
                finished = finished and fill_children(*known, begins, ends, flag)
        except Stopped:
            finished = False
        if self.scores and finished:
            P, tau = with_scores(P, tau, self.fill.scores)
        elif self.scores:  # nobody reads them
            P, tau = np.zeros((stops, self.fill.scores.shape[1]), dtype=np.float32), np.full_like(tau, np.inf)
        return Filled(worker.own.counters.copy(), first, P, tau), finished

    def _parts(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Sets that have children, of one class at a time where the start is not left to the walk."""
        edges: list[int] = []
        if self.fill.many:
            edges = (start + 1 + np.flatnonzero(np.diff(self.tree.owner[start:end]))).tolist()
        for part in itertools.pairwise([start, *edges, end]):
            if (self.tree.base[slice(*part)] != LEAF).any():
                yield part


class Filled(NamedTuple):
    """Scores of the sets of one chunk."""

    counters: Int  # (2,) as ``toggled_trees`` names them
    first: int  # slot of the first row
    # P, tau: (·, n) and (·,) scores and error bounds
    P: Float32
    tau: Float32


PARENTS_AT_ONCE = 10_000
"""Sets whose children are listed before the clock is looked at again."""


class Forest:
    """The trees of all classes, built level by level as far as memory allows.

    - ``problem``: its adversary and its budget decide which sets there are.
    - ``nodes`` (n,): test nodes, in the order of the tables' columns.
    - ``slots``: most sets to hold.
    - ``depth``: largest size of a set to hold.
    - ``budget``: largest cost of a set to hold; the problem's by default.
    - ``duals``: whether what multiplies the test rows is found for each set, instead of scores.
    - ``starts``: first slot of each level; the last entry is the number of slots.
    - ``complete``, ``full``: whether every admissible set is in it, and whether it ended because more sets would not
      fit.
    - ``rows`` (n, m): scaled test rows.
    - ``pair_options``: moves that matter to a predicted class and a rival, once somebody has asked for them.
    - ``place`` (K, ν): toggle of each flippable label in each class; -1 where it cannot be toggled there.
    """

    def __init__(
        self,
        problem: Problem,
        predictor: OneVsRest,
        nodes: Index,
        slots: float,
        depth: int,
        budget: int | None = None,
        duals: bool = False,
    ) -> None:
        K = problem.n_classes
        codes = problem.codes
        a = problem.adversary
        self._predictor = predictor
        self.nodes = nodes
        self._duals = duals
        parts = [a.toggling(codes, c) for c in range(K)]
        sizes = np.array([part.labels.size for part in parts], dtype=np.int64)
        widest = int(sizes.max(initial=0))

        def padded(name: str) -> Int:
            out = np.zeros((K, widest), dtype=np.int64)
            for c, part in enumerate(parts):
                out[c, : sizes[c]] = getattr(part, name)
            return out

        limit = problem.max_flips if budget is None else budget
        least = np.array([part.costs.min(initial=limit + 1) for part in parts], dtype=np.int64)
        self.rules = Rules(sizes, padded("labels"), padded("costs"), padded("groups"), a.group_caps, least, limit)
        self.place = np.full((K, a.labels.size), -1, dtype=np.int64)
        for c in range(K):
            self.place[c, np.isin(a.labels, parts[c].labels)] = np.arange(sizes[c])
        self._grow(K, slots, depth)
        scorer = predictor.scorer
        self.rows = scorer.rows[nodes]
        by_product = not predictor.linear and codes.size > MANY_LABELS and nodes.size >= MANY_NODES
        largest = float(np.abs(predictor.clean[:, nodes]).max(initial=0.0))
        self.fill = Fill(
            retraining=scorer.sharpened(),
            scores=np.eye(self.rows.shape[1]) if duals else np.ascontiguousarray(self.rows.T),
            linear=predictor.linear,
            duals=duals or by_product,
            shared=not predictor.linear and codes.size > MANY_LABELS,
            many=not predictor.linear and codes.size > LARGEST_COLD,
            slack=scorer.slack,
            ys=np.array([signs_of(codes, c) for c in range(K)]),
            rough=ROUGH if duals else FINE if by_product else 0.0,
            shrink=2.0 ** -float(np.clip(round(math.log2(largest)), -1000, 1000)) if largest > 0.0 else 1.0,
        )
        self._poor = max(POOR, 2.0 * self.fill.rough)
        self.pair_options: dict[tuple[int, int], Options] = {}
        self.counters = np.zeros(2, dtype=np.int64)
        self.sharpened = 0

    def about(self, nodes: Index) -> Forest:
        """The same sets for other test nodes, where what is found for each set are duals."""
        other = copy(self)
        other.nodes, other.rows = nodes, self._predictor.scorer.rows[nodes]
        return other

    @property
    def levels(self) -> int:
        """Largest size of a set."""
        return len(self.starts) - 2

    def _grow(self, K: int, slots: float, depth: int) -> None:
        self.tree = ToggledTree(
            base=np.full(K, LEAF),
            last=np.full(K, -1, dtype=np.int64),
            parent=np.full(K, -1, dtype=np.int64),
            owner=np.arange(K, dtype=np.int64),
            cost=np.zeros(K, dtype=np.int64),
        )
        self.starts = [0, K]
        self.complete = self.full = False
        while True:
            parents = [
                (start, min(start + PARENTS_AT_ONCE, self.starts[-1]))
                for start in range(self.starts[-2], self.starts[-1], PARENTS_AT_ONCE)
            ]
            more = 0
            for start, end in parents:
                if is_over():
                    return
                more += int(count_children(self.rules, self.tree, start, end))
            self.complete = more == 0
            self.full = self.levels < depth and self.starts[-1] + more > slots
            if self.complete or self.full or self.levels >= depth:
                return
            grown = ToggledTree(*(np.append(array, np.zeros(more, dtype=np.int64)) for array in self.tree))
            slot = self.starts[-1]
            for start, end in parents:
                if is_over():
                    return
                slot = int(add_children(self.rules, grown, start, end, slot))
            self.tree = grown
            self.starts.append(slot)

    @property
    def task(self) -> FillTask:
        """Training on the sets, as work for a pool."""
        return FillTask(self.fill, self.rules, self.tree, self.levels, self.fill.duals and not self._duals)

    def chunks(self, level: int) -> Iterator[Siblings]:
        """The sets of one level, with their siblings, in chunks."""
        if level == 0:
            return
        start, end = self.starts[level - 1], self.starts[level]
        has = self.tree.base[start:end] != LEAF
        children = np.where(has, self.rules.sizes[self.tree.owner[start:end]] - self.tree.last[start:end] - 1, 0)
        total = np.cumsum(children)
        most = chunk_stops(self.task, CHUNK_STOPS)
        at, done = 0, 0
        while at < end - start:
            to = max(at + 1, int(np.searchsorted(total, done + most, side="right")))
            stops = int(total[to - 1]) - done
            if stops:
                yield Siblings(start + at, start + to, stops)
            at, done = to, int(total[to - 1])

    def train(self, level: int, collector: Collector, control: Control) -> bool:
        """Train on all sets of a level (from 1); returns whether the level was finished."""
        done, total = self.starts[level], self.starts[-1]
        finished = collect_all(self.task, self.chunks(level), [collector], control, total, done)
        return finished and not control.flag[0]

    def clean_scores(self, c: int) -> tuple[Float, float]:
        """Scores of class ``c`` on the clean labels, in the units of the tables, with a sharp error bound."""
        p, error = self._predictor.scores(self.fill.ys[c])
        if not error <= POOR * float(np.abs(p[self.nodes]).max(initial=0.0)):
            p, error = self._predictor.sharp_scores(self.fill.ys[c]) or (p, error)
        return p[self.nodes] * self.fill.shrink, error * self.fill.shrink

    @staticmethod
    def store(found: tuple[Float, float], P: Float32, tau: Float32) -> bool:
        """Keep scores in float32 with an error bound that covers it; False where they are out of its range."""
        p, error = found
        largest = float(np.abs(p).max(initial=0.0))
        error = storage_error(error, largest)
        if not (largest < 1e30 and error < 1e30):
            P[:], tau[:] = 0.0, np.inf
            return False
        P[:] = p
        tau[:] = np.nextafter(np.float32(error), np.float32(np.inf))
        return True

    def sharpen(self, start: int, P: Float32, tau: Float32, control: Control) -> None:
        """Replace scores with a poor error bound, on ill-conditioned kernels, by those of the exact solution.

        - ``start``: slot of the first row.
        - ``control``: rows that are left when the run has to stop keep their bounds, which are valid.
        """
        for row in self.poor(start, tau, lambda rows: P[rows]):
            exact = None if control.over() else self.sharp(start + row)
            if exact is None:
                return
            sharp_P, sharp_tau = np.empty_like(P[row]), np.empty(1, dtype=np.float32)
            if self.store(exact, sharp_P, sharp_tau) and sharp_tau[0] < tau[row]:
                P[row], tau[row] = sharp_P, sharp_tau[0]

    def poor(self, start: int, tau: Float32, scores: Callable[[Index], Float32]) -> list[int]:
        """Rows whose error bound is worth an exact solution; ``start`` is the slot of the first row."""
        suspect = np.flatnonzero((tau > self._poor) & (self.tree.cost[start : start + tau.size] != FORBIDDEN))
        rows: list[int] = suspect[
            ~(tau[suspect] <= self._poor * np.abs(scores(suspect)).max(axis=1, initial=0.0))
        ].tolist()
        return rows

    def sharp(self, s: int) -> tuple[Float, float] | None:
        """Scores of a set by the exact solution, in the units of the tables, and their error bound; None: too large."""
        c, labels = self.toggles(s)
        y = self.fill.ys[c].copy()
        y[labels] = -y[labels]
        found = self._predictor.sharp_scores(y)
        if found is None:
            return None
        self.sharpened += 1
        return found[0][self.nodes] * self.fill.shrink, found[1] * self.fill.shrink

    def toggles(self, s: int) -> tuple[int, list[int]]:
        """Class and label indices of a set."""
        c, labels = int(self.tree.owner[s]), []
        while self.tree.last[s] >= 0:
            labels.append(int(self.rules.labels[c, self.tree.last[s]]))
            s = int(self.tree.parent[s])
        return c, labels[::-1]


class Tables(Collector):
    """Scores of all sets of a forest, as far as they were trained on.

    - ``P``, ``tau`` (S, n) and (S,): scores and error bounds, by slot.
    - ``filled``: the largest size whose sets are all there.
    """

    def __init__(self, forest: Forest) -> None:
        slots = forest.starts[-1]
        self.forest, self.filled = forest, 0
        self.P = np.empty((slots, forest.nodes.size), dtype=np.float32)
        self.tau = np.empty(slots, dtype=np.float32)

    def fill(self, size: int, control: Control) -> bool:
        """Train on all sets of a size, the next one; returns whether they are all there."""
        forest = self.forest
        if size > forest.levels:  # all sets of that size are made of smaller ones
            return not control.over()
        if size == 1:
            for c in range(forest.starts[1]):
                forest.store(forest.clean_scores(c), self.P[c], self.tau[c : c + 1])
        if not self.train(size, control):
            return False
        level = slice(forest.starts[size], forest.starts[size + 1])
        forest.sharpen(level.start, self.P[level], self.tau[level], control)
        self.filled = size
        return True

    def train(self, size: int, control: Control) -> bool:
        """Find the scores of all sets of a size; returns whether that was finished."""
        return self.forest.train(size, self, control)

    def collect(self, found: Filled, chunk: Siblings) -> None:
        """Write down the scores of one chunk."""
        rows = slice(found.first, found.first + chunk.stops)
        self.P[rows], self.tau[rows] = found.P, found.tau
        self.forest.counters += found.counters
