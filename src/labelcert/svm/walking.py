"""What compiled walks over labellings share: copying or sharing a tableau, and scoring all nodes at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.compiling import compiled
from labelcert.svm.error_bound import bound
from labelcert.svm.pivoting import AT_ONCE, FLAGS, FREE, REORDER, SHARED, G, X, Z, relabel

MANY_LABELS = 60
"""With more labels, a set is solved from its parent's tableau without copying it (:func:`solve_child`)."""


@compiled(inner=True)
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


@compiled()
def solve_child(machine: Any, parent: Any, own: Any, y: Float, i: int, value: float) -> tuple[float, int]:
    """Change label ``i`` of a solved parent, whose tableau is shared: error bound and proof, as from ``bound``.

    Pivots are noted, and only the rows of the tableau that the path asks for are computed. So the work is linear in the
    number of labels, but for one product with the kernel. The bound is infinite where that does not work. The solution
    is in ``own``, which has the parent's tableau (:func:`~labelcert.svm.pivoting.sharing`), the labels in ``y``.
    """
    _share(parent, own)
    relabel(machine, own, y, i, value)
    return _solved(machine, own, y)


@compiled()
def solve_descendant(machine: Any, parent: Any, own: Any, y: Float, flips: Int, to: Float) -> tuple[float, int]:
    """The same with several labels, to what they are in ``to``, as long as there is room for their pivots."""
    _share(parent, own)
    for i in flips:
        if own.v[FLAGS, 0] == 0.0:
            relabel(machine, own, y, i, to[i])
    return _solved(machine, own, y)


@compiled(inner=True)
def _share(parent: Any, own: Any) -> None:
    """Copy all that is solved but for the tableau, which both have; pivots are noted."""
    for j in range(parent.state.shape[0]):
        own.state[j] = parent.state[j]
        for row in range(parent.v.shape[0]):
            own.v[row, j] = parent.v[row, j]
    own.marks[-2] = 0
    own.marks[-1] = SHARED


@compiled(inner=True)
def _solved(machine: Any, s: Any, y: Float) -> tuple[float, int]:
    """The solution at the end of a path, its error bound and proof."""
    tau, proof = np.inf, 3
    if s.v[FLAGS, 0] == 0.0:
        for j in range(y.shape[0]):
            s.v[Z, j] = s.v[G, j] if s.state[j] == FREE else s.v[X, j]
        tau, proof = bound(machine, s, y, False)
    s.marks[-1] = AT_ONCE
    s.marks[-2] = 0
    return tau, proof


@compiled(fastmath=REORDER)
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
