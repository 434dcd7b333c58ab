"""What an attack on one part can do to each test node, by what it costs.

A *state* is what an attack spends: its cost, and its cost inside each group whose budget several parts share. A table
has a row for each state, with the lowest value that the part can be brought to there: the score of the predicted class
minus that of a rival, or 1, 0 and -1 for its vote.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.engines.base import Findings, Question
from labelcert.engines.control import Control
from labelcert.engines.cube.labellings import CubeMethod, count_stops, make_walk, seconds_per_stop
from labelcert.engines.cube.lowest import Lowest
from labelcert.engines.partition.parts import Part
from labelcert.problem import NOTHING, Relabelling

FIRST_DEPTHS = (4, 6, 7)
"""Numbers of flips that are looked at before all of them, where only radii are asked for."""

SPARES = 3
"""How many times fewer labellings they must have than there are in all."""


@dataclass(frozen=True, eq=False)
class PartTable:
    """One part's values: S states, R rivals (one for two classes, else all classes), n nodes.

    Attributes
    ----------
    states : (S, 1 + G) array
        Cost, and cost inside each shared group.
    floor : (S, R, n) array
        No attack of a state brings the part lower; infinite for a node's own class.
    attack : (S, R, n) array
        About what the best known attack of a state reaches; infinite where none is known.
    change : callable
        ``change(s, r, t)`` is that attack, in the part's own positions.
    statistics : dict
        Plain numbers about the work.
    """

    states: Int
    floor: Float
    attack: Float
    change: Callable[[int, int, int], Relabelling]
    statistics: dict[str, Any]


@dataclass(frozen=True, eq=False)
class PartsAsked:
    """What all tables are about.

    Attributes
    ----------
    question : Question
        Of the ensemble.
    votes : bool
        Votes, or scores.
    shared : array
        Groups whose budgets several parts share, and that are followed exactly.
    depth : int or None
        Largest cost of an attack on one part to look at; None for all.
    together : int
        Parts to have under way at a time: more than one where each is a moment's work.
    """

    question: Question
    votes: bool
    shared: Int
    depth: int | None
    together: int = 1

    def within(self, part: Part) -> Question:
        """The question to one part: its own prediction is assumed to be the ensemble's."""
        problem = part.problem
        if self.depth is not None:
            problem = replace(problem, max_flips=min(problem.max_flips, self.depth))
        twin = copy.copy(part.predictor)
        twin.predicted = self.question.predictor.predicted
        return Question(problem=problem, predictor=twin, nodes=self.question.nodes)

    def complete(self, part: Part, frontier: int) -> bool:
        """Whether all attacks on a part were looked at, if all that cost less than ``frontier`` were."""
        return frontier > part.problem.max_flips


def row_states(asked: PartsAsked, question: Question) -> tuple[Int, Int]:
    """How the states of attacks on a part are numbered.

    Returns
    -------
    (G,) array, (1 + G',) array
        A state's number is its cost plus so much for each unit in a group; and the largest cost, and cost inside each
        shared group, that there is.
    """
    a = question.problem.adversary
    groups = np.minimum(np.minimum(a.group_caps, a.group_totals)[asked.shared], question.budget)
    spans = np.concatenate([[question.budget], groups]).astype(np.int64)
    strides = np.zeros(a.group_caps.size, dtype=np.int64)
    strides[asked.shared] = np.cumprod(spans[:-1] + 1)
    return strides, spans


def states_of(rows: Int, spans: Int) -> Int:
    """(S, 1 + G) states by their numbers."""
    return np.stack(np.unravel_index(rows, tuple(spans + 1), order="F"), axis=1).astype(np.int64)


def most(part: Part, asked: PartsAsked) -> Float:
    """(n,) bound on the magnitude of every score of a part, whatever its labels."""
    scorer, nodes = part.predictor.scorer, asked.question.nodes
    return np.asarray(1.01 * scorer.largest_score(nodes) * scorer.scale[nodes] + 1e-290)


def two_class_table(part: Part, asked: PartsAsked, control: Control) -> PartTable:
    """Every admissible labelling of the part, visited once."""
    question = asked.within(part)
    if asked.votes and not asked.shared.size:
        return _from_radii(
            part, asked, question, _radii(question, control, FIRST_DEPTHS if asked.together == 1 else ())
        )
    strides, spans = row_states(asked, question)
    lowest = Lowest(question, strides, int(np.prod(spans + 1)))
    found = CubeMethod().run(question, control, lowest)
    return _from_scores(part, asked, spans, lowest, found.statistics)


def _radii(question: Question, control: Control, first: Sequence[int]) -> Findings:
    """Radii of all nodes. Most are small: few flips are looked at first, and more for the nodes that are left."""
    n, budget = question.nodes.size, question.budget
    lower, upper = np.zeros(n, dtype=np.int64), np.full(n, question.problem.adversary.never, dtype=np.int64)
    changes: list[Relabelling | None] = [None] * n
    statistics: dict[str, Any] = {}
    left = np.arange(n)
    total = count_stops(question, budget)
    for depth in (*(d for d in first if d < budget and SPARES * count_stops(question, d) < total), budget):
        asked = replace(question, problem=replace(question.problem, max_flips=depth), nodes=question.nodes[left])
        found = CubeMethod().run(asked, control)
        lower[left] = np.maximum(lower[left], found.radius_lower)
        for k in np.flatnonzero(found.radius_upper < upper[left]).tolist():
            upper[left[k]], changes[left[k]] = found.radius_upper[k], found.radius_changes[k]
        statistics = {key: statistics.get(key, 0) + value for key, value in found.statistics.items()}
        left = left[upper[left] > lower[left]]
        if left.size == 0 or control.over():
            break
    known = Findings.nothing(question)
    return replace(known, radius_lower=lower, radius_upper=upper, radius_changes=changes, statistics=statistics)


