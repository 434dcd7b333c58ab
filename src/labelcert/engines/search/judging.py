"""What a solver's answer is worth: the same rules for every program.

An answer is a suggestion. *Vulnerable* needs an attack that retraining confirms. *Robust* needs a bound beyond a margin
that covers the solver's tolerances and that no retrained attack contradicts; even then it is the solver's claim, and no
proof. Everything else is *open*.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.certificate import Verdict
from labelcert.certificate.proofs import Tree
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.engines.search.mixed_integer import MixedInteger
from labelcert.engines.search.programs import Program
from labelcert.engines.search.solvers import Answer, Limits, Solver, Status
from labelcert.engines.search.solvers.base import TOLERANCE
from labelcert.problem import Relabelling

MAX_EXCLUDED = 20
"""So many labellings with a score within the margin are excluded one by one before a node is left open."""

MAX_RECORDS = 5_000
"""So many answers of the solver are kept in the certificate."""


class MilpWarning(RuntimeWarning):
    """A solver's answer was not believed."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """What was found out about one node at one budget.

    Attributes
    ----------
    verdict : Verdict
    change : Relabelling, optional
        Behind ``VULNERABLE``.
    by_relaxation : bool
        Proved robust by the relaxation.
    proved : bool
        Nothing rests on the solver's bound.
    proof : Tree, optional
        Behind ``ROBUST``, where it is ours and about one rival.
    """

    verdict: Verdict
    change: Relabelling | None = None
    by_relaxation: bool = False
    proved: bool = False
    proof: Tree | None = None


UNDECIDED = Judgement(Verdict.UNKNOWN)

NOTHING_TO_BUY = Judgement(Verdict.ROBUST, proved=True)
"""At a budget that no attack costs: a smaller one decides."""

Decide = Callable[[int], Judgement]
"""Decides one node, at a budget that is fixed before."""


@dataclass(frozen=True, eq=False)
class SignQuestion:
    """The question whether a program's least value, the margin of one node, is positive.

    Attributes
    ----------
    program : Program
    cost : (N,) array
        What is minimised.
    retrain : callable
        Whether a relabelling provably changes the node, whether it provably does not, and the value that it attains in
        the program.
    known : list of relabellings
        Feasible in the program, the clean labels among them: no bound may exceed what they attain.
    """

    program: Program
    cost: Float
    retrain: Callable[[Relabelling], tuple[bool, bool, float]]
    known: list[Relabelling]


@dataclass(frozen=True, eq=False)
class CountQuestion:
    """The question how many nodes one attack changes at the most; a program that minimises minus that number.

    Attributes
    ----------
    program : Program
    retrain : callable
        How many nodes a relabelling provably changes, and whether that is decided for all nodes.
    """

    program: Program
    retrain: Callable[[Relabelling], tuple[int, bool]]


@dataclass(eq=False)
class Judge:
    """Asks a solver, records its answers, and drops what cannot be believed."""

    solver: Solver
    control: Control
    records: list[dict[str, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def deadline(self) -> float:
        """When work on one node has to end."""
        ends = [self.control.deadline if self.control.deadline is not None else np.inf]
        if self.control.node_time_limit is not None:
            ends.append(time.monotonic() + self.control.node_time_limit)
        return float(min(ends))

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

    def sweep(
        self,
        question: Question,
        lower: Int,
        upper: Int,
        step: Callable[[int], Decide],
        apply: Callable[[int, int, Judgement], None],
        pool: Executor,
    ) -> None:
        """Decide all open nodes at every budget, from small to large; ``apply`` enters judgements into the bounds.

        A node that stays open at one budget is not asked about larger ones.
        """
        most = question.budget
        payable = question.problem.adversary.payable(most)
        for b in range(int(lower.min(initial=most + 1)), most + 1):
            open_ = np.flatnonzero((lower == b) & (upper > b))
            if open_.size == 0:
                continue
            if not payable[b]:
                for t in open_.tolist():
                    apply(t, b, NOTHING_TO_BUY)
                continue
            if self.control.over():
                return
            decide = step(b)
            for done, (t, found) in enumerate(zip(open_.tolist(), pool.map(decide, open_.tolist()), strict=True)):
                apply(t, b, found)
                self.control.note(f"budget {b}: {done + 1} of {open_.size} open nodes")
                if self.control.deadline is None:
                    self.control.report(b - 1 + (done + 1) / open_.size, most)

    def decide(
        self, asked: SignQuestion, question: Question, node: int, deadline: float, **about: Any
    ) -> tuple[Verdict, Relabelling | None]:
        """Whether a node can be changed within the budget of a question.

        A solution whose labelling retrains to a score within the margin, but on the right side, is excluded and the
        search goes on: near-ties are decided by retraining, not by tolerance.
        """
        program, budget = asked.program, question.budget
        margin = program.margin(asked.cost)
        if not self.askable(program.model, budget, node):
            return Verdict.UNKNOWN, None
        attained = [(change, asked.retrain(change)[2]) for change in asked.known]
        session = self.solver.open(program.model, 1)
        excluded: list[Relabelling] = []
        try:
            while True:
                limits = self.limits(deadline, f"budget {budget}, node {node}", stop_below=-margin, stop_above=margin)
                answer = session.solve(asked.cost, limits, [program.without(change) for change in excluded])
                self.record(answer, budget, node, **about)
                change, unchanged = self.read(program, answer, question, node), False
                if change is not None:
                    changed, unchanged, value = asked.retrain(change)
                    if changed:
                        return Verdict.VULNERABLE, change
                    attained.append((change, value))
                left = [value for other, value in attained if other not in excluded]
                if not self.believable(answer, min(left, default=np.inf) + margin, budget, node):
                    return Verdict.UNKNOWN, None
                if answer.bound >= margin:
                    # A bound that nothing can be held against is no proof.
                    return (Verdict.ROBUST if left else Verdict.UNKNOWN), None
                finished = answer.status in (Status.OPTIMAL, Status.DECIDED)
                if not finished or change is None or not unchanged or len(excluded) >= MAX_EXCLUDED:
                    return Verdict.UNKNOWN, None
                if change in excluded:
                    self.complain(f"{self.solver.name} returned a labelling that had been excluded", budget, node)
                    return Verdict.UNKNOWN, None
                excluded.append(change)
        finally:
            session.close()

    def most(self, asked: CountQuestion, question: Question, known: tuple[int, int]) -> tuple[int, int]:
        """The interval of a count within the budget of a question, from the one that is known."""
        program, budget = asked.program, question.budget
        lower, upper = known
        if not self.askable(program.model, budget):
            return known
        deadline = self.deadline()
        session = self.solver.open(program.model, 1)
        excluded: list[Relabelling] = []
        try:
            while lower < upper:
                limits = self.limits(deadline, f"budget {budget}, collective", stop_above=-lower - 0.5)
                rows = [program.without(change) for change in excluded]
                answer = session.solve(program.model.cost, limits, rows)
                self.record(answer, budget, None)
                change, decided = self.read(program, answer, question), False
                if change is not None:
                    changed, decided = asked.retrain(change)
                    lower = max(lower, changed)
                if not self.believable(answer, (0 if excluded else -lower) + 1e-6, budget, None):
                    break
                if np.isfinite(answer.bound):
                    upper = min(upper, max(int(np.floor(-answer.bound + 1e-6)), lower))
                finished = answer.status in (Status.OPTIMAL, Status.DECIDED)
                if not finished or change is None or not decided or len(excluded) >= MAX_EXCLUDED or change in excluded:
                    break
                excluded.append(change)
        finally:
            session.close()
        return lower, upper

    def read(self, program: Program, answer: Answer, question: Question, node: int | None = None) -> Relabelling | None:
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
        if answer.status in (Status.INFEASIBLE, Status.FAILED):
            self.complain(f"{self.solver.name} ended with {answer.detail!r}", budget, node)
            return False
        if answer.x is not None and not np.all(np.isfinite(answer.x)):
            self.complain(f"{self.solver.name} returned a solution that is not finite", budget, node)
            return False
        if not answer.bound <= attained:
            self.complain(
                f"{self.solver.name} claims the bound {answer.bound:.3g}, but retraining attains {attained:.3g}",
                budget,
                node,
            )
            return False
        return True

    def complain(self, what: str, budget: int | None = None, node: int | None = None) -> None:
        """Note an answer that is not believed."""
        where = ", ".join(f"{k} {v}" for k, v in (("budget", budget), ("node", node)) if v is not None)
        self.complaints.append(f"{what}{f' ({where})' if where else ''}; the interval stays open")

    def askable(self, model: MixedInteger, budget: int, node: int | None = None) -> bool:
        """Whether a solver can be believed about a program at all."""
        if model.resolvable(TOLERANCE):
            return True
        self.complain("the program's numbers are too large for a solver's tolerance", budget, node)
        return False

    def record(self, answer: Answer, budget: int, node: int | None, **about: Any) -> None:
        """Keep what the solver said."""
        if len(self.records) >= MAX_RECORDS:
            return
        self.records.append(
            {
                "budget": budget,
                "node": node,
                **about,
                "status": answer.status.value,
                "objective": _plain(answer.objective),
                "bound": _plain(answer.bound),
                "tree_nodes": answer.tree_nodes,
                "seconds": answer.seconds,
            }
        )

    def warn(self) -> None:
        """Tell the user about answers that were not believed."""
        for complaint in self.complaints[:5]:
            warnings.warn(complaint, MilpWarning, stacklevel=3)
        if len(self.complaints) > 5:
            warnings.warn(f"and {len(self.complaints) - 5} answers more of that kind", MilpWarning, stacklevel=3)

    def statistics(self) -> dict[str, Any]:
        """Plain numbers about the solver's answers."""
        return {
            "solver": f"{self.solver.name} {self.solver.version()}",
            "solves": self.records,
            "not_believed": self.complaints,
        }


def _plain(value: float) -> float | None:
    """A number that JSON knows."""
    return value if np.isfinite(value) else None
