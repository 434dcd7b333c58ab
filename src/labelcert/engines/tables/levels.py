"""Level by level through the forest: tables, then radii, then the collective curve, for all relabellings of one size.

Whenever a sweep stops, everything cheaper than the first size it did not finish is settled.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from labelcert.arrays import Int
from labelcert.certificate import Stop
from labelcert.engines.base import Findings, Question, running_best, within_reach
from labelcert.engines.control import Control
from labelcert.engines.pools import Local, in_order, pool_in_force, seconds_per_step
from labelcert.engines.tables import relabelling_walk as walks
from labelcert.engines.tables.forest import Forest
from labelcert.engines.tables.options import Options, all_options, pair_options
from labelcert.engines.tables.relabelling_walk import Table, new_board, new_path, walk_all, walk_pairs
from labelcert.engines.tables.trees import subtree_extremes
from labelcert.problem import NOTHING, Relabelling

DOUBTS_AT_ONCE = 4096
"""Doubts that one chunk notes before they are decided and the chunk is walked again from there."""

PAIR_SECONDS = 1e-9
ALL_SECONDS = 1.5e-9
"""Rough times of one node in one relabelling, for a pair of classes and for all of them."""

EXTENSIONS = 4000
"""Relabellings tried beyond the exact part of the curve."""

CHUNK_VISITS = 2e5
BATCH = 32
"""Chunks between two updates of what is known: fixed, so that results do not depend on the number of workers."""


class Piece(NamedTuple):
    """A range of relabellings to walk over."""

    plan: Int
    options: Options


class Walked(NamedTuple):
    """What a walk over one piece found.

    Attributes
    ----------
    found : array
        The options of what is better than what was known, and in the last column how much better.
    doubts : array
        Relabellings that float32 does not decide: the first ``DOUBTS_AT_ONCE`` of them.
    met : int
        Number of doubts; -1 where the walk was stopped.
    """

    found: Int
    doubts: Int
    met: int


class Sweep:
    """Everything proved so far about a question, from tables.

    Parameters
    ----------
    question : Question
    forest : Forest
    per_stop : float
        Seconds of one training, for estimates.
    """

    def __init__(self, question: Question, forest: Forest, per_stop: float) -> None:
        problem = question.problem
        n, self.budget = question.nodes.size, question.budget
        self._question = question
        self._forest = forest
        self._per_stop = per_stop
        self._a = problem.adversary
        self._never = self._a.never
        slots = forest.starts[-1]
        self._P = np.empty((slots, n), dtype=np.float32)
        self._tau = np.empty(slots, dtype=np.float32)
        self.radius = np.full(n, self._never, dtype=np.int64)
        self.changes: list[Relabelling | None] = [None] * n
        for t in np.flatnonzero(question.contrary).tolist():
            self.radius[t], self.changes[t] = 0, NOTHING
        self._open_radius = np.full(n, self._never, dtype=np.int64)
        self._frontier = self.budget + 1
        self._most = np.zeros(self.budget + 1, dtype=np.int64)
        self._most[0] = question.contrary.sum()
        self._most_changes: list[Relabelling] = [NOTHING] * (self.budget + 1)
        self._open_most = np.zeros(self.budget + 1, dtype=np.int64)
        self._curve_frontier = self.budget + 1
        self._cheapest = np.concatenate([[0], np.cumsum(np.sort(self._a.costs))])
        self._curve_budget = self.budget
        self._settled = 0
        self._decided_exactly = 0
        self._doubts = 0
        self._options = all_options(question, forest.place)
        self.seconds = {"tables": 0.0, "radii": 0.0, "curve": 0.0}

    def run(self, control: Control, *, radii: bool = True, curve_to: int) -> None:
        """All sizes, as long as time and memory last.

        Parameters
        ----------
        radii : bool
            Whether radii are asked for (or known already: see :meth:`know`).
        curve_to : int
            Largest budget up to which the curve is walked.
        """
        self._curve_budget = curve_to
        self._curve_frontier = min(self._curve_frontier, curve_to + 1)
        self._walk(control, radii)
        self._settled = self._curve_frontier

    def _walk(self, control: Control, radii: bool) -> None:
        forest = self._forest
        total = float(forest.starts[-1])
        last = self._largest(radii)
        for size in range(1, last + 1):
            if not radii and self.cheapest(size) > self._curve_budget:
                return
            started = time.perf_counter()
            if not self._filled(size, control, total):
                self._unfinished(size, radii=radii, curve=True)
                return
            table = self._table(size)
            self._lap("tables", started)
            started = time.perf_counter()
            if radii and not self._radii(size, table, control):
                self._unfinished(size, radii=True, curve=True)
                return
            self._lap("radii", started)
            started = time.perf_counter()
            if self.cheapest(size) < self._curve_frontier and not self._curve(size, table, control):
                self._unfinished(size, radii=False, curve=True)
                if control.over():
                    if size < last or not forest.complete:
                        self._unfinished(size + 1, radii=radii, curve=True)
                    return
            self._lap("curve", started)
        if not forest.complete:
            if control.stop is Stop.FINISHED:
                control.stop = Stop.MEMORY if forest.full else Stop.TIME_LIMIT
            self._unfinished(forest.levels + 1, radii=radii, curve=True)

    def _largest(self, radii: bool) -> int:
        """Largest size of a relabelling to walk.

        Where targets are restricted it can exceed that of every class's toggled sets: different labels go to
        different classes.
        """
        forest = self._forest
        if not forest.complete or forest.levels == 0:
            return forest.levels
        return self._a.most_flips(self.budget if radii else self._curve_budget)

    def _filled(self, size: int, control: Control, total: float) -> bool:
        """Whether the tables hold all toggled sets of up to a size."""
        forest = self._forest
        if size > forest.levels:  # the deepest level is in it already
            return not control.over()
        stops = forest.starts[size + 1] - forest.starts[size]
        if self._too_long(stops, control):
            return False
        return forest.fill_level(size, self._P, self._tau, control, total)

    def know(self, lower: Int, upper: Int, changes: list[Relabelling | None]) -> None:
        """Take over radii that were found in another way."""
        self.radius, self.changes = upper, changes
        self._open_radius = lower.copy()

    def suggest(self, change: Relabelling) -> None:
        """Count what a relabelling that was found anyway changes, unless its budget is settled."""
        cost = self._a.cost(change)
        if cost < self._settled or cost > self.budget:
            return
        if self._most[: cost + 1].max() < int((self.radius_lower <= cost).sum()):
            self._enter(cost, change, int(self._question.changed(change)[0].sum()))

    def extend(self, control: Control) -> None:
        """Beyond the exact part of the curve, add to the strongest attack one label after the other."""
        if self._curve_frontier > self.budget:
            return
        _, position, target = self._options
        change = self.strongest(self._curve_frontier - 1)
        for _ in range(1 + EXTENSIONS // max(1, position.size)):
            best, most = None, -1
            for i, k in zip(position, target, strict=True):
                if i in change.positions or control.over():
                    continue
                longer = change.plus(int(i), int(k))
                if self._a.admits(longer, self.budget):
                    count = int(self._question.changed(longer)[0].sum())
                    if count > most:
                        best, most = longer, count
            if best is None or control.over():
                return
            change = best
            self._enter(self._a.cost(change), change, most)

    def strongest(self, budget: int) -> Relabelling:
        """The relabelling within a budget that is known to change the most nodes."""
        return self._most_changes[int(self._most[: budget + 1].argmax())]

    @property
    def radius_lower(self) -> Int:
        """(n,) what is proved so far."""
        return np.minimum(np.minimum(self.radius, self._open_radius), self._frontier)

    def cheapest(self, size: int) -> int:
        """Least cost of a relabelling of a size."""
        return int(self._cheapest[size]) if size < self._cheapest.size else self.budget + 1

    def findings(self, seconds: float, **more: Any) -> Findings:
        """Radii and curve, as intervals."""
        lower = self.radius_lower
        curve_lower, curve_changes = running_best(self._most, self._most_changes.__getitem__)
        reach = within_reach(lower, self.budget)
        curve_upper = np.minimum(reach, np.maximum(curve_lower, np.maximum.accumulate(self._open_most)))
        unsettled = np.arange(self.budget + 1) >= self._curve_frontier
        curve_upper[unsettled] = reach[unsettled]
        statistics: dict[str, Any] = {
            "trainings": int(self._forest.counters[0]),
            "not_converged": int(self._forest.counters[1]),
            "toggled_sets": int(self._forest.starts[-1]),
            "doubtful_relabellings": self._doubts,
            "decided_exactly": self._decided_exactly,
            "solved_exactly": self._forest.sharpened,
            "curve_walked_to": min(self._curve_frontier - 1, self.budget),
            "seconds": seconds,
            **{f"seconds_for_{stage}": spent for stage, spent in self.seconds.items()},
            **more,
        }
        return Findings(
            radius_lower=lower,
            radius_upper=self.radius,
            radius_changes=self.changes,
            curve_lower=curve_lower,
            curve_upper=curve_upper,
            curve_changes=curve_changes,
            statistics=statistics,
        )

    def _lap(self, stage: str, started: float) -> None:
        self.seconds[stage] += time.perf_counter() - started

    def _too_long(self, stops: int, control: Control) -> bool:
        """Whether a level is hopeless within the time limit: a part of it would prove nothing."""
        if control.over():
            return True
        if control.deadline is None:
            return False
        if 0.7 * stops * self._per_stop / control.workers <= control.deadline - time.monotonic():
            return False
        if control.stop is Stop.FINISHED:
            control.stop = Stop.TIME_LIMIT  # what is left of the time serves for attacks
        return True

    def _unfinished(self, size: int, *, radii: bool, curve: bool) -> None:
        if radii:
            self._frontier = min(self._frontier, self.cheapest(size))
        if curve:
            self._curve_frontier = min(self._curve_frontier, self.cheapest(size))

    def _table(self, size: int) -> Table:
        forest = self._forest
        beyond = forest.levels + 1
        inner, filled = forest.starts[min(size, beyond)], forest.starts[min(size + 1, beyond)]
        low, high = (np.empty((inner, self._P.shape[1]), dtype=np.float32) for _ in range(2))
        subtree_extremes(forest.tree, forest.rules, self._P, self._tau, filled, low, high)
        return Table(forest.tree.base, self._P, self._tau, low, high)

    def _plan(self, size: int, begin: int, end: int) -> Int:
        plan = np.zeros(9, dtype=np.int64)
        plan[walks.SIZE], plan[walks.BEGIN], plan[walks.END] = size, begin, end
        plan[walks.BUDGET] = self.budget
        return plan

    def _radii(self, size: int, table: Table, control: Control) -> bool:
        """All relabellings of one size against all pairs of predicted class and rival; whether it was finished."""
        segments = self._question.segments
        K = segments.size - 1
        work: list[Piece] = []
        for c in range(K):
            begin, end = int(segments[c]), int(segments[c + 1])
            for r in range(K):
                near = ~(table.low[c, begin:end] > table.high[r, begin:end])
                if r == c or not np.any(near & (self.radius[begin:end] > self.cheapest(size))):
                    continue
                options = pair_options(self._question, self._forest.place, c, r)
                plan = self._plan(size, begin, end)
                plan[walks.OWN], plan[walks.RIVAL] = c, r
                visits = self._a.count_sets(self.budget, options.ways(self._a.labels.size)) * (end - begin)
                work += _split(plan, options, visits)

        def walk() -> Callable[[Piece], Walked]:
            limit = self.radius.copy()

            def one(piece: Piece) -> Walked:
                radius, found = limit.copy(), np.zeros((limit.size, size), dtype=np.int64)
                doubts = np.zeros((DOUBTS_AT_ONCE, walks.DOUBT_HEAD + size), dtype=np.int64)
                met = walk_pairs(
                    table,
                    piece.options.table,
                    self._a.group_caps,
                    piece.plan,
                    new_path(size, 2),
                    radius,
                    limit,
                    found,
                    doubts,
                    control.flag,
                )
                return Walked(np.column_stack([found, radius]), doubts, int(met))

            return one

        def take(piece: Piece, found: Int) -> None:
            for t in np.flatnonzero(found[:, size] < self.radius):
                self.radius[t], self.changes[t] = found[t, size], piece.options.change(found[t, :size])

        return self._walk_all(work, walk, take, self._settle_pairs, control)

    def _settle_pairs(self, doubts: Int, options: Options, control: Control) -> None:
        """Decide noted relabellings exactly where that can still matter; the others stay open."""
        self._doubts += len(doubts)
        for row in doubts[np.argsort(doubts[:, walks.DOUBT_COST], kind="stable")]:
            cost, t = int(row[walks.DOUBT_COST]), int(row[walks.DOUBT_NODE])
            if cost >= min(self.radius[t], self._open_radius[t]):
                continue
            yes = no = np.zeros(1, dtype=bool)
            if not control.closed():
                self._decided_exactly += 1
                change = options.change(row[walks.DOUBT_HEAD :])
                yes, no = self._question.changed(change, np.array([t]))
            if yes[0]:
                self.radius[t], self.changes[t] = cost, change
            elif not no[0]:
                self._open_radius[t] = cost

    def _curve(self, size: int, table: Table, control: Control) -> bool:
        """All relabellings of one size, all nodes at once; whether it was finished."""
        lower = self.radius_lower
        segments, n = self._question.segments, lower.size
        best = np.maximum.accumulate(self._most)
        reach = within_reach(lower, self.budget)
        costs = slice(self.cheapest(size), self._curve_budget + 1)
        if np.all(best[costs] >= reach[costs]):
            return True
        bonus = np.where(lower <= self.budget, np.float32(0), np.float32(np.inf)).astype(np.float32)
        visits = self._a.count_sets(self._curve_budget, self._options.ways(self._a.labels.size)) * n
        plan = self._plan(size, 0, n)
        plan[walks.BUDGET] = self._curve_budget

        def walk() -> Callable[[Piece], Walked]:
            best = np.maximum.accumulate(self._most)

            def one(piece: Piece) -> Walked:
                found = np.zeros((self.budget + 1, size + 1), dtype=np.int64)
                doubts = np.zeros((DOUBTS_AT_ONCE, walks.DOUBT_HEAD + size), dtype=np.int64)
                met = walk_all(
                    table,
                    piece.options.table,
                    self._a.group_caps,
                    piece.plan,
                    new_path(size, segments.size - 1),
                    segments,
                    bonus,
                    new_board(segments),
                    best.copy(),
                    found,
                    doubts,
                    control.flag,
                )
                return Walked(found, doubts, int(met))

            return one

        def take(piece: Piece, found: Int) -> None:
            for cost in np.flatnonzero(found[:, size] > self._most).tolist():
                self._enter(cost, piece.options.change(found[cost, :size]), int(found[cost, size]))

        return self._walk_all(list(_split(plan, self._options, visits)), walk, take, self._settle_curve, control)

    def _settle_curve(self, doubts: Int, options: Options, control: Control) -> None:
        """The same for relabellings that may change more nodes than is known."""
        self._doubts += len(doubts)
        order = np.lexsort((-doubts[:, walks.DOUBT_POSSIBLE], doubts[:, walks.DOUBT_COST]))
        for row in doubts[order]:
            cost, possible = int(row[walks.DOUBT_COST]), int(row[walks.DOUBT_POSSIBLE])
            if possible <= max(self._most[: cost + 1].max(), self._open_most[cost]):
                continue
            if control.closed():
                self._open_most[cost] = possible
                continue
            self._decided_exactly += 1
            change = options.change(row[walks.DOUBT_HEAD :])
            yes, no = self._question.changed(change)
            self._enter(cost, change, int(yes.sum()))
            if not np.all(yes | no):
                self._open_most[cost] = max(self._open_most[cost], int(yes.sum() + (~(yes | no)).sum()))

    def _walk_all(
        self,
        work: list[Piece],
        walk: Callable[[], Callable[[Piece], Walked]],
        take: Callable[[Piece, Int], None],
        settle: Callable[[Int, Options, Control], None],
        control: Control,
    ) -> bool:
        """Walk all pieces, batch by batch; whether everything was visited and every doubt looked at.

        Parameters
        ----------
        work : list of Piece
        walk : callable
            From what is known at the beginning of a batch, the walk over one piece.
        take : callable
            Takes over what was found.
        settle : callable
            Decides noted doubts.
        control : Control
        """
        fine = True
        for at in range(0, len(work), BATCH):
            one, batch = walk(), work[at : at + BATCH]
            held: list[tuple[Piece, Walked]] = []
            walked = 0
            for piece, done in in_order(Local(one), iter(batch), control):
                walked += done.met >= 0
                take(piece, done.found)
                if done.met > 0:
                    held.append((piece, done))
            fine = fine and walked == len(batch)
            for piece, done in held:
                settle(done.doubts[: done.met], piece.options, control)
                for skip in range(DOUBTS_AT_ONCE, done.met, DOUBTS_AT_ONCE):
                    piece.plan[walks.SKIP] = skip
                    again = None if control.closed() else one(piece)
                    if again is None or again.met != done.met:
                        fine = False
                        break
                    settle(again.doubts[: done.met - skip], piece.options, control)
            control.report(at, len(work))
            if control.over():
                return fine and at + BATCH >= len(work)
        return fine

    def _enter(self, cost: int, change: Relabelling, count: int) -> None:
        if count > self._most[cost]:
            self._most[cost] = count
            self._most_changes[cost] = change


def _split(plan: Int, options: Options, visits: float) -> Iterator[Piece]:
    """Pieces for ranges of the first option, fine enough for all workers."""
    count = len(options.table)
    pieces = int(np.clip(visits / CHUNK_VISITS, 1, max(1, count)))
    edges = np.unique(np.linspace(0, count, pieces + 1).round().astype(np.int64))
    for first, last in itertools.pairwise(edges):
        part = plan.copy()
        part[walks.FIRST], part[walks.LAST] = first, last
        yield Piece(part, options)


def seconds_per_stop(forest: Forest) -> float:
    """Time of one training and scoring, measured on as many single flips as a moment allows (compiled first)."""
    stops = forest.starts[2] - forest.starts[1] if forest.levels else 0
    if stops == 0:
        return 0.0
    task = forest.task
    pool = pool_in_force(task)
    if pool is not None:
        *_, (start, end, many) = forest.chunks(forest.levels)
        measured = pool.seconds_per_stop(task, (start, end, many), many)
        if measured is not None:
            return measured
    worker = task.new_worker()
    return seconds_per_step(lambda flag: int(task.walk((0, forest.starts[1], stops), worker, flag).counters[0]))
