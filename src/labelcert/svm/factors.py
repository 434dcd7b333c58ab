"""Cholesky factors of large matrices, block by block, so that the work can be stopped."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from labelcert.arrays import Float
from labelcert.stopping import go_on

BLOCK = 384
"""Fewest columns that are factored at a time."""

STEP = 3e10
"""Rows squared times columns of a step, which takes some tenths of a second."""


def factor(A: Float) -> Float:
    """The lower factor of a positive definite matrix, in its place (the upper triangle keeps what was there).

    Rounding errors are bounded as those of any Cholesky factorisation: the bound does not ask for the order of sums.

    Raises
    ------
    numpy.linalg.LinAlgError
        It is not positive definite, as far as float64 can tell.
    """
    m = A.shape[0]
    width = max(BLOCK, int(STEP / max(1, m) ** 2))
    for k in range(0, m, width):
        go_on()
        own, below = slice(k, min(k + width, m)), slice(min(k + width, m), m)
        if k:
            A[k:, own] -= A[k:, :k] @ A[own, :k].T
        _factor_at_once(A[own, own])
        if below.start < m:
            solved = scipy.linalg.solve_triangular(A[own, own], A[below, own].T, lower=True, check_finite=False)
            A[below, own] = solved.T
    return A


def _factor_at_once(A: Float) -> None:
    """By LAPACK, which counts rows and columns the other way round: nothing is copied if all of a matrix is meant."""
    upper, failed = scipy.linalg.lapack.dpotrf(A.T, lower=0, clean=0, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError(f"not positive definite: the leading minor of order {failed}")
    A[...] = upper.T


def any_factor(A: Float, ridge: float) -> Float:
    """The factor of ``A + ridge·I``; where that is singular, with as little more on its diagonal as it takes."""
    diagonal = np.diag(A).copy()
    while True:
        shifted = A.copy()
        shifted[np.diag_indices(A.shape[0])] = diagonal + ridge
        try:
            return factor(shifted)
        except np.linalg.LinAlgError:
            if not ridge < np.inf:
                raise
            ridge = max(16.0 * ridge, 2.0**-44 * float(np.abs(diagonal).max()), 1e-290)


def forth(L: Float, right: Float) -> Float:
    """``L⁻¹`` times a vector or columns, for a lower factor."""
    return _divided(L, right, back=0)


def solve(L: Float, right: Float) -> Float:
    """``(L Lᵀ)⁻¹`` times a vector or columns."""
    return _divided(L, _divided(L, right, back=0), back=1)


def _divided(L: Float, right: Float, back: int) -> Float:
    """``L⁻¹`` or ``L⁻ᵀ`` times something, by BLAS: LAPACK takes threads for six rows, which mostly wait."""
    if right.size == 0:
        return right.copy()
    columns = right.reshape(right.shape[0], -1)
    return np.asarray(scipy.linalg.blas.dtrsm(1.0, L.T, columns, trans_a=1 - back)).reshape(right.shape)
