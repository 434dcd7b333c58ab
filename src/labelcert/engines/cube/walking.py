"""Two classes: visit every admissible labelling in Gray-code order, or every set of at most so many flips."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from labelcert.arrays import Signs
from labelcert.engines.base import WORK_LIMIT_SECONDS, Findings, Question, Work
from labelcert.engines.control import Control
from labelcert.engines.cube.chunks import (
    CHUNK_STOPS,
    Chunk,
    LevelChunk,
    admissible_parents,
    cube_bits,
    cube_chunks,
    level_chunks,
)
from labelcert.engines.cube.cube_walk import Walker, new_walker
from labelcert.engines.cube.ledger import Ledger
from labelcert.engines.cube.lowest import Lowest
from labelcert.engines.cube.recording import DOUBTS, SOLVED, Found, Walk, in_tiles
from labelcert.engines.pools import chunk_stops, in_order, pool_in_force, seconds_per_step
from labelcert.problem import Adversary
from labelcert.svm.walking import MANY_LABELS

_CUBE_LIMIT = 34
_SAMPLE_PARENTS = 8
_MAX_DOUBTS_HELD = 200_000
_TIMED_BUDGETS = 4
_LARGE_SAMPLE = 1 << 17
_FEW_FLIPS = 8
"""With many labels, so many flips at the most are made to time a labelling: getting far away takes long itself."""


class CubeMethod:
    """All labellings, or all sets of at most so many flips, whichever are fewer."""

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
        """The largest budget that fits into so many seconds: labellings with few flips are timed by themselves."""
        task, fits, per_stop = make_walk(question), 0, 0.0
        while fits < question.budget:
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
        ledger = Ledger(question, task)
        started = time.perf_counter()
        task, chunks = choose_chunks(question, task, control)
        total, done = count_stops(question, question.budget), 0.0
        for chunk, (found, finished) in in_order(CubeTask(task), chunks, control):
            ledger.merge(found, chunk, finished)
            if lowest is not None:
                lowest.merge(found, chunk, finished)
            if ledger.doubts_held > _MAX_DOUBTS_HELD:
                ledger.settle_doubts(control)
            done += chunk.stops
            control.report(min(done, total), total)
        rest = next(chunks, None)
        if rest is not None:
            ledger.unvisited(rest.min_cost)
            if lowest is not None:
                lowest.unvisited(rest.min_cost)
        ledger.settle_doubts(control)
        return ledger.findings(time.perf_counter() - started)


class CubeTask(NamedTuple):
    """A walk over labellings as work for a pool."""

    walk_over: Walk

    def new_worker(self) -> Walker:
        """Working memory of one worker."""
        return new_walker(self.walk_over)

    def walk(self, chunk: Chunk, worker: Walker, flag: Signs) -> tuple[Found, bool]:
        """What was found, without unused room for doubts, and whether the chunk was finished."""
        found, finished = chunk.walk(self.walk_over, worker, flag)
        doubts = int(found.counters[DOUBTS])
        short = found._replace(doubt=found.doubt[:doubts].copy(), doubt_set=found.doubt_set[:doubts].copy())
        return short, finished


def make_walk(question: Question) -> Walk:
    """The compiled form of a question."""
    problem, predictor = question.problem, question.predictor
    a = problem.adversary
    scorer = predictor.scorer
    rows = predictor.signed_rows(question.nodes)
    return Walk(
        retraining=scorer.retraining,
        scores=rows,
        short=in_tiles(rows),
        linear=predictor.linear,
        slack=scorer.slack,
        y=problem.y,
        labels=a.labels,
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
    )


def mirrors(adversary: Adversary, budget: int) -> bool:
    """Whether complements come for free (all labels can be flipped) and some of them are within budget."""
    return bool(adversary.labels.size == adversary.m and 2 * budget >= adversary.costs.sum())


def count_stops(question: Question, budget: int) -> float:
    """How many labellings a run visits for this budget."""
    a = question.problem.adversary
    free = int(a.labels.size) - (1 if mirrors(a, budget) else 0)
    return min(2.0 ** min(free, 1000), a.count_sets(budget))


def seconds_per_stop(task: Walk, moment: float = 0.3) -> float:
    """Of one worker; measured on as many labellings of the most frequent size as a moment allows (compiled first)."""
    nu = int(task.affordable.size)
    if nu == 0:
        return 0.0
    largest = int(np.searchsorted(np.cumsum(np.sort(task.costs[task.affordable])), task.budget, side="right"))
    size = min(max(1, largest), (nu + 1) // 2)
    if task.y.size > MANY_LABELS:
        size = min(size, _FEW_FLIPS)
    most = np.full(task.total + 1, -1, dtype=np.int64)
    generous = task._replace(budget=task.total, group_caps=task.group_totals, mirror=False, most=most)
    pool = pool_in_force(CubeTask(task))
    if pool is not None:
        chunk = _large_sample(generous, size, _cube_fits(task))
        measured = pool.seconds_per_stop(CubeTask(generous), chunk, chunk.stops)
        if measured is not None:
            return measured
    # Parents from the first half of the labels have many extensions, so that the walk's own overhead counts little.
    rng = np.random.default_rng(0)
    early = min(nu - 1, max(size - 1, nu // 2))
    parents = np.array([np.sort(rng.permutation(early)[: size - 1]) for _ in range(_SAMPLE_PARENTS)], dtype=np.int64)
    chunk = LevelChunk.of(generous, 0, parents)
    walker = new_walker(generous)

    def walk(flag: Signs) -> int:
        found, finished = chunk.walk(generous, walker, flag)
        return chunk.stops if finished else int(found.counters[SOLVED])

    return seconds_per_step(walk, moment)


def _large_sample(task: Walk, size: int, cube: bool) -> Chunk:
    """So many labellings that a device is busy."""
    if cube:
        return next(cube_chunks(task, min(_LARGE_SAMPLE, 1 << cube_bits(task))))
    leaves = max(1, task.affordable.size // (size + 1))
    return LevelChunk.of(task, 0, next(admissible_parents(task, size - 1, max(1, _LARGE_SAMPLE // leaves))))


def _cube_fits(task: Walk) -> bool:
    """Whether the whole cube is small enough, and no larger than the sets of so many flips."""
    bits = cube_bits(task)
    return bits <= _CUBE_LIMIT and 2.0**bits <= labellings(task)


def labellings(task: Walk) -> float:
    """About how many there are to visit, groups aside."""
    nu, most, count = int(task.labels.size), 2.0 ** min(cube_bits(task), 1000), 0
    sizes = int(np.searchsorted(np.cumsum(np.sort(task.costs)), task.budget, side="right"))
    for k in range(sizes + 1):
        count += math.comb(nu, k)
        if count >= most:
            return most
    return float(count)


def choose_chunks(question: Question, task: Walk, control: Control) -> tuple[Walk, Iterator[Chunk]]:
    """The whole cube where it is smaller than the sets within budget; with a time limit, only if it fits."""
    bits = cube_bits(task)
    by_size = task._replace(mirror=False)
    stops = chunk_stops(CubeTask(task), CHUNK_STOPS)
    if bits > _CUBE_LIMIT or 2.0**bits > question.problem.adversary.count_sets(task.budget):
        return by_size, level_chunks(by_size, stops)
    if control.time_limit is not None:
        estimate = 2.0**bits * seconds_per_stop(task) / control.workers
        if estimate > 0.5 * control.time_limit:
            return by_size, level_chunks(by_size, stops)
    return task, cube_chunks(task, stops)
