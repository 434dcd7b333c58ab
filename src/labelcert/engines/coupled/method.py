"""Every admissible relabelling, level by level: first one changed label, then two, and so on."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from labelcert.arrays import Int, Signs
from labelcert.engines.base import WORK_LIMIT_SECONDS, Attacks, Findings, Question, Work, within_reach
from labelcert.engines.control import Control
from labelcert.engines.coupled.walk import NONE, Chunk, Extend, Found
from labelcert.engines.pools import in_order, seconds_per_step
from labelcert.engines.tables.sizes import last_fitting
from labelcert.prediction import Softmax
from labelcert.problem import NOTHING, Relabelling

PARENTS = 16
"""Parents per chunk of work."""

SAMPLE = 6
"""Parents whose children are timed."""


class CoupledMethod:
    """One training for each relabelling, in which all classes take part."""

    def estimate(self, question: Question, control: Control) -> Work:
        """Count the relabellings, time a few of them, multiply."""
        seconds, per_stop = self._seconds(question, control)
        reason = (
            f"{_counts(question)[-1]:,.6g} relabellings at {per_stop * 1e6:.0f} µs each on {control.workers} workers"
        )
        if seconds[-1] <= WORK_LIMIT_SECONDS or control.time_limit is not None:
            return Work(reason, float(seconds[-1]))
        advice = (
            f"max_flips={last_fitting(seconds <= WORK_LIMIT_SECONDS)} would fit, or time_limit=SECONDS gives what can "
            "be proved in that time (intervals where it is not exact); loss='logistic' trains one class against the "
            "rest, which is much faster"
        )
        return Work(reason, float(seconds[-1]), advice)

    def reach(self, question: Question, control: Control, seconds: float) -> int:
        """The largest budget that fits into so many seconds."""
        return last_fitting(self._seconds(question, control)[0] <= seconds)

    def run(self, question: Question, control: Control) -> Findings:
        """Train on all relabellings, then decide the doubts."""
        started = time.perf_counter()
        task = extend_for(question)
        ledger = _Ledger(question)
        total = float(_counts(question)[-1])
        chunks = _chunks(task)
        for chunk, (found, finished) in in_order(task, chunks, control):
            ledger.merge(found)
            if not finished:
                ledger.unvisited(chunk.min_cost)
            control.report(min(ledger.trainings, total), total)
        rest = next(chunks, None)
        if rest is not None:
            ledger.unvisited(rest.min_cost)
        return ledger.findings(control, started)

    def _seconds(self, question: Question, control: Control) -> tuple[Int, float]:
        """(B + 1,) estimated time for each budget, and that of one training."""
        counts = _counts(question)
        per_stop = seconds_per_training(question) if counts[-1] > 1 else 0.0
        return np.asarray(counts * per_stop / control.workers), per_stop


def extend_for(question: Question) -> Extend:
    """The walk of a question."""
    problem, predictor = question.problem, question.predictor
    assert isinstance(predictor, Softmax)
    a = problem.adversary
    return Extend(
        machine=predictor.machine,
        rows=predictor.scorer.rows[question.nodes],
        own=question.predicted,
        codes=problem.codes,
        Z=predictor.Z,
        inverse=predictor.inverse,
        adversary=a,
        budget=question.budget,
        longest=max(1, a.most_flips(question.budget)),
    )


def seconds_per_training(question: Question) -> float:
    """Measured on the children of relabellings of the most frequent size, as many as a moment allows."""
    task = extend_for(question)
    a = task.adversary
    nu = a.labels.size
    size = min(task.longest - 1, max(0, nu // 2 - 1))
    rng = np.random.default_rng(0)
    everything = replace(a, group_caps=np.full_like(a.group_caps, a.never))
    generous = task._replace(budget=int(a.costs.sum()), adversary=everything)
    some = np.array([np.sort(rng.permutation(max(1, nu // 2))[:size]) for _ in range(SAMPLE)]).reshape(SAMPLE, size)
    parents = Chunk((some.astype(np.int64), a.targets[some.astype(np.int64)].argmax(axis=2)), 0)

    def walk(flag: Signs) -> int:
        return max(1, generous.walk(parents, None, flag)[0].trainings)

    return seconds_per_step(walk)


def _counts(question: Question) -> Int:
    """(B + 1,) number of relabellings within each budget."""
    a = question.problem.adversary
    return np.asarray(a.count_by_budget(question.budget, a.targets.sum(axis=1)))


def _chunks(task: Extend) -> Iterator[Chunk]:
    """Parents in blocks, level by level: first the clean labels. Nothing is kept."""
    cheapest = np.concatenate([[0], np.cumsum(np.sort(task.adversary.costs))])
    for size in range(min(task.longest, task.adversary.labels.size)):
        parents = task.adversary.relabellings(size, task.budget)
        while block := list(itertools.islice(parents, PARENTS)):
            positions = np.array([change.positions for change in block]).reshape(len(block), size)
            targets = np.array([change.targets for change in block]).reshape(len(block), size)
            yield Chunk((positions, targets), int(cheapest[size + 1]))


class _Ledger:
    """What all walks together found."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._attacks = Attacks(question)
        self._doubts: list[tuple[int, int, Relabelling]] = []
        self._frontier = question.budget + 1
        self.trainings = 1
        if question.contrary.any():  # the clean labels change these
            self._attacks.enter(NOTHING)

    def merge(self, found: Found) -> None:
        """Take over a chunk's results."""
        attacks, a = self._attacks, self._question.problem.adversary
        for t in np.flatnonzero(found.radius < attacks.radius).tolist():
            attacks.radius[t], attacks.radius_changes[t] = found.radius[t], _change(found.radius_moves[t])
        for cost in np.flatnonzero(found.most > attacks.curve).tolist():
            attacks.count(_change(found.most_moves[cost]), int(found.most[cost]))
        for moves, possible in zip(found.doubts, found.possible.tolist(), strict=True):
            change = _change(moves)
            self._doubts.append((a.cost(change), possible, change))
        self.trainings += found.trainings

    def unvisited(self, cost: int) -> None:
        """Some relabellings of this cost or more were not trained on."""
        self._frontier = min(self._frontier, cost)

    def findings(self, control: Control, started: float) -> Findings:
        """Decide doubts where they can still matter, the cheapest first; radii and curve as intervals."""
        question, attacks = self._question, self._attacks
        n, budget = question.nodes.size, question.budget
        open_radius = np.full(n, question.problem.adversary.never, dtype=np.int64)
        open_most = np.zeros(budget + 1, dtype=np.int64)
        decided = 0
        for cost, possible, change in sorted(self._doubts, key=lambda doubt: doubt[:2]):
            if possible <= attacks.curve[cost] and cost >= attacks.radius.max(initial=0):
                continue
            if control.closed():
                open_radius = np.minimum(open_radius, cost)
                open_most[cost] = max(open_most[cost], possible)
                continue
            decided += 1
            changed, unchanged = question.changed(change)
            attacks.take(change, changed)
            undecided = ~(changed | unchanged)
            open_radius[undecided] = np.minimum(open_radius[undecided], cost)
            open_most[cost] = max(open_most[cost], int(changed.sum() + undecided.sum()))
        lower = np.minimum(np.minimum(attacks.radius, open_radius), self._frontier)
        lower[question.contrary] = 0
        curve_upper = np.maximum(attacks.curve, np.maximum.accumulate(open_most))
        beyond = np.arange(budget + 1) >= self._frontier
        curve_upper[beyond] = within_reach(lower, budget)[beyond]
        return Findings(
            radius_lower=lower,
            radius_upper=attacks.radius,
            radius_changes=attacks.radius_changes,
            curve_lower=attacks.curve,
            curve_upper=curve_upper,
            curve_changes=attacks.curve_changes,
            statistics={
                "trainings": self.trainings,
                "doubtful_labellings": len(self._doubts),
                "decided_beyond_float64": decided,
                "seconds": time.perf_counter() - started,
            },
        )


def _change(moves: Int) -> Relabelling:
    """From positions and targets (2, L)."""
    used = moves[0] != NONE
    return Relabelling(moves[0, used], moves[1, used]) if used.any() else NOTHING
