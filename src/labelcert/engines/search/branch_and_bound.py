"""Certificates by branch and bound, with proofs of our own.

A relaxation with rigorous bounds prunes, retraining settles the leaves, and a linear-programming solver only suggests
multipliers. The relaxation is about the hinge loss; with other losses, the engine enumerates what is small and looks
for attacks.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from labelcert.engines.base import Capabilities, Findings, PlainEngine, Question, Work
from labelcert.engines.closed_form import ClosedForm
from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.search import branching, highs
from labelcert.engines.search.rivals import Rivals
from labelcert.engines.search.searching import LARGEST_PROGRAM, Searching
from labelcert.prediction import Predictor, predictor_for
from labelcert.problem import Problem


class BranchAndBound(PlainEngine):
    """The relaxation prunes, retraining settles the leaves."""

    name = "milp"
    capabilities = Capabilities(
        continues=2, searches=True, coupled=False, proved_losses=("hinge",), most_labels=LARGEST_PROGRAM
    )

    def predictor(self, problem: Problem) -> Predictor:
        """Retraining, or linear maps where that is proved to be the same."""
        return predictor_for(problem, linear=problem.is_linear())

    def estimate(self, question: Question, control: Control) -> Work:
        """Nobody knows how long a search takes."""
        return Work("a search, of unknown length")

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Radii budget by budget, then the curve budget by budget."""
        if question.predictor.linear:
            return ClosedForm().run(question, control, known)
        known = self._small_budgets(question, control, known)
        with ThreadPoolExecutor(control.workers) as pool:
            searching = Searching(question, control, known)
            rivals = Rivals(searching, pool)
            if question.nodes.size:
                searching.attack()
                if searching.proves:
                    searching.sweep(rivals.step, pool)
                    if control.collective:
                        searching.sweep_curve(rivals.most_changed)
        return searching.findings({"solver": f"highs {highs.version()}", **rivals.statistics()})

    def _small_budgets(self, question: Question, control: Control, known: Findings) -> Findings:
        """Enumerate the budgets at which all attacks together are no more than a leaf, unless these are settled."""
        a = question.problem.adversary
        attacks = a.count_by_budget(question.budget, a.targets.sum(axis=1))
        reach = int(np.searchsorted(attacks, branching.leaf_size(question.problem), side="right")) - 1
        radii = np.all((known.radius_lower > reach) | (known.radius_lower == known.radius_upper))
        if radii and np.array_equal(known.curve_lower[: reach + 1], known.curve_upper[: reach + 1]):
            return known
        part = replace(question, problem=replace(question.problem, max_flips=max(0, reach)))
        return known.refined(Enumerate().run(part, control, known), self.name)
