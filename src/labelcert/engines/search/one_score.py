"""Programs for two classes, where the sign of one score decides."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.certificate import Verdict
from labelcert.engines.base import Findings, Question
from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.linear.radii import margin_errors
from labelcert.engines.search import relaxation
from labelcert.engines.search.formulation import Formulation
from labelcert.engines.search.judging import UNDECIDED, Decide, Judgement
from labelcert.engines.search.programs import Program, compact_program, linear_program, paper_program
from labelcert.engines.search.ranges import FLIPPED, Ranges
from labelcert.engines.search.relaxation import Multipliers
from labelcert.engines.search.searching import Searching
from labelcert.prediction import Sign
from labelcert.problem import NOTHING, Problem, Relabelling

_ROUNDS_PER_NODE = 3

LEAF_SETS = 300_000
"""All attacks that the relaxation leaves for a node are retrained where they are at most so many."""


class OneScore(Formulation):
    """One model."""

    def __init__(self, searching: Searching, pool: ThreadPoolExecutor) -> None:
        super().__init__(searching, pool)
        question = searching.question
        assert isinstance(question.predictor, Sign)
        self._rows = question.predictor.signed_rows(question.nodes)
        self._ranges: dict[int, Ranges] = {}
        self._multipliers: Multipliers | None = None
        self._range_seconds = 0.0

    def compact_step(self, budget: int) -> Decide:
        """The relaxation, what it leaves, and at last the solver."""
        searching = self.searching
        problem = replace(searching.question.problem, max_flips=budget)
        ranges = self._proved_ranges(budget)

        def decide(t: int) -> Judgement:
            deadline = searching.judge.deadline()

            def over() -> bool:
                return searching.control.over() or time.monotonic() > deadline

            if over():
                return UNDECIDED
            left = relaxation.narrow(problem, ranges, self._rows[:, t], over=over)
            if left.empty:
                return Judgement(Verdict.ROBUST, by_relaxation=True, proved=True)
            if over():
                return UNDECIDED
            kept = np.flatnonzero(left.possible[problem.adversary.labels, FLIPPED]).astype(np.int64)
            only = problem.adversary.only(kept)
            if only.count_sets(budget) <= LEAF_SETS:
                return self._retrain_all(replace(problem, adversary=only), kept, t, deadline)
            # The ranges of attacks that flip nothing else hold for unsuccessful ones, too: the program stays feasible.
            narrower = ranges.without_flips(np.setdiff1d(problem.adversary.labels, only.labels))
            for _ in range(_ROUNDS_PER_NODE):
                narrower, _ = relaxation.tighten(problem, narrower, over=over)
            start = searching.start(t, budget, lambda change: bool(np.isin(change.positions, kept).all()))
            return self._solve(compact_program(problem, narrower), t, budget, deadline, start)

        return decide

    def paper_step(self, budget: int) -> Decide:
        """The paper's program, once per budget; the objective alone depends on the node."""
        program = paper_program(self.searching.question.problem, budget)

        def decide(t: int) -> Judgement:
            if self.searching.control.over():
                return UNDECIDED
            return self._solve(program, t, budget, self.searching.judge.deadline())

        return decide

    def compact_curve(self, budget: int, nodes: Int) -> Program | None:
        """One binary per node."""
        question, rows = self.searching.question, self._rows[:, nodes]
        if question.predictor.linear:
            return linear_program(question.problem, budget, rows, margin_errors(question)[nodes])
        ranges = self._proved_ranges(budget)
        tops = relaxation.highest_scores(question.problem, ranges, rows)
        return compact_program(question.problem, ranges, (rows, tops))

    def paper_curve(self, budget: int, nodes: Int) -> Program | None:
        """The paper's Theorem 2."""
        return paper_program(self.searching.question.problem, budget, self._rows[:, nodes])

    def statistics(self) -> dict[str, Any]:
        """About the ranges."""
        return {
            "seconds_for_ranges": self._range_seconds,
            "mean_range": {str(b): r.width for b, r in self._ranges.items()},
        }

    def _proved_ranges(self, budget: int) -> Ranges:
        """Proved ranges for a budget, computed once for all nodes."""
        if budget not in self._ranges:
            began = time.perf_counter()
            control = self.searching.control
            control.note(f"budget {budget}: tightening ranges")
            self._ranges[budget], self._multipliers = relaxation.proved_ranges(
                self.searching.question.problem, budget, known=self._multipliers, pool=self.pool, over=control.over
            )
            self._range_seconds += time.perf_counter() - began
        return self._ranges[budget]

    def _solve(self, program: Program, t: int, budget: int, deadline: float, start: Relabelling = NOTHING) -> Judgement:
        question = self.searching.question
        row: Float = self._rows[:, t]

        def value(change: Relabelling) -> float:
            margin = question.predictor.margins(question.problem.relabelled(change), question.nodes[[t]])
            return float(margin[0]) / program.unit

        cost = program.score_cost(row)
        return self.searching.solve(program, cost, t, budget, deadline, value=value, start=start)

    def _retrain_all(self, restricted: Problem, kept: Int, t: int, deadline: float) -> Judgement:
        """All attacks that are left for a node."""
        question = self.searching.question
        part = Question(restricted, question.predictor, question.nodes[[t]])
        control = Control(workers=1, deadline=deadline)
        found = Enumerate().run(part, control, Findings.nothing(part))
        change = found.radius_changes[0]
        if change is not None and found.radius_upper[0] <= part.budget:
            return Judgement(Verdict.VULNERABLE, Relabelling(kept[change.positions], change.targets))
        proved = found.radius_lower[0] > part.budget
        return Judgement(Verdict.ROBUST if proved else Verdict.UNKNOWN, proved=True)
