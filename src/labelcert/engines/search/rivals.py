"""Programs for one model per class: a compact one for each pair of classes, the paper's, and one for all nodes.

A node is robust at a budget where every rival is excluded: by the relaxation, whose bounds are proved here, or by the
solver's bound beyond its margin.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.certificate import Verdict
from labelcert.engines.linear.radii import margin_errors
from labelcert.engines.search import relaxation
from labelcert.engines.search.class_programs import collective_classes, pair_program, paper_classes
from labelcert.engines.search.formulation import Formulation
from labelcert.engines.search.judging import UNDECIDED, Decide, Judgement
from labelcert.engines.search.pairs import Pair, least_margins, narrow_pair
from labelcert.engines.search.programs import Program
from labelcert.engines.search.ranges import Ranges
from labelcert.engines.search.relaxation import Bounds, Multipliers, Relaxation
from labelcert.engines.search.searching import Searching
from labelcert.prediction import OneVsRest
from labelcert.problem import NOTHING, Problem, Relabelling
from labelcert.problem.problem import signs_of

CURVE_ENTRIES = 2_000_000
"""Collective programs with more entries than this are not built: K models of m² entries, m for each node and rival."""


class Rivals(Formulation):
    """K models, and rivals that are excluded one by one."""

    def __init__(self, searching: Searching, pool: ThreadPoolExecutor) -> None:
        super().__init__(searching, pool)
        question = searching.question
        assert isinstance(question.predictor, OneVsRest)
        self._predictor = question.predictor
        self._problem = question.problem
        self._rows = question.predictor.scorer.rows[question.nodes]
        self._parts = [self._problem.one_vs_rest(c) for c in range(self._problem.n_classes)]
        self._excluded_to = np.zeros((question.nodes.size, self._problem.n_classes), dtype=np.int64)
        self._rivals_excluded = {"by_relaxation": 0, "by_pair_relaxation": 0, "by_solver": 0}
        self._range_seconds = 0.0
        self._mean_range: dict[str, float] = {}
        self._classes: dict[tuple[int, int], _Class] = {}
        self._multipliers: dict[int, Multipliers | None] = {}
        self._lock = threading.Lock()

    def compact_step(self, budget: int) -> Decide:
        """Each node's rivals one by one, the closest first."""
        self._prepare(budget)
        question, control = self.searching.question, self.searching.control

        def decide(t: int) -> Judgement:
            deadline = self.searching.judge.deadline()
            own = int(question.predicted[t])
            clean = self._predictor.clean[:, question.nodes[t]]
            found = []
            for rival in [c for c in np.argsort(-clean).tolist() if c != own]:
                if control.over():
                    return UNDECIDED
                found.append(self._against(t, own, rival, budget, deadline))
                if found[-1].verdict is Verdict.VULNERABLE:
                    return found[-1]
                if found[-1].verdict is Verdict.ROBUST:
                    self._excluded_to[t, rival] = budget
            if any(one.verdict is Verdict.UNKNOWN for one in found):
                return UNDECIDED
            proved = all(one.proved for one in found)
            return Judgement(Verdict.ROBUST, by_relaxation=proved, proved=proved)

        return decide

    def paper_step(self, budget: int) -> Decide:
        """The paper's program of each node."""

        def decide(t: int) -> Judgement:
            if self.searching.control.over():
                return UNDECIDED
            deadline = self.searching.judge.deadline()
            own = int(self.searching.question.predicted[t])
            program = paper_classes(self._problem, budget, self._rows[t], own)
            rivals = [c for c in range(self._problem.n_classes) if c != own]
            return self._solve(program, t, rivals, budget, deadline)

        return decide

    def compact_curve(self, budget: int, nodes: Int) -> Program | None:
        """One binary per node and rival that is not excluded."""
        question, K, m = self.searching.question, self._problem.n_classes, self._problem.m
        linear = question.predictor.linear
        own = question.predicted
        pairs = np.array(
            [
                (t, own[t], r)
                for t in nodes.tolist()
                for r in range(K)
                if r != own[t] and self._excluded_to[t, r] < budget
            ],
            dtype=np.int64,
        ).reshape(-1, 3)
        if (0 if linear else K * m * m) + 2 * m * pairs.shape[0] > CURVE_ENTRIES:
            return None
        if linear:
            ranges = None
            highest = np.array([2.0 * np.abs(self._rows[t]).sum() for t in pairs[:, 0]])
            errors = 2.0 * margin_errors(question)[pairs[:, 0]]
        else:
            self._prepare(budget)
            classes = [self._classes[c, budget] for c in range(K)]
            ranges = [one.ranges for one in classes]
            highest = np.array(
                [
                    max(0.0, classes[c].highest(t, self._rows[t], 1) + classes[r].highest(t, self._rows[t], -1))
                    for t, c, r in pairs.tolist()
                ]
            )
            errors = np.zeros(pairs.shape[0])
        rows = np.ascontiguousarray(self._rows.T)
        return collective_classes(
            self._problem, budget, self._parts, ranges, rows, pairs, highest * (1 + 1e-12), errors
        )

    def statistics(self) -> dict[str, Any]:
        """About the ranges, and how rivals were excluded."""
        return {
            "rivals_excluded": self._rivals_excluded,
            "seconds_for_ranges": self._range_seconds,
            "mean_range": self._mean_range,
        }

    def _prepare(self, budget: int) -> None:
        """Proved ranges of every class for a budget, computed once for all nodes."""
        if (0, budget) in self._classes:
            return
        began = time.perf_counter()
        control = self.searching.control
        control.note(f"budget {budget}: tightening ranges")

        def one(c: int) -> tuple[Ranges, Multipliers | None]:
            return relaxation.proved_ranges(self._parts[c], budget, known=self._multipliers.get(c), over=control.over)

        found = list(self.pool.map(one, range(self._problem.n_classes)))
        for c, (ranges, known) in enumerate(found):
            self._classes[c, budget] = _Class(self._parts[c], ranges)
            self._multipliers[c] = known
        self._range_seconds += time.perf_counter() - began
        self._mean_range[str(budget)] = float(np.mean([ranges.width for ranges, _ in found]))

    def _against(self, t: int, own: int, rival: int, budget: int, deadline: float) -> Judgement:
        """Whether one rival can win one node: the relaxation, then the solver."""
        mine, other = self._classes[own, budget], self._classes[rival, budget]
        row = self._rows[t]
        pair = Pair.of(self._problem, own, rival, (mine.part, other.part), (mine.ranges, other.ranges))
        bound, with_move = least_margins(pair, mine.multipliers(t, row, 1), other.multipliers(t, row, -1))
        if bound > 0.0:
            return self._excluded("by_relaxation")

        def left_seconds() -> float:
            return 0.0 if self.searching.control.over() else deadline - time.monotonic()

        if left_seconds() <= 0.0:
            return UNDECIDED
        narrowed = narrow_pair(pair.only(~(with_move > 0.0)), row, left_seconds)
        if narrowed is None:
            return self._excluded("by_pair_relaxation")
        if left_seconds() <= 0.0:
            return UNDECIDED

        def usable(change: Relabelling) -> bool:
            moves = [narrowed.move(i, k) for i, k in change.moves.items()]
            return all(o is not None and narrowed.left[i, o] for i, o in zip(change.moves, moves, strict=True))

        start = self.searching.start(t, budget, usable)
        found = self._solve(pair_program(narrowed, row), t, [rival], budget, deadline, start)
        return self._excluded("by_solver") if found.verdict is Verdict.ROBUST else found

    def _excluded(self, how: str) -> Judgement:
        with self._lock:
            self._rivals_excluded[how] += 1
        proved = how != "by_solver"
        return Judgement(Verdict.ROBUST, by_relaxation=proved, proved=proved)

    def _solve(
        self,
        program: Program,
        t: int,
        rivals: list[int],
        budget: int,
        deadline: float,
        start: Relabelling = NOTHING,
    ) -> Judgement:
        """Ask the solver about the least margin of a node over some rivals."""
        question = self.searching.question
        node, own = int(question.nodes[t]), int(question.predicted[t])

        def value(change: Relabelling) -> float:
            codes = self._problem.relabelled(change)
            p = [float(self._predictor.scores(signs_of(codes, c))[0][node]) for c in (own, *rivals)]
            return (p[0] - max(p[1:])) / program.unit

        about = {"rival": self._problem.classes[rivals[0]].item()} if len(rivals) == 1 else {}
        cost = program.model.cost
        return self.searching.solve(program, cost, t, budget, deadline, value=value, start=start, **about)


class _Class:
    """One class against the rest at one budget: ranges, and bounds on its scores of single nodes."""

    def __init__(self, part: Problem, ranges: Ranges) -> None:
        self.part, self.ranges = part, ranges
        self._relaxation = Relaxation(part, ranges)
        self._known: dict[tuple[int, int], Multipliers] = {}
        self._lock = threading.Lock()

    def multipliers(self, t: int, row: Float, sign: int) -> Multipliers:
        """For ``sign`` times the score of node ``t``."""
        with self._lock:
            if (t, sign) not in self._known:
                self._known[t, sign] = self._relaxation.suggest(sign * row, np.zeros_like(row))
            return self._known[t, sign]

    def highest(self, t: int, row: Float, sign: int) -> float:
        """Proved upper bound on ``sign`` times the score of a node, in units of the cap."""
        least = float(Bounds(self.part, self.ranges).evaluate(self.multipliers(t, row, -sign))[0])
        return min(-least, float(np.abs(row).sum()) * (1 + 1e-12))
