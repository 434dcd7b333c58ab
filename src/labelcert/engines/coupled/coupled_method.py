"""Every admissible relabelling, level by level: first one changed label, then two, and so on."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np

from labelcert.arrays import Float, Int, Signs
from labelcert.engines.base import Findings, Question
from labelcert.engines.control import Control
from labelcert.engines.coupled.extending import Extend, Parents
from labelcert.engines.ledger import Ledger
from labelcert.engines.pools import PoolTask, seconds_per_step
from labelcert.engines.seen import MoveNumbers, Seen, Telling, clean_labels
from labelcert.engines.walks import Timed, collect_all
from labelcert.prediction import Softmax

PARENTS = 16
"""Parents per chunk of work."""

SAMPLE = 6
"""Parents whose children are timed."""


class CoupledMethod(Timed):
    """One training for each relabelling, in which all classes take part."""

    advice = (
        f"{Timed.advice} (intervals where it is not exact); loss='logistic' trains one class against the rest, "
        "which is much faster"
    )

    def seconds(self, question: Question, control: Control) -> tuple[Float, str]:
        """One training for each relabelling."""
        counts = relabelling_counts(question)
        per_stop = seconds_per_training(question) if counts[-1] > 1 else 0.0
        reason = f"{counts[-1]:,.6g} relabellings at {per_stop * 1e6:.0f} µs each on {control.workers} workers"
        return np.asarray(counts * per_stop / control.workers), reason

    def run(self, question: Question, control: Control) -> Findings:
        """Train on all relabellings, then decide the doubts."""
        task = extend_for(question)
        return every_relabelling(question, control, task, _chunks(task))


def every_relabelling(
    question: Question, control: Control, task: PoolTask, chunks: Iterator[Any], ledger: RelabellingLedger | None = None
) -> Findings:
    """Findings of a task that writes down what every relabelling does; observers are shown all of them."""
    started = time.perf_counter()
    moves = MoveNumbers(question.problem.adversary)
    ledger = RelabellingLedger(question, moves) if ledger is None else ledger
    telling = Telling(question, control, moves, lambda seen: seen)
    if question.observers:
        telling.collect(clean_labels(question), None)
    collectors = [ledger, telling] if question.observers else [ledger]
    collect_all(task, chunks, collectors, control, float(relabelling_counts(question)[-1]), 1.0)
    found = ledger.findings(
        {
            "trainings": ledger.trainings,
            "doubtful_labellings": ledger.doubts,
            "decided_beyond_float64": ledger.decided,
            "seconds": time.perf_counter() - started,
        }
    )
    return replace(found, drops=True)


def extend_for(question: Question) -> Extend:
    """The walk of a question."""
    problem, predictor = question.problem, cast(Softmax, question.predictor)
    a = problem.adversary
    return Extend(
        machine=predictor.machine,
        rows=predictor.scorer.rows[question.nodes],
        own=question.predicted,
        codes=problem.codes,
        Z=predictor.Z,
        inverse=predictor.inverse,
        adversary=a,
        numbers=MoveNumbers(a).number,
        budget=question.budget,
        longest=max(1, a.most_flips(question.budget)),
        drops=bool(problem.emptied),
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
    parents = Parents(some.astype(np.int64), a.targets[some.astype(np.int64)].argmax(axis=2), 0, 0)

    def walk(flag: Signs) -> int:
        return max(1, generous.walk(parents, None, flag)[0].cost.size)

    return seconds_per_step(walk)


def relabelling_counts(question: Question) -> Float:
    """(B + 1,) number of relabellings within each budget."""
    a = question.problem.adversary
    return np.asarray(a.count_by_budget(question.budget, a.targets.sum(axis=1)))


def _chunks(task: Extend) -> Iterator[Parents]:
    """Parents in blocks, level by level: first the clean labels. Nothing is kept."""
    a = task.adversary
    cheapest = np.concatenate([[0], np.cumsum(np.sort(a.costs))])
    for size in range(min(task.longest, a.labels.size)):
        parents = a.relabellings(size, task.budget)
        while block := list(itertools.islice(parents, PARENTS)):
            positions = np.array([change.positions for change in block]).reshape(len(block), size)
            targets = np.array([change.targets for change in block]).reshape(len(block), size)
            children = sum(len(a.children(change.positions, task.budget)) for change in block)
            yield Parents(positions, targets, int(cheapest[size + 1]), children)


class RelabellingLedger(Ledger):
    """The ledger of a walk that writes down what every relabelling does.

    ``trainings``, ``doubts``: relabellings that were trained on, and those whose effect on some nodes is open.
    """

    def __init__(self, question: Question, moves: MoveNumbers) -> None:
        super().__init__(question, moves.change)
        self._doubts: list[tuple[int, int, Int]] = []
        self.trainings, self.doubts = 1, 0

    def collect(self, seen: Seen, chunk: Parents) -> None:
        """Take over a chunk's results."""
        self.trainings += seen.cost.size
        if seen.cost.size == 0:
            return
        cheapest = np.where(seen.changed, seen.cost[:, None], self.question.problem.adversary.never)
        first = cheapest.argmin(axis=0)
        self.closer(cheapest[first, np.arange(first.size)], seen.code[first])
        count = seen.changed.sum(axis=1)
        for s in np.flatnonzero(count > self.most[seen.cost]).tolist():
            self.stronger(int(seen.cost[s]), int(count[s]), seen.code[s])
        self.doubt(seen)

    def doubt(self, seen: Seen) -> None:
        """Take note of what is not decided."""
        count, possible = seen.changed.sum(axis=1), (~seen.unchanged).sum(axis=1)
        for s in np.flatnonzero(possible > count).tolist():
            self.doubts += 1
            self._doubts.append((int(seen.cost[s]), int(possible[s]), seen.code[s]))

    def settle(self, control: Control) -> None:
        """Decide doubts where they can still matter, the cheapest first."""
        for cost, possible, code in sorted(self._doubts, key=lambda doubt: doubt[:2]):
            if possible <= self.most[: cost + 1].max() and cost >= self.radius.max(initial=0):
                continue
            if control.closed():
                self.open_radius = np.minimum(self.open_radius, cost)
                self.open_most[cost] = max(self.open_most[cost], possible)
                continue
            self.decide(cost, code)
