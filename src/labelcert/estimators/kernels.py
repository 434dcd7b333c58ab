"""Kernels by the names and parameters of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelcert.arrays import Float
from labelcert.errors import InvalidInput


def linear(A: Float, B: Float) -> Float:
    """The kernel of linear models."""
    return A @ B.T


def kernel_between(
    A: Float, B: Float, metric: Any, *, gamma: Any = None, degree: float = 3, coef0: float = 1.0, **more: Any
) -> Float:
    """The kernel between rows and training points.

    Parameters
    ----------
    A, B : (n, d) and (m, d) arrays
        Rows, and training points.
    metric : str or callable
        As in scikit-learn's ``pairwise_kernels``. A callable gets the parameters in ``more`` alone.
    gamma : float, "scale", "auto" or None
        ``"scale"`` is one over the number of features times the variance of the training points.
    degree, coef0
        Of the kernel.
    """
    from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

    if not callable(metric):
        if metric not in PAIRWISE_KERNEL_FUNCTIONS:
            known = ", ".join(sorted(PAIRWISE_KERNEL_FUNCTIONS))
            raise InvalidInput(f"kernel must be one of {known}, precomputed, or a function, got {metric!r}")
        if isinstance(gamma, str) and gamma == "scale":
            spread = float(B.var())
            gamma = 1.0 / (B.shape[1] * spread) if spread > 0 else 1.0
        elif isinstance(gamma, str) and gamma == "auto":
            gamma = 1.0 / B.shape[1]
        more = {"gamma": gamma, "degree": degree, "coef0": coef0}
    return np.asarray(pairwise_kernels(A, B, metric=metric, filter_params=True, **more))
