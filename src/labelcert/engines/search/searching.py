"""The state of one search: what is proved, and which attacks are known."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import numpy as np

from labelcert.arrays import Int
from labelcert.certificate import Stop, Verdict
from labelcert.certificate.proofs import Proofs, RivalProof, Tree
from labelcert.engines.attacking import Attacker
from labelcert.engines.base import Attacks, Findings, Question, within_reach
from labelcert.engines.control import Control
from labelcert.engines.search.branching import NOTHING_TO_BUY, Decide, Judgement

SHARE_FOR_ATTACKS = 0.3
"""Part of the time that is left for attacks, before the search for proofs starts."""

LARGEST_PROGRAM = 300
"""With more labels and a time limit, there is no search for proofs: one linear program takes seconds, and its bounds
prove little."""

SECONDS_FOR_A_NODE = 0.02
"""With a time limit and less than this for each open node, there is no search for proofs either."""

SHARE_FOR_CHECKS, SECONDS_FOR_CHECKS = 0.4, 5.0
"""Part of the time that is kept for checking attacks then, and no more than this."""


class Searching:
    """One run.

    ``lower`` (n,) are lower ends of radii, as far as the search got.
    """

    def __init__(self, question: Question, control: Control, known: Findings) -> None:
        self.question, self.control, self.known = question, control, known
        self._started, self._began = time.perf_counter(), time.monotonic()
        self.lower, self.attacks = known.radius_lower.copy(), Attacks(question, known)
        self.curve_upper = known.curve_upper[: question.budget + 1].copy()
        self.proved_by_relaxation = 0
        scale = question.predictor.scorer.scale[question.nodes]  # a power of two
        exponents = dict(zip(question.nodes.tolist(), (1 - np.frexp(scale)[1]).tolist(), strict=True))
        self.proofs = Proofs(row_exponents=exponents)

    def deadline(self) -> float:
        """When work on one node, or on one budget of the curve, has to end."""
        ends = [self.control.deadline if self.control.deadline is not None else np.inf]
        if self.control.node_time_limit is not None:
            ends.append(time.monotonic() + self.control.node_time_limit)
        return float(min(ends))

    def _over(self) -> bool:
        """Whether to stop; with a deadline, progress is the time until then: nobody knows how long a search is."""
        control, now = self.control, time.monotonic()
        if control.deadline is not None:
            control.report(now - self._began, control.deadline - self._began)
        return control.over()

    @property
    def proves(self) -> bool:
        """Whether proofs are searched for, or attacks alone."""
        problem, deadline = self.question.problem, self.control.deadline
        open_ = int((self.known.radius_lower < self.known.radius_upper).sum())
        hurried = deadline is not None and deadline - self._began < SECONDS_FOR_A_NODE * open_
        return problem.loss == "hinge" and (deadline is None or (problem.m <= LARGEST_PROGRAM and not hurried))

    # -- single nodes ------------------------------------------------------------------------------------------------

    def attack(self) -> None:
        """Attacks on every open node and on all at once: upper ends that cost little."""
        began, control = time.monotonic(), self.control
        left = np.inf if control.deadline is None else control.deadline - began
        proofs_too = self.proves
        end = began + (
            SHARE_FOR_ATTACKS * left if proofs_too else left - min(SHARE_FOR_CHECKS * left, SECONDS_FOR_CHECKS)
        )
        attacker = Attacker(self.question, self.attacks, self._over)
        attacker.attack_classes()
        control.note("attacks on single nodes")
        with attacker.until(began + 0.75 * (end - began)):
            attacker.attack_nodes(self.lower)
        control.note("attacks on all nodes")
        with attacker.until(end):
            if control.collective:
                attacker.attack_all()
            # Without a time limit, more rounds would have no end.
            attacker.improve(self.lower, 1 if proofs_too or control.deadline is None else np.inf)
        if not proofs_too and np.any(self.lower < self.attacks.radius):
            control.end(Stop.TIME_LIMIT)

    def sweep(self, step: Callable[[int], Decide], pool: Executor) -> None:
        """Decide all open nodes at every budget, from small to large.

        A node that stays open at one budget is not asked about larger ones.
        """
        lower, upper, control, most = self.lower, self.attacks.radius, self.control, self.question.budget
        payable = self.question.problem.adversary.payable(most)
        for b in range(int(lower.min(initial=most + 1)), most + 1):
            open_ = np.flatnonzero((lower == b) & (upper > b))
            if open_.size == 0:
                continue
            if not payable[b]:
                for t in open_.tolist():
                    self.apply(t, b, NOTHING_TO_BUY)
                continue
            if control.over():
                return
            decide = step(b)
            for done, (t, found) in enumerate(zip(open_.tolist(), pool.map(decide, open_.tolist()), strict=True)):
                self.apply(t, b, found)
                control.note(f"budget {b}: {done + 1} of {open_.size} open nodes")
                if control.deadline is None:
                    control.report(b - 1 + (done + 1) / open_.size, most)

    def apply(self, t: int, b: int, found: Judgement) -> None:
        """Take note of what was found out about node ``t`` at a budget."""
        if found.verdict is Verdict.ROBUST:
            self.lower[t] = b + 1
            self.proved_by_relaxation += found.by_relaxation
        elif found.change is not None:
            self.attacks.enter(found.change)

    def keep_proof(self, t: int, rival: int, budget: int, found: Judgement) -> None:
        """Keep the proof that a rival cannot win a node, instead of the one for a smaller budget."""
        if found.proof is not None:
            node = int(self.question.nodes[t])
            self.proofs.nodes.setdefault(node, {})[rival] = RivalProof(budget, found.proof)

    def at(self, budget: int) -> Question:
        """The question at a smaller budget."""
        return replace(self.question, problem=replace(self.question.problem, max_flips=budget))

    # -- all nodes ---------------------------------------------------------------------------------------------------

    def sweep_curve(self, close: Callable[[int, Int], tuple[int, Tree | None]]) -> None:
        """Close the curve budget by budget.

        ``close``: from a budget and the nodes that may change: an upper end of how many of them one attack changes, and
        its proof (None where it rests on a solver).
        """
        question, attacks = self.question, self.attacks
        self.curve_upper = np.minimum(self.curve_upper, within_reach(self.lower, question.budget))
        for change in dict.fromkeys(change for change in attacks.radius_changes if change is not None):
            attacks.enter(change)
        for b in range(1, question.budget + 1):
            if attacks.curve[b] >= self.curve_upper[b]:
                continue
            if self._over():
                break
            self.control.note(f"budget {b}: collective, between {attacks.curve[b]} and {self.curve_upper[b]}")
            upper, proof = close(b, np.flatnonzero(self.lower <= b).astype(np.int64))
            if proof is not None:
                self.proofs.curve[b] = proof
            self.curve_upper[b] = min(self.curve_upper[b], upper)
        self.curve_upper = np.minimum.accumulate(self.curve_upper[::-1])[::-1]

    # -- result ------------------------------------------------------------------------------------------------------

    def findings(self, statistics: dict[str, Any]) -> Findings:
        """Everything that is proved."""
        seconds = {"seconds": time.perf_counter() - self._started}
        numbers = {"proved_by_relaxation": self.proved_by_relaxation, **statistics, **seconds}
        return replace(self.attacks.findings(self.lower, numbers, self.curve_upper), proofs=self.proofs.trimmed())
