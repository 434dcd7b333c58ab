"""What would prove more, where proofs end early: said by the certificate, the terminal and the report.

An :class:`Adviser` looks at the problem of a run that left something open, and says what would prove more, what that
costs, and how accurate it is. A task without one of its own has that of its kind of model.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import numpy as np

from labelcert.arrays import Float
from labelcert.certificate import Stop
from labelcert.engines.base import Findings, Question
from labelcert.engines.control import Control
from labelcert.losses import get_loss
from labelcert.losses.base import Loss
from labelcert.losses.cross_validation import C_GRID, Folds, accuracies, stratified_folds
from labelcert.problem.problem import ONE_MODEL, Problem
from labelcert.stopping import Stopped, go_on, stopped_by
from labelcert.text import per_cent

SHARE = 0.02
"""Part of a time limit that an adviser may take."""

USUAL_SECONDS = 2.0
"""What it may take without a time limit."""

FACTORED = 1.4e10
"""Labels cubed that one second of factorisations takes, roughly, on a slow machine."""

PART_LABELS, FEWEST_PARTS = 20, 5
"""Labels of a part, and parts of an ensemble, that are worth a try."""

TRAINING = 20
"""How many factorisations of its size one training with another loss takes, roughly."""


class Adviser(Protocol):
    """Who says what would prove more."""

    def __call__(self, problem: Problem, seconds: float) -> Sequence[str]:
        """Sentences about a problem whose proofs ended early, found in no more than some seconds."""


def advise(question: Question, findings: Findings, control: Control, cut: bool, own: Adviser | None) -> tuple[str, ...]:
    """What would prove more; nothing where radii are settled up to every budget that was asked for.

    - ``cut``: whether fewer budgets were answered than were asked for.
    - ``own``: the task's adviser; None: that of its kind of model.
    """
    open_ = np.any((findings.radius_lower < findings.radius_upper) & (findings.radius_lower <= question.budget))
    adviser = own or ADVISERS.get(question.problem.kind)
    if adviser is None or not (open_ or cut):
        return ()
    seconds = USUAL_SECONDS if control.time_limit is None else SHARE * control.time_limit
    return tuple(adviser(question.problem, 0.0 if control.stop is Stop.INTERRUPTED else seconds))


def square_loss(problem: Problem, seconds: float) -> list[str]:
    """That the square loss is exact at every budget, and how accurate it is beside the loss at hand."""
    own, square = problem.trained_with, get_loss("square")
    if own.always_linear or problem.m < 2:
        return []
    words = "loss='square' has exact radii at every budget, without a search"
    if np.bincount(problem.codes, minlength=problem.n_classes).min() < 2:
        return [words]
    parts = stratified_folds(problem.codes)
    factorisation = len(parts) * problem.m**3 / FACTORED
    ends = time.process_time() + seconds  # others who use the machine shall not change what is said
    with suppress(Stopped), stopped_by(lambda: time.process_time() > ends):
        if factorisation * len(C_GRID) <= seconds / 2:
            C, accuracy = _best(problem, square, parts)
            words = words.replace("'square'", f"'square' with C={C:g}")
            words += f", and is {per_cent(accuracy)} % accurate by cross-validation over the labels"
            if not problem.coupled and TRAINING * problem.n_classes * factorisation <= seconds / 2:
                mine = accuracies(problem.K_train, problem.codes, [problem.C], parts, own, go_on).mean()
                words += f" (loss={own.name!r}: {per_cent(mine)} %)"
    return [words]


def _best(problem: Problem, loss: Loss, parts: Folds) -> tuple[float, float]:
    """The most accurate C, and its accuracy; among equals, the smallest."""
    found: Float = accuracies(problem.K_train, problem.codes, C_GRID, parts, loss, go_on).mean(axis=1)
    return C_GRID[int(found.argmax())], float(found.max())


def other_models(problem: Problem, seconds: float) -> list[str]:
    """The square loss, an ensemble on parts of the labels, and where models are compared."""
    found = square_loss(problem, seconds)
    parts = problem.m // PART_LABELS
    if found and parts >= FEWEST_PARTS and not (problem.coupled or problem.intercept):
        found.append(
            f"certify_partition(parts={parts}) has an ensemble of models on {PART_LABELS} labels or so each, which "
            "survives what reaches few of them; harden compares the accuracy of such models with what they certify"
        )
    return found


ADVISERS: dict[str, Adviser] = {ONE_MODEL: other_models}
"""Who advises on each kind of model: see ``Problem.kind``."""
