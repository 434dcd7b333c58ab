"""Engines for several classes: sorting, tables, and the relaxation that looks at each class alone."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from labelcert.engines.base import Control, Work, within_reach
from labelcert.engines.closed_form import KNAPSACK_SECONDS, uniform
from labelcert.engines.enumerate import WORK_LIMIT_SECONDS
from labelcert.models.memory import available_bytes
from labelcert.multiclass.forest import FORBIDDEN, POOR, SLOT_BYTES, Forest, fill_children, in_order
from labelcert.multiclass.linear import greedy_changes, linear_radii, relaxed_radii
from labelcert.multiclass.panel import Panel
from labelcert.multiclass.question import NOTHING, Findings, Question
from labelcert.multiclass.sweep import ALL_SECONDS, PAIR_SECONDS, Sweep, seconds_per_stop
from labelcert.problem import Problem
from labelcert.svm.scoring import always_at_cap

Int = npt.NDArray[np.int64]

CURVE_LIMIT_SECONDS = 120.0
"""Estimated time spent on the exact curve where no time limit is given."""

SUGGESTIONS = 400
"""Attacks found elsewhere that are tried on the curve."""

MEMORY_SHARE = 0.6
"""Part of the free memory that tables may take."""

UNKNOWN_MEMORY = 4 * 2**30


class Engine(Protocol):
    """One way to answer a question about several classes."""

    name: str

    def refuses(self, problem: Problem) -> str | None:
        """Why this engine cannot answer such a problem at all, and what to do instead; None where it can."""

    def panel(self, problem: Problem) -> Panel:
        """The models that this engine's answers rest on."""

    def estimate(self, question: Question, control: Control) -> Work:
        """An honest estimate, before the work starts."""

    def run(self, question: Question, control: Control) -> Findings:
        """Answer; stopped early, with intervals."""


def is_linear(problem: Problem) -> bool:
    """Whether the scores of all classes are linear in the labels, for every admissible relabelling."""
    if problem.loss == "square":
        return True
    return all(always_at_cap(problem.one_vs_rest(c)) for c in range(problem.n_classes))


def memory_slots(n: int) -> float:
    """How many toggled sets fit into memory, for ``n`` test nodes."""
    free = available_bytes()
    # Beside the scores of all sets there are two extremes for those that have descendants: few, but for small sizes.
    return MEMORY_SHARE * (UNKNOWN_MEMORY if free is None else free) / (4 * n + SLOT_BYTES + 8 * n / 4)


@dataclass(frozen=True)
class Size:
    """How much work a budget means: sets to train on, and nodes to look at in pairs and in relabellings."""

    sets: float
    pairs: float
    relabellings: float

    @classmethod
    def of(cls, question: Question, budget: int) -> Size:
        """Counted exactly (group budgets included), but for what is cut off."""
        problem = question.panel.problem
        a, codes, K = problem.adversary, problem.codes, problem.n_classes
        width = np.diff(question.segments)
        source = codes[a.labels]
        pairs = 0.0
        for c in np.flatnonzero(width):
            for r in range(K):
                if r != c:
                    third = a.targets.copy()
                    third[:, int(c)] = False
                    third[:, r] = False
                    mine = (source == c) | (source == r)
                    options = a.targets[:, c].astype(np.int64) + a.targets[:, r] + (mine & third.any(axis=1))
                    pairs += float(width[c]) * a.count_sets(budget, options)
        return cls(
            sets=sum(a.toggling(codes, c).count_sets(budget) for c in range(K)),
            pairs=pairs,
            relabellings=float(question.nodes.size) * a.count_sets(budget, a.targets.sum(axis=1)),
        )


