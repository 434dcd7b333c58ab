"""What a solver's answer is worth: the same rules for every program.

An answer is a suggestion. *Vulnerable* needs an attack that retraining confirms. *Robust* needs a bound beyond a margin
that covers the solver's tolerances and that no retrained attack contradicts; even then it is the solver's claim, and no
proof. Everything else is *open*.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labelcert.arrays import Float
from labelcert.certificate import Verdict
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.errors import MilpWarning
from labelcert.paper.milp.label_programs import LabelProgram
from labelcert.paper.milp.solvers import Answer, Ending, Limits, Solver
from labelcert.paper.milp.solvers.session import TOLERANCE
from labelcert.problem import NOTHING, Relabelling

MAX_EXCLUDED = 20
"""Labellings with a score within the margin that are excluded one by one before a node is left open."""

MAX_RECORDS = 5_000
"""Answers of the solver that are kept in the certificate."""


@dataclass(eq=False)
class SolverJudge:
    """Asks a solver, records its answers, and drops what cannot be believed."""

    solver: Solver
    control: Control
    records: list[dict[str, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def limits(self, deadline: float, what: str, *, stop_below: float = -np.inf, stop_above: float = np.inf) -> Limits:
        """Limits of one solve, and what to show meanwhile."""
        shown = 0.0

        def report(incumbent: float, bound: float) -> None:
            nonlocal shown
            if time.monotonic() > shown + 0.5:
                shown = time.monotonic()
                self.control.note(f"{what}: incumbent {incumbent:.3g}, bound {bound:.3g}")

        return Limits(
            seconds=max(0.0, deadline - time.monotonic()),
            stop_below=stop_below,
            stop_above=stop_above,
            cancelled=self.control.over,
            report=report,
        )

    def decide(
        self,
        program: LabelProgram,
        cost: Float,
        retrain: Callable[[Relabelling], tuple[bool, bool, float]],
        question: Question,
        node: int,
        deadline: float,
    ) -> tuple[Verdict, Relabelling | None]:
        """Whether a node can be changed within the budget of a question: whether its least margin is positive.

        The (N,) cost is the node's margin, which is minimised. ``retrain`` says whether a relabelling provably changes
        the node, whether it provably does not, and the value that it attains in the program. A solution whose labelling
        retrains to a score within the margin, but on the right side, is excluded and the search goes on: near-ties are
        decided by retraining, not by tolerance.
        """
        margin = program.margin(cost)
        # The clean labels are feasible: no bound may exceed what they attain.
        attained = [(NOTHING, retrain(NOTHING)[2])]

        def limits() -> Limits:
            what = f"budget {question.budget}, node {node}"
            return self.limits(deadline, what, stop_below=-margin, stop_above=margin)

        with closing(self.answers(program, cost, limits, question, node)) as answers:
            for answer, change, excluded in answers:
                unchanged = False
                if change is not None:
                    changed, unchanged, value = retrain(change)
                    if changed:
                        return Verdict.VULNERABLE, change
                    attained.append((change, value))
                left = [value for other, value in attained if other not in excluded]
                if not self.believable(answer, min(left, default=np.inf) + margin, question.budget, node):
                    break
                if answer.bound >= margin:
                    # A bound that nothing can be held against is no proof.
                    return (Verdict.ROBUST if left else Verdict.UNKNOWN), None
                if not unchanged:
                    break
        return Verdict.UNKNOWN, None

    def most(
        self,
        program: LabelProgram,
        retrain: Callable[[Relabelling], tuple[int, bool]],
        question: Question,
        known: tuple[int, int],
        deadline: float,
    ) -> tuple[int, int]:
        """The interval of how many nodes one attack within a budget changes, from the one that is known.

        The program minimises minus that number. ``retrain`` says how many nodes a relabelling provably changes, and
        whether that is decided for all nodes.
        """
        lower, upper = known
        if lower >= upper:
            return known

        def limits() -> Limits:
            return self.limits(deadline, f"budget {question.budget}, collective", stop_above=-lower - 0.5)

        with closing(self.answers(program, program.model.cost, limits, question, None)) as answers:
            for answer, change, excluded in answers:
                decided = False
                if change is not None:
                    changed, decided = retrain(change)
                    lower = max(lower, changed)
                if not self.believable(answer, (0 if excluded else -lower) + 1e-6, question.budget, None):
                    break
                if np.isfinite(answer.bound):
                    upper = min(upper, max(int(np.floor(-answer.bound + 1e-6)), lower))
                if not decided or lower >= upper:
                    break
        return lower, upper

    def answers(
        self, program: LabelProgram, cost: Float, limits: Callable[[], Limits], question: Question, node: int | None
    ) -> Generator[tuple[Answer, Relabelling | None, list[Relabelling]], None, None]:
        """The solver's answers, each with its relabelling and with those that were excluded before it.

        Whoever goes on has a finished answer's relabelling excluded from the next one.
        """
        budget = question.budget
        if not program.model.resolvable(TOLERANCE):
            self.complain("the program's numbers are too large for a solver's tolerance", budget, node)
            return
        session, excluded = self.solver.open(program.model, 1), list[Relabelling]()
        try:
            while True:
                answer = session.solve(cost, limits(), [program.without(change) for change in excluded])
                self.record(answer, budget, node)
                change = self.read(program, answer, question, node)
                yield answer, change, excluded
                finished = answer.status in (Ending.OPTIMAL, Ending.DECIDED)
                if not finished or change is None or len(excluded) >= MAX_EXCLUDED:
                    return
                if change in excluded:
                    self.complain(f"{self.solver.name} returned a labelling that had been excluded", budget, node)
                    return
                excluded.append(change)
        finally:
            session.close()

    def read(
        self, program: LabelProgram, answer: Answer, question: Question, node: int | None = None
    ) -> Relabelling | None:
        """The relabelling in a solution, if it is an admissible one."""
        if answer.x is None or not np.all(np.isfinite(answer.x)):
            return None  # said where the answer is judged
        change = program.change(answer.x)
        if question.problem.adversary.admits(change, question.budget):
            return change
        self.complain(f"{self.solver.name} returned an attack beyond the budget", question.budget, node)
        return None

    def believable(self, answer: Answer, attained: float, budget: int, node: int | None) -> bool:
        """Whether an answer can be true: the clean labels are feasible, and no bound exceeds what is attained."""
        if answer.status in (Ending.INFEASIBLE, Ending.FAILED):
            self.complain(f"{self.solver.name} ended with {answer.detail!r}", budget, node)
            return False
        if answer.x is not None and not np.all(np.isfinite(answer.x)):
            self.complain(f"{self.solver.name} returned a solution that is not finite", budget, node)
            return False
        if not answer.bound <= attained:
            claim = f"the bound {answer.bound:.3g}, but retraining attains {attained:.3g}"
            self.complain(f"{self.solver.name} claims {claim}", budget, node)
            return False
        return True

    def complain(self, what: str, budget: int | None = None, node: int | None = None) -> None:
        """Note an answer that is not believed."""
        where = ", ".join(f"{k} {v}" for k, v in (("budget", budget), ("node", node)) if v is not None)
        self.complaints.append(f"{what}{f' ({where})' if where else ''}; the interval stays open")

    def record(self, answer: Answer, budget: int, node: int | None) -> None:
        """Keep what the solver said."""
        if len(self.records) >= MAX_RECORDS:
            return
        ends = {"objective": _plain(answer.objective), "bound": _plain(answer.bound)}
        work = {"tree_nodes": answer.tree_nodes, "seconds": answer.seconds}
        self.records.append({"budget": budget, "node": node, "status": answer.status.value, **ends, **work})

    def warn(self) -> None:
        """Tell the user about answers that were not believed."""
        for complaint in self.complaints[:5]:
            warnings.warn(complaint, MilpWarning, stacklevel=3)
        if len(self.complaints) > 5:
            warnings.warn(f"and {len(self.complaints) - 5} answers more of that kind", MilpWarning, stacklevel=3)

    def statistics(self) -> dict[str, Any]:
        """Plain numbers about the solver's answers."""
        solver = f"{self.solver.name} {self.solver.version()}"
        return {"solver": solver, "solves": self.records, "not_believed": self.complaints}


def _plain(value: float) -> float | None:
    """A number that JSON knows."""
    return value if np.isfinite(value) else None
