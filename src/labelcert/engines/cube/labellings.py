"""Two classes: visit every admissible labelling in Gray-code order, or every set of flips within the budget by size."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from labelcert.arrays import Int, Signs, Words
from labelcert.engines.base import WORK_LIMIT_SECONDS, Findings, Question, Work
from labelcert.engines.control import Control
from labelcert.engines.cube import recording
from labelcert.engines.cube.cube_walk import CubeWorker, new_cube_worker
from labelcert.engines.cube.cutting import (
    CHUNK_STOPS,
    LabellingChunk,
    LevelChunk,
    admissible_parents,
    cube_bits,
    cube_chunks,
    level_chunks,
)
from labelcert.engines.cube.lowest import Lowest
from labelcert.engines.cube.recording import SOLVED, TILE, CubeSummary, CubeWork, in_tiles
from labelcert.engines.cube.unvisited import Unvisited
from labelcert.engines.ledger import Ledger
from labelcert.engines.pools import DeviceLoad, chunk_stops, pool_in_force, seconds_per_step
from labelcert.engines.seen import Counting, FlipBits, Telling
from labelcert.engines.walks import Collector, collect_all
from labelcert.problem import Adversary
from labelcert.svm.walking import MANY_LABELS

NOTHING_KNOWN = -(2**62)
"""Less than any sum of counts."""

LONG = 1e6
"""Labellings of a walk whose order is chosen."""

_CUBE_LIMIT = 34
_SAMPLE_PARENTS = 8
_MAX_DOUBTS_HELD = 200_000
_TIMED_BUDGETS = 4
_LARGE_SAMPLE = 1 << 17
_FEW_FLIPS = 8
"""With many labels, at most this number of flips is made to time a labelling: getting far away takes long itself."""


class CubeMethod:
    """All labellings, or all sets of flips within the budget, whichever are fewer."""

    def estimate(self, question: Question, control: Control) -> Work:
        """Count the labellings, time a few of them, multiply."""
        per_stop = seconds_per_stop(make_walk(question)) / control.workers
        stops = count_stops(question, question.budget)
        seconds = stops * per_stop
        reason = (
            f"{stops:,.6g} labellings at {per_stop * control.workers * 1e6:.1f} µs each on {control.workers} workers"
        )
        if seconds <= WORK_LIMIT_SECONDS or control.time_limit is not None:
            return Work(reason, seconds)
        fits = self.reach(question, control, WORK_LIMIT_SECONDS)
        advice = (
            f"max_flips={fits} would fit ({count_stops(question, fits):,.0f} labellings), or time_limit=SECONDS "
            "gives what can be proved in that time (intervals where it is not exact); "
            "trusted labels (labelcert.Threat) shrink the search, too"
        )
        return Work(reason, seconds, advice)

    def reach(self, question: Question, control: Control, seconds: float) -> int:
        """The largest budget that fits into the given time: labellings with few flips are timed by themselves."""
        task, fits, per_stop = make_walk(question), 0, 0.0
        while fits < question.budget and not control.over():
            if fits < _TIMED_BUDGETS:
                per_stop = seconds_per_stop(task._replace(budget=fits + 1), moment=0.1)
            if count_stops(question, fits + 1) * per_stop > control.workers * seconds:
                break
            fits += 1
        return fits

    def run(self, question: Question, control: Control, lowest: Lowest | None = None) -> Findings:
        """Walk, merge, decide the doubts; ``lowest`` collects the lowest scores, where somebody asks for them."""
        task = make_walk(question)
        if lowest is not None:
            last = task.total + int(lowest.strides @ task.group_totals)
            task = task._replace(rows=lowest.rows, strides=lowest.strides, last_row=last)
        ledger = CubeLedger(question, control, task)
        collectors: list[Collector] = [ledger]
        if lowest is not None:
            collectors.append(lowest)
        if question.observers:
            collectors.append(Telling(question, control, ledger.short, CubeSummary.seen))
        if question.counting is not None:
            collectors.append(Counting(question, question.counting, ledger.short, CubeSummary.counts))
        started = time.perf_counter()
        task, chunks = choose_chunks(question, task, control)
        unvisited = Unvisited(question, control, ledger, task)
        collectors.append(unvisited)
        collect_all(CubeTask(task), chunks, collectors, control, count_stops(question, question.budget))
        found = ledger.found(time.perf_counter() - started)
        return replace(found, statistics={**found.statistics, "proved_without_a_visit": unvisited.proved})


class CubeTask(NamedTuple):
    """A walk over labellings as work for a pool."""

    walk_over: CubeWork

    @property
    def may_leave(self) -> bool:
        """Always: a task is arrays and numbers."""
        return True

    def for_device(self) -> DeviceLoad | None:
        """A summary comes back, so nothing that is observed; devices count with 32 bits."""
        work = self.walk_over
        large = max(work.rows * work.scores.shape[1], work.last_row) >= 2**31
        unlike = work.observed or work.counted or not work.made.all()
        if large or unlike or not (work.linear or work.retraining.on_device):
            return None
        return DeviceLoad("labellings", work.y.size, labellings(work), 0)

    def new_worker(self) -> CubeWorker:
        """Working memory of one worker."""
        return new_cube_worker(self.walk_over)

    def walk(self, chunk: LabellingChunk, worker: CubeWorker, flag: Signs) -> tuple[CubeSummary, bool]:
        """What was found, without unused room for doubts, and whether the chunk was finished."""
        found, finished = chunk.walk(self.walk_over, worker, flag)
        return found.used(), finished


class CubeLedger(Ledger):
    """The ledger of a walk over labellings, whose doubts are decided when many are held, and at the end.

    ``task``: chunks start from what is known when they do.
    """

    def __init__(self, question: Question, control: Control, task: CubeWork) -> None:
        self.short = FlipBits(question.problem.adversary)
        super().__init__(question, self.short.change)
        self._control = control
        self.radius, self.most, self._largest = task.radius, task.most, task.largest
        self._doubts: list[tuple[Int, Words]] = []
        self._counters = np.zeros(recording.N_COUNTERS, dtype=np.int64)

    def collect(self, found: CubeSummary, chunk: LabellingChunk) -> None:
        """Take over a chunk's results."""
        self.closer(found.radius, found.radius_set)
        for cost in np.flatnonzero(found.most > self.most).tolist():
            self.stronger(cost, int(found.most[cost]), found.most_set[cost])
        np.maximum(self._largest, found.largest, out=self._largest)
        self._counters += found.counters
        if len(found.doubt):
            self._doubts.append((found.doubt, found.doubt_set))
            if sum(len(doubt) for doubt, _ in self._doubts) > _MAX_DOUBTS_HELD:
                self.settle(self._control)

    def settle(self, control: Control) -> None:
        """Decide noted labellings exactly, cheapest first, where the answer can still matter.

        What is not decided when the run is closed, or cannot be decided exactly, stays open.
        """
        if not self._doubts:
            return
        doubts, sets = (np.concatenate(parts) for parts in zip(*self._doubts, strict=True))
        self._doubts = []
        costs, sure = doubts[:, recording.DOUBT_COST], doubts[:, recording.DOUBT_SURE]
        possible = sure + doubts[:, recording.DOUBT_POSSIBLE]
        order = np.lexsort((-sure, costs))
        for k, row in enumerate(order):
            cost = int(costs[row])
            if possible[row] <= self.most[cost] and not self._may_lower_a_radius(doubts[row]):
                continue
            if not self.question.predictor.scorer.exact or control.closed():
                rest = order[k:]
                self.open_radius = np.minimum(self.open_radius, costs[rest].min())
                np.maximum.at(self.open_most, costs[rest], possible[rest])
                return
            self.decide(cost, sets[row])

    def _may_lower_a_radius(self, doubt: Int) -> bool:
        """Whether a labelling in doubt could change a node more cheaply than is known."""
        cost, closer = int(doubt[recording.DOUBT_COST]), int(doubt[recording.DOUBT_CLOSER])
        if closer > recording.NAMED_NODES:
            return bool(cost < self.radius.max(initial=0))
        named = doubt[recording.DOUBT_NODES : recording.DOUBT_NODES + closer]
        return bool((cost < self.radius[named]).any())

    def found(self, seconds: float) -> Findings:
        """Radii and curve with plain numbers about the walk."""
        c = self._counters
        return self.findings(
            {
                "trainings": int(c[recording.SOLVED]),
                "pivoting_rounds": int(c[recording.ROUNDS]),
                "proved_by_global_bound": int(c[recording.GLOBAL_PROOFS]),
                "proved_by_local_bound": int(c[recording.LOCAL_PROOFS]),
                "proved_by_duality_gap": int(c[recording.GAP_PROOFS]),
                "not_converged": int(c[recording.STUCK]),
                "doubtful_labellings": int(c[recording.DOUBTS]),
                "decided_in_rational_arithmetic": self.decided,
                "seconds": seconds,
            }
        )


