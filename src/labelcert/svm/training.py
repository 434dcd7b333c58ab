"""Train one model: the plain, unpoisoned use of the solver."""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float
from labelcert.svm import many_labels
from labelcert.svm.error_bound import bound
from labelcert.svm.pivoting import LARGEST_COLD, Machine, new_scratch, settle


def train(K: Float, y: Float, C: float) -> Float:
    """Signed dual variables ``z`` of the bias-free SVM; scores are ``K_test @ z``.

    Parameters
    ----------
    K : (m, m) array
        Symmetric positive semidefinite kernel.
    y : (m,) array
        Labels, ±1.
    C : float
        Regularisation: ``½‖w‖² + C Σ loss``.

    Returns
    -------
    (m,) array

    Examples
    --------
    >>> train(np.eye(2), np.array([1.0, -1.0]), C=0.5)
    array([ 0.5, -0.5])
    """
    K = np.ascontiguousarray(K, dtype=np.float64)
    y = np.ascontiguousarray(y, dtype=np.float64)
    scratch = new_scratch(y.size)
    machine = loose_machine(K, C)
    if y.size > LARGEST_COLD:
        many_labels.train(machine, scratch, y)
    else:
        settle(machine, scratch, y)
    bound(machine, scratch, y, y.size <= LARGEST_COLD)
    return scratch.z.copy()


def loose_machine(K: Float, C: float) -> Machine:
    """A machine without proofs: good for training, and for nothing that has to be believed."""
    scale = float(np.abs(K).max())
    return Machine(
        Q=K,
        C=float(C),
        ridge=2.0**-44 * scale,
        min_eig=0.0,
        entry_max=scale,
        row_norm=float(np.linalg.norm(K, axis=1).max()),
        gap_ridge=0.0,
        gap_factor=0.0,
    )
