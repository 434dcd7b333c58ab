"""The relaxation that looks at each class alone: the paper's incomplete certificate."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Float, Float32, Int
from labelcert.certificate import Stop
from labelcert.engines.base import Attacks, Capabilities, Findings, PlainEngine, Question, Work
from labelcert.engines.control import Control
from labelcert.engines.linear.radii import relaxed_radii
from labelcert.engines.linear.spending import knapsack_work
from labelcert.engines.tables.forest import SLOT_BYTES, Filled, Forest, Siblings, with_scores
from labelcert.engines.tables.sizes import (
    MULTIPLY_SECONDS,
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
from labelcert.svm.walking import MANY_LABELS

COMPARE_SECONDS = 2e-9
"""Rough time of looking at one score."""

BLOCK_SCORES = 4e6
"""Scores that are looked at together."""


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
        """One training for each toggled set, and the scores of all nodes."""
        per_set, per_score = _seconds_each(question)
        sets, per_stop = toggled_sets(question.problem), per_set + per_score * question.nodes.size
        reason = f"{sets[-1]:,.6g} toggled sets at {per_stop * 1e6:.1f} µs each on {control.workers} workers"
        return sets * per_stop / control.workers, reason

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Lower bounds on radii; the curve follows from them."""
        started = time.perf_counter()
        statistics: dict[str, Any] = {"trainings": 0}
        lower = known.radius_lower
        if question.nodes.size and question.predictor.linear:
            lower = relaxed_radii(question)
        elif question.nodes.size:
            lower = self._by_training(question, control, known, statistics)
        statistics["seconds"] = time.perf_counter() - started
        return Attacks(question, known).findings(np.maximum(lower, known.radius_lower), statistics)

    def _by_training(self, question: Question, control: Control, known: Findings, statistics: dict[str, Any]) -> Int:
        """Extremes of each class by cost, over all toggled sets; nothing else is kept."""
        duals = _by_duals(question)
        depth = useful_depth(question, control, duals=duals)
        forest = new_forest(question, memory_for_tables() / (2 * SLOT_BYTES), depth, duals=duals)
        cheapest = np.concatenate([[0], np.cumsum(np.sort(question.problem.adversary.costs)), [question.budget + 1]])
        extremes = _Extremes(forest, question, cheapest, control)
        extremes.leave(known.radius_lower >= known.radius_upper, 0)
        per_set, per_score = _seconds_each(question)
        stop = Stop.MEMORY if forest.full else Stop.TIME_LIMIT
        for level in range(1, forest.levels + 1):
            sets = forest.starts[level + 1] - forest.starts[level]
            extremes.begin(level, (control.left_seconds() * control.workers / sets - per_set) / per_score)
            if not extremes.open.any():
                break
            if not forest.train(level, extremes, control):
                extremes.leave(extremes.open.copy(), int(cheapest[level]))
                stop = Stop.TIME_LIMIT
                break
        if not forest.complete:
            extremes.leave(extremes.open.copy(), int(cheapest[forest.levels + 1]))
        if extremes.unfinished and control.stop is Stop.FINISHED:
            control.stop = stop
        statistics.update(trainings=int(forest.counters[0]), solved_exactly=forest.sharpened)
        return extremes.radius_lower


def _seconds_each(question: Question) -> tuple[float, float]:
    """Seconds of one training, and of one score."""
    duals = _by_duals(question)
    per_score = question.problem.m * MULTIPLY_SECONDS * duals + COMPARE_SECONDS
    return seconds_per_training(question, duals=duals), per_score


def _by_duals(question: Question) -> bool:
    """Whether each set's duals, which are cheaper to find than the scores of many nodes, are accurate enough."""
    return question.nodes.size > question.problem.m > MANY_LABELS


