"""What the published code does beyond its kernels, for comparisons with its numbers (variant "published") alone.

Two things matter. Clipped covariances can make a kernel indefinite, which no SVM is defined for. And dual variables
of at most 1e-4 are dropped when predicting, though not when certifying, so that a few nodes are certified against a
prediction that is not the model's.
"""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.certificate import Certificate
from labelcert.certification import check_witnesses, compose
from labelcert.engines import Control, Findings, Question
from labelcert.engines.enumerate import Enumerate
from labelcert.problem import Problem
from labelcert.svm import train

DROPPED_BELOW = 1e-4
"""Dual variables up to here do not count in a published prediction."""


def diagonal_shift(K_train: Float) -> float:
    """The least shift of the diagonal that makes a published kernel positive semidefinite; 0 where it is already.

    Examples
    --------
    >>> diagonal_shift(np.eye(2)), round(diagonal_shift(np.array([[0.0, 1.0], [1.0, 0.0]])), 6)
    (0.0, 1.0)
    """
    eigenvalues = np.linalg.eigvalsh(K_train)
    rounding = 1e-12 * float(np.abs(eigenvalues).max(initial=0.0))
    lowest = float(eigenvalues[0])
    return 0.0 if lowest >= -rounding else -lowest + rounding


def contrary_nodes(K_train: Float, labels: Int, K_test: Float, C: float) -> Bool:
    """(n,) which nodes the published code predicts otherwise than the model that it certifies (two classes)."""
    classes = np.unique(labels)
    if classes.size != 2:
        return np.zeros(len(K_test), dtype=bool)
    z = train(K_train, np.where(labels == classes[1], 1.0, -1.0), C)
    dropped = np.where(np.abs(z) <= DROPPED_BELOW, 0.0, z)
    return np.asarray((K_test @ z > 0) != (K_test @ dropped > 0))


def certify_as_published(
    K_train: Float,
    labels: Int,
    K_test: Float,
    C: float,
    contrary: Bool,
    *,
    max_flips: int,
    workers: int | None,
) -> Certificate:
    """A certificate in which contrary nodes keep their published prediction.

    Such a node is changed from the start (radius 0), and unchanged only under flips that turn its score.
    """
    problem = Problem.build(K_train, labels, K_test, C, max_flips=max_flips)
    control = Control(workers=workers or 1)
    with control.running():
        engine = Enumerate()
        scorer = engine.scorer(problem)
        scorer.clean[contrary] *= -1
        question = Question.ask(problem, scorer)
        findings = check_witnesses(question, engine.run(question, control, Findings.nothing(question)))
    settings = {"engine": engine.name, "stopped": control.stop.value, "problem_sha256": problem.digest()}
    return compose(question, findings, settings)
