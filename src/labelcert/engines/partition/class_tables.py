"""Tables of parts with more than two classes: all relabellings, combined from tables of all toggled sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.certificate import Stop
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.engines.partition.class_walk import Low, Scores, new_low, walk_lowest
from labelcert.engines.partition.ensemble import lowest_votes
from labelcert.engines.partition.part_tables import PartsAsked, PartTable, most, opened, row_states, states_of
from labelcert.engines.partition.parts import Part
from labelcert.engines.pools import Local
from labelcert.engines.tables.forest import Tables
from labelcert.engines.tables.options import all_options
from labelcert.engines.tables.relabelling_walk import new_path
from labelcert.engines.tables.sizes import memory_slots, new_forest, seconds_per_training, toggled_sets
from labelcert.engines.walks import Collector, collect_all
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
    lowest = _walked(question, asked.votes, strides, int(np.prod(spans + 1)), control)
    low, forest = lowest.low, lowest.tables.forest
    scale = part.predictor.scorer.scale[nodes]
    value = low.value if asked.votes else low.value / forest.fill.shrink * scale
    value[0] = _clean(part, asked)
    rows = np.flatnonzero((value < np.inf).any(axis=(1, 2)))
    limit = np.ones(own.size) if asked.votes else 2 * most(part, asked)
    floor = np.maximum(value[rows], -limit)

    def change(s: int, r: int, t: int) -> Relabelling:
        chosen = low.options[rows[s], r, t]
        return NOTHING if rows[s] == 0 else lowest.options.change(chosen[chosen >= 0].astype(np.int64))

    statistics = {"trainings": int(forest.counters[0]), "solved_exactly": forest.sharpened}
    table = PartTable(states_of(rows, spans), floor, floor, change, statistics)
    return opened(table, part, asked, lowest.frontier, limit)


class FirstOptions(NamedTuple):
    """A range of relabellings of one size: those whose first option is one of ``first..last``."""

    first: int
    last: int
    min_cost: int
    stops: int = 1


class LowestValues(Collector):
    """The collector of the lowest values of each node against each rival, by state.

    Attributes
    ----------
    tables : Tables
    options : Options
    low : Low
        The lowest values so far.
    frontier : int
        The least cost of a relabelling that was not visited.
    """

    def __init__(self, question: Question, rows: int) -> None:
        n, a = question.nodes.size, question.problem.adversary
        longest = a.most_flips(question.budget)
        self.tables = Tables(new_forest(question, memory_slots(n), longest))
        self.options = all_options(question, self.tables.forest.place)
        self._shape = rows, question.problem.n_classes, n, longest
        self.low, self.frontier = self.new(), question.budget + 1

    def new(self) -> Low:
        """Room for one worker's lowest values; nothing was visited yet."""
        return new_low(*self._shape)

    def collect(self, found: Low, chunk: FirstOptions) -> None:
        """Take over what is lower."""
        lower = found.value < self.low.value
        self.low.value[lower] = found.value[lower]
        self.low.options[lower] = found.options[lower]

    def unvisited(self, cost: int) -> None:
        """Learn that some relabellings of this cost or more were not visited."""
        self.frontier = min(self.frontier, cost)

    def ranges(self, workers: int, min_cost: int) -> Iterator[FirstOptions]:
        """Ranges of first options; one range where each would need much memory."""
        count = self.options.position.size
        many = np.prod(self._shape, dtype=float) > PIECE_CELLS
        step = max(1, count if many else count // (8 * workers))
        for first in range(0, count, step):
            yield FirstOptions(first, min(count, first + step), min_cost)


def _walked(question: Question, votes: bool, strides: Int, rows: int, control: Control) -> LowestValues:
    """All relabellings of one part, size by size."""
    a, own, K = question.problem.adversary, question.predicted, question.problem.n_classes
    lowest = LowestValues(question, rows)
    tables = lowest.tables
    forest, scores = tables.forest, Scores(tables.forest.tree.base, tables.P, tables.tau)
    cheapest = np.concatenate([[0], np.cumsum(np.sort(a.costs)), [a.never]])
    last = a.most_flips(question.budget) if forest.complete and forest.levels > 0 else forest.levels
    for size in range(1, last + 1):

        def walk(chunk: FirstOptions, size: int = size) -> tuple[Low, bool]:
            low, path, piece = lowest.new(), new_path(size, K), (chunk.first, chunk.last)
            limits = lowest.options.table, a.group_caps, strides, path, size, *piece, question.budget
            return low, walk_lowest(scores, *limits, own, votes, low, control.flag)

        least = int(cheapest[size])
        if control.over() or not tables.fill(size, control):
            lowest.unvisited(least)
        elif collect_all(Local(walk), lowest.ranges(control.workers, least), [lowest], control, last, size - 1.0):
            continue
        return lowest
    if not forest.complete:
        lowest.unvisited(int(cheapest[last + 1]))
        if control.stop is Stop.FINISHED:
            control.stop = Stop.MEMORY
    return lowest


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
