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
Float = npt.NDArray[np.float64]

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


@dataclass(frozen=True, eq=False)
class Sizes:
    """How much work each budget 0..B means, counted exactly but for what is cut off.

    Attributes
    ----------
    sets : (B + 1,) array
        Toggled sets to train on.
    pairs, relabellings : (B + 1,) arrays
        Nodes to look at in pairs of sets and in relabellings.
    """

    sets: Float
    pairs: Float
    relabellings: Float

    @classmethod
    def of(cls, question: Question) -> Sizes:
        """For all budgets of a question."""
        problem = question.panel.problem
        a, codes, K, budget = problem.adversary, problem.codes, problem.n_classes, problem.max_flips
        width = np.diff(question.segments)
        source = codes[a.labels]
        pairs = np.zeros(budget + 1)
        for c in np.flatnonzero(width):
            for r in range(K):
                if r != c:
                    third = a.targets.copy()
                    third[:, int(c)] = False
                    third[:, r] = False
                    mine = (source == c) | (source == r)
                    options = a.targets[:, c].astype(np.int64) + a.targets[:, r] + (mine & third.any(axis=1))
                    pairs += float(width[c]) * a.count_by_budget(budget, options)
        return cls(
            sets=toggled_sets(problem),
            pairs=pairs,
            relabellings=float(question.nodes.size) * a.count_by_budget(budget, a.targets.sum(axis=1)),
        )


def toggled_sets(problem: Problem) -> Float:
    """(B + 1,) number of toggled sets of all classes within each budget."""
    a = problem.adversary
    return np.sum(
        [a.toggling(problem.codes, c).count_by_budget(problem.max_flips) for c in range(problem.n_classes)], axis=0
    )


def _last(fits: npt.NDArray[np.bool_]) -> int:
    """The largest budget up to which everything fits (at least 0)."""
    return fits.size - 1 if fits.all() else max(0, int(fits.argmin()) - 1)


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
        reach = curve_reach(Sizes.of(question), control, slots)
        depth = question.panel.problem.adversary.most_flips(reach)
        forest = Forest(question.panel, question.nodes, slots, depth, reach)
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
        slots = memory_slots(question.nodes.size)
        per_stop = _sample(question)
        sizes = Sizes.of(question)
        seconds = (sizes.sets * per_stop + sizes.pairs * PAIR_SECONDS) / control.workers
        fits = (sizes.sets <= slots) & (seconds <= WORK_LIMIT_SECONDS)
        reason = (
            f"{sizes.sets[-1]:,.6g} toggled sets at {per_stop * 1e6:.1f} µs each on {control.workers} workers, "
            f"{sizes.pairs[-1]:,.3g} comparisons"
        )
        if fits[-1] or control.time_limit is not None:
            return Work(reason, float(seconds[-1]))
        if sizes.sets[-1] > slots:
            reason += f", in {sizes.sets[-1] * (6 * question.nodes.size + SLOT_BYTES) / 2**30:,.3g} GiB of memory"
        advice = (
            f"max_flips={_last(fits)} would fit, or time_limit=SECONDS gives what can be proved in that time (intervals"
            " where it is not exact); engine='relaxed' needs less, as do fewer test nodes and trusted labels"
            " (labelcert.Threat)"
        )
        return Work(reason, float(seconds[-1]), advice)

    def run(self, question: Question, control: Control) -> Findings:
        """Level by level."""
        started = time.perf_counter()
        slots = memory_slots(question.nodes.size)
        forest = Forest(question.panel, question.nodes, slots, self._depth(question, control))
        sweep = Sweep(question, forest, _sample(question))
        curve_to = curve_reach(Sizes.of(question), control, np.inf)
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

        sets = toggled_sets(problem)
        seconds = sets * per_stop / control.workers
        reason = f"{sets[-1]:,.6g} toggled sets at {per_stop * 1e6:.1f} µs each on {control.workers} workers"
        if seconds[-1] <= WORK_LIMIT_SECONDS or control.time_limit is not None:
            return Work(reason, float(seconds[-1]))
        best = _last(seconds <= WORK_LIMIT_SECONDS)
        advice = f"max_flips={best} would fit, or time_limit=SECONDS gives what it can prove"
        return Work(reason, float(seconds[-1]), advice)

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


def curve_reach(sizes: Sizes, control: Control, slots: float) -> int:
    """The largest budget for which the curve is walked: within memory and, without a time limit, within the effort."""
    if not control.collective:
        return 0
    seconds = sizes.relabellings * ALL_SECONDS / control.workers
    return _last((sizes.sets <= slots) & ((seconds <= CURVE_LIMIT_SECONDS) | (control.time_limit is not None)))


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
