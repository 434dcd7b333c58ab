"""Tables of parts with more than two classes: all relabellings, combined from tables of all toggled sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from labelcert.arrays import Float
from labelcert.certificate import Stop
from labelcert.engines.control import Control
from labelcert.engines.partition.class_walk import Low, Scores, walk_lowest
from labelcert.engines.partition.ensemble import lowest_votes
from labelcert.engines.partition.parts import Part
from labelcert.engines.partition.tables import Asked, Table, most, opened, row_states, states_of
from labelcert.engines.tables.forest import Forest
from labelcert.engines.tables.options import Options, all_options
from labelcert.engines.tables.sizes import memory_slots, new_forest, seconds_per_training, toggled_sets
from labelcert.problem import NOTHING, Relabelling

VISIT_SECONDS = 2e-9
"""Rough time of one class of one node in one relabelling."""


def class_table(part: Part, asked: Asked, control: Control) -> Table:
    """Every admissible relabelling of the part."""
    question = asked.within(part)
    problem, K, own = question.problem, question.problem.n_classes, question.predicted
    n, a = own.size, problem.adversary
    strides, spans = row_states(asked, question)
    forest = new_forest(question, memory_slots(n), a.most_flips(question.budget))
    options = all_options(question, forest.place)
    low = Low(
        value=np.full((int(np.prod(spans + 1)), K, n), np.inf),
        options=np.full((int(np.prod(spans + 1)), K, n, max(1, a.most_flips(question.budget))), -1, dtype=np.int16),
    )
    frontier, statistics = _fill(forest, options, strides, question.budget, own, asked.votes, low, control, part)
    scale = part.predictor.scorer.scale[question.nodes]
    value = low.value if asked.votes else low.value / forest.fill.shrink * scale
    value[0] = _clean(part, asked)
    rows = np.flatnonzero((value < np.inf).any(axis=(1, 2)))
    limit = np.ones(n) if asked.votes else 2 * most(part, asked)
    floor = np.maximum(value[rows], -limit)

    def change(s: int, r: int, t: int) -> Relabelling:
        chosen = low.options[rows[s], r, t]
        return NOTHING if rows[s] == 0 else options.change(chosen[chosen >= 0].astype(np.int64))

    return opened(Table(states_of(rows, spans), floor, floor, change, statistics), part, asked, frontier, limit)


def _fill(
    forest: Forest,
    options: Options,
    strides: Any,
    budget: int,
    own: Any,
    votes: bool,
    low: Low,
    control: Control,
    part: Part,
) -> tuple[int, dict[str, Any]]:
    """Walk over all relabellings, size by size; returns the least cost of one that was not visited."""
    a = part.problem.adversary
    cheapest = np.concatenate([[0], np.cumsum(np.sort(a.costs)), [a.never]])
    P = np.empty((forest.starts[-1], own.size), dtype=np.float32)
    tau = np.empty(forest.starts[-1], dtype=np.float32)
    whole = forest.complete and forest.levels > 0
    last = a.most_flips(budget) if whole else forest.levels
    frontier = budget + 1
    total, done = float(forest.starts[-1]), 0
    for size in range(1, last + 1):
        finished = not control.over()
        if finished and size <= forest.levels:
            finished = forest.fill_level(size, P, tau, control, total)
        if finished:
            scores = Scores(forest.tree.base, P, tau)
            finished = walk_lowest(
                scores, options.table, a.group_caps, strides, size, budget, own, votes, low, control.flag
            )
        if not finished:
            frontier = min(frontier, int(cheapest[size]))
            break
        done = size
    if done == last and not forest.complete:
        frontier = min(frontier, int(cheapest[last + 1]))
        if control.stop is Stop.FINISHED:
            control.stop = Stop.MEMORY
    return frontier, {"trainings": int(forest.counters[0]), "solved_exactly": forest.sharpened}


def _clean(part: Part, asked: Asked) -> Float:
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


def class_work(asked: Asked, parts: Sequence[Part]) -> Float:
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
