"""Mixed-integer programs for more than two classes: the paper's theorem, and a compact program per pair of classes.

Answers are judged as with two classes (:mod:`labelcert.milp.judging`). A node is *robust* at a budget where every rival
is excluded: by the relaxation, whose bounds are proved here, or by the solver's bound beyond its margin. It is
*vulnerable* where a retrained relabelling changes it. Everything else stays an open interval.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from labelcert.engines.base import Control, Work, within_reach
from labelcert.milp import relaxation
from labelcert.milp.classes import ClassProgram, collective_classes, pair_program, paper_classes
from labelcert.milp.judging import OPEN, ROBUST, VULNERABLE, Count, Judge, Sign, Step, Verdict
from labelcert.milp.pairs import Pair, least_margins, narrow_pair
from labelcert.milp.relaxation import Bounds, Multipliers, Ranges, Relaxation
from labelcert.milp.solvers import get_solver
from labelcert.multiclass.linear import greedy_changes, linear_radii, margin_errors
from labelcert.multiclass.panel import Panel
from labelcert.multiclass.question import NOTHING, Findings, Question, Relabelling, within_threat
from labelcert.multiclass.work import is_linear
from labelcert.problem import Problem

Float = npt.NDArray[np.float64]
Int = npt.NDArray[np.int64]

CURVE_ENTRIES = 2_000_000
"""Collective programs with more entries than this are not built: K models of m² entries, m for each node and rival."""

GREEDY_TRAININGS = 4_000
"""Trainings spent on one node's greedy attack."""


class ClassMilp:
    """The compact program of each pair of classes, or the paper's program of all.

    Parameters
    ----------
    name : str
    faithful : bool
        The paper's formulation, as it stands.
    """

    def __init__(self, name: str, *, faithful: bool = False) -> None:
        self.name = name
        self._faithful = faithful

    def refuses(self, problem: Problem) -> str | None:
        """The paper's formulation knows only the hinge loss."""
        if self._faithful and problem.loss != "hinge":
            return "the paper's formulation is about the hinge loss; use engine='auto'"
        return None

    def panel(self, problem: Problem) -> Panel:
        """Retraining, or linear maps where that is proved to be the same."""
        return Panel(problem, linear=not self._faithful and is_linear(problem))

    def estimate(self, question: Question, control: Control) -> Work:
        """Nobody knows how long a search takes; a solver that cannot be used is told now."""
        get_solver(control.solver)
        return Work("a search, of unknown length")

    def run(self, question: Question, control: Control) -> Findings:
        """Radii budget by budget, then the curve budget by budget (not in the paper's formulation: it has none)."""
        search = _Search(question, Judge(get_solver(control.solver), control))
        with ThreadPoolExecutor(control.workers) as pool:
            if question.nodes.size == 0:
                pass
            elif question.panel.linear:
                search.sort()
            elif self._faithful:
                search.sweep(search.faithful_step, pool)
            else:
                search.attack()
                search.sweep(lambda budget: search.compact_step(budget, pool), pool)
            if control.collective and question.nodes.size:
                search.curve(None if self._faithful else pool)
        return search.findings()


class _Class:
    """One class against the rest at one budget: ranges, and bounds on its scores of single nodes."""

    def __init__(self, part: Problem, ranges: Ranges) -> None:
        self.part, self.ranges = part, ranges
        self._relaxation = Relaxation(part, ranges)
        self._known: dict[tuple[int, int], Multipliers] = {}
        self._lock = threading.Lock()

    def multipliers(self, t: int, row: Float, sign: int) -> Multipliers:
        """For ``sign`` times the score of node ``t``."""
        with self._lock:
            if (t, sign) not in self._known:
                self._known[t, sign] = self._relaxation.suggest(sign * row, np.zeros_like(row))
            return self._known[t, sign]

    def highest(self, t: int, row: Float, sign: int) -> float:
        """Proved upper bound on ``sign`` times the score of a node, in units of the cap."""
        least = float(Bounds(self.part, self.ranges).evaluate(self.multipliers(t, row, -sign))[0])
        return min(-least, float(np.abs(row).sum()) * (1 + 1e-12))


