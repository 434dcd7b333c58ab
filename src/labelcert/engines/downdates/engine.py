"""The engine for kernel ridge regression whose labels may be removed: sets of moves by size, each a small system.

Retraining with some labels removed takes no training: the inverse of ``Q + λI`` for all labels gives every such model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from labelcert.arrays import Float, Int, Signs
from labelcert.engines.base import Capabilities, Findings, PlainEngine, Question
from labelcert.engines.control import Control
from labelcert.engines.coupled.coupled_method import RelabellingLedger, relabelling_counts
from labelcert.engines.downdates.sweep import Downdating, Room, Tally, sweep
from labelcert.engines.pools import Local, seconds_per_step
from labelcert.engines.seen import MoveNumbers
from labelcert.engines.walks import Timed, collect_all
from labelcert.memory import require_memory
from labelcert.prediction import Predictor
from labelcert.prediction.scoring import unit_rows
from labelcert.problem import Problem
from labelcert.svm.factors import factor, solve
from labelcert.svm.pivoting import UNIT_ROUNDOFF

CHILDREN = 20_000
"""Sets of moves per chunk of work, roughly."""

SAMPLE = 40
"""Parents whose children are timed."""

LARGEST_TIMED = 6
"""Moves of the largest sets that are timed: of larger ones, there are too many to be looked at, or few labels."""

DOUBTS_HELD = 200_000


class Downdates(Timed, PlainEngine):
    """Every set of removed and changed labels, without training."""

    name = "downdates"
    capabilities = Capabilities(automatic=True, advertised=False, losses=("square", "square_intercept"), removes=True)

    def refuses(self, problem: Problem) -> str | None:
        """What removes no labels, which has closed forms."""
        if not problem.adversary.removes:
            return "it is for labels that are removed; leave out engine"
        return self.capabilities.refuses(problem)

    def seconds(self, question: Question, control: Control) -> tuple[Float, str]:
        """One small system for each set of moves, timed on some of the largest."""
        counts, walk = relabelling_counts(question), _Walk.of(question)
        most = min(walk.longest, question.budget, LARGEST_TIMED) - 1
        rng = np.random.default_rng(0)
        early = max(1, walk.task.label.size // 2)
        some = [np.sort(rng.permutation(early)[: min(most, early)]) for _ in range(SAMPLE)]
        block = Parents(np.array(some, dtype=np.int64).reshape(SAMPLE, -1), 0, 0)

        def timed(flag: Signs) -> int:
            found = walk.empty(SAMPLE * walk.task.label.size)
            sweep(walk.task, walk.room(most + 1), found, block.moves, flag)
            return max(1, int(found.counters[1]))

        per_stop = seconds_per_step(timed) if counts[-1] > 1 and most >= 0 else 0.0
        reason = f"{counts[-1]:,.6g} sets of moves at {per_stop * 1e6:.2f} µs each on {control.workers} workers"
        return np.asarray(counts * per_stop / control.workers), reason

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """All sets by size, then the doubts."""
        started = time.perf_counter()
        walk = _Walk.of(question)
        ledger = DowndateLedger(question, walk)

        def work(block: Parents) -> tuple[Tally, bool]:
            found = walk.empty(block.stops, ledger)
            done = sweep(walk.task, walk.room(block.moves.shape[1] + 1), found, block.moves, control.flag)
            return found, done == len(block.moves)

        total = float(relabelling_counts(question)[-1])
        collect_all(Local(work), walk.blocks(), [ledger], control, total, 1.0)
        return ledger.findings(
            {
                "sets_of_moves": ledger.trainings,
                "doubtful_labellings": ledger.doubts,
                "decided_by_retraining": ledger.decided,
                "seconds": time.perf_counter() - started,
            }
        )


class Parents(NamedTuple):
    """Sets of moves of one size, as ascending numbers (N, k); no child of them or of later ones costs less."""

    moves: Int
    min_cost: int
    stops: int


@dataclass(frozen=True, eq=False)
class _Walk:
    """A question in the form that compiled code takes."""

    question: Question
    task: Downdating
    moves: MoveNumbers
    longest: int

    @classmethod
    def of(cls, question: Question) -> _Walk:
        problem, predictor, a = question.problem, question.predictor, question.problem.adversary
        moves = MoveNumbers(a)
        entries = 8 * (problem.m + 1) ** 2 + 4 * (problem.m + moves.position.size) * (question.nodes.size + 1)
        require_memory(8 * entries, f"the inverse of a kernel of {problem.m:,} labels, and what bounds its error")
        if predictor not in _INVERSES:  # estimates need it, too
            _INVERSES[predictor] = _inverse(problem)
        B, alpha, bound, c = _INVERSES[predictor]
        given = problem.K_test[question.nodes]
        rows, _ = unit_rows(np.hstack([given, np.full((len(given), len(B) - problem.m), c)]))
        image = rows @ B
        label = a.labels[moves.position]
        task = Downdating(
            B=B,
            H=np.ascontiguousarray(image[:, label]),
            rows=image,
            alpha=np.ascontiguousarray(alpha.T),
            clean=rows @ alpha,
            own=question.predicted,
            codes=problem.codes,
            label=label,
            target=moves.target,
            cost=a.costs[moves.position],
            group=a.groups[moves.position],
            caps=a.group_caps,
            budget=question.budget,
            bound=bound,
            listing=predictor.scorer.exact,
        )
        return cls(question, task, moves, max(1, a.most_flips(question.budget)))

    def room(self, k: int) -> Room:
        """Working memory of one chunk, whose sets have k moves."""
        (K, _), o = self.task.alpha.shape, self.task.label.size
        return Room(
            factor=np.zeros((k, k)),
            dual=np.zeros((K, k)),
            part=np.zeros((K, k)),
            row=np.zeros(k),
            out=np.zeros(k, dtype=np.int64),
            lead=np.zeros(o),
            pad=np.zeros(o),
            w=np.zeros((K, k, o)),
            last=np.zeros((K, o)),
            error=np.zeros((K, o)),
            base=np.zeros((self.task.own.size, K)),
            sure=np.zeros(o, dtype=np.int8),
            maybe=np.zeros(o, dtype=np.int8),
            used=np.zeros(self.task.caps.size, dtype=np.int64),
        )

    def empty(self, stops: int, ledger: DowndateLedger | None = None) -> Tally:
        """What is known before a chunk."""
        n, o, budget = self.task.own.size, self.task.label.size, self.task.budget
        never = self.question.problem.adversary.never
        return Tally(
            radius=np.full(n, never) if ledger is None else ledger.radius.copy(),
            by=np.full((n, 2), -1, dtype=np.int64),
            open_radius=np.full(n, never),
            most=np.full(budget + 1, -1) if ledger is None else ledger.most.copy(),
            most_by=np.full((budget + 1, 2), -1, dtype=np.int64),
            open_most=np.full(budget + 1, -1),
            sure=np.zeros(o, dtype=np.int64),
            maybe=np.zeros(o, dtype=np.int64),
            near=np.zeros(o, dtype=bool),
            doubts=np.zeros((stops if self.task.listing else 0, 4), dtype=np.int64),
            counters=np.zeros(2, dtype=np.int64),
        )

    def code(self, parents: Parents, by: Int) -> Int:
        """A child as the numbers of its moves."""
        code = np.full(self.longest, -1, dtype=np.int64)
        size = parents.moves.shape[1]
        code[:size], code[size] = parents.moves[by[0]], by[1]
        return code

    def blocks(self) -> Iterator[Parents]:
        """Parents by size: first the clean labels."""
        a, o = self.question.problem.adversary, self.task.label.size
        cheapest = np.concatenate([[0], np.cumsum(np.sort(a.costs))])
        some = max(1, CHILDREN // max(1, o))
        for size in range(min(self.longest, a.labels.size)):
            for moves in self._sets(size, some):
                for start in range(0, len(moves), some):
                    part = np.ascontiguousarray(moves[start : start + some])
                    yield Parents(part, int(cheapest[size + 1]), part.shape[0] * o)

    def _sets(self, size: int, some: int) -> Iterator[Int]:
        """(N, size) all sets of moves that leave something of the budget, a block at a time."""
        t, least = self.task, int(self.task.cost.min(initial=self.task.budget + 1))
        if size == 0:
            yield np.zeros((1, 0), dtype=np.int64)
            return
        for parents in self._sets(size - 1, some):
            for start in range(0, len(parents), some):
                part = parents[start : start + some]
                spent = t.cost[part].sum(axis=1)
                may = (spent[:, None] + t.cost + least) <= t.budget
                if size > 1:
                    may &= t.label > t.label[part[:, -1]][:, None]
                rows, last = np.nonzero(may)
                found = np.column_stack([part[rows], last]).astype(np.int64)
                if t.caps.size:
                    fits = [
                        self.question.problem.adversary.affords(self.moves.position[one], t.budget) for one in found
                    ]
                    found = found[np.array(fits, dtype=bool)]
                if len(found):
                    yield found


_INVERSES: WeakKeyDictionary[Predictor, tuple[Float, Float, Float, float]] = WeakKeyDictionary()
"""For models that are in use: the inverse, the dual variables of all classes, the constants of error bounds, and the
border that stands for an intercept."""


def _inverse(problem: Problem) -> tuple[Float, Float, Float, float]:
    lam = 1.0 / (2.0 * problem.C)
    Q = problem.K_train + lam * np.eye(problem.m)
    floor, c = 0.999999 * (lam + problem.min_eig), 1.0
    A = problem.trained_with.bordered(Q)
    if problem.intercept:
        largest = 1.01 * float(np.linalg.norm(problem.K_train) + lam)
        c = 2.0 ** round((math.log2(largest) + math.log2(floor)) / 2)  # makes both terms of the bound alike
        A[:-1, -1] = A[-1, :-1] = c
        floor = 0.999999 / (1.0 / floor + largest / c / c)
    try:
        B = np.linalg.inv(A) if problem.intercept else solve(factor(A.copy()), np.eye(problem.m))
    except np.linalg.LinAlgError:  # λ is lost in rounding; any B will do, what it misses tells how good it is
        B = np.asarray(np.linalg.pinv(A), dtype=np.float64)
    B = np.ascontiguousarray((B + B.T) / 2)
    Y = np.where(problem.codes[:, None] == np.arange(problem.n_classes), 1.0, -1.0)
    if problem.intercept:
        Y = np.vstack([Y, np.zeros((1, problem.n_classes))])
    alpha = B @ Y
    if problem.n_classes == 2:
        alpha[:, 1] = -alpha[:, 0]
    return B, alpha, _bound(A, B[:, : problem.m], alpha, Y, floor), c


def _bound(A: Float, B: Float, alpha: Float, Y: Float, floor: float) -> Float:
    """The constants of error bounds: see :mod:`.sweep`. The columns of B are those of labels.

    No eigenvalue of A is closer to 0 than `floor`, nor is one of what is left of A without some labels.
    """
    unit = 1.1 * UNIT_ROUNDOFF * (2 * len(A) + 40)
    above = np.abs(A)

    def missed(X: Float, target: Float) -> float:
        """The most that the norm of a column of ``AX − target`` can be."""
        rounding = unit * (np.linalg.norm(above @ np.abs(X), axis=0) + np.linalg.norm(target, axis=0))
        return float((np.linalg.norm(A @ X - target, axis=0) + rounding).max(initial=0.0))

    m = B.shape[1]
    epsilon, rho = missed(B, np.eye(len(A), m)), missed(alpha, Y)
    a, b = (float(np.linalg.norm(X, axis=0).max(initial=0.0)) for X in (A[:, :m], B))
    longest = float(np.linalg.norm(alpha, axis=0).max(initial=0.0))
    return 1.01 * np.array(
        [
            rho / floor + unit * longest + 1e-290,
            epsilon / floor + unit * b,
            a / floor + 1.0,
            epsilon / floor + unit * b,
            float(np.abs(B).max(initial=0.0)),
        ]
    )


class DowndateLedger(RelabellingLedger):
    """The ledger of all sets of moves."""

    def __init__(self, question: Question, walk: _Walk) -> None:
        super().__init__(question, walk.moves)
        self._walk = walk

    def collect(self, tally: Tally, chunk: Parents) -> None:  # type: ignore[override]
        """Take over a chunk's results."""
        self.trainings += int(tally.counters[1])
        for t in np.flatnonzero((tally.by[:, 0] >= 0) & (tally.radius < self.radius)).tolist():
            self.radius[t], self._codes[t] = tally.radius[t], self._walk.code(chunk, tally.by[t])
        for cost in np.flatnonzero(tally.most_by[:, 0] >= 0).tolist():
            self.stronger(cost, int(tally.most[cost]), self._walk.code(chunk, tally.most_by[cost]))
        self.open_radius = np.minimum(self.open_radius, tally.open_radius)
        self.open_most = np.maximum(self.open_most, tally.open_most)
        for parent, last, cost, count in tally.doubts[: tally.counters[0]].tolist():
            self.doubts += 1
            if len(self._doubts) < DOUBTS_HELD:
                self._doubts.append((cost, count, self._walk.code(chunk, np.array([parent, last]))))
            else:
                self.unvisited(cost)
