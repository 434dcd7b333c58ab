"""Certificates by mixed-integer programming: the paper's formulation, and a compact one with proved ranges.

What a solver says is a suggestion. A node is *vulnerable* where the labelling in the solver's solution, retrained with
a rigorous error bound, changes its prediction. It is *robust* where the relaxation proves it (no solver's word is
needed there), or where the solver's bound exceeds a margin that covers its tolerances and does not contradict any
score that retraining attains. Everything else stays an open interval.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from labelcert.engines.base import Control, Findings, Question, Work, within_reach
from labelcert.engines.closed_form import greedy_attacks, linear_radii
from labelcert.engines.counting import linear_errors
from labelcert.engines.enumerate import Enumerate
from labelcert.milp import relaxation
from labelcert.milp.judging import OPEN, ROBUST, VULNERABLE, Count, Judge, Sign, Step, Verdict
from labelcert.milp.programs import Program, compact_program, linear_program, paper_program
from labelcert.milp.relaxation import FLIPPED, Multipliers, Ranges
from labelcert.milp.solvers import get_solver
from labelcert.problem import Problem
from labelcert.svm.scoring import HingeScorer, LinearScorer, Scorer, always_at_cap

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]

_ROUNDS_PER_NODE = 3

LEAF_SETS = 300_000
"""``engine="auto"`` retrains all attacks that the relaxation leaves for a node, where they are at most so many."""

_NO_FLIPS: Int = np.zeros(0, dtype=np.int64)


class Milp:
    """The compact formulation, or the paper's.

    Parameters
    ----------
    name : str
    faithful : bool
        The paper's formulation, as it stands.
    leaf_sets : int
        Retrain all attacks that the relaxation leaves, where they are at most so many; 0: leave them to the solver.
    """

    def __init__(self, name: str, *, faithful: bool = False, leaf_sets: int = 0) -> None:
        self.name = name
        self._faithful = faithful
        self._leaf_sets = leaf_sets

    def refuses(self, problem: Problem) -> str | None:
        """The paper's formulation knows only the hinge loss."""
        if self._faithful and problem.loss != "hinge":
            return "the paper's formulation is about the hinge loss; use engine='auto'"
        return None

    def scorer(self, problem: Problem) -> Scorer:
        """Retraining, or one linear map where that is proved to be the same."""
        return LinearScorer(problem) if self._linear(problem) else HingeScorer(problem)

    def estimate(self, question: Question, control: Control) -> Work:
        """Nobody knows how long a search takes; a solver that cannot be used is told now."""
        get_solver(control.solver)
        return Work("a search, of unknown length")

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Radii budget by budget, then the curve budget by budget."""
        search = NodeSearch(question, control, known, Judge(get_solver(control.solver), control))
        with ThreadPoolExecutor(control.workers) as pool:
            if isinstance(question.scorer, LinearScorer):
                search.sort()
            elif self._faithful:
                search.sweep(_faithful_step(search), pool)
            else:
                search.attack()
                search.sweep(_compact_step(search, self._leaf_sets, pool), pool)
            if control.collective:
                search.sweep_curve(self._collective(search, pool))
        return search.findings()

    def curve_alone(self, question: Question, control: Control, known: Findings) -> Findings:
        """The curve from what is known about radii, without improving these first."""
        search = NodeSearch(question, control, known, Judge(get_solver(control.solver), control))
        with ThreadPoolExecutor(control.workers) as pool:
            search.sweep_curve(self._collective(search, pool))
        return search.findings()

    def _linear(self, problem: Problem) -> bool:
        return problem.loss == "square" or (not self._faithful and always_at_cap(problem))

    def _collective(self, search: NodeSearch, pool: ThreadPoolExecutor) -> Callable[[int, Int], Program]:
        question = search.question
        problem = question.problem

        def build(budget: int, nodes: Int) -> Program:
            rows = question.scores[:, nodes]
            if isinstance(question.scorer, LinearScorer):
                return linear_program(problem, budget, rows, linear_errors(question)[nodes])
            if self._faithful:
                return paper_program(problem, budget, rows)
            ranges = search.ranges(budget, pool)
            tops = relaxation.highest_scores(problem, ranges, rows)
            return compact_program(problem, ranges, (rows, tops))

        return build


@dataclass(eq=False)
class NodeSearch:
    """The state of one run."""

    question: Question
    control: Control
    known: Findings
    judge: Judge

    def __post_init__(self) -> None:
        self.started = time.perf_counter()
        self.lower, self.upper = self.known.radius_lower.copy(), self.known.radius_upper.copy()
        self.sets = list(self.known.radius_sets)
        self.curve_lower, self.curve_upper = self.known.curve_lower.copy(), self.known.curve_upper.copy()
        self.curve_sets = list(self.known.curve_sets)
        self.proved_by_relaxation = 0
        self._ranges: dict[int, Ranges] = {}
        self._multipliers: Multipliers | None = None
        self._range_seconds = 0.0
        self._paths: dict[int, list[Int]] = {}
        self._by_solver: set[int] = set()

    # -- sample-wise -------------------------------------------------------------------------------------------------

    def sort(self) -> None:
        """Radii where scores are linear."""
        self.lower, self.upper, self.sets = linear_radii(self.question)

    def attack(self) -> None:
        """Greedy attacks on every open node: upper bounds that cost little, and starts for the search."""
        retrained = _Retrained(self.question)
        for t in np.flatnonzero(self.lower < self.upper).tolist():
            if self.control.over():
                return
            self._paths[t] = retrained.greedy(t)
        for attack in retrained.successes():
            self._witness(attack, self.question.changed(attack)[0])

    def best_known_attack(self, t: int, allowed: Int, budget: int) -> Int:
        """The greedy attack of a node as far as the budget and the allowed labels go."""
        best = _NO_FLIPS
        for attack in self._paths.get(t, []):
            if not np.isin(attack, allowed).all() or not self.question.problem.adversary.affords(attack, budget):
                break
            best = attack
        return best

    def sweep(self, step: Step[Int], pool: ThreadPoolExecutor) -> None:
        """Decide all open nodes at every budget, from small to large."""
        problem = self.question.problem
        self.judge.sweep(self.lower, self.upper, problem, step, self._apply, pool)

    def _apply(self, t: int, b: int, verdict: Verdict[Int]) -> None:
        if verdict.kind == ROBUST:
            self.lower[t] = b + 1
            self.proved_by_relaxation += verdict.by_relaxation
            if not verdict.proved:
                self._by_solver.add(t)
        elif verdict.kind == VULNERABLE and verdict.attack is not None:
            self._witness(verdict.attack, self.question.changed(verdict.attack)[0])

    def _witness(self, attack: Int, changed: npt.NDArray[np.bool_]) -> None:
        """A retrained attack improves every radius and count that it can."""
        cost = int(self.question.problem.adversary.costs[attack].sum())
        for t in np.flatnonzero(changed & (cost < self.upper)).tolist():
            self.upper[t], self.sets[t] = cost, attack
        count = int(changed.sum())
        for b in range(cost, self.curve_lower.size):
            if count <= self.curve_lower[b]:
                break
            self.curve_lower[b], self.curve_sets[b] = count, attack

    def ranges(self, budget: int, pool: ThreadPoolExecutor | None = None) -> Ranges:
        """Proved ranges for a budget, computed once."""
        if budget not in self._ranges:
            began = time.perf_counter()
            self.control.note(f"budget {budget}: tightening ranges")
            self._ranges[budget], self._multipliers = relaxation.proved_ranges(
                self.question.problem, budget, known=self._multipliers, pool=pool, over=self.control.over
            )
            self._range_seconds += time.perf_counter() - began
        return self._ranges[budget]

    # -- the solver --------------------------------------------------------------------------------------------------

    def solve_node(
        self, program: Program, t: int, budget: int, deadline: float, start: Int | None = None
    ) -> Verdict[Int]:
        """One node at one budget: the sign of its least score."""
        question = self.question
        cost = program.score_cost(question.scores[:, t])

        def retrain(attack: Int) -> tuple[bool, bool, float]:
            changed, unchanged = question.scorer.changed(question.flip(attack), question.nodes[[t]])
            return bool(changed[0]), bool(unchanged[0]), self._attained(t, attack) / program.unit

        sign = Sign(
            model=program.model,
            cost=cost,
            margin=program.margin(cost),
            read=self._reader(program, budget),
            retrain=retrain,
            without=program.without,
            same=np.array_equal,
            known=[_NO_FLIPS] if start is None else [_NO_FLIPS, start],
            start=None if start is None else program.point(question.flip(start)),
        )
        return Verdict(*self.judge.decide(sign, budget, int(question.nodes[t]), deadline))

    def _attained(self, t: int, attack: Int) -> float:
        """The signed score of a node after an attack, in float64."""
        question = self.question
        node = question.nodes[[t]]
        p, _ = question.scorer.approximate(question.flip(attack), node)
        return float(p[0]) * float(question.scorer.clean[node[0]])

    def _reader(self, program: Program, budget: int) -> Callable[[Float], Int | None]:
        """Reads the attack from a point, if the adversary can pay for it."""

        def read(x: Float) -> Int | None:
            attack = program.attack(x)
            return attack if self.question.problem.adversary.affords(attack, budget) else None

        return read

    # -- collective --------------------------------------------------------------------------------------------------

    def sweep_curve(self, build: Callable[[int, Int], Program]) -> None:
        """Close the curve budget by budget."""
        question = self.question
        budget = question.problem.max_flips
        self.curve_upper = np.minimum(self.curve_upper, within_reach(self.lower, budget))
        for attack in [s for s in self.sets if s is not None] + (
            greedy_attacks(question) if isinstance(question.scorer, LinearScorer) else []
        ):
            self._witness(attack, question.changed(attack)[0])
        for b in range(1, budget + 1):
            if self.curve_lower[b] >= self.curve_upper[b]:
                continue
            if self.control.over():
                break
            self.control.note(f"budget {b}: collective, between {self.curve_lower[b]} and {self.curve_upper[b]}")
            self._solve_curve(build, b)
            self.control.report(b, budget)
        self.curve_upper = np.minimum.accumulate(self.curve_upper[::-1])[::-1]

    def _solve_curve(self, build: Callable[[int, Int], Program], b: int) -> None:
        question = self.question
        nodes = np.flatnonzero(self.lower <= b).astype(np.int64)
        program = build(b, nodes)

        def retrain(attack: Int) -> tuple[int, bool]:
            changed, unchanged = question.changed(attack)
            self._witness(attack, changed)
            return int(changed.sum()), bool((changed | unchanged).all())

        count = Count(
            model=program.model,
            read=self._reader(program, b),
            retrain=retrain,
            without=program.without,
            same=np.array_equal,
            start=lambda: program.point(question.flip(self.curve_sets[b])),
        )
        known = int(self.curve_lower[b]), int(self.curve_upper[b])
        self.curve_upper[b] = self.judge.most(count, b, known)[1]

    # -- result ------------------------------------------------------------------------------------------------------

    def findings(self) -> Findings:
        """Everything proved, with the solver's answers."""
        if np.any(self.lower > self.upper) or np.any(self.curve_lower > self.curve_upper):
            # A retrained attack contradicts the solver: then none of its verdicts is worth anything.
            self.judge.complain(f"{self.judge.solver.name} is contradicted by a retrained attack")
            doubted = sorted(self._by_solver)
            self.lower[doubted] = self.known.radius_lower[doubted]
            self.curve_upper = np.minimum(self.known.curve_upper, within_reach(self.lower, self.curve_upper.size - 1))
        self.judge.warn()
        statistics = {
            **self.judge.statistics(),
            "proved_by_relaxation": self.proved_by_relaxation,
            "seconds_for_ranges": self._range_seconds,
            "mean_range": {str(b): r.width for b, r in self._ranges.items()},
            "seconds": time.perf_counter() - self.started,
        }
        return Findings(
            radius_lower=self.lower,
            radius_upper=self.upper,
            radius_sets=self.sets,
            curve_lower=self.curve_lower,
            curve_upper=self.curve_upper,
            curve_sets=self.curve_sets,
            statistics=statistics,
        )