class ClosedForm:
    """Sorting, wherever linearity is proved for every class."""

    name = "closed-form"

    def refuses(self, problem: Problem) -> str | None:
        """Problems whose scores are not provably linear in the labels."""
        if is_linear(problem):
            return None
        return (
            "scores are not proved to be linear in the labels of every class, because some label may leave its cap "
            "within the budget; use engine='auto', a smaller C or max_flips, or loss='square'"
        )

    def panel(self, problem: Problem) -> Panel:
        """Linear maps."""
        return Panel(problem, linear=True)

    def estimate(self, question: Question, control: Control) -> Work:
        """Sorting is always cheap; a knapsack over large costs is not. The effort on the curve is limited."""
        return knapsack_work(question, question.panel.n_classes - 1)

    def run(self, question: Question, control: Control) -> Findings:
        """Radii in closed form, then as much of the curve as the effort allows."""
        started = time.perf_counter()
        lower, upper, changes = linear_radii(question)
        for_radii = time.perf_counter() - started
        budget = question.panel.problem.max_flips
        slots = memory_slots(question.nodes.size)
        reach = 0
        while control.collective and reach < budget:
            size = Size.of(question, reach + 1)
            seconds = size.relabellings * ALL_SECONDS / control.workers
            if size.sets > slots or (seconds > CURVE_LIMIT_SECONDS and control.time_limit is None):
                break
            reach += 1
        depth = question.panel.problem.adversary.most_flips(reach)
        forest = Forest(question.panel, question.nodes, slots, depth)
        sweep = Sweep(question, forest, 0.0)
        sweep.know(lower, upper, changes)
        if question.nodes.size:
            for change in greedy_changes(question) if control.collective else ():
                sweep.suggest(change)
            sweep.run(control, radii=False, curve_to=reach)
            _suggest(sweep)
            if control.collective and reach < budget:
                for change in greedy_changes(question, sweep.strongest(reach)):
                    sweep.suggest(change)
        found = sweep.findings(time.perf_counter() - started, seconds_for_sorting=for_radii)
        found.statistics["trainings"] = 0
        return found


class Enumerate:
    """Tables of all toggled sets, and all relabellings combined from them."""

    name = "enumerate"

    def refuses(self, problem: Problem) -> str | None:
        """Nothing: only size can be in the way."""
        return None

    def panel(self, problem: Problem) -> Panel:
        """Retraining (hinge) or linear maps (square loss)."""
        return Panel(problem, linear=problem.loss == "square")

    def estimate(self, question: Question, control: Control) -> Work:
        """Count sets and pairs, time a few trainings, multiply; the effort on the curve is limited."""
        problem = question.panel.problem
        slots = memory_slots(question.nodes.size)
        per_stop = _sample(question)

        def seconds(size: Size) -> float:
            return (size.sets * per_stop + size.pairs * PAIR_SECONDS) / control.workers

        def fits(size: Size) -> bool:
            return size.sets <= slots and seconds(size) <= WORK_LIMIT_SECONDS

        whole = Size.of(question, problem.max_flips)
        reason = (
            f"{whole.sets:,.6g} toggled sets at {per_stop * 1e6:.1f} µs each on {control.workers} workers, "
            f"{whole.pairs:,.3g} comparisons"
        )
        if fits(whole) or control.time_limit is not None:
            return Work(reason, seconds(whole))
        best = 0
        while best < problem.max_flips and fits(Size.of(question, best + 1)):
            best += 1
        if whole.sets > slots:
            reason += f", in {whole.sets * (6 * question.nodes.size + SLOT_BYTES) / 2**30:,.3g} GiB of memory"
        advice = (
            f"max_flips={best} would fit, or time_limit=SECONDS gives what can be proved in that time (intervals where "
            "it is not exact); engine='relaxed' needs less, as do fewer test nodes and trusted labels "
            "(labelcert.Threat)"
        )
        return Work(reason, seconds(whole), advice)

    def run(self, question: Question, control: Control) -> Findings:
        """Level by level."""
        started = time.perf_counter()
        problem = question.panel.problem
        forest = Forest(
            question.panel, question.nodes, memory_slots(question.nodes.size), self._depth(question, control)
        )
        sweep = Sweep(question, forest, _sample(question))
        curve_to = problem.max_flips if control.collective else 0
        if control.time_limit is None:
            curve_to = 0
            while control.collective and curve_to < problem.max_flips:
                visits = Size.of(question, curve_to + 1).relabellings
                if visits * ALL_SECONDS / control.workers > CURVE_LIMIT_SECONDS:
                    break
                curve_to += 1
        if question.nodes.size:
            sweep.run(control, curve_to=curve_to)
            _suggest(sweep)
            if control.collective:
                sweep.extend(control)
        return sweep.findings(time.perf_counter() - started)

    def _depth(self, question: Question, control: Control) -> int:
        """Sizes that are worth preparing: with a time limit, those that it might reach."""
        a = question.panel.problem.adversary
        most = a.most_flips(question.panel.problem.max_flips)
        if control.time_limit is None:
            return most
        per_stop = _sample(question)
        K, nu = question.panel.n_classes, a.labels.size
        depth = 1
        while depth < most and K * math.comb(nu, depth + 1) * per_stop < 4 * control.workers * control.time_limit:
            depth += 1
        return depth


