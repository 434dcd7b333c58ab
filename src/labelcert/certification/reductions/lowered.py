"""Predictions that have to keep a margin: the same question about predictions that are lowered by it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from labelcert.arrays import Float
from labelcert.certificate import Certificate
from labelcert.certificate.certificate import frozen
from labelcert.certification.reductions.reduction import Reduction
from labelcert.certification.task import Task
from labelcert.engines.freezing import Names
from labelcert.prediction import Predictor, predictor_for
from labelcert.problem import Problem
from labelcert.problem.lowering import MeasuredMargins, check_margin, lowered


@dataclass(frozen=True, eq=False)
class Plain:
    """A question before its predictions were lowered.

    Attributes
    ----------
    problem : Problem
    clean : Predictor
    names : Names
    margins : (n,) array
    source : str
        Where the margins come from.
    """

    problem: Problem
    clean: Predictor
    names: Names
    margins: Float
    source: str


class WithMargin(Reduction):
    """Margins, as labels that nobody can change."""

    def accepts(self, task: Task) -> bool:
        """Where any prediction has to keep one."""
        return bool(margins_of(task)[0].any())

    def apply(self, task: Task) -> tuple[Task, Plain]:
        """The given predictions, or the model's own, on a problem where they keep only what exceeds the margin."""
        problem = task.posed
        margins, source = margins_of(task)
        clean = predictor_for(problem, linear=problem.trained_with.always_linear)
        if task.predicted is not None:
            clean = clean.with_predictions(task.predicted)
        low = lowered(problem, clean.shown, margins)
        names = replace(task.names, labels=None, label_keys=None, around=None)
        low_task = replace(task, problem=low, predicted=clean.predicted, names=names, margin=0.0)
        return low_task, Plain(problem, clean, task.names, margins, source)

    def invert(self, cert: Certificate, undo: Plain) -> Certificate:
        """The labels, scores and names of the given problem; proofs about the other one do not count."""
        K_train, K_test = undo.problem.kernels
        plain = replace(
            cert,
            predictions=frozen(undo.problem.classes[undo.clean.shown]),
            decision_values=frozen(undo.clean.decision),
            labels=undo.problem.labels,
            label_names=undo.names.labels,
            around=undo.names.around,
            K_train=K_train,
            K_test=K_test,
            run=replace(cert.run, problem_sha256=undo.problem.digest()),
            proofs=None,
        )
        return recorded(plain, undo.margins, undo.source)


def margins_of(task: Task) -> tuple[Float, str]:
    """(n,) margins that make sense, and where they come from."""
    given = task.margin
    if isinstance(given, MeasuredMargins):
        return check_margin(given.margins, task.posed.n_test), str(given)
    return check_margin(given, task.posed.n_test), ""


def recorded(cert: Certificate, margins: Float, source: str) -> Certificate:
    """The certificate with the margins that it is about."""
    alike = bool(np.all(margins == margins[:1]))
    margin = float(margins[0]) if alike else tuple(margins.tolist())
    plain = replace(cert, run=replace(cert.run, margin=margin, margin_from=source))
    return replace(plain, checksum=plain.computed_checksum())
