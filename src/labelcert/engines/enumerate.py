"""Exact certificates by visiting every admissible labelling.

The paper calls this hopeless beyond one or two flips. It is not: neighbouring labellings share nearly all of
their solution, so that a retraining costs microseconds, and one pass answers every node and every budget.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import TimeoutError as NotYet
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.engines import walks
from labelcert.engines.base import Control, Findings, Question, Work, within_reach
from labelcert.engines.chunks import Chunk, LevelChunk, cube_bits, cube_chunks, level_chunks
from labelcert.engines.remote import Promise, chunk_pool
from labelcert.engines.walks import Found, Task, new_walker, words_for
from labelcert.problem import Problem
from labelcert.svm.pivoting import Machine
from labelcert.svm.scoring import HingeScorer, LinearScorer, Scorer
from labelcert.threat import Adversary

Int = npt.NDArray[np.int64]

WORK_LIMIT_SECONDS = 900.0
"""Longest estimated run that starts without a ``time_limit``."""

_CUBE_LIMIT = 34
_SAMPLE_PARENTS = 8
_MAX_DOUBTS_HELD = 200_000


class Enumerate:
    """All labellings in Gray-code order, or all sets of at most so many flips, whichever are fewer."""

    name = "enumerate"

    def refuses(self, problem: Problem) -> str | None:
        """Nothing: only size can be in the way."""
        return None

    def scorer(self, problem: Problem) -> Scorer:
        """Retraining (hinge) or one exact linear map (square loss)."""
        return HingeScorer(problem) if problem.loss == "hinge" else LinearScorer(problem)

    def estimate(self, question: Question, control: Control) -> Work:
        """Count the labellings, time a few of them, multiply."""
        budget = question.problem.max_flips
        per_stop = seconds_per_stop(make_task(question)) / control.workers
        stops = count_stops(question, budget)
        seconds = stops * per_stop
        reason = (
            f"{stops:,.6g} labellings at {per_stop * control.workers * 1e6:.1f} µs each on {control.workers} workers"
        )
        if seconds <= WORK_LIMIT_SECONDS or control.time_limit is not None:
            return Work(reason, seconds)
        fits = _reach(question, per_stop, WORK_LIMIT_SECONDS)
        advice = (
            f"max_flips={fits} would fit ({count_stops(question, fits):,.0f} labellings), or time_limit=SECONDS "
            "gives what can be proved in that time (intervals where it is not exact); "
            "trusted labels (labelcert.Threat) shrink the search, too"
        )
        return Work(reason, seconds, advice)

    def reach(self, question: Question, control: Control, seconds: float) -> int:
        """The largest budget that fits into so many seconds."""
        return _reach(question, seconds_per_stop(make_task(question)) / control.workers, seconds)

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Walk, merge, decide the doubts."""
        task = make_task(question)
        ledger = Ledger(question, task)
        started = time.perf_counter()
        task, chunks = choose_chunks(question, task, control)
        walk(chunks, task, ledger, control, total=count_stops(question, question.problem.max_flips))
        ledger.settle_doubts(control)
        return ledger.findings(time.perf_counter() - started)


def _reach(question: Question, per_stop: float, seconds: float) -> int:
    fits = 0
    while fits < question.problem.max_flips and count_stops(question, fits + 1) * per_stop <= seconds:
        fits += 1
    return fits


def make_task(question: Question) -> Task:
    """The compiled form of a question."""
    problem = question.problem
    a = problem.adversary
    scorer = question.scorer
    linear = isinstance(scorer, LinearScorer)
    machine = scorer.machine if isinstance(scorer, HingeScorer) else no_machine()
    affordable = a.costs <= problem.max_flips
    grouped = a.groups >= 0
    affordable[grouped] &= a.costs[grouped] <= a.group_caps[a.groups[grouped]]
    return Task(
        machine=machine,
        scores=question.scores,
        linear=linear,
        slack=scorer.slack if isinstance(scorer, LinearScorer) else 0.0,
        y=problem.y,
        labels=a.labels,
        costs=a.costs,
        groups=a.groups,
        affordable=np.flatnonzero(affordable),
        group_caps=a.group_caps,
        group_totals=a.group_totals,
        budget=problem.max_flips,
        total=int(a.costs.sum()),
        mirror=mirrors(a, problem.max_flips),
    )


def mirrors(adversary: Adversary, budget: int) -> bool:
    """Whether complements come for free (all labels can be flipped) and some of them are within budget."""
    return bool(adversary.labels.size == adversary.m and 2 * budget >= adversary.costs.sum())


