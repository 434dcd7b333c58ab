"""From arrays as the user gave them to a problem with a budget, a constant C and a kernel that is fit for proofs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from labelcert.certification.reductions.reduction import Reduction
from labelcert.certification.task import Task
from labelcert.losses.cross_validation import best_C
from labelcert.problem.budget import largest_budget

CROSS_VALIDATED = "cv"
"""Stands where C would: choose it by cross-validation over the labels."""


class FractionOfLabels(Reduction):
    """The largest budget as a share of the labels."""

    def accepts(self, task: Task) -> bool:
        """Where a share is given."""
        return task.max_fraction is not None

    def apply(self, task: Task) -> tuple[Task, None]:
        """Shares are of the total cost, where labels have costs."""
        costs = getattr(task.threat, "costs", None)
        flips = largest_budget(
            task.max_flips, task.max_fraction, np.ones(np.size(task.labels)) if costs is None else costs
        )
        return replace(task, max_flips=flips, max_fraction=None), None


class ChosenC(Reduction):
    """Cross-validation over the labels as they are; the certificate is about the one C that it chooses."""

    def accepts(self, task: Task) -> bool:
        """Where C is to be chosen."""
        return task.model is not None and task.model.C == CROSS_VALIDATED

    def apply(self, task: Task) -> tuple[Task, None]:
        """The kernel among labelled points is all that it takes."""
        model: Any = task.model
        problem, _ = replace(model, C=1.0).problem(task)
        C = best_C(problem.K_train, problem.codes, problem.trained_with)
        return replace(task, model=replace(model, C=C)), None


class ValidatedArrays(Reduction):
    """Arrays of any kind, as the user has them."""

    def accepts(self, task: Task) -> bool:
        """Where nobody looked at them yet."""
        return task.problem is None

    def apply(self, task: Task) -> tuple[Task, None]:
        """Everything is refused here that no engine could answer."""
        assert task.model is not None
        problem, note = task.model.problem(task)
        return replace(task, problem=problem, budget_note=note), None


class SettledKernel(Reduction):
    """A kernel that may miss positive semidefiniteness by rounding."""

    def accepts(self, task: Task) -> bool:
        """Where nothing is known about its eigenvalues, and it is trained on as a whole."""
        return task.posed.by is None and not task.posed.min_eig >= 0.0

    def apply(self, task: Task) -> tuple[Task, None]:
        """The certificate is about the kernel that comes out, bit for bit."""
        return replace(task, problem=task.posed.settled()), None
