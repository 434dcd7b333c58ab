"""What the published code does beyond its kernels, for comparisons with its numbers (variant "published") alone.

Two things matter. Clipped covariances can make a kernel indefinite, which no SVM is defined for. And dual variables
of at most 1e-4 are dropped when predicting, though not when certifying, so that a few nodes are certified against a
prediction that is not the model's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.certificate import Certificate
from labelcert.problem import Problem
from labelcert.svm import train
from labelcert.svm.scoring import HingeScorer

Float = npt.NDArray[np.float64]

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


def contrary_nodes(K_train: Float, labels: npt.NDArray[np.int64], K_test: Float, C: float) -> npt.NDArray[np.bool_]:
    """(n,) which nodes the published code predicts otherwise than the model that it certifies (two classes)."""
    classes = np.unique(labels)
    if classes.size != 2:
        return np.zeros(len(K_test), dtype=bool)
    z = train(K_train, np.where(labels == classes[1], 1.0, -1.0), C)
    dropped = np.where(np.abs(z) <= DROPPED_BELOW, 0.0, z)
    return np.asarray((K_test @ z > 0) != (K_test @ dropped > 0))


def with_contrary(
    summary: dict[str, Any], rest: Certificate, K_train: Float, K_contrary: Float, C: float
) -> dict[str, Any]:
    """The summary of all nodes, from the certificate of those that are predicted as they are certified.

    A contrary node counts as changed from the start, and as unchanged only under flips that turn its score. No more
    than all of them can be changed along with the rest; how many are, the attacks on the rest show.
    """
    count = len(K_contrary)
    labels = rest.labels
    scorer = HingeScorer(Problem.build(K_train, labels, K_contrary, C))
    sign = np.where(labels == rest.classes[1], 1.0, -1.0)
    lower = []
    for b in range(rest.max_flips + 1):
        y = sign.copy()
        y[list(rest.collective_witness(b))] *= -1.0
        lower.append(int(rest.collective_lower[b]) + int(scorer.changed(y)[1].sum()))
    lower = [int(v) for v in np.maximum.accumulate(lower)]
    return {
        **summary,
        "n_test": summary["n_test"] + count,
        "exact": summary["exact"] and lower == [v + count for v in summary["changed_upper"]],
        "changed_lower": lower,
        "changed_upper": [v + count for v in summary["changed_upper"]],
    }