class Relaxed:
    """The paper's incomplete certificate: the extreme scores of each class alone.

    The adversary may choose another relabelling for each class, so this proves robustness and never the opposite.
    """

    name = "relaxed"

    def refuses(self, problem: Problem) -> str | None:
        """Nothing: only size can be in the way."""
        return None

    def panel(self, problem: Problem) -> Panel:
        """Linear maps where that is proved, else retraining."""
        return Panel(problem, linear=is_linear(problem))

    def estimate(self, question: Question, control: Control) -> Work:
        """Sorting, or one training for each toggled set."""
        if question.panel.linear:
            return knapsack_work(question, 2)
        problem = question.panel.problem
        per_stop = _sample(question)

        def sets(budget: int) -> float:
            a = problem.adversary
            return sum(a.toggling(problem.codes, c).count_sets(budget) for c in range(problem.n_classes))

        def seconds(budget: int) -> float:
            return sets(budget) * per_stop / control.workers

        reason = (
            f"{sets(problem.max_flips):,.6g} toggled sets at {per_stop * 1e6:.1f} µs each on {control.workers} workers"
        )
        whole = seconds(problem.max_flips)
        if whole <= WORK_LIMIT_SECONDS or control.time_limit is not None:
            return Work(reason, whole)
        best = 0
        while best < problem.max_flips and seconds(best + 1) <= WORK_LIMIT_SECONDS:
            best += 1
        return Work(reason, whole, f"max_flips={best} would fit, or time_limit=SECONDS gives what it can prove")

    def run(self, question: Question, control: Control) -> Findings:
        """Lower bounds on radii; the curve follows from them."""
        started = time.perf_counter()
        problem = question.panel.problem
        n, budget = question.nodes.size, problem.max_flips
        statistics: dict[str, Any] = {"trainings": 0}
        if n == 0:
            lower = np.zeros(0, dtype=np.int64)
        elif question.panel.linear:
            lower = relaxed_radii(question)
        else:
            lower = self._by_training(question, control, statistics)
        statistics["seconds"] = time.perf_counter() - started
        return Findings(
            radius_lower=lower,
            radius_upper=np.full(n, problem.adversary.never, dtype=np.int64),
            radius_changes=[None] * n,
            curve_lower=np.zeros(budget + 1, dtype=np.int64),
            curve_upper=within_reach(lower, budget),
            curve_changes=[NOTHING] * (budget + 1),
            statistics=statistics,
        )

    def _by_training(self, question: Question, control: Control, statistics: dict[str, Any]) -> Int:
        """Extremes of each class by cost, over all toggled sets; nothing else is kept."""
        panel, problem = question.panel, question.panel.problem
        K, n, budget = panel.n_classes, question.nodes.size, problem.max_flips
        slots = MEMORY_SHARE * (available_bytes() or UNKNOWN_MEMORY) / (2 * SLOT_BYTES)
        forest = Forest(panel, question.nodes, slots, Enumerate()._depth(question, control))
        low = np.full((K, budget + 1, n), np.inf)
        high = np.full((K, budget + 1, n), -np.inf)
        for c in range(K):
            y = panel.labels_of(problem.codes, c)
            p, tau = panel.scores(y)
            if not tau <= POOR * float(np.abs(p).max()):
                p, tau = panel.sharp_scores(y) or (p, tau)
            low[c, 0], high[c, 0] = ((p + sign * tau)[question.nodes] * forest.fill.shrink for sign in (-1.01, 1.01))
        frontier = budget + 1
        cheapest = np.concatenate([[0], np.cumsum(np.sort(problem.adversary.costs)), [budget + 1]])

        def work(chunk: tuple[int, int, int]) -> tuple[Any, ...]:
            start, end, stops = chunk
            w = forest.new_walker()
            has = np.flatnonzero(forest.tree.base[start:end] > -(2**61)) + start
            if has.size == 0:
                return True, 0, 0, np.zeros((0, n), dtype=np.float32), np.zeros(0, dtype=np.float32)
            first = int(forest.tree.base[has[0]] + forest.tree.last[has[0]] + 1)
            P, tau = np.empty((stops, n), dtype=np.float32), np.empty(stops, dtype=np.float32)
            fine = fill_children(forest.fill, forest.rules, forest.tree, w, P, tau, first, start, end, control.flag)
            return fine, int(w.counters[0]), first, P, tau

        done = 0
        statistics["solved_exactly"] = 0
        for level in range(1, forest.levels + 1):
            finished = not control.over()
            for chunk, (fine, trained, first, P, tau) in in_order(forest.chunks(level), work, control):
                statistics["trainings"] += trained
                done += chunk[2]
                control.report(min(done, forest.starts[-1]), forest.starts[-1])
                if not fine:
                    finished = False
                    continue
                forest.sharpen(first, P, tau, control)
                part = slice(first, first + tau.size)
                owner, cost = forest.tree.owner[part], forest.tree.cost[part]
                for c in np.unique(owner):
                    for spent in np.unique(cost[owner == c]):
                        if spent != FORBIDDEN:
                            rows = (owner == c) & (cost == spent)
                            margin = tau[rows, None].astype(np.float64)
                            low[c, spent] = np.minimum(low[c, spent], (P[rows] - margin).min(axis=0))
                            high[c, spent] = np.maximum(high[c, spent], (P[rows] + margin).max(axis=0))
            if not finished or control.flag[0]:
                frontier = int(cheapest[level])
                break
        else:
            if not forest.complete:
                frontier = int(cheapest[forest.levels + 1])
        statistics["solved_exactly"] = forest.sharpened
        low = np.minimum.accumulate(low, axis=1)
        high = np.maximum.accumulate(high, axis=1)
        own = question.predicted
        columns = np.arange(n)
        least = low[own, :, columns].T
        high[own, :, columns] = -np.inf
        robust = least > high.max(axis=0)
        robust[0] = True  # the clean predictions are decided
        fails = np.where((~robust).any(axis=0), (~robust).argmax(axis=0), budget + 1)
        return np.minimum(fails, min(frontier, budget + 1)).astype(np.int64)


