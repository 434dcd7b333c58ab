"""Search for one model per class: rivals are excluded one by one.

A node is robust at a budget where every rival is excluded.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.certificate import Verdict
from labelcert.certificate.proofs import Proofs, RangeProof, Tree
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.engines.search import relaxation, rival_branching
from labelcert.engines.search.class_programs import paper_classes
from labelcert.engines.search.formulation import Formulation
from labelcert.engines.search.judging import UNDECIDED, Decide, Judgement
from labelcert.engines.search.pairs import Pair, least_margins, recorded
from labelcert.engines.search.ranges import Ranges
from labelcert.engines.search.relaxation import Multipliers, Relaxation
from labelcert.engines.search.rival_branching import MoveCounting, Moves, decide_rival
from labelcert.engines.search.searching import Searching
from labelcert.prediction import OneVsRest
from labelcert.problem import NOTHING, Problem, Relabelling
from labelcert.problem.problem import signs_of


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
        self._rivals_excluded = {"by_relaxation": 0, "by_pair_relaxation": 0, "by_branching": 0}
        self._classes: dict[tuple[int, int], _Class] = {}
        self._multipliers: dict[int, Multipliers | None] = {}
        self._lock = threading.Lock()

    @staticmethod
    def leaf_size() -> int:
        """See :mod:`~labelcert.engines.search.rival_branching`."""
        return rival_branching.LEAF_RELABELLINGS

    def step(self, budget: int) -> Decide:
        """Each node's rivals one by one, the closest first."""
        self._prepare(budget)
        question, control = self.searching.at(budget), self.searching.control

        def decide(t: int) -> Judgement:
            deadline = self.searching.judge.deadline()
            own = int(question.predicted[t])
            clean = self._predictor.clean[:, question.nodes[t]]
            found = []
            for rival in [c for c in np.argsort(-clean).tolist() if c != own]:
                if control.over():
                    return UNDECIDED
                found.append(self._against(question, t, own, rival, deadline))
                if found[-1].verdict is Verdict.VULNERABLE:
                    return found[-1]
                if found[-1].verdict is Verdict.ROBUST:
                    self._excluded_to[t, rival] = budget
                    self.searching.keep_proof(t, rival, budget, found[-1])
            if any(one.verdict is Verdict.UNKNOWN for one in found):
                return UNDECIDED
            by_relaxation = all(one.by_relaxation for one in found)
            return Judgement(Verdict.ROBUST, by_relaxation=by_relaxation, proved=True)

        return decide

    def most_changed(self, budget: int, nodes: Int, best: int) -> tuple[int, Tree]:
        """Branch and bound over relabellings, with all nodes at once."""
        searching, control = self.searching, self.searching.control
        question = searching.at(budget)
        self._prepare(budget)
        inside = Control(workers=control.workers, deadline=searching.judge.deadline(), parent=control)
        K = self._problem.n_classes
        rivals = np.zeros((question.nodes.size, K), dtype=bool)
        rivals[nodes] = self._excluded_to[nodes] < budget
        rivals[np.arange(question.nodes.size), question.predicted] = False
        ranges = [self._classes[c, budget].ranges for c in range(K)]
        counting = MoveCounting(question, self._parts, ranges, self._rows, self.effort)
        root = Moves(NOTHING, self._problem.adversary.targets, rivals)
        return counting.search(root, best, inside, searching.attacks.enter)

    def paper_step(self, budget: int) -> Decide:
        """The paper's program of each node."""
        question = self.searching.question

        def decide(t: int) -> Judgement:
            if self.searching.control.over():
                return UNDECIDED
            node, own = int(question.nodes[t]), int(question.predicted[t])
            program = paper_classes(self._problem, budget, self._rows[t], own)

            def value(change: Relabelling) -> float:
                codes = self._problem.relabelled(change)
                p = [float(self._predictor.scores(signs_of(codes, c))[0][node]) for c in range(self._problem.n_classes)]
                return (p.pop(own) - max(p)) / program.unit

            return self.searching.solve(program, program.model.cost, t, budget, value=value)

        return decide

    def statistics(self) -> dict[str, Any]:
        """How rivals were excluded, too."""
        return {**super().statistics(), "rivals_excluded": self._rivals_excluded}

    def _prepare(self, budget: int) -> None:
        """Proved ranges of every class for a budget, computed once for all nodes."""
        if (0, budget) in self._classes:
            return
        began = time.perf_counter()
        control = self.searching.control
        control.note(f"budget {budget}: tightening ranges")

        def one(c: int) -> tuple[Ranges, Multipliers | None, RangeProof]:
            known = self._multipliers.get(c)
            return relaxation.proved_ranges(self._parts[c], budget, known=known, left_seconds=control.left_seconds)

        found = list(self.pool.map(one, range(self._problem.n_classes)))
        for c, (ranges, known, proof) in enumerate(found):
            self._classes[c, budget] = _Class(self._parts[c], ranges)
            self._multipliers[c] = known
            self.searching.proofs.ranges[Proofs.key(c, budget)] = proof
        self.range_seconds += time.perf_counter() - began
        self.mean_range[str(budget)] = float(np.mean([ranges.width for ranges, _, _ in found]))

    def _against(self, question: Question, t: int, own: int, rival: int, deadline: float) -> Judgement:
        """Whether one rival can win one node: the relaxation, then branch and bound."""
        budget, row = question.budget, self._rows[t]
        mine, other = self._classes[own, budget], self._classes[rival, budget]
        pair = Pair.of(self._problem, own, rival, (mine.part, other.part), (mine.ranges, other.ranges))
        both = mine.multipliers(t, row, 1), other.multipliers(t, row, -1)
        bound, with_move = least_margins(pair, *both)
        if bound > 0.0:
            self._count("by_relaxation")
            proof = Tree(steps=[recorded(*both)])
            return Judgement(Verdict.ROBUST, by_relaxation=True, proved=True, proof=proof)

        def left_seconds() -> float:
            return 0.0 if self.searching.control.over() else deadline - time.monotonic()

        found = decide_rival(
            question,
            pair.only(~(with_move > 0.0)),
            row,
            t,
            control=Control(workers=1, deadline=deadline, collective=False, parent=self.searching.control),
            left_seconds=left_seconds,
            effort=self.effort,
            steps=[recorded(*both)],
        )
        if found.verdict is Verdict.ROBUST:
            self._count("by_pair_relaxation" if found.by_relaxation else "by_branching")
        return found

    def _count(self, how: str) -> None:
        with self._lock:
            self._rivals_excluded[how] += 1


class _Class:
    """One class against the rest at one budget: ranges, and multipliers for the scores of single nodes."""

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
