"""The engine ``"milp-paper"``: the paper's formulation in a mixed-integer solver, for reference.

*Vulnerable* is retrained. *Robust* is the solver's claim, which proves nothing: it is reported as a claim, or counts as
proved where the user trusts the solver.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.certificate import Verdict
from labelcert.certificate.proofs import Tree
from labelcert.engines.base import Capabilities, Findings, Question, Work, within_reach
from labelcert.engines.control import Control
from labelcert.engines.search.branching import UNDECIDED, Decide, Judgement
from labelcert.engines.search.searching import Searching
from labelcert.paper.milp.judging import SolverJudge
from labelcert.paper.milp.label_programs import LabelProgram
from labelcert.paper.milp.solvers import get_solver
from labelcert.paper.milp.theorems import more_classes, two_classes
from labelcert.prediction import Predictor, predictor_for
from labelcert.problem import Problem, Relabelling


class PaperProgram:
    """The paper's formulation, as it stands."""

    name = "milp-paper"
    capabilities = Capabilities(
        searches=True,
        losses=("hinge",),
        other_losses="the paper's formulation is about the hinge loss; use engine='auto'",
        claims=True,
    )

    def refuses(self, problem: Problem) -> str | None:
        """The paper's formulation knows only the hinge loss."""
        return self.capabilities.refuses(problem)

    def predictor(self, problem: Problem) -> Predictor:
        """Retraining: the paper has no shortcut where scores are linear."""
        return predictor_for(problem, linear=False)

    def estimate(self, question: Question, control: Control) -> Work:
        """Nobody knows how long a search takes. Fail early if the chosen solver is not installed."""
        get_solver(control.solver)
        return Work("a search, of unknown length")

    def reach(self, question: Question, control: Control, seconds: float) -> int:
        """It stops when its time is over, wherever it is."""
        return question.budget

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Radii budget by budget, then the curve budget by budget."""
        asking = Asking(question, control, known, SolverJudge(get_solver(control.solver), control))
        with ThreadPoolExecutor(control.workers) as pool:
            asking.sweep(asking.step, pool)
            if control.collective and question.nodes.size:
                asking.sweep_curve(asking.most_changed)
        return asking.findings({})


class Asking(Searching):
    """A search whose lower ends are a solver's claims; those in ``proved`` rest on nobody's word."""

    def __init__(self, question: Question, control: Control, known: Findings, judge: SolverJudge) -> None:
        super().__init__(question, control, known)
        self.proved, self.judge, self.has_claims = self.lower.copy(), judge, False

    def step(self, budget: int) -> Decide:
        """The paper's program of each node; of two classes, the objective alone depends on the node."""
        question, problem = self.question, self.question.problem
        shared = two_classes(problem, budget) if problem.n_classes == 2 else None
        rows = question.predictor.scorer.rows[question.nodes]

        def decide(t: int) -> Judgement:
            if self.control.over():
                return UNDECIDED
            own = int(question.predicted[t])
            if shared is not None:
                return self._solve(shared, shared.score_cost((2 * own - 1) * rows[t]), t, budget)
            program = more_classes(problem, budget, rows[t], own)
            return self._solve(program, program.model.cost, t, budget)

        return decide

    def most_changed(self, budget: int, nodes: Int) -> tuple[int, Tree | None]:
        """The paper's Theorem 2; without one for more than two classes, nothing is learnt there."""
        question, problem = self.question, self.question.problem
        known = int(self.attacks.curve[budget]), int(self.curve_upper[budget])
        if problem.n_classes > 2:
            return known[1], None
        self.has_claims = True
        signed = (2 * question.predicted[nodes] - 1) * question.predictor.scorer.rows[question.nodes[nodes]].T
        program = two_classes(problem, budget, signed)
        return self.judge.most(program, self.attacks.enter, self.at(budget), known, self.deadline())[1], None

    def apply(self, t: int, b: int, found: Judgement) -> None:
        """Take note of what was found out about node ``t`` at a budget, and of who says so."""
        super().apply(t, b, found)
        if found.verdict is Verdict.ROBUST:
            self.has_claims |= found.claimed
            if not found.claimed and self.proved[t] == b:
                self.proved[t] = b + 1

    def findings(self, statistics: dict[str, Any]) -> Findings:
        """Everything proved, with the solver's claims and its answers."""
        found, judge = super().findings(statistics), self.judge
        claims: dict[str, Any] = {}
        if self.has_claims:
            upper = self.known.curve_upper[: found.curve_upper.size]
            upper = np.minimum(upper, within_reach(self.proved, upper.size - 1))
            claims = {
                "radius_lower": self.proved,
                "curve_upper": upper,
                "radius_claimed": found.radius_lower,
                "curve_claimed": found.curve_upper,
            }
            if np.any(found.radius_lower > found.radius_upper) or np.any(found.curve_upper < found.curve_lower):
                # Then none of its claims is worth anything.
                judge.complain(f"{judge.solver.name} is contradicted by a retrained attack")
                claims |= {"radius_claimed": self.proved, "curve_claimed": upper}
        judge.warn()
        return replace(found, **claims, statistics={**judge.statistics(), **found.statistics})

    def _solve(self, program: LabelProgram, cost: Float, t: int, budget: int) -> Judgement:
        """Ask the solver about one node at one budget: the sign of its least margin."""
        question, problem = self.question, self.question.problem

        def retrain(change: Relabelling) -> tuple[bool, bool, float]:
            changed, unchanged = question.changed(change, np.array([t]))
            margin = question.predictor.margins(problem.relabelled(change), question.nodes[[t]])
            return bool(changed[0]), bool(unchanged[0]), float(margin[0])

        node = int(question.nodes[t])
        verdict, found = self.judge.decide(program, cost, retrain, self.at(budget), node, self.deadline())
        return Judgement(verdict, found, claimed=True)
