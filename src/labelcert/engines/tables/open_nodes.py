"""Radii of the nodes that smaller budgets left open, past what tables of all nodes can hold or pay for.

Every toggled set is trained on once, and what multiplies the test rows is kept. A matrix product then makes the tables
of a block of nodes. Blocks begin with the nodes that are most likely to be robust, since time may end.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np

from labelcert.arrays import Float, Index, Int
from labelcert.engines.base import Attacks, Capabilities, Findings, PlainEngine, Question, Work
from labelcert.engines.control import Control
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
        retrained = question.predictor.enumerated == "toggled sets" and not question.predictor.linear
        budget = _budget(question, control, known) if retrained else 0
        if budget:
            part = replace(question, problem=replace(question.problem, max_flips=budget))
            forest = new_forest(part, math.inf, part.problem.adversary.most_flips(budget), duals=True)
            duals = Duals(forest)
            if all(forest.train(size, duals, control) for size in range(1, forest.levels + 1)):
                self._blocks(part, control, duals, lower, attacks, _order(part, duals, known))
            statistics["trainings"] = int(forest.counters[0])
        statistics["seconds"] = time.perf_counter() - started
        return attacks.findings(lower, statistics)

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


def _budget(question: Question, control: Control, known: Findings) -> int:
    """The largest budget whose sets can be trained on in time, and kept; 0 where that proves nothing new."""
    m, n, sets = question.problem.m, question.nodes.size, toggled_sets(question.problem)
    open_ = known.radius_lower < known.radius_upper
    if not open_.any():
        return 0
    training = sets * seconds_per_training(question, duals=True)
    block = min(int(open_.sum()), BLOCK_NODES)
    reading = sets * block * m * MULTIPLY_SECONDS + Sizes.of(question).pairs * PAIR_SECONDS * block / n
    left = control.left_seconds() * control.workers
    fits = (training <= SHARE_FOR_TRAINING * left) & (training + reading <= left)
    fits &= sets * (4 * m + SLOT_BYTES) <= SHARE_FOR_DUALS * memory_for_tables()
    budget = last_fitting(fits)
    return budget if budget >= int(known.radius_lower[open_].min()) else 0


def _order(question: Question, duals: Duals, known: Findings) -> Int:
    """Open nodes, from the one that seems to be the most robust: by what its two worst moves leave of its lead."""
    open_ = np.flatnonzero(known.radius_lower < known.radius_upper)
    own = question.predicted[open_]
    lead = np.zeros(open_.size)
    for c in np.unique(own).tolist():
        for some in np.array_split(np.flatnonzero(own == c), math.ceil((own == c).sum() / BLOCK_NODES)):
            lead[some] = _leads(duals, question.problem.codes, c, question.nodes[open_[some]])
    order: Int = open_[np.argsort(-lead, kind="stable")].astype(np.int64)
    return order


def _leads(duals: Duals, codes: Int, c: int, nodes: Index) -> Float:
    """What the two worst moves would leave of the leads of nodes of class ``c``, if moves added up."""
    forest = duals.forest.about(nodes)
    K, tree = forest.starts[1], forest.tree
    clean = np.array([forest.clean_scores(k)[0] for k in range(K)])
    single = np.arange(K, forest.starts[2])
    scores = duals.z[single] @ forest.rows.T
    effect = np.zeros((K, codes.size, nodes.size))  # of toggling one label in one class
    owner = tree.owner[single]
    effect[owner, forest.rules.labels[owner, tree.last[single]]] = scores - clean[owner]
    lead = np.full(nodes.size, np.inf)
    for r in np.flatnonzero(np.arange(K) != c).tolist():
        down, up = -effect[c], effect[r]
        both = ((codes == c) | (codes == r))[:, None]  # such a label moves between the two
        worst = np.maximum(np.where(both, down + up, 0.0), np.maximum(down, up))
        lead = np.minimum(lead, clean[c] - clean[r] - np.sort(worst, axis=0)[-2:].sum(axis=0))
    return lead
