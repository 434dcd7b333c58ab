"""QPCert's mixed-integer program, as its authors wrote it: a score under poisoned features, for labels that are fixed.

Products of kernel entries and dual variables are variables of their own, bounded entry by entry, and the conditions of
optimality are linear with big-M constants. HiGHS solves it by SciPy; its answers are for comparison and prove nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse as sp

from labelcert.arrays import Float


def least_score(
    kernel: tuple[Float, Float],
    row: tuple[Float, Float],
    y: Float,
    C: float,
    *,
    sign: float = 1.0,
    seconds: float = 60.0,
) -> float:
    """The least score times a sign that the program finds, for one test node.

    Parameters
    ----------
    kernel : pair of (m, m) arrays
        Lower and upper ends of the kernel's entries.
    row : pair of (m,) arrays
        The same for the test node.
    y : (m,) array
        Labels, ±1.
    C : float
    sign : float
        -1 for the largest score.
    seconds : float
        For the solver; what it has proved by then is returned.

    Examples
    --------
    >>> import numpy as np
    >>> from labelcert.paper.milp.qpcert import least_score
    >>> K, k = np.eye(2), np.array([1.0, 0.0])
    >>> round(least_score((K, K), (k - 0.1, k + 0.1), np.array([1.0, -1.0]), 0.5), 6)
    0.4
    """
    m = y.size
    (low, high), (first, last) = kernel, row
    big = C * np.maximum(np.abs(low), np.abs(high)).sum(axis=1) + 2.0
    # Variables: α, Z (rows after rows), z, u, v, and the binaries s and t.
    eye, none = sp.eye_array(m, format="csr"), None
    of_column = sp.csr_array(np.tile(np.eye(m), (m, 1)))
    sums = sp.csr_array(np.kron(np.eye(m), y[None, :]) * y[:, None])
    entries = sp.eye_array(m * m, format="csr")

    def scaled(ends: Float) -> sp.csr_array:
        return sp.csr_array(sp.diags_array(ends.ravel()) @ of_column)

    rows: list[list[Any]] = [
        [-scaled(low), entries, none, none, none, none, none],
        [scaled(high), -entries, none, none, none, none, none],
        [-sp.diags_array(first), none, eye, none, none, none, none],
        [sp.diags_array(last), none, -eye, none, none, none, none],
        [none, none, none, -eye, none, sp.diags_array(big), none],
        [none, none, none, none, -eye, none, sp.diags_array(big)],
        [-eye, none, none, none, none, -C * eye, none],
        [eye, none, none, none, none, none, -C * eye],
        [none, sums, none, -eye, eye, none, none],
    ]
    A = sp.csr_array(sp.block_array(rows, format="csr"))
    least = np.concatenate([np.zeros(2 * m * m + 4 * m), np.full(m, -C), np.zeros(m), np.ones(m)])
    most = np.concatenate([np.full(2 * m * m + 6 * m, np.inf), np.ones(m)])
    cost = np.zeros(A.shape[1])
    cost[m + m * m : 2 * m + m * m] = sign * y
    whole = np.concatenate([np.zeros(A.shape[1] - 2 * m), np.ones(2 * m)])
    ends = scipy.optimize.Bounds(
        np.concatenate([np.zeros(m), np.full(m * m + m, -np.inf), np.zeros(4 * m)]),
        np.concatenate([np.full(m, C), np.full(m * m + 3 * m, np.inf), np.ones(2 * m)]),
    )
    found = scipy.optimize.milp(
        cost,
        constraints=scipy.optimize.LinearConstraint(A, least, most),
        bounds=ends,
        integrality=whole,
        options={"time_limit": seconds},
    )
    return -np.inf if found.mip_dual_bound is None else float(found.mip_dual_bound)