def _from_radii(part: Part, asked: PartsAsked, question: Question, found: Findings) -> PartTable:
    """Votes of two classes: the part votes for the rival from its radius on."""
    clean = part.tops(part.problem.codes, question.nodes)[1][1 - question.predicted, np.arange(question.nodes.size)]
    lower = np.where(clean, found.radius_lower, np.maximum(found.radius_lower, 1))
    costs = np.unique(np.concatenate([[0], lower, found.radius_upper]))
    costs = costs[costs <= part.problem.max_flips]

    def change(s: int, r: int, t: int) -> Relabelling:
        known = found.radius_changes[t]
        return NOTHING if known is None or found.radius_upper[t] > costs[s] else known

    states = np.zeros((costs.size, 1 + asked.shared.size), dtype=np.int64)
    states[:, 0] = costs
    return PartTable(
        states=states,
        floor=np.where(lower <= costs[:, None], -1.0, 1.0)[:, None],
        attack=np.where(found.radius_upper <= costs[:, None], -1.0, 1.0)[:, None],
        change=change,
        statistics=found.statistics,
    )


def _from_scores(part: Part, asked: PartsAsked, spans: Int, lowest: Lowest, statistics: dict[str, Any]) -> PartTable:
    """Lowest scores of two classes, and votes that follow from them."""
    nodes, own = asked.question.nodes, asked.question.predicted
    p, error = part.scores(part.problem.codes, nodes)
    low = lowest.low * part.predictor.scorer.scale[nodes]
    low[0] = (p - error)[own, np.arange(nodes.size)]
    rows = np.flatnonzero((low < np.inf).any(axis=1))
    limit = most(part, asked)
    floor = 2 * np.maximum(low[rows], -limit)[:, None]

    def change(s: int, r: int, t: int) -> Relabelling:
        return NOTHING if rows[s] == 0 else lowest.change(int(rows[s]), t)

    if asked.votes:
        floor, limit = np.where(floor > 0, 1.0, -1.0), np.full(nodes.size, 0.5)
    table = PartTable(states_of(rows, spans), floor, floor, change, statistics)
    return opened(table, part, asked, max(1, lowest.frontier), 2 * limit)


def one_flip(part: Part, asked: PartsAsked) -> Float:
    """(n,) bound on what one more changed label does to a score of a part, whatever the others are; huge for none."""
    scorer, nodes = part.predictor.scorer, asked.question.nodes
    return np.asarray(scorer.one_flip_bound(nodes, part.problem.adversary.labels) * scorer.scale[nodes])


def opened(table: PartTable, part: Part, asked: PartsAsked, frontier: int, limit: Float) -> PartTable:
    """With more states where attacks on a part were not all looked at.

    Scores cannot move further with each label than :func:`one_flip`, nor beyond ``limit`` (n,). Votes can be anything.
    """
    if asked.complete(part, frontier):
        return table
    last = part.problem.max_flips
    unit = bool(np.all(part.problem.adversary.costs == 1)) and not asked.votes
    costs = np.arange(frontier, last + 1) if unit else np.array([frontier])
    floor = np.broadcast_to(-limit, (costs.size, *table.floor.shape[1:]))
    if unit:
        lowest = table.floor[table.states[:, 0] < frontier].min(axis=0)
        # Two models move, or one whose score counts twice.
        steps = (costs - frontier + 1)[:, None, None] * 2.02 * one_flip(part, asked)
        floor = np.maximum(floor, lowest - steps)
    states = np.zeros((costs.size, table.states.shape[1]), dtype=np.int64)
    states[:, 0] = costs
    floor = np.where(np.isposinf(table.floor[:1]), np.inf, floor)
    return replace(
        table,
        states=np.concatenate([table.states, states]),
        floor=np.concatenate([table.floor, floor]),
        attack=np.concatenate([table.attack, np.full_like(floor, np.inf)]),
    )


def two_class_work(asked: PartsAsked, parts: Sequence[Part]) -> Float:
    """Seconds of one worker for all parts, for each largest cost of an attack on a part that is looked at."""
    questions = [asked.within(part) for part in parts]
    per_stop = seconds_per_stop(make_walk(max(questions, key=lambda question: question.problem.m)))
    deepest = max(question.budget for question in questions)
    stops = [sum(count_stops(q, min(depth, q.budget)) for q in questions) for depth in range(deepest + 1)]
    return np.array(stops) * per_stop


def black_box_tables(votes: Int, cheapest: Int, rivals: Bool) -> list[tuple[Int, Float]]:
    """States and values of all parts, if nothing is known about them: one changed label buys a vote.

    Parameters
    ----------
    votes : (k, R, n) array
        What each part adds to the votes of the predicted class minus those of each rival.
    cheapest : (k,) array
        Cost of the cheapest label of each part; -1 where none can change.
    rivals : (R, n) array
        Which rivals count.
    """
    clean = np.where(rivals, votes.astype(np.float64), np.inf)
    bought = np.where(rivals, -1.0, np.inf)
    return [
        (np.array([[0], [price]]), np.stack([own, bought])) if price >= 0 else (np.zeros((1, 1), np.int64), own[None])
        for own, price in zip(clean, cheapest, strict=True)
    ]