def _faithful_step(search: NodeSearch) -> Step[Int]:
    """The paper's program, once per budget; the objective alone depends on the node."""

    def step(budget: int) -> Callable[[int], Verdict[Int]]:
        program = paper_program(search.question.problem, budget)

        def decide(t: int) -> Verdict[Int]:
            if search.control.over():
                return Verdict(OPEN)
            return search.solve_node(program, t, budget, search.judge.deadline())

        return decide

    return step


def _compact_step(search: NodeSearch, leaf_sets: int, pool: ThreadPoolExecutor) -> Step[Int]:
    """Ranges for the budget, then for each node: the relaxation, what it leaves, and at last the solver."""

    def step(budget: int) -> Callable[[int], Verdict[Int]]:
        question = search.question
        problem = replace(question.problem, max_flips=budget)
        ranges = search.ranges(budget, pool)

        def decide(t: int) -> Verdict[Int]:
            deadline = search.judge.deadline()

            def over() -> bool:
                return search.control.over() or time.monotonic() > deadline

            if over():
                return Verdict(OPEN)
            left = relaxation.narrow(problem, ranges, question.scores[:, t], over=over)
            if left.empty:
                return Verdict(ROBUST, by_relaxation=True, proved=True)
            if over():
                return Verdict(OPEN)
            kept = np.flatnonzero(left.possible[problem.adversary.labels, FLIPPED]).astype(np.int64)
            only = problem.adversary.only(kept)
            if only.count_sets(budget) <= leaf_sets:
                return _retrain_all(search, replace(problem, adversary=only), kept, t, deadline)
            # The ranges of attacks that flip nothing else hold for unsuccessful ones, too: the program stays feasible.
            narrower = ranges.without_flips(np.setdiff1d(problem.adversary.labels, only.labels))
            for _ in range(_ROUNDS_PER_NODE):
                narrower, _ = relaxation.tighten(problem, narrower, over=over)
            start = search.best_known_attack(t, kept, budget)
            return search.solve_node(compact_program(problem, narrower), t, budget, deadline, start)

        return decide

    return step


