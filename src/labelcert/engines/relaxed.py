"""The relaxation that looks at each class alone: the paper's incomplete certificate."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.certificate import Stop
from labelcert.engines.base import Attacks, Capabilities, Findings, PlainEngine, Question, Work
from labelcert.engines.control import Control
from labelcert.engines.linear.radii import relaxed_radii
from labelcert.engines.linear.spending import knapsack_work
from labelcert.engines.tables.forest import SLOT_BYTES, Filled, Forest, Siblings
from labelcert.engines.tables.sizes import (
    memory_for_tables,
    new_forest,
    seconds_per_training,
    toggled_sets,
    useful_depth,
)
from labelcert.engines.tables.toggled_trees import FORBIDDEN
from labelcert.engines.walks import Collector, Timed
from labelcert.prediction import OneVsRest, Predictor
from labelcert.problem import Problem


class Relaxed(Timed, PlainEngine):
    """The paper's incomplete certificate: the extreme scores of each class alone.

    The adversary may choose another relabelling for each class, so this proves robustness and never the opposite.
    """

    name = "relaxed"
    capabilities = Capabilities(finds_attacks=False, coupled=False)
    advice = "max_flips={fits} would fit, or time_limit=SECONDS gives what it can prove"

    def predictor(self, problem: Problem) -> Predictor:
        """One model per class: linear maps where that is proved, else retraining."""
        return OneVsRest(problem, linear=problem.is_linear())

    def estimate(self, question: Question, control: Control) -> Work:
        """Sorting, or one training for each toggled set."""
        return knapsack_work(question, 2) if question.predictor.linear else super().estimate(question, control)

    def seconds(self, question: Question, control: Control) -> tuple[Float, str]:
        """One training for each toggled set."""
        sets, per_stop = toggled_sets(question.problem), seconds_per_training(question)
        reason = f"{sets[-1]:,.6g} toggled sets at {per_stop * 1e6:.1f} µs each on {control.workers} workers"
        return sets * per_stop / control.workers, reason

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Lower bounds on radii; the curve follows from them."""
        started = time.perf_counter()
        statistics: dict[str, Any] = {"trainings": 0}
        if question.nodes.size == 0:
            lower = np.zeros(0, dtype=np.int64)
        elif question.predictor.linear:
            lower = relaxed_radii(question)
        else:
            lower = self._by_training(question, control, statistics)
        statistics["seconds"] = time.perf_counter() - started
        return Attacks(question).findings(lower, statistics)

    def _by_training(self, question: Question, control: Control, statistics: dict[str, Any]) -> Int:
        """Extremes of each class by cost, over all toggled sets; nothing else is kept."""
        problem, n, budget = question.problem, question.nodes.size, question.budget
        slots = memory_for_tables() / (2 * SLOT_BYTES)
        forest = new_forest(question, slots, useful_depth(question, control))
        extremes = _Extremes(forest, budget, control)
        cheapest = np.concatenate([[0], np.cumsum(np.sort(problem.adversary.costs)), [budget + 1]])
        frontier = budget + 1
        for level in range(1, forest.levels + 1):
            if control.over() or not forest.train(level, extremes, control):
                frontier = int(cheapest[level])
                break
        else:
            if not forest.complete:
                control.stop = Stop.MEMORY if forest.full else Stop.TIME_LIMIT
                frontier = int(cheapest[forest.levels + 1])
        statistics.update(trainings=int(forest.counters[0]), solved_exactly=forest.sharpened)
        low, high = np.minimum.accumulate(extremes.low, axis=1), np.maximum.accumulate(extremes.high, axis=1)
        own, columns = question.predicted, np.arange(n)
        least = low[own, :, columns].T
        high[own, :, columns] = -np.inf
        robust = least > high.max(axis=0)
        robust[0] = ~question.contrary  # the clean predictions are decided
        fails = np.where((~robust).any(axis=0), (~robust).argmax(axis=0), budget + 1)
        return np.minimum(fails, min(frontier, budget + 1)).astype(np.int64)


class _Extremes(Collector):
    """The extreme scores of each class alone.

    Attributes
    ----------
    low, high : (K, B + 1, n) arrays
        Over the toggled sets of each cost; infinite where there is none.
    """

    def __init__(self, forest: Forest, budget: int, control: Control) -> None:
        self._forest, self._control = forest, control
        shape = (forest.starts[1], budget + 1, forest.nodes.size)
        self.low, self.high = np.full(shape, np.inf), np.full(shape, -np.inf)
        for c in range(shape[0]):
            p, error = forest.clean_scores(c)
            self.low[c, 0], self.high[c, 0] = p - 1.01 * error, p + 1.01 * error

    def collect(self, found: Filled, chunk: Siblings) -> None:
        """Enter the sets of one chunk; those of a chunk that was not finished do not count."""
        forest = self._forest
        forest.counters += found.counters
        if self._control.flag[0]:
            return
        forest.sharpen(found.first, found.P, found.tau, self._control)
        part = slice(found.first, found.first + found.tau.size)
        owner, cost = forest.tree.owner[part], forest.tree.cost[part]
        for c in np.unique(owner):
            for spent in np.unique(cost[owner == c]):
                if spent != FORBIDDEN:
                    rows = (owner == c) & (cost == spent)
                    margin = found.tau[rows, None].astype(np.float64)
                    self.low[c, spent] = np.minimum(self.low[c, spent], (found.P[rows] - margin).min(axis=0))
                    self.high[c, spent] = np.maximum(self.high[c, spent], (found.P[rows] + margin).max(axis=0))
