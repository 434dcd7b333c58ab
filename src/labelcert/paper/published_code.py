"""What the published code does beyond its kernels, for comparisons with its numbers (variant "published") alone.

Two things matter. Clipped covariances can make a kernel indefinite, which no SVM is defined for. And with two classes,
dual variables of at most 1e-4 are dropped when predicting, though not when certifying, so that a few nodes are
certified against a prediction that is not the model's.
"""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float, Int, Values
from labelcert.certificate import Certificate
from labelcert.certification import Run, Task, solve
from labelcert.engines.freezing import Names
from labelcert.jobs.cells import KERNELS
from labelcert.prediction import Sign, kind_for
from labelcert.problem import Problem
from labelcert.svm import train

DROPPED_BELOW = 1e-4
"""Dual variables up to here do not count in a published prediction."""


def diagonal_shift(K_train: Float) -> float:
    """The least shift of the diagonal that makes a published kernel positive semidefinite; 0 where it is already."""
    eigenvalues = np.linalg.eigvalsh(K_train)
    rounding = 1e-12 * float(np.abs(eigenvalues).max(initial=0.0))
    lowest = float(eigenvalues[0])
    return 0.0 if lowest >= -rounding else -lowest + rounding


def published_predictions(problem: Problem) -> Int:
    """(n,) what the published code predicts with two classes, as positions among them."""
    z = train(problem.K_train, problem.y, problem.C)
    return np.asarray(problem.K_test @ np.where(np.abs(z) <= DROPPED_BELOW, 0.0, z) > 0, dtype=np.int64)


def certify(
    K_train: Float,
    labels: Values,
    K_test: Float,
    C: float,
    *,
    names: Names,
    max_flips: int,
    engine: str,
    time_limit: float | None,
    workers: int | None,
    loss: str = "hinge",
) -> Certificate:
    """A certificate of the published predictions on a published kernel.

    With two classes, a node whose published prediction is not the model's is changed from the start (radius 0), and
    unchanged only under flips that turn its score.
    """
    K_train = K_train + diagonal_shift(K_train) * np.eye(len(K_train))
    problem = Problem.build(K_train, labels, K_test, C, max_flips=max_flips, loss=loss)
    # The published numbers for more classes are those of the model itself, even where C is at most 1e-4.
    predicted = published_predictions(problem) if kind_for(problem) is Sign else None
    task = Task(problem=problem, predicted=predicted, names=names)
    return solve(task, Run(engine, time_limit=time_limit, workers=workers))


KERNELS["published"] = certify
