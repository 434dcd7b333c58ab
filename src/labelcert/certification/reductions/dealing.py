"""An ensemble: the labels are dealt out to parts, and each part trains a model of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.certificate import Certificate
from labelcert.certification.reductions.lowered import margins_of, recorded
from labelcert.certification.reductions.reduction import Reduction
from labelcert.certification.task import Parts, Task
from labelcert.checking import whole_number
from labelcert.engines.freezing import Names
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
        margins, source = margins_of(task)
        part_of = part_of_labels(problem, given, task.names)
        parts = cut(problem, part_of)
        by = DealtLabels(parts, part_of, given.combine, given.part_flips, margins if margins.any() else None)
        dealt = replace(_shifted(problem, parts), by=by)
        return replace(task, problem=dealt, parts=None, margin=0.0), (margins, source)

    def invert(self, cert: Certificate, undo: tuple[Float, str]) -> Certificate:
        """The certificate says which margin it is about."""
        margins, source = undo
        return recorded(cert, margins, source) if margins.any() else cert


def part_of_labels(problem: Problem, parts: Parts, names: Names) -> Int:
    """(m,) part of each label, as it was given or as a hash of its name deals it out."""
    if np.ndim(parts.count):
        part_of = np.asarray(parts.count)
        if part_of.shape != (problem.m,) or not np.issubdtype(part_of.dtype, np.integer):
            raise InvalidInput(f"parts must be a number of parts, or {problem.m} whole numbers, the part of each label")
        return part_of.astype(np.int64)
    count = whole_number("parts", parts.count, 1, problem.m, "one label each")
    return assign(names.keys(problem.m), count, whole_number("seed", parts.seed, None))


def _shifted(problem: Problem, parts: list[Part]) -> Problem:
    """The problem with the kernel that is certified: that of every part, bit for bit."""
    K = problem.K_train.copy()
    for part in parts:
        K[np.ix_(part.index, part.index)] = part.problem.K_train
    for array in (K, problem.K_test, problem.labels, problem.classes, problem.codes):
        array.setflags(write=False)
    return replace(problem, K_train=K, shift=max(part.problem.shift for part in parts))
