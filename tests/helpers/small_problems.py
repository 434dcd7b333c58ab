"""Small problems for tests of the search, all their relabellings, and what these do to a margin."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from labelcert import Certificate, Threat, certify
from labelcert.problem import Problem, Relabelling
from labelcert.problem.problem import signs_of
from labelcert.svm.training import train
from tests.helpers.problems import blobs, gaussian

CLASS_THREATS = [
    Threat(),
    Threat(costs=np.arange(6) % 3 + 1),
    Threat(groups=[i % 2 for i in range(6)], group_budgets=1),
    Threat(trusted=np.arange(6) < 2, allowed_flips={0: [1], 2: [0, 1]}),
    Threat(allowed_targets=[[2], None, [0, 1], [], None, [1]]),
]
"""Every option, on six labels of three classes."""


def class_problem(threat: Threat | None = None, *, m: int = 6, C: float = 2.0, max_flips: int = 2) -> Problem:
    """Three classes, four test nodes."""
    return Problem.build(*blobs(m, 4, classes=3), C, threat=threat, max_flips=max_flips)


def mixed_problem(classes: int, *, max_flips: int = 2) -> Problem:
    """Two or three classes, seven labels, six test nodes: some change by one flip, some by two, some by neither."""
    if classes == 2:
        return Problem.build(*gaussian(7, 6, seed=43), 2.0, max_flips=max_flips)
    threat = Threat(trusted=np.arange(7) < 3)
    return Problem.build(*blobs(7, 6, classes=3, seed=27), 1.0, threat=threat, max_flips=max_flips)


def certify_problem(problem: Problem, engine: str, **options: Any) -> Certificate:
    """The certificate of a problem, or of one that differs from it in some options."""
    p = problem
    arguments = {"threat": p.threat, "max_flips": p.max_flips, "loss": p.loss, **options}
    return certify(p.K_train, p.labels, p.K_test, p.C, engine=engine, **arguments)


def all_relabellings(problem: Problem, budget: int) -> list[Relabelling]:
    """All that the threat allows within a budget, from the adversary's arrays."""
    a = problem.adversary
    out = []
    for targets in itertools.product(*([-1, *np.flatnonzero(row)] for row in a.targets)):
        new = np.array(targets, dtype=np.int64)
        moved = np.flatnonzero(new >= 0)
        grouped = [a.costs[moved][a.groups[moved] == g].sum() <= cap for g, cap in enumerate(a.group_caps)]
        if a.costs[moved].sum() <= budget and all(grouped):
            out.append(Relabelling(moved, new[moved]))
    return out


def margin(problem: Problem, change: Relabelling, row: Any, own: int, rivals: Sequence[int]) -> float:
    """Score of one class minus the highest of some others, retrained."""
    codes = problem.relabelled(change)
    p = [float(row @ train(problem.K_train, signs_of(codes, c), problem.C)) for c in (own, *rivals)]
    return p[0] - max(p[1:])
