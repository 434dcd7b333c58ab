"""The state of one search: what is proved, what a solver claims, which attacks are known."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.certificate import Stop, Verdict
from labelcert.certificate.proofs import Proofs, RivalProof, Tree
from labelcert.engines.attacking import Attacker
from labelcert.engines.base import Attacks, Findings, Question, within_reach
from labelcert.engines.control import Control
from labelcert.engines.search.judging import CountQuestion, Decide, Judge, Judgement, SignQuestion
from labelcert.engines.search.programs import Program
from labelcert.problem import NOTHING, Relabelling

SHARE_FOR_ATTACKS = 0.3
"""Part of the time that is left for attacks, before the search for proofs starts."""

LARGEST_PROGRAM = 300
"""With more labels and a time limit, there is no search for proofs: one linear program takes seconds, and its bounds
prove little."""

SHARE_FOR_CHECKS, SECONDS_FOR_CHECKS = 0.4, 5.0
"""Part of the time that is kept for checking attacks then, and how much at the most."""

FEW_NODES = 100
"""With more nodes, there may be no time for each of them."""


class Searching:
    """One run.

    Attributes
    ----------
    lower, claimed : (n,) arrays
        Lower ends of radii: proved, and as far as the search got, with claims of a solver.
    attacks : Attacks
    curve_upper : (B + 1,) array
        With claims of a solver.
    has_claims : bool
        Whether there are any.
    """

    def __init__(self, question: Question, control: Control, known: Findings, judge: Judge) -> None:
        self.question, self.control, self.judge = question, control, judge
        self.known = known
        self.started, self._began = time.perf_counter(), time.monotonic()
        self.lower, self.claimed = known.radius_lower.copy(), known.radius_lower.copy()
        self.attacks = Attacks(question, known)
        self.curve_upper = known.curve_upper[: question.budget + 1].copy()
        self.proved_by_relaxation = 0
        scale = question.predictor.scorer.scale[question.nodes]  # a power of two
        exponents = dict(zip(question.nodes.tolist(), (1 - np.frexp(scale)[1]).tolist(), strict=True))
        self.proofs = Proofs(row_exponents=exponents)
        self.has_claims = False

    def _over(self) -> bool:
        """Whether to stop; with a deadline, progress is the time until then: nobody knows how long a search is."""
        control, now = self.control, time.monotonic()
        if control.deadline is not None:
            control.report(now - self._began, control.deadline - self._began)
        return control.over()

    @property
    def proves(self) -> bool:
        """Whether proofs are searched for, or attacks alone."""
        problem = self.question.problem
        return problem.loss == "hinge" and (self.control.deadline is None or problem.m <= LARGEST_PROGRAM)

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
        control.note("attacks on single nodes")
        many = self.question.nodes.size > FEW_NODES
        if many:
            attacker.attack_classes()
        with attacker.until(began + 0.75 * (end - began)):
            attacker.attack_nodes(self.lower)
        control.note("attacks on all nodes")
        if not many:
            attacker.attack_classes()
        with attacker.until(end):
            if control.collective:
                attacker.attack_all()
            # Without a time limit, more rounds would have no end.
            attacker.improve(self.lower, 1 if proofs_too or control.deadline is None else np.inf)
        if not proofs_too and np.any(self.lower < self.attacks.radius):
            control.end(Stop.TIME_LIMIT)

    def sweep(self, step: Callable[[int], Decide], pool: ThreadPoolExecutor) -> None:
        """Decide all open nodes at every budget, from small to large."""
        self.judge.sweep(self.question, self.claimed, self.attacks.radius, step, self._apply, pool)

    def solve(
        self, program: Program, cost: Float, t: int, budget: int, *, value: Callable[[Relabelling], float]
    ) -> Judgement:
        """Ask the solver about one node at one budget: the sign of its least margin.

        Parameters
        ----------
        cost : (N,) array
            The margin, in the program's units.
        value : callable
            The margin that a relabelling attains, in these units and in float64.
        """
        question = self.question

        def retrain(change: Relabelling) -> tuple[bool, bool, float]:
            changed, unchanged = question.changed(change, np.array([t]))
            return bool(changed[0]), bool(unchanged[0]), value(change)

        asked = SignQuestion(program=program, cost=cost, retrain=retrain, known=[NOTHING])
        node = int(question.nodes[t])
        return Judgement(*self.judge.decide(asked, self.at(budget), node, self.judge.deadline()))

    def _apply(self, t: int, b: int, found: Judgement) -> None:
        if found.verdict is Verdict.ROBUST:
            if found.proved and self.lower[t] == b:
                self.lower[t] = b + 1
            self.claimed[t] = b + 1
            self.has_claims |= not found.proved
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

        Parameters
        ----------
        close : callable
            From a budget and the nodes that may change: an upper end of how many of them one attack changes, and its
            proof (None where it rests on a solver).
        """
        question, attacks = self.question, self.attacks
        self.curve_upper = np.minimum(self.curve_upper, within_reach(self.claimed, question.budget))
        for change in dict.fromkeys(change for change in attacks.radius_changes if change is not None):
            attacks.enter(change)
        for b in range(1, question.budget + 1):
            if attacks.curve[b] >= self.curve_upper[b]:
                continue
            if self._over():
                break
            self.control.note(f"budget {b}: collective, between {attacks.curve[b]} and {self.curve_upper[b]}")
            upper, proof = close(b, np.flatnonzero(self.claimed <= b).astype(np.int64))
            if proof is not None:
                self.proofs.curve[b] = proof
            self.curve_upper[b] = min(self.curve_upper[b], upper)
        self.curve_upper = np.minimum.accumulate(self.curve_upper[::-1])[::-1]

    def solve_curve(self, program: Program | None, b: int) -> tuple[int, None]:
        """Ask the solver how many nodes one attack changes; without a program, nothing is learnt."""
        if program is None:
            return int(self.curve_upper[b]), None
        self.has_claims = True
        asked = CountQuestion(program=program, retrain=self.attacks.enter)
        known = int(self.attacks.curve[b]), int(self.curve_upper[b])
        return self.judge.most(asked, self.at(b), known)[1], None

    # -- result ------------------------------------------------------------------------------------------------------

    def findings(self, statistics: dict[str, Any]) -> Findings:
        """Everything proved, with the solver's claims and its answers."""
        attacks, claimed, curve_claimed = self.attacks, self.claimed, self.curve_upper
        curve_upper = curve_claimed
        if self.has_claims:
            curve_upper = self.known.curve_upper[: curve_claimed.size]
            curve_upper = np.minimum(curve_upper, within_reach(self.lower, curve_claimed.size - 1))
            if np.any(claimed > attacks.radius) or np.any(curve_claimed < attacks.curve):
                # Then none of its claims is worth anything.
                self.judge.complain(f"{self.judge.solver.name} is contradicted by a retrained attack")
                claimed, curve_claimed = self.lower, curve_upper
        self.judge.warn()
        return Findings(
            radius_lower=self.lower,
            radius_upper=attacks.radius,
            radius_changes=attacks.radius_changes,
            curve_lower=attacks.curve,
            curve_upper=curve_upper,
            curve_changes=attacks.curve_changes,
            radius_claimed=claimed if self.has_claims else None,
            curve_claimed=curve_claimed if self.has_claims else None,
            statistics={
                **self.judge.statistics(),
                "proved_by_relaxation": self.proved_by_relaxation,
                **statistics,
                "seconds": time.perf_counter() - self.started,
            },
            proofs=self.proofs.trimmed(),
        )
