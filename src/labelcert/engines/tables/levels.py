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
from labelcert.engines.base import Findings, Question, within_reach
from labelcert.engines.control import Control
from labelcert.engines.ledger import Ledger
from labelcert.engines.pools import Local, pool_in_force, seconds_per_step
from labelcert.engines.seen import MoveNumbers, Seen, Telling, clean_labels
from labelcert.engines.tables import relabelling_walk as walks
from labelcert.engines.tables.forest import Forest, Siblings, Tables
from labelcert.engines.tables.options import Options, all_options, pair_options
from labelcert.engines.tables.relabelling_walk import ScoreTable, new_board, new_path, walk_all, walk_pairs
from labelcert.engines.tables.showing import Extended, extended, show
from labelcert.engines.tables.toggled_trees import subtree_extremes
from labelcert.engines.walks import Collector, collect_all
from labelcert.problem import Relabelling

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


class Range(NamedTuple):
    """A range of relabellings to walk over: those that begin with some of the options."""

    plan: Int
    options: Options
    min_cost: int
    stops: int = 1


class Met(NamedTuple):
    """What a walk over one range found."""

    better: Int  # costs of cheaper attacks on each node, or larger numbers of nodes by cost
    options: Int  # the options of these relabellings
    doubts: Int  # relabellings that float32 does not decide: the first ``DOUBTS_AT_ONCE`` of them
    met: int  # number of doubts; -1 where the walk was stopped


