"""The relaxation that looks at each class alone: the paper's incomplete certificate."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.engines.base import Control, Stop, Work, within_reach
from labelcert.engines.enumerate import WORK_LIMIT_SECONDS
from labelcert.multiclass.forest import POOR, SLOT_BYTES, Forest, in_order
from labelcert.multiclass.linear import relaxed_radii
from labelcert.multiclass.panel import Panel
from labelcert.multiclass.question import NOTHING, Findings, Question
from labelcert.multiclass.trees import FORBIDDEN, LEAF, fill_children
from labelcert.multiclass.work import (
    is_linear,
    knapsack_work,
    last_fitting,
    memory_for_tables,
    seconds_per_training,
    toggled_sets,
    useful_depth,
)
from labelcert.problem import Problem

Int = npt.NDArray[np.int64]


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
        per_stop = seconds_per_training(question)

        sets = toggled_sets(problem)
        seconds = sets * per_stop / control.workers
        reason = f"{sets[-1]:,.6g} toggled sets at {per_stop * 1e6:.1f} µs each on {control.workers} workers"
        if seconds[-1] <= WORK_LIMIT_SECONDS or control.time_limit is not None:
            return Work(reason, float(seconds[-1]))
        best = last_fitting(seconds <= WORK_LIMIT_SECONDS)
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
        slots = memory_for_tables() / (2 * SLOT_BYTES)
        forest = Forest(panel, question.nodes, slots, useful_depth(question, control))
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
            has = np.flatnonzero(forest.tree.base[start:end] != LEAF) + start
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
                control.stop = Stop.MEMORY if forest.full else Stop.TIME_LIMIT
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
