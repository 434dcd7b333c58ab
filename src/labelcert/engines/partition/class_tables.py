"""Tables of parts with more than two classes: all relabellings, combined from tables of all toggled sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.certificate import Stop
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.engines.partition.class_walk import Low, Scores, new_low, walk_lowest
from labelcert.engines.partition.ensemble import lowest_votes
from labelcert.engines.partition.part_tables import PartsAsked, PartTable, most, opened, row_states, states_of
from labelcert.engines.partition.parts import Part
from labelcert.engines.pools import Local, in_order
from labelcert.engines.tables.options import all_options
from labelcert.engines.tables.relabelling_walk import new_path
from labelcert.engines.tables.sizes import memory_slots, new_forest, seconds_per_training, toggled_sets
from labelcert.problem import NOTHING, Relabelling

VISIT_SECONDS = 2e-9
"""Rough time of one class of one node in one relabelling."""

PIECE_CELLS = 2e6
"""Largest table that each of several pieces of work may have of its own."""


def class_table(part: Part, asked: PartsAsked, control: Control) -> PartTable:
    """Every admissible relabelling of the part."""
    question = asked.within(part)
    nodes, own = question.nodes, question.predicted
    strides, spans = row_states(asked, question)
    sweep = _Sweep(question, asked.votes, strides, int(np.prod(spans + 1)))
    frontier, statistics = sweep.run(control)
    low, options = sweep.low, sweep.options
    scale = part.predictor.scorer.scale[nodes]
    value = low.value if asked.votes else low.value / sweep.forest.fill.shrink * scale
    value[0] = _clean(part, asked)
    rows = np.flatnonzero((value < np.inf).any(axis=(1, 2)))
    limit = np.ones(own.size) if asked.votes else 2 * most(part, asked)
    floor = np.maximum(value[rows], -limit)

    def change(s: int, r: int, t: int) -> Relabelling:
        chosen = low.options[rows[s], r, t]
        return NOTHING if rows[s] == 0 else options.change(chosen[chosen >= 0].astype(np.int64))

    return opened(PartTable(states_of(rows, spans), floor, floor, change, statistics), part, asked, frontier, limit)


class _Sweep:
    """All relabellings of one part, size by size.

    Attributes
    ----------
    low : Low
        The lowest values so far.
    """

    def __init__(self, question: Question, votes: bool, strides: Int, rows: int) -> None:
        n, self._a = question.nodes.size, question.problem.adversary
        self._question, self._votes, self._strides = question, votes, strides
        self._longest = self._a.most_flips(question.budget)
        self.forest = new_forest(question, memory_slots(n), self._longest)
        self.options = all_options(question, self.forest.place)
        self._shape = (rows, question.problem.n_classes, n, self._longest)
        self.low = new_low(*self._shape)
        slots = self.forest.starts[-1]
        self._P, self._tau = np.empty((slots, n), dtype=np.float32), np.empty(slots, dtype=np.float32)

    def run(self, control: Control) -> tuple[int, dict[str, Any]]:
        """Returns the least cost of a relabelling that was not visited, and plain numbers."""
        forest = self.forest
        cheapest = np.concatenate([[0], np.cumsum(np.sort(self._a.costs)), [self._a.never]])
        last = self._longest if forest.complete and forest.levels > 0 else forest.levels
        frontier = self._question.budget + 1
        for size in range(1, last + 1):
            if not self._size(size, control):
                frontier = int(cheapest[size])
                break
        else:
            if not forest.complete:
                frontier = int(cheapest[last + 1])
                if control.stop is Stop.FINISHED:
                    control.stop = Stop.MEMORY
        return frontier, {"trainings": int(forest.counters[0]), "solved_exactly": forest.sharpened}

    def _size(self, size: int, control: Control) -> bool:
        """Whether all relabellings of a size were visited."""
        forest = self.forest
        if control.over():
            return False
        total = float(forest.starts[-1])
        if size <= forest.levels and not forest.fill_level(size, self._P, self._tau, control, total):
            return False
        scores = Scores(forest.tree.base, self._P, self._tau)

        def walk(piece: tuple[int, int]) -> tuple[Low, bool]:
            low = new_low(*self._shape)
            return low, walk_lowest(
                scores,
                self.options.table,
                self._a.group_caps,
                self._strides,
                new_path(size, low.value.shape[1]),
                size,
                *piece,
                self._question.budget,
                self._question.predicted,
                self._votes,
                low,
                control.flag,
            )

        pieces = self._pieces(control)
        done = 0
        for _, (low, finished) in in_order(Local(walk), iter(pieces), control):
            done += finished
            lower = low.value < self.low.value
            self.low.value[lower] = low.value[lower]
            self.low.options[lower] = low.options[lower]
        return done == len(pieces)

    def _pieces(self, control: Control) -> list[tuple[int, int]]:
        """Ranges of first options; one range where each would need much memory."""
        count = self.options.position.size
        if np.prod(self._shape, dtype=float) > PIECE_CELLS:
            return [(0, count)]
        step = max(1, count // (8 * control.workers))
        return [(first, min(count, first + step)) for first in range(0, count, step)]


def _clean(part: Part, asked: PartsAsked) -> Float:
    """(K, n) values of the clean labels; infinite for a node's own class."""
    nodes, own = asked.question.nodes, asked.question.predicted
    columns = np.arange(nodes.size)
    if asked.votes:
        value = lowest_votes(part.tops(part.problem.codes, nodes)[1][None], own)[0].astype(np.float64)
    else:
        p, error = part.scores(part.problem.codes, nodes)
        value = (p - error)[own, columns] - (p + error)
    value[own, columns] = np.inf
    return value


def class_work(asked: PartsAsked, parts: Sequence[Part]) -> Float:
    """Seconds of one worker for all parts, for each largest cost of an attack on a part that is looked at."""
    questions = [asked.within(part) for part in parts]
    per_training = seconds_per_training(max(questions, key=lambda q: q.problem.m))
    seconds = np.zeros(max(question.budget for question in questions) + 1)
    for question in questions:
        problem, a = question.problem, question.problem.adversary
        visits = a.count_by_budget(question.budget, a.targets.sum(axis=1)) * question.nodes.size * problem.n_classes
        own = toggled_sets(problem) * per_training + visits * VISIT_SECONDS
        seconds += own[np.minimum(np.arange(seconds.size), own.size - 1)]
    return seconds
