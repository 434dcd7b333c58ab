"""Certificates by search: branch and bound of our own, and the paper's formulation in a mixed-integer solver.

Engine ``"milp"`` decides every node by proofs of our own. A relaxation with rigorous bounds prunes, retraining settles
the leaves, and a linear-programming solver only suggests multipliers. The relaxation is about the hinge loss; with
other losses, the engine enumerates what is small and looks for attacks. Engine ``"milp-paper"`` hands the paper's
program to a solver, for reference: *vulnerable* is retrained, *robust* is the solver's claim, which proves nothing.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from labelcert.engines.base import Capabilities, Findings, Question, Work
from labelcert.engines.closed_form import ClosedForm
from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.search.formulation import Formulation
from labelcert.engines.search.judging import Judge
from labelcert.engines.search.one_score import OneScore
from labelcert.engines.search.rivals import Rivals
from labelcert.engines.search.searching import LARGEST_PROGRAM, Searching
from labelcert.engines.search.solvers import Solver, get_solver
from labelcert.prediction import OneVsRest, Predictor, Sign, predictor_for
from labelcert.problem import Problem

FORMULATIONS: dict[type[Predictor], type[Formulation]] = {Sign: OneScore, OneVsRest: Rivals}
"""How each kind of predictor is searched."""


class Search:
    """Branch and bound, with proofs of our own."""

    name = "milp"
    capabilities = Capabilities(
        continues=True, searches=True, coupled=False, proved_losses=("hinge",), most_labels=LARGEST_PROGRAM
    )

    def refuses(self, problem: Problem) -> str | None:
        """Models that are trained on all classes at once."""
        return self.capabilities.refuses(problem)

    def predictor(self, problem: Problem) -> Predictor:
        """Retraining, or linear maps where that is proved to be the same."""
        return predictor_for(problem, linear=problem.is_linear())

    def estimate(self, question: Question, control: Control) -> Work:
        """Nobody knows how long a search takes. Fail early if a solver is not installed."""
        self.solver(control)
        return Work("a search, of unknown length")

    def solver(self, control: Control) -> Solver:
        """HiGHS, which suggests multipliers; the user's choice is about the paper's programs."""
        return get_solver("highs")

    def reach(self, question: Question, control: Control, seconds: float) -> int:
        """It stops when its time is over, wherever it is."""
        return question.budget

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Radii budget by budget, then the curve budget by budget."""
        if question.predictor.linear:
            return ClosedForm().run(question, control, known)
        return self._run(question, control, self._small_budgets(question, control, known))

    def _small_budgets(self, question: Question, control: Control, known: Findings) -> Findings:
        """Enumerate the budgets at which all attacks together are no more than a leaf, unless these are settled."""
        a = question.problem.adversary
        attacks = a.count_by_budget(question.budget, a.targets.sum(axis=1))
        reach = int(np.searchsorted(attacks, FORMULATIONS[type(question.predictor)].leaf_size(), side="right")) - 1
        radii = np.all((known.radius_lower > reach) | (known.radius_lower == known.radius_upper))
        if radii and np.array_equal(known.curve_lower[: reach + 1], known.curve_upper[: reach + 1]):
            return known
        part = replace(question, problem=replace(question.problem, max_flips=max(0, reach)))
        return known.refined(Enumerate().run(part, control, known), self.name)

    def _run(self, question: Question, control: Control, known: Findings) -> Findings:
        with ThreadPoolExecutor(control.workers) as pool:
            searching = Searching(question, control, known, Judge(self.solver(control), control))
            formulation = FORMULATIONS[type(question.predictor)](searching, pool)
            if question.nodes.size:
                self._radii(searching, formulation, pool)
                if control.collective:
                    self._curve(searching, formulation)
        return searching.findings(formulation.statistics())

    def _radii(self, searching: Searching, formulation: Formulation, pool: ThreadPoolExecutor) -> None:
        searching.attack()
        if searching.proves:
            searching.sweep(formulation.step, pool)

    def _curve(self, searching: Searching, formulation: Formulation) -> None:
        if searching.proves:
            searching.sweep_curve(lambda b, nodes: formulation.most_changed(b, nodes, int(searching.attacks.curve[b])))


class PaperProgram(Search):
    """The paper's formulation, as it stands."""

    name = "milp-paper"
    capabilities = Capabilities(
        searches=True,
        coupled=False,
        losses=("hinge",),
        other_losses="the paper's formulation is about the hinge loss; use engine='auto'",
        claims=True,
    )

    def predictor(self, problem: Problem) -> Predictor:
        """Retraining: the paper has no shortcut where scores are linear."""
        return predictor_for(problem, linear=False)

    def solver(self, control: Control) -> Solver:
        """The one that the user chose."""
        return get_solver(control.solver)

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Radii budget by budget, then the curve budget by budget."""
        return self._run(question, control, known)

    def _radii(self, searching: Searching, formulation: Formulation, pool: ThreadPoolExecutor) -> None:
        searching.sweep(formulation.paper_step, pool)

    def _curve(self, searching: Searching, formulation: Formulation) -> None:
        searching.sweep_curve(lambda b, nodes: searching.solve_curve(formulation.paper_curve(b, nodes), b))
