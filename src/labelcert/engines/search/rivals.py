"""Search by rivals, which are excluded one by one: a node is robust at a budget where every rival is excluded."""

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
from labelcert.engines.search import relaxation, rivalry
from labelcert.engines.search.branching import UNDECIDED, Decide, Effort, Judgement, MostChanged, Subtree, decide_rival
from labelcert.engines.search.margin_ranges import Ranges
from labelcert.engines.search.relaxation import Multipliers, Relaxation
from labelcert.engines.search.rivalry import Rivalry
from labelcert.engines.search.searching import Searching
from labelcert.problem import NOTHING


class Rivals:
    """Proofs for single nodes, and for all of them at once, by the models of all classes (of two classes, by one)."""

    def __init__(self, searching: Searching, pool: ThreadPoolExecutor) -> None:
        question = searching.question
        self._searching, self._pool, self._problem = searching, pool, question.problem
        self._rows = question.predictor.scorer.rows[question.nodes]
        self._models = {c: self._problem.one_vs_rest(c) for c in rivalry.models_of(self._problem.n_classes)}
        self._excluded_to = np.zeros((question.nodes.size, self._problem.n_classes), dtype=np.int64)
        self._rivals_excluded = {"by_relaxation": 0, "by_pair_relaxation": 0, "by_branching": 0}
        self._ranges: dict[int, dict[int, Ranges]] = {}
        self._scores: dict[tuple[int, int], _Scores] = {}
        self._multipliers: dict[int, Multipliers | None] = {}
        self._effort, self._range_seconds, self._mean_range = Effort(), 0.0, dict[str, float]()
        self._lock = threading.Lock()

    def step(self, budget: int) -> Decide:
        """Ranges for the budget; then each node's rivals one by one, the closest first."""
        self._prepare(budget)
        searching, question = self._searching, self._searching.at(budget)

        def decide(t: int) -> Judgement:
            deadline = searching.deadline()
            inside = Control(workers=1, deadline=deadline, collective=False, parent=searching.control)
            found = []
            for rival in question.predictor.challengers(int(question.nodes[t])):
                if searching.control.over():
                    return UNDECIDED
                found.append(self._against(question, t, rival, inside))
                if found[-1].verdict is Verdict.VULNERABLE:
                    return found[-1]
                if found[-1].verdict is Verdict.ROBUST:
                    self._excluded_to[t, rival] = budget
                    searching.keep_proof(t, rival, budget, found[-1])
            if any(one.verdict is Verdict.UNKNOWN for one in found):
                return UNDECIDED
            return Judgement(Verdict.ROBUST, by_relaxation=all(one.by_relaxation for one in found))

        return decide

    def most_changed(self, budget: int, nodes: Int) -> tuple[int, Tree]:
        """A proved upper end of how many of some nodes one attack changes."""
        searching, question = self._searching, self._searching.at(budget)
        self._prepare(budget)
        control = searching.control
        inside = Control(workers=control.workers, deadline=searching.deadline(), parent=control)
        rivals = np.zeros((question.nodes.size, self._problem.n_classes), dtype=bool)
        rivals[nodes] = self._excluded_to[nodes] < budget
        rivals[np.arange(question.nodes.size), question.predicted] = False
        counting = MostChanged(question, self._models, self._ranges[budget], self._rows, self._effort)
        root = Subtree(NOTHING, self._problem.adversary.targets, rivals)
        return counting.search(root, int(searching.attacks.curve[budget]), inside, searching.attacks.enter)

    def statistics(self) -> dict[str, Any]:
        """Plain numbers about the work."""
        return {
            "subtrees": self._effort.subtrees,
            "leaves_retrained": self._effort.leaves,
            "seconds_for_ranges": self._range_seconds,
            "mean_range": self._mean_range,
            "rivals_excluded": self._rivals_excluded,
        }

    def _prepare(self, budget: int) -> None:
        """Proved ranges of every model for a budget, computed once for all nodes."""
        if budget in self._ranges:
            return
        began = time.perf_counter()
        control = self._searching.control
        control.note(f"budget {budget}: tightening ranges")
        alone = len(self._models) == 1  # then its own work is done side by side

        def one(c: int) -> tuple[Ranges, Multipliers | None, RangeProof]:
            return relaxation.proved_ranges(
                self._models[c],
                budget,
                known=self._multipliers.get(c),
                pool=self._pool if alone else None,
                left_seconds=control.left_seconds,
            )

        found = dict(zip(self._models, (map if alone else self._pool.map)(one, self._models), strict=True))
        self._ranges[budget] = {c: ranges for c, (ranges, _, _) in found.items()}
        for c, (ranges, known, proof) in found.items():
            self._scores[c, budget] = _Scores(Relaxation(self._models[c], ranges))
            self._multipliers[c] = known
            self._searching.proofs.ranges[Proofs.key(c, budget)] = proof
        self._range_seconds += time.perf_counter() - began
        self._mean_range[str(budget)] = float(np.mean([ranges.width for ranges, _, _ in found.values()]))

    def _against(self, question: Question, t: int, rival: int, inside: Control) -> Judgement:
        """Whether one rival can win one node: the relaxation, then branch and bound."""
        row, budget, proof = self._rows[t], question.budget, Tree()
        pair = Rivalry.of(self._problem, int(question.predicted[t]), rival, self._models, self._ranges[budget])
        mus = [
            self._scores[c, budget].multipliers(t, row, sign) for c, sign in zip(pair.members, pair.signs, strict=True)
        ]
        left = rivalry.screened(pair, mus, proof.steps)
        if left is None:
            self._count("by_relaxation")
            return Judgement(Verdict.ROBUST, by_relaxation=True, proof=proof)
        found = decide_rival(question, left, row, t, control=inside, effort=self._effort, whole=proof)
        if found.verdict is Verdict.ROBUST:
            self._count("by_pair_relaxation" if found.by_relaxation else "by_branching")
        return found

    def _count(self, how: str) -> None:
        with self._lock:
            self._rivals_excluded[how] += 1


class _Scores:
    """Multipliers for the scores of single nodes by one model at one budget, from one linear program."""

    def __init__(self, program: Relaxation) -> None:
        self._program = program
        self._known: dict[tuple[int, float], Multipliers] = {}
        self._lock = threading.Lock()

    def multipliers(self, t: int, row: Float, sign: float) -> Multipliers:
        """For ``sign`` times the score of node ``t``."""
        with self._lock:
            if (t, sign) not in self._known:
                self._known[t, sign] = self._program.suggest(sign * row)
            return self._known[t, sign]