def _retrain_all(search: NodeSearch, restricted: Problem, kept: Int, t: int, deadline: float) -> Verdict[Int]:
    """All attacks that are left for a node."""
    question = search.question
    part = Question(restricted, question.scorer, question.nodes[[t]], np.ascontiguousarray(question.scores[:, [t]]))
    control = Control(workers=1, deadline=deadline)
    found = Enumerate().run(part, control, Findings.nothing(part))
    if found.radius_sets[0] is not None and found.radius_upper[0] <= restricted.max_flips:
        return Verdict(VULNERABLE, kept[found.radius_sets[0]])
    return Verdict(ROBUST if found.radius_lower[0] > restricted.max_flips else OPEN, proved=True)


class _Retrained:
    """Scores of all nodes under every labelling tried so far."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._signs = question.scorer.clean[question.nodes]
        self._scores: dict[tuple[int, ...], Float] = {}

    def scores(self, attack: tuple[int, ...]) -> Float:
        """(n,) signed scores."""
        if attack not in self._scores:
            y = self._question.flip(np.array(attack, dtype=np.int64))
            self._scores[attack] = self._question.scorer.approximate(y)[0][self._question.nodes] * self._signs
        return self._scores[attack]

    def greedy(self, t: int) -> list[Int]:
        """Flip, step by step, what lowers the score of one node the most per unit of cost."""
        problem = self._question.problem
        a = problem.adversary
        attack: tuple[int, ...] = ()
        path = []
        for _ in range(a.most_flips(problem.max_flips)):
            here = float(self.scores(attack)[t])
            options = []
            for i in set(range(a.labels.size)).difference(attack):
                longer = tuple(sorted((*attack, i)))
                if a.affords(np.array(longer, dtype=np.int64), problem.max_flips):
                    options.append(((float(self.scores(longer)[t]) - here) / float(a.costs[i]), longer))
            if not options:
                break
            attack = min(options)[1]
            path.append(np.array(attack, dtype=np.int64))
            if self.scores(attack)[t] < 0:
                break
        return path

    def successes(self) -> list[Int]:
        """Attacks that change some node more cheaply, or more nodes at once, than the others tried."""
        costs = self._question.problem.adversary.costs
        cheapest: dict[int, tuple[int, tuple[int, ...]]] = {}
        most: dict[int, tuple[int, tuple[int, ...]]] = {}
        for attack, scores in self._scores.items():
            cost = int(costs[list(attack)].sum())
            hit = np.flatnonzero(scores < 0)
            for t in hit.tolist():
                cheapest[t] = min(cheapest.get(t, (cost, attack)), (cost, attack))
            most[cost] = max(most.get(cost, (0, attack)), (int(hit.size), attack))
        found = {attack for _, attack in (*cheapest.values(), *most.values())}
        return [np.array(attack, dtype=np.int64) for attack in sorted(found)]