def knapsack_work(question: Question, times: int) -> Work:
    """What sorting costs; with different costs it is a knapsack, ``times`` over."""
    a, budget = question.panel.problem.adversary, question.panel.problem.max_flips
    if uniform(a.costs):
        return Work("sorting")
    cells = float(a.labels.size) * (budget + 1) * max(1, question.nodes.size) * (1 + a.labels.size // 64)
    cells += float((a.group_caps + 1).sum()) * (budget + 1) * question.nodes.size
    seconds = times * cells * KNAPSACK_SECONDS
    reason = f"{times} knapsacks of {a.labels.size} labels, budgets up to {budget}, {question.nodes.size} nodes"
    if seconds <= WORK_LIMIT_SECONDS:
        return Work(reason, seconds)
    return Work(reason, seconds, "divide the costs by a common unit, or give a smaller max_flips")


def _sample(question: Question) -> float:
    """Seconds of one training."""
    return seconds_per_stop(Forest(question.panel, question.nodes, math.inf, 1))


def _suggest(sweep: Sweep) -> None:
    """Try the nodes' own attacks on all nodes, where the curve is open."""
    changes = {change.key: change for change in sweep.changes if change is not None}
    stride = max(1, len(changes) // SUGGESTIONS)
    for change in list(changes.values())[::stride]:
        sweep.suggest(change)


ENGINES: tuple[Engine, ...] = (ClosedForm(), Enumerate(), Relaxed())
"""All engines; ``engine="auto"`` takes the first exact one that can do the work."""
