"""An ensemble: the labels are dealt out to parts, and each part trains a model of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from labelcert.arrays import Float
from labelcert.certificate import Certificate
from labelcert.certification.reductions.lowered import margins_of, recorded
from labelcert.certification.reductions.reduction import Reduction
from labelcert.certification.task import Parts, Task
from labelcert.checking import whole_number
from labelcert.engines.partition.engine import DealtLabels
from labelcert.engines.partition.parts import Part, assign, cut
from labelcert.errors import InvalidInput
from labelcert.problem import Problem


class DealtOut(Reduction):
    """Members of an ensemble, each with its part of the labels."""

    def accepts(self, task: Task) -> bool:
        """Where there are parts."""
        return task.parts is not None

    def apply(self, task: Task) -> tuple[Task, tuple[Float, str]]:
        """A hash of their names deals out the labels, which have no influence themselves."""
        problem, given = task.posed, task.parts
        assert given is not None
        _refuse(problem, given)
        margins, source = margins_of(task)
        part_of = assign(task.names.keys(problem.m), int(given.count), int(given.seed))
        parts = cut(problem, part_of)
        by = DealtLabels(parts, part_of, given.combine, given.part_flips, margins if margins.any() else None)
        dealt = replace(_shifted(problem, parts), by=by)
        return replace(task, problem=dealt, parts=None, margin=0.0), (margins, source)

    def invert(self, cert: Certificate, undo: tuple[Float, str]) -> Certificate:
        """The certificate says which margin it is about."""
        margins, source = undo
        return recorded(cert, margins, source) if margins.any() else cert


def _refuse(problem: Problem, parts: Parts) -> None:
    """Refuse numbers of parts, and losses, with which there is no ensemble."""
    if problem.trained_with.intercept:
        raise InvalidInput(
            f"parts may hold labels of one class alone, for which loss={problem.loss!r} has no intercept"
        )
    if problem.coupled:
        raise InvalidInput(
            f"ensembles need the scores of each class alone, which loss={problem.loss!r} does not train with "
            f"{problem.n_classes} classes; use loss='logistic'"
        )
    whole_number("parts", parts.count, 1, problem.m, "one label each")
    whole_number("seed", parts.seed, None)


def _shifted(problem: Problem, parts: list[Part]) -> Problem:
    """The problem with the kernel that is certified: that of every part, bit for bit."""
    K = problem.K_train.copy()
    for part in parts:
        K[np.ix_(part.index, part.index)] = part.problem.K_train
    for array in (K, problem.K_test, problem.labels, problem.classes, problem.codes):
        array.setflags(write=False)
    return replace(problem, K_train=K, shift=max(part.problem.shift for part in parts))
