"""Radii of the nodes that smaller budgets left open, past what tables of all nodes can hold or pay for.

Every toggled set is trained on once, and what multiplies the test rows is kept. A matrix product then makes the tables
of a block of nodes. Blocks begin with the nodes that are most likely to be robust, since time may end.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np

from labelcert.arrays import Index, Int
from labelcert.engines.base import Attacks, Capabilities, Findings, PlainEngine, Question, Work
from labelcert.engines.control import Control
from labelcert.engines.tables.forecasting import Forecast, attack
from labelcert.engines.tables.forest import SLOT_BYTES, Filled, Forest, Siblings, Tables, with_scores
from labelcert.engines.tables.levels import PAIR_SECONDS, Sweep
from labelcert.engines.tables.sizes import (
    MULTIPLY_SECONDS,
    NODE_BYTES,
    Sizes,
    memory_for_tables,
    new_forest,
    seconds_per_training,
    toggled_sets,
)
from labelcert.engines.walks import Collector, last_fitting
from labelcert.prediction import OneVsRest, Predictor
from labelcert.problem import Problem

SHARE_FOR_TRAINING = 0.6
"""Part of the time that training may take."""

SHARE_FOR_ATTACKS = 0.25
"""Part of the time for attacks that single moves foretell."""

SHARE_FOR_DUALS = 0.5
"""Part of the memory for tables that duals may take; the tables of a block get the rest."""

BLOCK_NODES = 500
"""Most nodes of a block: what is proved about it counts, even if time ends before the next one."""

ROWS_AT_ONCE = 20_000
"""Sets whose scores are found before the clock is looked at."""


class OpenNodes(PlainEngine):
    """Exact radii at the next budgets, of as many nodes as time allows."""

    name = "enumerate-open"
    capabilities = Capabilities(continues=3, advertised=False, coupled=False)

    def stage_name(self, problem: Problem) -> str:
        """It is an enumeration."""
        return "enumerate"

    def predictor(self, problem: Problem) -> Predictor:
        """One model per class."""
        return OneVsRest(problem, linear=False)

    def estimate(self, question: Question, control: Control) -> Work:
        """As long as it gets."""
        return Work("toggled sets of the next sizes, for as many nodes as time allows")

    def run(self, question: Question, control: Control, known: Findings) -> Findings:
        """Train once, and then go from block to block."""
        started = time.perf_counter()
        attacks, lower = Attacks(question, known), known.radius_lower.copy()
        statistics: dict[str, float] = {"trainings": 0}
        if question.predictor.enumerated == "toggled sets" and not question.predictor.linear:
            self._foretold(question, control, attacks, lower)
            self._proved(question, control, attacks, lower, statistics)
        statistics["seconds"] = time.perf_counter() - started
        return attacks.findings(lower, statistics)

    def _foretold(self, question: Question, control: Control, attacks: Attacks, lower: Int) -> None:
        """Attacks on open nodes that single moves foretell: what they change needs no proof."""
        open_ = np.flatnonzero(lower < attacks.radius)
        per_training, sets = seconds_per_training(question, duals=True), toggled_sets(question.problem)
        if (
            not open_.size
            or question.budget < 2
            or sets[1] * per_training > SHARE_FOR_ATTACKS * _worker_seconds(control)
        ):
            return
        if sets[1] * (4 * question.problem.m + SLOT_BYTES) > SHARE_FOR_DUALS * memory_for_tables():
            return
        own, forest = control.part(SHARE_FOR_ATTACKS), new_forest(question, math.inf, 1, duals=True)
        duals = Duals(forest)
        control.note("attacks that single moves foretell")
        if forest.train(1, duals, own):
            attack(question, Forecast(question, forest, duals.z), attacks, open_, int(lower[open_].min()), own)

    def _proved(
        self, question: Question, control: Control, attacks: Attacks, lower: Int, statistics: dict[str, float]
    ) -> None:
        """Train on all sets of the next budgets, and go from block to block; raises ``lower``."""
        open_ = np.flatnonzero(lower < attacks.radius)
        budget = _budget(question, control, open_, lower)
        if not budget:
            return
        part = replace(question, problem=replace(question.problem, max_flips=budget))
        forest = new_forest(part, math.inf, part.problem.adversary.most_flips(budget), duals=True)
        duals = Duals(forest)
        if all(forest.train(size, duals, control) for size in range(1, forest.levels + 1)):
            forecast = Forecast(part, forest, duals.z)
            found = list(forecast.about(open_, budget))
            order = np.argsort(-np.concatenate([some.lead for some in found]), kind="stable")
            self._blocks(part, control, duals, lower, attacks, np.concatenate([some.nodes for some in found])[order])
        statistics["trainings"] = int(forest.counters[0])

    def _blocks(
        self, question: Question, control: Control, duals: Duals, lower: Int, attacks: Attacks, order: Int
    ) -> None:
        """Bound the radii of the nodes in this order, as far as time and memory last."""
        fits = int(memory_for_tables() / (NODE_BYTES * duals.tau.size))
        blocks = np.array_split(order, math.ceil(order.size / np.clip(fits, 1, BLOCK_NODES)))
        for k, block in enumerate(blocks):
            control.note(f"block {k + 1} of {len(blocks)} of the open nodes")
            nodes = np.sort(block)  # by predicted class, as the nodes of every question
            part = replace(question, nodes=question.nodes[nodes])
            tables = BlockTables(duals, part.nodes)
            sweep = Sweep(part, tables.forest, 0.0, tables)
            sweep.run(control, curve_to=0)
            ledger = sweep.ledger
            lower[nodes] = np.maximum(lower[nodes], ledger.radius_lower)
            for t, cost, change in zip(nodes.tolist(), ledger.radius.tolist(), ledger.changes, strict=True):
                if cost < attacks.radius[t]:
                    attacks.radius[t], attacks.radius_changes[t] = cost, change
            if control.over():
                return


class Duals(Collector):
    """What multiplies the test rows for every set of a forest, and the error bounds of all scores of it."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        slots, m = forest.starts[-1], forest.fill.scores.shape[0]
        self.z, self.tau = np.zeros((slots, m), dtype=np.float32), np.zeros(slots, dtype=np.float32)

    def collect(self, found: Filled, chunk: Siblings) -> None:
        """Write down one chunk."""
        rows = slice(found.first, found.first + chunk.stops)
        self.z[rows], self.tau[rows] = found.P, found.tau
        self.forest.counters += found.counters


