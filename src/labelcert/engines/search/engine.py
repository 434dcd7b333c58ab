"""Certificates by mixed-integer programming: a compact formulation with proved ranges, and the paper's formulation.

What a solver says is a suggestion. A node is *vulnerable* where the relabelling in the solver's solution, retrained
with a rigorous error bound, changes its prediction. It is *robust* where the relaxation proves it (no solver's word is
needed there), or where the solver's bound exceeds a margin that covers its tolerances and does not contradict any
score that retraining attains. Everything else stays an open interval.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from labelcert.engines.base import Capabilities, Findings, Question, Work
from labelcert.engines.control import Control
from labelcert.engines.search.formulation import Formulation
from labelcert.engines.search.judging import Judge
from labelcert.engines.search.one_score import OneScore
from labelcert.engines.search.rivals import Rivals
from labelcert.engines.search.searching import Curve, Searching
from labelcert.engines.search.solvers import get_solver
from labelcert.prediction import OneVsRest, Predictor, Sign, is_linear, predictor_for
from labelcert.problem import Problem

FORMULATIONS: dict[type[Predictor], type[Formulation]] = {Sign: OneScore, OneVsRest: Rivals}
"""The programs of each kind of predictor."""


class Search:
    """The compact formulation."""

    name = "milp"
    capabilities = Capabilities(continues=True, asks_solver=True)

    def refuses(self, problem: Problem) -> str | None:
        """Nothing."""
        return None

    def predictor(self, problem: Problem) -> Predictor:
        """Retraining, or linear maps where that is proved to be the same."""
        return predictor_for(problem, linear=is_linear(problem))

    def estimate(self, question: Question, control: Control) -> Work:
        """Nobody knows how long a search takes. Fail early if the chosen solver is not installed."""
        get_solver(control.solver)
        return Work("a search, of unknown length")

    def reach(self, question: Question, control: Control, seconds: float) -> int:
        """It stops when its time is over, wherever it is."""
        return question.budget

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Radii budget by budget, then the curve budget by budget."""
        return self._run(question, control, known, radii=True)

    def curve_alone(self, question: Question, control: Control, known: Findings) -> Findings:
        """The curve from what is known about radii, without improving these first."""
        return self._run(question, control, known, radii=False)

    def _run(self, question: Question, control: Control, known: Findings, *, radii: bool) -> Findings:
        with ThreadPoolExecutor(control.workers) as pool:
            searching = Searching(question, control, known, Judge(get_solver(control.solver), control))
            formulation = FORMULATIONS[type(question.predictor)](searching, pool)
            if question.nodes.size:
                if radii and question.predictor.linear:
                    searching.sort()
                elif radii:
                    self._radii(searching, formulation, pool)
                if control.collective:
                    searching.sweep_curve(self._curve(formulation))
        return searching.findings(formulation.statistics())

    def _radii(self, searching: Searching, formulation: Formulation, pool: ThreadPoolExecutor) -> None:
        searching.attack()
        searching.sweep(formulation.compact_step, pool)

    def _curve(self, formulation: Formulation) -> Curve:
        return formulation.compact_curve


class PaperProgram(Search):
    """The paper's formulation, as it stands."""

    name = "milp-paper"
    capabilities = Capabilities(asks_solver=True)

    def refuses(self, problem: Problem) -> str | None:
        """The paper's formulation knows only the hinge loss."""
        if problem.loss != "hinge":
            return "the paper's formulation is about the hinge loss; use engine='auto'"
        return None

    def predictor(self, problem: Problem) -> Predictor:
        """Retraining: the paper has no shortcut where scores are linear."""
        return predictor_for(problem, linear=False)

    def _radii(self, searching: Searching, formulation: Formulation, pool: ThreadPoolExecutor) -> None:
        searching.sweep(formulation.paper_step, pool)

    def _curve(self, formulation: Formulation) -> Curve:
        return formulation.paper_curve
