"""Search for two classes, where the sign of one score decides."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from labelcert.arrays import Int
from labelcert.certificate.proofs import Proofs, Tree
from labelcert.engines.control import Control
from labelcert.engines.search import branching, relaxation
from labelcert.engines.search.branching import FlipCounting, Flips, decide_node
from labelcert.engines.search.formulation import Formulation
from labelcert.engines.search.judging import UNDECIDED, Decide, Judgement
from labelcert.engines.search.programs import Program, paper_program
from labelcert.engines.search.ranges import Ranges
from labelcert.engines.search.relaxation import Multipliers
from labelcert.engines.search.searching import Searching
from labelcert.prediction import Sign
from labelcert.problem import Relabelling


class OneScore(Formulation):
    """One model."""

    def __init__(self, searching: Searching, pool: ThreadPoolExecutor) -> None:
        super().__init__(searching, pool)
        question = searching.question
        assert isinstance(question.predictor, Sign)
        self._rows = question.predictor.signed_rows(question.nodes)
        self._ranges: dict[int, Ranges] = {}
        self._multipliers: Multipliers | None = None

    @staticmethod
    def leaf_size() -> int:
        """See :mod:`~labelcert.engines.search.branching`."""
        return branching.LEAF_SETS

    def step(self, budget: int) -> Decide:
        """Ranges for the budget, then branch and bound for each node."""
        searching = self.searching
        question = searching.at(budget)
        ranges = self._proved_ranges(budget)

        def decide(t: int) -> Judgement:
            inside = Control(workers=1, deadline=searching.judge.deadline(), parent=searching.control)
            found = decide_node(question, ranges, self._rows[:, t], t, control=inside, effort=self.effort)
            searching.keep_proof(t, 1 - int(question.predicted[t]), budget, found)
            return found

        return decide

    def most_changed(self, budget: int, nodes: Int, best: int) -> tuple[int, Tree]:
        """Branch and bound over attacks, with all nodes at once."""
        searching, control = self.searching, self.searching.control
        counting = FlipCounting(searching.at(budget), self._rows, self.effort)
        inside = Control(workers=control.workers, deadline=searching.judge.deadline(), parent=control)
        root = Flips(self._proved_ranges(budget), nodes)
        return counting.search(root, best, inside, searching.attacks.enter)

    def paper_step(self, budget: int) -> Decide:
        """The paper's program, once per budget; the objective alone depends on the node."""
        program = paper_program(self.searching.question.problem, budget)

        def decide(t: int) -> Judgement:
            if self.searching.control.over():
                return UNDECIDED
            return self._solve(program, t, budget)

        return decide

    def paper_curve(self, budget: int, nodes: Int) -> Program | None:
        """The paper's Theorem 2."""
        return paper_program(self.searching.question.problem, budget, self._rows[:, nodes])

    def _proved_ranges(self, budget: int) -> Ranges:
        """Proved ranges for a budget, computed once for all nodes."""
        if budget not in self._ranges:
            began = time.perf_counter()
            control = self.searching.control
            control.note(f"budget {budget}: tightening ranges")
            self._ranges[budget], self._multipliers, proof = relaxation.proved_ranges(
                self.searching.question.problem,
                budget,
                known=self._multipliers,
                pool=self.pool,
                left_seconds=control.left_seconds,
            )
            self.searching.proofs.ranges[Proofs.key(1, budget)] = proof
            self.range_seconds += time.perf_counter() - began
            self.mean_range[str(budget)] = self._ranges[budget].width
        return self._ranges[budget]

    def _solve(self, program: Program, t: int, budget: int) -> Judgement:
        question = self.searching.question

        def value(change: Relabelling) -> float:
            margin = question.predictor.margins(question.problem.relabelled(change), question.nodes[[t]])
            return float(margin[0]) / program.unit

        return self.searching.solve(program, program.score_cost(self._rows[:, t]), t, budget, value=value)