class BlockTables(Tables):
    """Tables of a block of nodes, from duals."""

    def __init__(self, duals: Duals, nodes: Index) -> None:
        super().__init__(duals.forest.about(nodes))
        self._duals, self._scores = duals, np.ascontiguousarray(self.forest.rows.T)

    def train(self, size: int, control: Control) -> bool:
        """Matrix products find the scores of all sets of a size."""
        end = self.forest.starts[size + 1]
        for start in range(self.forest.starts[size], end, ROWS_AT_ONCE):
            if control.over():
                return False
            rows = slice(start, min(start + ROWS_AT_ONCE, end))
            self.P[rows], self.tau[rows] = with_scores(self._duals.z[rows], self._duals.tau[rows], self._scores)
        return True


def _worker_seconds(control: Control) -> float:
    return control.left_seconds() * control.workers


def _budget(question: Question, control: Control, open_: Int, lower: Int) -> int:
    """The largest budget whose sets can be trained on in time, and kept; 0 where that proves nothing new."""
    m, n, sets = question.problem.m, question.nodes.size, toggled_sets(question.problem)
    if not open_.size:
        return 0
    training = sets * seconds_per_training(question, duals=True)
    block = min(open_.size, BLOCK_NODES)
    reading = sets * block * m * MULTIPLY_SECONDS + Sizes.of(question).pairs * PAIR_SECONDS * block / n
    left = _worker_seconds(control)
    fits = (training <= SHARE_FOR_TRAINING * left) & (training + reading <= left)
    fits &= sets * (4 * m + SLOT_BYTES) <= SHARE_FOR_DUALS * memory_for_tables()
    budget = last_fitting(fits)
    return budget if budget >= int(lower[open_].min()) else 0