class Sweep:
    """Everything proved so far about a question, from tables.

    - ``per_stop``: seconds of one training, for estimates.
    - ``tables``: what to fill, if it is not filled by training.
    """

    def __init__(self, question: Question, forest: Forest, per_stop: float, tables: Tables | None = None) -> None:
        self.ledger, self.budget = Ledger(question), question.budget
        self._question, self._forest, self._per_stop = question, forest, per_stop
        self._a = question.problem.adversary
        self._tables = Tables(forest) if tables is None else tables
        self._cheapest = np.concatenate([[0], np.cumsum(np.sort(self._a.costs))])
        self._curve_budget = self.budget
        self._settled = 0
        self._doubts = 0
        self._options = all_options(question, forest.place)
        self.seconds = {"tables": 0.0, "radii": 0.0, "curve": 0.0}

    def run(self, control: Control, *, radii: bool = True, curve_to: int) -> None:
        """All sizes, as long as time and memory last.

        - ``radii``: whether radii are asked for (or known already: see :meth:`know`).
        - ``curve_to``: largest budget up to which the curve is walked.
        """
        self._curve_budget = curve_to
        self.ledger.unvisited(curve_to + 1, radii=False)
        self._walk(control, radii)
        self._settled = self.ledger.curve_frontier

    def _walk(self, control: Control, radii: bool) -> None:
        forest = self._forest
        last = self._largest(radii)
        for size in range(1, last + 1):
            if not radii and self.cheapest(size) > self._curve_budget:
                return
            started = time.perf_counter()
            if not self._fill(size, control):
                self.ledger.unvisited(self.cheapest(size), radii=radii)
                return
            table = self._table(size)
            self._lap("tables", started)
            started = time.perf_counter()
            if radii and not self._radii(size, table, control):
                self.ledger.unvisited(self.cheapest(size))
                return
            self._lap("radii", started)
            started = time.perf_counter()
            if self.cheapest(size) < self.ledger.curve_frontier and not self._curve(size, table, control):
                self.ledger.unvisited(self.cheapest(size), radii=False)
                if control.over():
                    if size < last or not forest.complete:
                        self.ledger.unvisited(self.cheapest(size + 1), radii=radii)
                    return
            self._lap("curve", started)
        if not forest.complete:
            if control.stop is Stop.FINISHED:
                control.stop = Stop.MEMORY if forest.full else Stop.TIME_LIMIT
            self.ledger.unvisited(self.cheapest(forest.levels + 1), radii=radii)

    def _largest(self, radii: bool) -> int:
        """Largest size of a relabelling to walk.

        Where targets are restricted it can exceed that of every class's toggled sets: different labels go to
        different classes.
        """
        forest = self._forest
        if not forest.complete or forest.levels == 0:
            return forest.levels
        return self._a.most_flips(self.budget if radii else self._curve_budget)

    def _fill(self, size: int, control: Control) -> bool:
        """Whether the tables hold all toggled sets of up to a size."""
        starts = self._forest.starts
        if size <= self._forest.levels and self._too_long(starts[size + 1] - starts[size], control):
            return False
        return self._tables.fill(size, control)

    def show(self, control: Control) -> None:
        """Show every relabelling to the question's observers, size by size, as far as tables reach."""
        question, forest, longest = self._question, self._forest, self._a.most_flips(self.budget)
        telling = Telling(question, control, MoveNumbers(self._a), lambda seen: seen)
        telling.collect(clean_labels(question), None)
        total = self._a.count_sets(self.budget, self._options.ways(self._a.labels.size))

        def walk(chunk: Extended) -> tuple[Seen, bool]:
            table = forest.tree.base, self._tables.P, self._tables.tau
            return show(question, *table, self._options, chunk, longest, control.flag)

        reached = self._tables.filled == forest.levels and forest.complete
        for size in range(1, longest + 1):
            if size > self._tables.filled and not reached:
                telling.unvisited(self.cheapest(size))
                return
            chunks = extended(question, self._options, size, self.cheapest(size))
            if not collect_all(Local(walk), chunks, [telling], control, total):
                return

    def suggest(self, change: Relabelling) -> None:
        """Count what a relabelling that was found anyway changes, unless its budget is settled."""
        cost, ledger = self._a.cost(change), self.ledger
        if cost < self._settled or cost > self.budget:
            return
        if ledger.most[: cost + 1].max() < int((ledger.radius_lower <= cost).sum()):
            ledger.stronger(cost, int(self._question.changed(change)[0].sum()), change)

    def extend(self, control: Control) -> None:
        """Beyond the exact part of the curve, add to the strongest attack one label after the other."""
        if self.ledger.curve_frontier > self.budget:
            return
        _, position, target = self._options
        change = self.ledger.strongest(self.ledger.curve_frontier - 1)
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
            self.ledger.stronger(self._a.cost(change), most, change)

    def cheapest(self, size: int) -> int:
        """Least cost of a relabelling of a size."""
        return int(self._cheapest[size]) if size < self._cheapest.size else self.budget + 1

    def findings(self, seconds: float) -> Findings:
        """Radii and curve, as intervals."""
        return self.ledger.findings(
            {
                "trainings": int(self._forest.counters[0]),
                "not_converged": int(self._forest.counters[1]),
                "toggled_sets": int(self._forest.starts[-1]),
                "doubtful_relabellings": self._doubts,
                "decided_exactly": self.ledger.decided,
                "solved_exactly": self._forest.sharpened,
                "curve_walked_to": min(self.ledger.curve_frontier - 1, self.budget),
                "seconds": seconds,
                **{f"seconds_for_{stage}": spent for stage, spent in self.seconds.items()},
            }
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

    def _table(self, size: int) -> ScoreTable:
        forest, P, tau = self._forest, self._tables.P, self._tables.tau
        beyond = forest.levels + 1
        inner, filled = forest.starts[min(size, beyond)], forest.starts[min(size + 1, beyond)]
        low, high = (np.empty((inner, P.shape[1]), dtype=np.float32) for _ in range(2))
        subtree_extremes(forest.tree, forest.rules, P, tau, filled, low, high)
        return ScoreTable(forest.tree.base, P, tau, low, high)

    def _plan(self, size: int, begin: int, end: int) -> Int:
        plan = np.zeros(9, dtype=np.int64)
        plan[walks.SIZE], plan[walks.BEGIN], plan[walks.END] = size, begin, end
        plan[walks.BUDGET] = self.budget
        return plan

    def _radii(self, size: int, table: ScoreTable, control: Control) -> bool:
        """All relabellings of one size against all pairs of predicted class and rival; whether it was finished."""
        segments, ledger, least = self._question.segments, self.ledger, self.cheapest(size)
        K = segments.size - 1
        work: list[Range] = []
        for c in range(K):
            begin, end = int(segments[c]), int(segments[c + 1])
            for r in range(K):
                near = ~(table.low[c, begin:end] > table.high[r, begin:end])
                if r == c or not np.any(near & (ledger.radius[begin:end] > least)):
                    continue
                options = self._pair_options(c, r)
                plan = self._plan(size, begin, end)
                plan[walks.OWN], plan[walks.RIVAL] = c, r
                visits = self._a.count_sets(self.budget, options.ways(self._a.labels.size)) * (end - begin)
                work += _split(plan, options, visits, least)

        def start() -> Callable[[Range], Met]:
            limit = ledger.radius.copy()

            def one(part: Range) -> Met:
                radius, found = limit.copy(), np.zeros((limit.size, size), dtype=np.int64)
                doubts = np.zeros((DOUBTS_AT_ONCE, walks.DOUBT_HEAD + size), dtype=np.int64)
                path = new_path(size, 2)
                known = radius, limit, found, doubts
                met = walk_pairs(table, part.options.table, self._a.group_caps, part.plan, path, *known, control.flag)
                return Met(radius, found, doubts, int(met))

            return one

        def take(part: Range, found: Met) -> None:
            changes: Any = np.full(found.better.size, None, dtype=object)
            for t in np.flatnonzero(found.better < ledger.radius):
                changes[t] = part.options.change(found.options[t])
            ledger.closer(found.better, changes)

        return self._walk_all(work, start, take, self._settle_pairs, control)

    def _pair_options(self, c: int, r: int) -> Options:
        """The same for all sizes and blocks of nodes."""
        known = self._forest.pair_options
        if (c, r) not in known:
            known[c, r] = pair_options(self._question, self._forest.place, c, r)
        return known[c, r]

    def _settle_pairs(self, doubts: Int, options: Options, control: Control) -> None:
        """Decide noted relabellings exactly where that can still matter; the others stay open."""
        self._doubts += len(doubts)
        ledger = self.ledger
        for row in doubts[np.argsort(doubts[:, walks.DOUBT_COST], kind="stable")]:
            cost, t = int(row[walks.DOUBT_COST]), int(row[walks.DOUBT_NODE])
            if cost >= min(ledger.radius[t], ledger.open_radius[t]):
                continue
            if control.closed():
                ledger.open_radius[t] = cost
            else:
                ledger.decide(cost, options.change(row[walks.DOUBT_HEAD :]), np.array([t]), curve=False)

    def _curve(self, size: int, table: ScoreTable, control: Control) -> bool:
        """All relabellings of one size, all nodes at once; whether it was finished."""
        ledger = self.ledger
        lower = ledger.radius_lower
        segments, n = self._question.segments, lower.size
        reach = within_reach(lower, self.budget)
        costs = slice(self.cheapest(size), self._curve_budget + 1)
        if np.all(np.maximum.accumulate(ledger.most)[costs] >= reach[costs]):
            return True
        bonus = np.where(lower <= self.budget, np.float32(0), np.float32(np.inf)).astype(np.float32)
        visits = self._a.count_sets(self._curve_budget, self._options.ways(self._a.labels.size)) * n
        plan = self._plan(size, 0, n)
        plan[walks.BUDGET] = self._curve_budget

        def start() -> Callable[[Range], Met]:
            best = np.maximum.accumulate(ledger.most)

            def one(part: Range) -> Met:
                found = np.zeros((self.budget + 1, size + 1), dtype=np.int64)
                doubts = np.zeros((DOUBTS_AT_ONCE, walks.DOUBT_HEAD + size), dtype=np.int64)
                path, board = new_path(size, segments.size - 1), new_board(segments)
                known = segments, bonus, board, best.copy(), found, doubts
                met = walk_all(table, part.options.table, self._a.group_caps, part.plan, path, *known, control.flag)
                return Met(found[:, size], found[:, :size], doubts, int(met))

            return one

        def take(part: Range, found: Met) -> None:
            for cost in np.flatnonzero(found.better > np.maximum(ledger.most, 0)).tolist():
                ledger.stronger(cost, int(found.better[cost]), part.options.change(found.options[cost]))

        work = list(_split(plan, self._options, visits, self.cheapest(size)))
        return self._walk_all(work, start, take, self._settle_curve, control)

    def _settle_curve(self, doubts: Int, options: Options, control: Control) -> None:
        """The same for relabellings that may change more nodes than is known."""
        self._doubts += len(doubts)
        ledger = self.ledger
        order = np.lexsort((-doubts[:, walks.DOUBT_POSSIBLE], doubts[:, walks.DOUBT_COST]))
        for row in doubts[order]:
            cost, possible = int(row[walks.DOUBT_COST]), int(row[walks.DOUBT_POSSIBLE])
            if possible <= max(ledger.most[: cost + 1].max(), ledger.open_most[cost]):
                continue
            if control.closed():
                ledger.open_most[cost] = possible
            else:
                ledger.decide(cost, options.change(row[walks.DOUBT_HEAD :]), radii=False)

    def _walk_all(
        self,
        work: list[Range],
        start: Callable[[], Callable[[Range], Met]],
        take: Callable[[Range, Met], None],
        settle: Callable[[Int, Options, Control], None],
        control: Control,
    ) -> bool:
        """Walk all ranges, batch by batch; whether everything was visited and every doubt looked at.

        - ``start``: from what is known at the beginning of a batch, the walk over one range.
        - ``take``: takes over what was found.
        - ``settle``: decides noted doubts.
        """
        fine = True
        for at in range(0, len(work), BATCH):
            one, taking = start(), _Taking(take)

            def walk(part: Range, one: Callable[[Range], Met] = one) -> tuple[Met, bool]:
                found = one(part)
                return found, found.met >= 0

            fine &= collect_all(Local(walk), iter(work[at : at + BATCH]), [taking], control, len(work), at)
            for part, found in taking.held:
                settle(found.doubts[: found.met], part.options, control)
                for skip in range(DOUBTS_AT_ONCE, found.met, DOUBTS_AT_ONCE):
                    part.plan[walks.SKIP] = skip
                    again = None if control.closed() else one(part)
                    if again is None or again.met != found.met:
                        fine = False
                        break
                    settle(again.doubts[: found.met - skip], part.options, control)
            if control.over():
                return fine and at + BATCH >= len(work)
        return fine


class _Taking(Collector):
    """The collector of one batch: what is better is taken at once, doubts are held until the batch is over."""

    def __init__(self, take: Callable[[Range, Met], None]) -> None:
        self._take = take
        self.held: list[tuple[Range, Met]] = []

    def collect(self, found: Met, chunk: Range) -> None:
        """Take over what was found in one range."""
        self._take(chunk, found)
        if found.met > 0:
            self.held.append((chunk, found))


def _split(plan: Int, options: Options, visits: float, min_cost: int) -> Iterator[Range]:
    """Ranges of the first option, fine enough for all workers."""
    count = len(options.table)
    pieces = int(np.clip(visits / CHUNK_VISITS, 1, max(1, count)))
    edges = np.unique(np.linspace(0, count, pieces + 1).round().astype(np.int64))
    for first, last in itertools.pairwise(edges):
        part = plan.copy()
        part[walks.FIRST], part[walks.LAST] = first, last
        yield Range(part, options, min_cost)


def seconds_per_stop(forest: Forest) -> float:
    """Time of one training and scoring, measured on as many single flips as a moment allows (compiled first).

    Raises
    ------
    Stopped
        The run is over.
    """
    stops = forest.starts[2] - forest.starts[1] if forest.levels else 0
    if stops == 0:
        return 0.0
    task = forest.task
    pool = pool_in_force(task)
    if pool is not None:
        *_, chunk = forest.chunks(forest.levels)
        measured = pool.seconds_per_stop(task, chunk)
        if measured is not None:
            return measured
    worker = task.new_worker()
    worker.start(task.fill, 0)  # which may take longer than the moment
    return seconds_per_step(
        lambda flag: int(task.walk(Siblings(0, forest.starts[1], stops), worker, flag)[0].counters[0])
    )