def make_walk(question: Question) -> CubeWork:
    """The compiled form of a question."""
    problem, predictor = question.problem, question.predictor
    a = problem.adversary
    scorer = predictor.scorer
    rows = predictor.signed_rows(question.nodes)
    kinds, forms = np.array([0, question.nodes.size]), np.zeros((0, 1), dtype=np.int64)
    if question.counting is not None:
        kinds, forms = question.counting.kinds, question.counting.forms
    return CubeWork(
        retraining=scorer.sharpened(),
        scores=rows,
        short=in_tiles(rows),
        linear=predictor.linear,
        slack=scorer.slack,
        y=problem.y,
        labels=a.labels,
        made=np.where(a.targets[:, 2:].any(axis=1), 0.0, -problem.y[a.labels]),
        costs=a.costs,
        groups=a.groups,
        affordable=np.flatnonzero(a.affordable(question.budget)),
        group_caps=a.group_caps,
        group_totals=a.group_totals,
        budget=question.budget,
        total=int(a.costs.sum()),
        mirror=mirrors(a, question.budget),
        rows=0,
        last_row=int(a.costs.sum()),
        strides=np.zeros(a.group_caps.size, dtype=np.int64),
        radius=np.full(question.nodes.size, a.never, dtype=np.int64),
        most=np.full(question.budget + 1, -1, dtype=np.int64),
        observed=bool(question.observers),
        kinds=kinds,
        counted=question.counting is not None,
        forms=forms,
        left=_most_left(forms, kinds),
        largest=np.full((len(forms), question.budget + 1), NOTHING_KNOWN, dtype=np.int64),
    )


