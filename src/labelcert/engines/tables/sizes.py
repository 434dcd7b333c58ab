"""How large the work is: counted for all budgets, before it starts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from labelcert.arrays import Float
from labelcert.engines.base import Question
from labelcert.engines.control import Control
from labelcert.engines.pools import pool_in_force
from labelcert.engines.tables.forest import SLOT_BYTES, Forest
from labelcert.engines.tables.levels import ALL_SECONDS, seconds_per_stop
from labelcert.engines.walks import last_fitting
from labelcert.memory import available_bytes
from labelcert.prediction import OneVsRest
from labelcert.problem import Problem

CURVE_LIMIT_SECONDS = 120.0
"""Estimated time spent on the exact curve where no time limit is given."""

MEMORY_SHARE = 0.6
"""Part of the free memory that tables may take."""

UNKNOWN_MEMORY = 4 * 2**30

MULTIPLY_SECONDS = 3e-11
"""Rough time of one product in a matrix product."""

SAMPLE_SETS = 1e6
"""Sets that are trained on to time a device."""


def memory_for_tables() -> float:
    """Bytes that all tables together may take."""
    free = available_bytes()
    return MEMORY_SHARE * (UNKNOWN_MEMORY if free is None else free)


NODE_BYTES = 4 + 8 / 4
"""Memory of one node in one slot: its score, and two extremes for sets that have descendants, which are few."""


def memory_slots(n: int) -> float:
    """How many toggled sets fit into memory, for ``n`` test nodes."""
    return memory_for_tables() / (NODE_BYTES * n + SLOT_BYTES)


def memory_nodes(slots: Float) -> Float:
    """How many test nodes fit into memory, for numbers ``slots`` of toggled sets."""
    return np.asarray((memory_for_tables() / np.maximum(slots, 1.0) - SLOT_BYTES) / NODE_BYTES)


@dataclass(frozen=True, eq=False)
class Sizes:
    """How much work each budget 0..B means, counted exactly but for what is cut off."""

    sets: Float  # (B + 1,) toggled sets to train on
    # pairs, relabellings: (B + 1,) nodes to look at in pairs of sets and in relabellings
    pairs: Float
    relabellings: Float

    @classmethod
    def of(cls, question: Question) -> Sizes:
        """For all budgets of a question."""
        problem = question.problem
        a, codes, K, budget = problem.adversary, problem.codes, problem.n_classes, question.budget
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


def curve_reach(sizes: Sizes, control: Control, slots: float) -> int:
    """The largest budget for which the curve is walked: within memory and, without a time limit, within the effort."""
    if not control.collective:
        return 0
    seconds = sizes.relabellings * ALL_SECONDS / control.workers
    return last_fitting((sizes.sets <= slots) & ((seconds <= CURVE_LIMIT_SECONDS) | (control.time_limit is not None)))


def useful_depth(question: Question, control: Control, *, duals: bool = False) -> int:
    """Sizes that are worth preparing: with a time limit, those that it might reach."""
    a = question.problem.adversary
    most = a.most_flips(question.budget)
    if control.time_limit is None:
        return most
    per_stop = seconds_per_training(question, duals=duals)
    K, nu = question.problem.n_classes, a.labels.size
    depth = 1
    while depth < most and K * math.comb(nu, depth + 1) * per_stop < 4 * control.workers * control.time_limit:
        depth += 1
    return depth


def seconds_per_training(question: Question, *, duals: bool = False) -> float:
    """Seconds of one training, with the scores of all nodes, or with duals alone."""
    forest = new_forest(question, math.inf, 1, duals=duals)
    if pool_in_force(forest.task) is not None:  # one flip keeps no device busy
        forest = new_forest(question, SAMPLE_SETS, 2, duals=duals)
    return seconds_per_stop(forest)


def new_forest(
    question: Question, slots: float, depth: int, budget: int | None = None, *, duals: bool = False
) -> Forest:
    """The forest of a question: see :class:`Forest`."""
    predictor = cast(OneVsRest, question.predictor)
    return Forest(question.problem, predictor, question.nodes, slots, depth, budget, duals)