def count_stops(question: Question, budget: int) -> float:
    """How many labellings a run visits for this budget."""
    a = question.problem.adversary
    free = int(a.labels.size) - (1 if mirrors(a, budget) else 0)
    return min(2.0 ** min(free, 1000), a.count_sets(budget))


def seconds_per_stop(task: Task) -> float:
    """Measured on a few labellings of a typical size (compiled first)."""
    nu = int(task.affordable.size)
    if nu == 0:
        return 0.0
    size = min(nu, max(1, int(np.searchsorted(np.cumsum(np.sort(task.costs[task.affordable])), task.budget)) // 2))
    generous = task._replace(budget=task.total, group_caps=task.group_totals, mirror=False)
    # Parents from the first half of the labels have many extensions, so that the walk's own overhead counts little.
    rng = np.random.default_rng(0)
    early = min(nu - 1, max(size - 1, nu // 2))
    parents = np.array([np.sort(rng.permutation(early)[: size - 1]) for _ in range(_SAMPLE_PARENTS)])
    last = parents[:, -1] if size > 1 else np.full(_SAMPLE_PARENTS, -1)
    chunk = LevelChunk(min_cost=0, stops=int((nu - 1 - last).sum()), parents=parents.astype(np.int64))
    walker = new_walker(generous)
    flag = np.zeros(1, dtype=np.int8)
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        chunk.walk(generous, walker, flag)
        seconds.append(time.perf_counter() - started)
    return min(seconds) / chunk.stops


def choose_chunks(question: Question, task: Task, control: Control) -> tuple[Task, Iterator[Chunk]]:
    """The whole cube where it is smaller than the sets within budget; with a time limit, only if it fits."""
    bits = cube_bits(task)
    by_size = task._replace(mirror=False)
    if bits > _CUBE_LIMIT or 2.0**bits > question.problem.adversary.count_sets(task.budget):
        return by_size, level_chunks(by_size)
    if control.time_limit is not None:
        estimate = 2.0**bits * seconds_per_stop(task) / control.workers
        if estimate > 0.5 * control.time_limit:
            return by_size, level_chunks(by_size)
    return task, cube_chunks(task)


def walk(chunks: Iterator[Chunk], task: Task, ledger: Ledger, control: Control, total: float) -> None:
    """Walk all chunks on all workers; results are merged in order, so that they do not depend on timing."""
    pending: deque[tuple[list[Chunk], Promise]] = deque()
    done = 0.0
    with chunk_pool(control.workers, control.flag) as pool:
        while True:
            while len(pending) < pool.ahead and not control.over():
                batch = list(itertools.islice(chunks, pool.batch))
                if not batch:
                    break
                pending.append((batch, pool.submit(task, batch)))
            if not pending:
                break
            batch, promise = pending[0]
            try:
                walked = promise.result(timeout=0.1)
            except NotYet:
                control.over()
                continue
            pending.popleft()
            for chunk, (found, finished) in zip(batch, walked, strict=True):
                ledger.merge(found, chunk, finished)
                if ledger.doubts_held > _MAX_DOUBTS_HELD:
                    ledger.settle_doubts(control)
                done += chunk.stops
            control.report(min(done, total), total)
    rest = next(chunks, None)
    if rest is not None:
        ledger.unvisited(rest.min_cost)


class Ledger:
    """All that has been proved so far, and what is still open."""

    def __init__(self, question: Question, task: Task) -> None:
        n = question.nodes.size
        budget = question.problem.max_flips
        self._question = question
        self._never = question.problem.adversary.never
        self._radius = np.full(n, self._never, dtype=np.int64)
        words = words_for(task.labels.size)
        self._radius_set = np.zeros((n, words), dtype=np.uint64)
        self._most = np.full(budget + 1, -1, dtype=np.int64)
        self._most_set = np.zeros((budget + 1, words), dtype=np.uint64)
        self._doubts: list[Int] = []
        self._doubt_sets: list[npt.NDArray[np.uint64]] = []
        self._counters = np.zeros(walks.N_COUNTERS, dtype=np.int64)
        self._frontier = budget + 1
        self._open_radius = np.full(n, self._never, dtype=np.int64)
        self._open_most = np.full(budget + 1, -1, dtype=np.int64)
        self._decided_exactly = 0

    def merge(self, found: Found, chunk: Chunk, finished: bool) -> None:
        """Take over a chunk's results."""
        better = found.radius < self._radius
        self._radius[better] = found.radius[better]
        self._radius_set[better] = found.radius_set[better]
        more = found.most > self._most
        self._most[more] = found.most[more]
        self._most_set[more] = found.most_set[more]
        doubts = int(found.counters[walks.DOUBTS])
        if doubts:
            self._doubts.append(found.doubt[:doubts].copy())
            self._doubt_sets.append(found.doubt_set[:doubts].copy())
        self._counters += found.counters
        if not finished:
            self.unvisited(chunk.min_cost)

    @property
    def doubts_held(self) -> int:
        """Labellings that wait for a decision."""
        return sum(len(d) for d in self._doubts)

    def unvisited(self, cost: int) -> None:
        """Some sets of this cost or more were not visited."""
        self._frontier = min(self._frontier, cost)

    def settle_doubts(self, control: Control) -> None:
        """Decide noted labellings exactly, cheapest first, where the answer can still matter.

        What is not decided when the run is closed, or cannot be decided exactly, stays open.
        """
        if not self._doubts:
            return
        doubts = np.concatenate(self._doubts)
        sets = np.concatenate(self._doubt_sets)
        self._doubts, self._doubt_sets = [], []
        order = np.lexsort((-doubts[:, 1], doubts[:, 0]))
        for k, row in enumerate(order):
            cost, sure, doubtful = (int(v) for v in doubts[row])
            if cost >= self._radius.max(initial=0) and sure + doubtful <= self._most[cost]:
                continue
            if not self._question.scorer.exact or control.closed():
                rest = doubts[order[k:]]
                self._open_radius = np.minimum(self._open_radius, rest[:, 0].min())
                np.maximum.at(self._open_most, rest[:, 0], rest[:, 1] + rest[:, 2])
                return
            self._decide(cost, sets[row])

    def _decide(self, cost: int, bits: npt.NDArray[np.uint64]) -> None:
        self._decided_exactly += 1
        yes, no = self._question.changed(positions_of(bits))
        closer = yes & (cost < self._radius)
        self._radius[closer] = cost
        self._radius_set[closer] = bits
        if yes.sum() > self._most[cost]:
            self._most[cost] = yes.sum()
            self._most_set[cost] = bits
        undecided = ~(yes | no)
        if undecided.any():
            self._open_radius[undecided] = np.minimum(self._open_radius[undecided], cost)
            self._open_most[cost] = max(self._open_most[cost], int(yes.sum() + undecided.sum()))

    def findings(self, seconds: float) -> Findings:
        """Radii and curve, as intervals."""
        upper = self._radius
        lower = np.minimum(np.minimum(upper, self._open_radius), self._frontier)
        curve_sets: list[Int] = []
        curve_lower = np.maximum.accumulate(self._most)
        best = 0
        for b in range(self._most.size):
            if self._most[b] > self._most[best]:
                best = b
            curve_sets.append(positions_of(self._most_set[best]))
        curve_lower = np.maximum(curve_lower, 0)
        curve_upper = np.maximum(curve_lower, np.maximum.accumulate(self._open_most))
        unsettled = np.arange(self._most.size) >= self._frontier
        curve_upper[unsettled] = within_reach(lower, self._most.size - 1)[unsettled]
        sets: list[Int | None] = [
            positions_of(bits) if r < self._never else None for r, bits in zip(upper, self._radius_set, strict=True)
        ]
        c = self._counters
        statistics: dict[str, Any] = {
            "trainings": int(c[walks.SOLVED]),
            "pivoting_rounds": int(c[walks.ROUNDS]),
            "proved_by_global_bound": int(c[walks.GLOBAL_PROOFS]),
            "proved_by_local_bound": int(c[walks.LOCAL_PROOFS]),
            "proved_by_duality_gap": int(c[walks.GAP_PROOFS]),
            "not_converged": int(c[walks.STUCK]),
            "doubtful_labellings": int(c[walks.DOUBTS]),
            "decided_in_rational_arithmetic": self._decided_exactly,
            "seconds": seconds,
        }
        return Findings(
            radius_lower=lower,
            radius_upper=upper,
            radius_sets=sets,
            curve_lower=curve_lower,
            curve_upper=curve_upper,
            curve_sets=curve_sets,
            statistics=statistics,
        )


def positions_of(bits: npt.NDArray[np.uint64]) -> Int:
    """Positions of the set bits, ascending."""
    return np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).astype(np.int64)


def no_machine() -> Machine:
    """Stands in where nothing is trained; read-only like a real kernel, so that compiled code is shared."""
    nothing = np.zeros((0, 0))
    nothing.setflags(write=False)
    return Machine(nothing, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