def _most_left(forms: Int, kinds: Int) -> Int:
    """(L, tiles + 1) the most that the nodes from each tile on can add to sums over counts of nodes."""
    gain = np.maximum(np.repeat(forms, np.diff(kinds), axis=1), 0)
    starts = np.minimum(np.arange(0, kinds[-1] + TILE, TILE), kinds[-1])
    before = np.concatenate([np.zeros((len(forms), 1), dtype=np.int64), np.cumsum(gain, axis=1)], axis=1)
    return np.ascontiguousarray(before[:, -1:] - before[:, starts])


def mirrors(adversary: Adversary, budget: int) -> bool:
    """Whether complements come for free (all labels can be flipped) and some of them are within budget."""
    if adversary.removes:
        return False
    return bool(adversary.labels.size == adversary.m and 2 * budget >= adversary.costs.sum())


def count_stops(question: Question, budget: int) -> float:
    """How many labellings a run visits for this budget."""
    a = question.problem.adversary
    free = int(a.labels.size) - (1 if mirrors(a, budget) else 0)
    return min(2.0 ** min(free, 1000), a.count_sets(budget))


def seconds_per_stop(task: CubeWork, moment: float = 0.3) -> float:
    """Of one worker; measured on as many labellings of the most frequent size as a moment allows (compiled first)."""
    nu = int(task.affordable.size)
    if nu == 0:
        return 0.0
    largest = int(np.searchsorted(np.cumsum(np.sort(task.costs[task.affordable])), task.budget, side="right"))
    size = min(max(1, largest), (nu + 1) // 2)
    if task.y.size > MANY_LABELS:
        size = min(size, _FEW_FLIPS)
    most = np.full(task.total + 1, -1, dtype=np.int64)
    sums = np.full((len(task.forms), most.size), NOTHING_KNOWN, dtype=np.int64)
    generous = task._replace(budget=task.total, group_caps=task.group_totals, mirror=False, most=most, largest=sums)
    pool = pool_in_force(CubeTask(task))
    if pool is not None:
        chunk = _large_sample(generous, size, _cube_fits(task))
        measured = pool.seconds_per_stop(CubeTask(generous), chunk)
        if measured is not None:
            return measured
    # Parents from the first half of the labels have many extensions, so that the walk's own overhead counts little.
    rng = np.random.default_rng(0)
    early = min(nu - 1, max(size - 1, nu // 2))
    parents = np.array([np.sort(rng.permutation(early)[: size - 1]) for _ in range(_SAMPLE_PARENTS)], dtype=np.int64)
    chunk = LevelChunk.of(generous, 0, parents)
    walker = new_cube_worker(generous)

    def walk(flag: Signs) -> int:
        found, finished = chunk.walk(generous, walker, flag)
        return chunk.stops if finished else int(found.counters[SOLVED])

    return seconds_per_step(walk, moment)


def _large_sample(task: CubeWork, size: int, cube: bool) -> LabellingChunk:
    """A chunk large enough to keep a device busy."""
    if cube:
        return next(cube_chunks(task, min(_LARGE_SAMPLE, 1 << cube_bits(task))))
    leaves = max(1, task.affordable.size // (size + 1))
    return LevelChunk.of(task, 0, next(admissible_parents(task, size - 1, max(1, _LARGE_SAMPLE // leaves))))


def _cube_fits(task: CubeWork) -> bool:
    """Whether the whole cube is small enough, and no larger than the sets within the budget."""
    bits = cube_bits(task)
    return bits <= _CUBE_LIMIT and 2.0**bits <= labellings(task)


def labellings(task: CubeWork) -> float:
    """About how many there are to visit, groups aside."""
    nu, most, count = int(task.labels.size), 2.0 ** min(cube_bits(task), 1000), 0
    sizes = int(np.searchsorted(np.cumsum(np.sort(task.costs)), task.budget, side="right"))
    for k in range(sizes + 1):
        count += math.comb(nu, k)
        if count >= most:
            return most
    return float(count)


def _in_order(task: CubeWork) -> Int:
    """Long walks begin with the labels that matter most: what is left when they stop can do the least."""
    if labellings(task) < LONG:
        return task.affordable
    influence = np.abs(task.scores[task.labels[task.affordable]]).sum(axis=1)
    return np.ascontiguousarray(task.affordable[np.argsort(-influence, kind="stable")])


def choose_chunks(question: Question, task: CubeWork, control: Control) -> tuple[CubeWork, Iterator[LabellingChunk]]:
    """The whole cube where it is smaller than the sets within budget; with a time limit, only if it fits."""
    bits = cube_bits(task)
    by_size = task._replace(mirror=False, affordable=_in_order(task))
    stops = chunk_stops(CubeTask(task), CHUNK_STOPS)
    if bits > _CUBE_LIMIT or 2.0**bits > question.problem.adversary.count_sets(task.budget):
        return by_size, level_chunks(by_size, stops)
    if control.time_limit is not None:
        estimate = 2.0**bits * seconds_per_stop(task) / control.workers
        if estimate > 0.5 * control.time_limit:
            return by_size, level_chunks(by_size, stops)
    return task, cube_chunks(task, stops)