class _Search:
    """The state of one run."""

    def __init__(self, question: Question, judge: Judge) -> None:
        self.question, self.judge, self.control = question, judge, judge.control
        self.started = time.perf_counter()
        self.problem = question.panel.problem
        self.rows = question.panel.scorer.rows[question.nodes]
        n, budget = question.nodes.size, self.problem.max_flips
        self.parts = [self.problem.one_vs_rest(c) for c in range(self.problem.n_classes)]
        self.lower = np.ones(n, dtype=np.int64)
        self.upper = np.full(n, self.problem.adversary.never, dtype=np.int64)
        self.changes: list[Relabelling | None] = [None] * n
        self.curve_lower = np.zeros(budget + 1, dtype=np.int64)
        self.curve_upper = np.full(budget + 1, n, dtype=np.int64)
        self.curve_changes = [NOTHING] * (budget + 1)
        self.excluded_to = np.zeros((n, self.problem.n_classes), dtype=np.int64)
        self.rivals_excluded = {"by_relaxation": 0, "by_pair_relaxation": 0, "by_solver": 0}
        self.proved_by_relaxation = 0
        self.range_seconds = 0.0
        self.mean_range: dict[str, float] = {}
        self._classes: dict[tuple[int, int], _Class] = {}
        self._multipliers: dict[int, Multipliers | None] = {}
        self._paths: dict[int, list[Relabelling]] = {}
        self._lock = threading.Lock()

    # -- attacks -----------------------------------------------------------------------------------------------------

    def sort(self) -> None:
        """Radii where scores are linear."""
        self.lower, self.upper, self.changes = linear_radii(self.question)

    def attack(self) -> None:
        """Greedy attacks on every node: upper bounds that cost little, and starts for the search."""
        for t in range(self.question.nodes.size):
            if self.control.over():
                return
            self._paths[t] = self._greedy(t)
            if self._paths[t]:
                self._witness(self._paths[t][-1])

    def _greedy(self, t: int) -> list[Relabelling]:
        """Step by step the move that lowers the least margin of one node the most per unit of cost."""
        panel, a, K = self.question.panel, self.problem.adversary, self.problem.n_classes
        node, own = int(self.question.nodes[t]), int(self.question.predicted[t])
        chosen: dict[int, int] = {}
        path: list[Relabelling] = []
        codes = self.problem.codes
        trainings = 0

        def score(c: int) -> float:
            return float(panel.scores(panel.labels_of(codes, c))[0][node])

        for _ in range(a.most_flips(self.problem.max_flips)):
            p = np.array([score(c) for c in range(K)])
            here = p[own] - np.delete(p, own).max()
            best: tuple[float, int, int] | None = None
            for i in set(range(a.labels.size)).difference(chosen):
                if trainings > GREEDY_TRAININGS or self.control.over():
                    return path
                source, index = int(codes[a.labels[i]]), int(a.labels[i])
                for target in np.flatnonzero(a.targets[i]).tolist():
                    if not within_threat(self.problem, _change({**chosen, i: target}), self.problem.max_flips):
                        break
                    codes[index] = target
                    after = p.copy()
                    after[source], after[target] = score(source), score(target)
                    codes[index] = source
                    trainings += 2
                    gain = (after[own] - np.delete(after, own).max() - here) / float(a.costs[i])
                    if best is None or (gain, i, target) < best:
                        best = (gain, i, target)
            if best is None:
                break
            chosen[best[1]] = best[2]
            codes[a.labels[best[1]]] = best[2]
            path.append(_change(chosen))
            p = np.array([score(c) for c in range(K)])
            if p[own] < np.delete(p, own).max():
                break
        return path

    def _start(self, t: int, pair: Pair, budget: int) -> Relabelling:
        """The greedy attack of a node as far as the budget and the moves that are left go."""
        best = NOTHING
        for change in self._paths.get(t, []):
            moves = [pair.move(int(i), int(k)) for i, k in zip(change.positions, change.targets, strict=True)]
            usable = all(o is not None and pair.left[i, o] for i, o in zip(change.positions, moves, strict=True))
            if not usable or not within_threat(self.problem, change, budget):
                break
            best = change
        return best

    def _witness(self, change: Relabelling) -> tuple[int, bool]:
        """Retrain; improve every radius and count. Returns how many nodes change, and whether all are decided."""
        with self._lock:
            changed, unchanged = self.question.changed(change)
            cost, count = self.question.cost(change), int(changed.sum())
            for t in np.flatnonzero(changed & (cost < self.upper)).tolist():
                self.upper[t], self.changes[t] = cost, change
            for b in range(cost, self.curve_lower.size):
                if count <= self.curve_lower[b]:
                    break
                self.curve_lower[b], self.curve_changes[b] = count, change
        return count, bool((changed | unchanged).all())

    # -- sample-wise -------------------------------------------------------------------------------------------------

    def sweep(self, step: Step[Relabelling], pool: ThreadPoolExecutor) -> None:
        """Decide all open nodes at every budget, from small to large."""
        self.judge.sweep(self.lower, self.upper, self.problem, step, self._apply, pool)

    def _apply(self, t: int, b: int, verdict: Verdict[Relabelling]) -> None:
        if verdict.kind == ROBUST:
            self.lower[t] = b + 1
            self.proved_by_relaxation += verdict.by_relaxation
        elif verdict.attack is not None:
            self._witness(verdict.attack)

    def faithful_step(self, budget: int) -> Callable[[int], Verdict[Relabelling]]:
        """The paper's program of each node."""

        def decide(t: int) -> Verdict[Relabelling]:
            if self.control.over():
                return Verdict(OPEN)
            deadline = self.judge.deadline()
            own = int(self.question.predicted[t])
            program = paper_classes(self.problem, budget, self.rows[t], own)
            return self._solve(program, t, [c for c in range(self.problem.n_classes) if c != own], budget, deadline)

        return decide

    def compact_step(self, budget: int, pool: ThreadPoolExecutor) -> Callable[[int], Verdict[Relabelling]]:
        """Ranges of all classes, then for each node its rivals one by one, the closest first."""
        self.prepare(budget, pool)

        def decide(t: int) -> Verdict[Relabelling]:
            deadline = self.judge.deadline()
            own = int(self.question.predicted[t])
            clean = self.question.panel.clean[:, self.question.nodes[t]]
            rivals = [c for c in np.argsort(-clean).tolist() if c != own]
            verdicts = []
            for rival in rivals:
                if self.control.over():
                    return Verdict(OPEN)
                verdicts.append(self._against(t, own, rival, budget, deadline))
                if verdicts[-1].kind == VULNERABLE:
                    return verdicts[-1]
                if verdicts[-1].kind == ROBUST:
                    self.excluded_to[t, rival] = budget
            if any(verdict.kind == OPEN for verdict in verdicts):
                return Verdict(OPEN)
            return Verdict(ROBUST, by_relaxation=all(verdict.by_relaxation for verdict in verdicts))

        return decide

    def prepare(self, budget: int, pool: ThreadPoolExecutor) -> None:
        """Proved ranges of every class for a budget, computed once for all nodes."""
        if (0, budget) in self._classes:
            return
        began = time.perf_counter()
        self.control.note(f"budget {budget}: tightening ranges")

        def one(c: int) -> tuple[Ranges, Multipliers | None]:
            return relaxation.proved_ranges(
                self.parts[c], budget, known=self._multipliers.get(c), over=self.control.over
            )

        found = list(pool.map(one, range(self.problem.n_classes)))
        for c, (ranges, known) in enumerate(found):
            self._classes[c, budget] = _Class(self.parts[c], ranges)
            self._multipliers[c] = known
        self.range_seconds += time.perf_counter() - began
        self.mean_range[str(budget)] = float(np.mean([ranges.width for ranges, _ in found]))

    def _against(self, t: int, own: int, rival: int, budget: int, deadline: float) -> Verdict[Relabelling]:
        """Whether one rival can win one node: the relaxation, then the solver."""
        mine, other = self._classes[own, budget], self._classes[rival, budget]
        row = self.rows[t]
        pair = Pair.of(self.problem, own, rival, (mine.part, other.part), (mine.ranges, other.ranges))
        bound, with_move = least_margins(pair, mine.multipliers(t, row, 1), other.multipliers(t, row, -1))
        if bound > 0.0:
            return self._excluded("by_relaxation")

        def left_seconds() -> float:
            return 0.0 if self.control.over() else deadline - time.monotonic()

        if left_seconds() <= 0.0:
            return Verdict(OPEN)
        narrowed = narrow_pair(pair.only(~(with_move > 0.0)), row, left_seconds)
        if narrowed is None:
            return self._excluded("by_pair_relaxation")
        if left_seconds() <= 0.0:
            return Verdict(OPEN)
        start = self._start(t, narrowed, budget)
        verdict = self._solve(pair_program(narrowed, row), t, [rival], budget, deadline, start)
        return self._excluded("by_solver") if verdict.kind == ROBUST else verdict

    def _excluded(self, how: str) -> Verdict[Relabelling]:
        with self._lock:
            self.rivals_excluded[how] += 1
        return Verdict(ROBUST, by_relaxation=how != "by_solver")

    def _solve(
        self,
        program: ClassProgram,
        t: int,
        rivals: list[int],
        budget: int,
        deadline: float,
        start: Relabelling = NOTHING,
    ) -> Verdict[Relabelling]:
        """Ask the solver about the least margin of a node over some rivals."""
        panel, node, own = self.question.panel, int(self.question.nodes[t]), int(self.question.predicted[t])

        def attained(change: Relabelling) -> float:
            codes = panel.relabel(change.positions, change.targets)
            p = [float(panel.scores(panel.labels_of(codes, c))[0][node]) for c in (own, *rivals)]
            return (p[0] - max(p[1:])) / program.unit

        def retrain(change: Relabelling) -> tuple[bool, bool, float]:
            with self._lock:
                changed, unchanged = self.question.changed(change, np.array([t]))
                return bool(changed[0]), bool(unchanged[0]), attained(change)

        sign = Sign(
            model=program.model,
            cost=program.model.cost,
            margin=program.margin,
            read=self._reader(program, budget),
            retrain=retrain,
            without=lambda change: program.without((change.positions, change.targets)),
            same=_same,
            known=[NOTHING, start],
            start=program.point((start.positions, start.targets)),
        )
        about = {"rival": self.problem.classes[rivals[0]].item()} if len(rivals) == 1 else {}
        return Verdict(*self.judge.decide(sign, budget, node, deadline, **about))

    def _reader(self, program: ClassProgram, budget: int) -> Callable[[Float], Relabelling | None]:
        def read(x: Float) -> Relabelling | None:
            change = Relabelling(*program.moves(x))
            return change if within_threat(self.problem, change, budget) else None

        return read

    # -- collective --------------------------------------------------------------------------------------------------

    def curve(self, pool: ThreadPoolExecutor | None) -> None:
        """From radii and witnesses; with a pool, by one program for each budget where that leaves an interval."""
        budget = self.problem.max_flips
        self.curve_upper = within_reach(self.lower, budget)
        witnesses = {change.key: change for change in self.changes if change is not None}
        for change in [*witnesses.values(), *(greedy_changes(self.question) if self.question.panel.linear else [])]:
            self._witness(change)
        for b in range(1, budget + 1):
            if pool is None or self.curve_lower[b] >= self.curve_upper[b]:
                continue
            if self.control.over():
                break
            self.control.note(f"budget {b}: collective, between {self.curve_lower[b]} and {self.curve_upper[b]}")
            self._solve_curve(b, pool)
            self.control.report(b, budget)
        self.curve_upper = np.minimum.accumulate(self.curve_upper[::-1])[::-1]

    def _solve_curve(self, b: int, pool: ThreadPoolExecutor) -> None:
        K, linear = self.problem.n_classes, self.question.panel.linear
        nodes = np.flatnonzero(self.lower <= b)
        pairs = np.array(
            [
                (t, self.question.predicted[t], r)
                for t in nodes.tolist()
                for r in range(K)
                if r != self.question.predicted[t] and self.excluded_to[t, r] < b
            ],
            dtype=np.int64,
        ).reshape(-1, 3)
        m = self.problem.m
        if (0 if linear else K * m * m) + 2 * m * pairs.shape[0] > CURVE_ENTRIES:
            return
        rows = np.ascontiguousarray(self.rows.T)
        errors = np.zeros(pairs.shape[0])
        if linear:
            ranges = None
            highest = np.array([2.0 * np.abs(self.rows[t]).sum() for t in pairs[:, 0]])
            errors = margin_errors(self.question)[pairs[:, 0]]
        else:
            self.prepare(b, pool)
            classes = [self._classes[c, b] for c in range(K)]
            ranges = [one.ranges for one in classes]
            highest = np.array(
                [
                    max(0.0, classes[own].highest(t, self.rows[t], 1) + classes[r].highest(t, self.rows[t], -1))
                    for t, own, r in pairs.tolist()
                ]
            )
        highest = highest * (1 + 1e-12)
        program = collective_classes(self.problem, b, self.parts, ranges, rows, pairs, highest, errors)
        best = self.curve_changes[b]
        count = Count(
            model=program.model,
            read=self._reader(program, b),
            retrain=self._witness,
            without=lambda change: program.without((change.positions, change.targets)),
            same=_same,
            start=lambda: program.point((best.positions, best.targets)),
        )
        known = int(self.curve_lower[b]), int(self.curve_upper[b])
        self.curve_upper[b] = self.judge.most(count, b, known)[1]

    # -- result ------------------------------------------------------------------------------------------------------

    def findings(self) -> Findings:
        """Everything proved, with the solver's answers."""
        if np.any(self.lower > self.upper) or np.any(self.curve_lower > self.curve_upper):
            # A retrained attack contradicts the solver: then none of its verdicts is worth anything.
            self.judge.complain(f"{self.judge.solver.name} is contradicted by a retrained attack")
            self.lower[:] = 1
            self.curve_upper[1:] = self.lower.size
        self.judge.warn()
        self.curve_upper = np.minimum(self.curve_upper, within_reach(self.lower, self.problem.max_flips))
        return Findings(
            radius_lower=self.lower,
            radius_upper=self.upper,
            radius_changes=self.changes,
            curve_lower=self.curve_lower,
            curve_upper=self.curve_upper,
            curve_changes=self.curve_changes,
            statistics={
                **self.judge.statistics(),
                "proved_by_relaxation": self.proved_by_relaxation,
                "rivals_excluded": self.rivals_excluded,
                "seconds_for_ranges": self.range_seconds,
                "mean_range": self.mean_range,
                "seconds": time.perf_counter() - self.started,
            },
        )


def _change(chosen: dict[int, int]) -> Relabelling:
    order = sorted(chosen)
    return Relabelling(np.array(order, dtype=np.int64), np.array([chosen[i] for i in order], dtype=np.int64))


def _same(one: Relabelling, other: Relabelling) -> bool:
    return one.key == other.key
