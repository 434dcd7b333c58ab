"""How large the work is: counted for all budgets, before it starts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from labelcert.engines.base import Control, Work
from labelcert.engines.closed_form import KNAPSACK_SECONDS, uniform
from labelcert.engines.enumerate import WORK_LIMIT_SECONDS
from labelcert.memory import available_bytes
from labelcert.multiclass.forest import SLOT_BYTES, Forest
from labelcert.multiclass.question import Question
from labelcert.multiclass.sweep import ALL_SECONDS, seconds_per_stop
from labelcert.problem import Problem
from labelcert.svm.scoring import always_at_cap

Float = npt.NDArray[np.float64]

CURVE_LIMIT_SECONDS = 120.0
"""Estimated time spent on the exact curve where no time limit is given."""

MEMORY_SHARE = 0.6
"""Part of the free memory that tables may take."""

UNKNOWN_MEMORY = 4 * 2**30


def is_linear(problem: Problem) -> bool:
    """Whether the scores of all classes are linear in the labels, for every admissible relabelling."""
    if problem.loss == "square":
        return True
    return all(always_at_cap(problem.one_vs_rest(c)) for c in range(problem.n_classes))


def memory_for_tables() -> float:
    """Bytes."""
    free = available_bytes()
    return MEMORY_SHARE * (UNKNOWN_MEMORY if free is None else free)


def memory_slots(n: int) -> float:
    """How many toggled sets fit into memory, for ``n`` test nodes."""
    # Beside the scores of all sets there are two extremes for those that have descendants: few, but for small sizes.
    return memory_for_tables() / (4 * n + SLOT_BYTES + 8 * n / 4)


@dataclass(frozen=True, eq=False)
class Sizes:
    """How much work each budget 0..B means, counted exactly but for what is cut off.

    Attributes
    ----------
    sets : (B + 1,) array
        Toggled sets to train on.
    pairs, relabellings : (B + 1,) arrays
        Nodes to look at in pairs of sets and in relabellings.
    """

    sets: Float
    pairs: Float
    relabellings: Float

    @classmethod
    def of(cls, question: Question) -> Sizes:
        """For all budgets of a question."""
        problem = question.panel.problem
        a, codes, K, budget = problem.adversary, problem.codes, problem.n_classes, problem.max_flips
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


def last_fitting(fits: npt.NDArray[np.bool_]) -> int:
    """The largest budget up to which everything fits (at least 0)."""
    return fits.size - 1 if fits.all() else max(0, int(fits.argmin()) - 1)


def curve_reach(sizes: Sizes, control: Control, slots: float) -> int:
    """The largest budget for which the curve is walked: within memory and, without a time limit, within the effort."""
    if not control.collective:
        return 0
    seconds = sizes.relabellings * ALL_SECONDS / control.workers
    return last_fitting((sizes.sets <= slots) & ((seconds <= CURVE_LIMIT_SECONDS) | (control.time_limit is not None)))


def useful_depth(question: Question, control: Control) -> int:
    """Sizes that are worth preparing: with a time limit, those that it might reach."""
    a = question.panel.problem.adversary
    most = a.most_flips(question.panel.problem.max_flips)
    if control.time_limit is None:
        return most
    per_stop = seconds_per_training(question)
    K, nu = question.panel.n_classes, a.labels.size
    depth = 1
    while depth < most and K * math.comb(nu, depth + 1) * per_stop < 4 * control.workers * control.time_limit:
        depth += 1
    return depth


def knapsack_work(question: Question, times: int) -> Work:
    """What sorting costs; with different costs it is a knapsack, ``times`` over."""
    a, budget = question.panel.problem.adversary, question.panel.problem.max_flips
    if uniform(a.costs):
        return Work("sorting")
    cells = float(a.labels.size) * (budget + 1) * max(1, question.nodes.size) * (1 + a.labels.size // 64)
    cells += float((a.group_caps + 1).sum()) * (budget + 1) * question.nodes.size
    seconds = times * cells * KNAPSACK_SECONDS
    reason = f"{times} knapsacks of {a.labels.size} labels, budgets up to {budget}, {question.nodes.size} nodes"
    if seconds <= WORK_LIMIT_SECONDS:
        return Work(reason, seconds)
    return Work(reason, seconds, "divide the costs by a common unit, or give a smaller max_flips")


def seconds_per_training(question: Question) -> float:
    """Seconds of one training."""
    return seconds_per_stop(Forest(question.panel, question.nodes, math.inf, 1))
