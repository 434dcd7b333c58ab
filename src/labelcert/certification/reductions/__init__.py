"""From what a user asks to what an engine answers, and back. A new reduction is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labelcert.certificate import Certificate
from labelcert.certification.reductions.dealing import DealtOut
from labelcert.certification.reductions.lowered import WithMargin
from labelcert.certification.reductions.posing import ChosenC, FractionOfLabels, SettledKernel, ValidatedArrays
from labelcert.certification.reductions.reduction import Reduction
from labelcert.certification.task import Task

POSING: list[Reduction] = [FractionOfLabels(), ChosenC(), ValidatedArrays()]
"""Reductions that turn what the user gave into a problem, in their order."""

CHAIN: list[Reduction] = [DealtOut(), SettledKernel(), WithMargin()]
"""Reductions that turn a problem into one that an engine answers, in their order."""


def posed(task: Task) -> Task:
    """A task whose arrays are validated."""
    for reduction in POSING:
        if reduction.accepts(task):
            task, _ = reduction.apply(task)
    return task


def reduced(task: Task) -> tuple[Task, Callable[[Certificate], Certificate]]:
    """A task that an engine can answer, and what turns its certificate into that of the given task."""
    task = posed(task)
    taken: list[tuple[Reduction, Any]] = []
    for reduction in CHAIN:
        if reduction.accepts(task):
            task, undo = reduction.apply(task)
            taken.append((reduction, undo))

    def restored(cert: Certificate) -> Certificate:
        for reduction, undo in reversed(taken):
            cert = reduction.invert(cert, undo)
        return cert

    return task, restored


__all__ = ["CHAIN", "POSING", "Reduction", "posed", "reduced"]
