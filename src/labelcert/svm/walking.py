"""What compiled walks over labellings share: copying a tableau, and scoring all nodes at once."""

from __future__ import annotations

from typing import Any

from numba import njit

from labelcert.arrays import Float
from labelcert.svm.pivoting import REORDER, Scratch


@njit(inline="always")
def copy_scratch(source: Any, target: Any) -> None:
    """All that a solve starts from (in plain loops, here and elsewhere: slices take seconds to compile)."""
    m = source.state.shape[0]
    for i in range(m):
        target.state[i] = source.state[i]
        for j in range(m):
            target.T[i, j] = source.T[i, j]
    for row in range(source.v.shape[0]):
        for j in range(m):
            target.v[row, j] = source.v[row, j]


@njit(inline="always")
def borrow(source: Any, target: Any) -> Any:
    """All that a solve starts from but the tableau, which is shared: pivots are noted."""
    for i in range(source.state.shape[0]):
        target.state[i] = source.state[i]
    for row in range(source.v.shape[0]):
        for j in range(source.v.shape[1]):
            target.v[row, j] = source.v[row, j]
    target.marks[-2] = 0
    target.marks[-1] = 1
    return Scratch(source.T, target.state, target.change, target.v, target.rows, target.marks)


@njit(cache=True, nogil=True, fastmath=REORDER)
def combine(scores: Float, z: Float, p: Float) -> None:
    """``p = scores.T @ z``, four rows at a time so that ``p`` stays in the nearest cache."""
    m, n = scores.shape
    for t in range(n):
        p[t] = 0.0
    i = 0
    while i + 4 <= m:
        z0, z1, z2, z3 = z[i], z[i + 1], z[i + 2], z[i + 3]
        k0, k1, k2, k3 = scores[i], scores[i + 1], scores[i + 2], scores[i + 3]
        for t in range(n):
            p[t] += (z0 * k0[t] + z1 * k1[t]) + (z2 * k2[t] + z3 * k3[t])
        i += 4
    while i < m:
        for t in range(n):
            p[t] += z[i] * scores[i, t]
        i += 1