class _Extremes(Collector):
    """The extreme scores of each class alone, of nodes that may still turn out robust.

    - ``cheapest``: least cost of the relabellings of each size.
    - ``low``, ``high`` (K, B + 1, n): over the toggled sets of each cost; infinite where there is none.
    - ``open`` (n,): nodes that are still looked at.
    - ``unfinished``: whether some node was left before its radius was bounded as well as extremes can.
    """

    def __init__(self, forest: Forest, question: Question, cheapest: Int, control: Control) -> None:
        self._forest, self._question, self._cheapest, self._control = forest, question, cheapest, control
        self._budget = question.budget
        if not forest.complete:
            self._budget = min(self._budget, int(cheapest[forest.levels + 1]) - 1)
        K, n = forest.starts[1], forest.nodes.size
        shape = (K, self._budget + 1, n)
        self.low, self.high = np.full(shape, np.inf), np.full(shape, -np.inf)
        for c in range(K):
            p, error = forest.clean_scores(c)
            self.low[c, 0], self.high[c, 0] = p - 1.01 * error, p + 1.01 * error
        self.open, self.unfinished = np.ones(n, dtype=bool), False
        self._unknown = np.full(n, question.budget + 1)
        self._level, self._class = 0, -1

    @property
    def radius_lower(self) -> Int:
        """(n,) what is proved about each node."""
        robust = self._robust(self._budget)
        robust[0] = ~self._question.contrary  # the clean predictions are decided
        fails = np.where(robust.all(axis=0), self._budget + 1, (~robust).argmax(axis=0))
        return np.minimum(fails, self._unknown).astype(np.int64)

    def begin(self, level: int, most: float) -> None:
        """Turn to the sets of another size; with no time for more than ``most`` nodes, to those that lead the most."""
        cost = int(self._cheapest[level])
        self._level, self._class = level, -1
        self._drop()
        least, high = self._bounds(min(cost, self._budget))
        lead = np.where(self.open, least[-1] - high[-1], -np.inf)
        last = lead.size - max(0, int(min(most, lead.size)))
        left = np.argsort(lead, kind="stable")[:last]
        self.leave(self.open & np.isin(np.arange(lead.size), left), cost)

    def leave(self, nodes: Bool, cost: int) -> None:
        """No longer look at nodes, about which nothing is known from a cost on."""
        self.unfinished |= bool(np.any(self.open & nodes & (self._unknown > cost)) and cost)
        self._unknown[nodes] = np.minimum(self._unknown[nodes], cost)
        self.open &= ~nodes

    def _bounds(self, budget: int) -> tuple[Float, Float]:
        """(b + 1, n) least score of each node's own class and highest of any other, within each budget."""
        low = np.minimum.accumulate(self.low[:, : budget + 1], axis=1)
        high = np.maximum.accumulate(self.high[:, : budget + 1], axis=1)
        own, columns = self._question.predicted, np.arange(self.open.size)
        least = low[own, :, columns].T
        high[own, :, columns] = -np.inf
        return least, high.max(axis=0)

    def _robust(self, budget: int) -> Bool:
        least, high = self._bounds(budget)
        return np.asarray(least > high)

    def _drop(self) -> None:
        """No longer look at nodes that fail at a cost that all sets to come have at least."""
        self.open &= self._robust(min(int(self._cheapest[self._level]), self._budget)).all(axis=0)

    def collect(self, found: Filled, chunk: Siblings) -> None:
        """Enter the sets of one chunk; those of a chunk that was not finished do not count."""
        forest = self._forest
        forest.counters += found.counters
        if self._control.flag[0]:
            return
        part = slice(found.first, found.first + found.tau.size)
        owner, cost = forest.tree.owner[part], forest.tree.cost[part].copy()
        for row in forest.poor(found.first, found.tau, lambda rows: self._scored(found.P[rows], found.tau[rows])[0]):
            exact = None
            if cost[row] <= self._budget and not self._control.over():
                exact = forest.sharp(found.first + row)
            if exact is not None:
                self._enter(owner[row], cost[row], exact[0], exact[0], 1.01 * exact[1])
                cost[row] = FORBIDDEN
        for c in np.unique(owner):
            if c != self._class:
                self._class = c
                self._drop()
            for spent in np.unique(cost[(owner == c) & (cost <= self._budget)]):
                rows = (owner == c) & (cost == spent)
                self._score(c, spent, found.P[rows], found.tau[rows])

    def _score(self, c: int, cost: int, found: Float32, tau: Float32) -> None:
        """Enter the scores of the open nodes under some sets, a block of nodes at a time."""
        nodes = np.flatnonzero(self.open)
        for block in np.array_split(nodes, math.ceil(nodes.size * len(found) / BLOCK_SCORES)) if nodes.size else ():
            P, error = self._scored(found, tau, block)
            low, high = P.min(axis=0).astype(np.float64), P.max(axis=0).astype(np.float64)
            self._enter(c, cost, low, high, 1.01 * float(error.max()), block)

    def _scored(self, found: Float32, tau: Float32, nodes: Int | slice = slice(None)) -> tuple[Float32, Float32]:
        """Scores of some nodes and their error bounds, from scores of all, or duals."""
        if not _by_duals(self._question):
            return found[:, nodes], tau
        return with_scores(found, tau, np.ascontiguousarray(self._forest.rows[nodes].T))

    def _enter(
        self, c: int, cost: int, low: Float, high: Float, error: float, nodes: Int | slice = slice(None)
    ) -> None:
        self.low[c, cost, nodes] = np.minimum(self.low[c, cost, nodes], low - error)
        self.high[c, cost, nodes] = np.maximum(self.high[c, cost, nodes], high + error)
