"""What may have been added to a kernel's diagonal: a power of two of the size of rounding, and only where needed.

A kernel that misses positive semidefiniteness by rounding is certified with a little more on its diagonal. How much
that may be follows from the kernel, so that a certificate of another kernel does not pass for one of this.
"""

from __future__ import annotations

import math

import numpy as np

from labelcert.arrays import Float
from labelcert.verification.arithmetic import Elimination, whole

ROUNDING = 1e-10
"""Most negative eigenvalue, as a share of the largest one, that counts as rounding."""

SURELY_DEFINITE = 1e-8
"""A smallest eigenvalue beyond this share of the largest one needs no proof in exact arithmetic: nothing is added."""

STEPS = 4
"""What was added may have been doubled this often, until a proof held."""

EXACT_UP_TO = 128
"""Most labels for which nothing is added to a kernel that exact arithmetic shows to be fine."""


def candidates(kernel: Float) -> list[float]:
    """What may have been added to a kernel, if anything was; one size less, too, as eigenvalues are rounded."""
    low, high = _ends(kernel)
    if low < -2 * ROUNDING * high or low > SURELY_DEFINITE * high:
        return []
    m = kernel.shape[0]
    least = max(-low, 16 * (m + 3) * 2.0**-53 * float(np.abs(np.diag(kernel)).sum()))
    first = math.ceil(math.log2(least)) if least > 0 else 0
    return [2.0 ** (first + k) for k in range(-1, STEPS)]


def wrong(kernel: Float, rows: Float, shift: float, *, rounded: bool) -> str:
    """What is wrong with adding a number to the diagonal of a kernel, in words; empty if nothing is.

    Parameters
    ----------
    kernel : (m, m) array
        Without it.
    rows : (n, m) array
        Test rows.
    shift : float
    rounded : bool
        Whether the kernel is known up to rounding alone, so that exact arithmetic says nothing about it.
    """
    if shift == 0.0:
        return ""
    if shift not in candidates(kernel):
        return f"{shift:g} was added to the kernel's diagonal, which rounding errors do not explain"
    if not rounded and kernel.shape[0] <= EXACT_UP_TO:
        found = Elimination(whole(kernel)[0], whole(rows)[0].T)
        if found.semidefinite and found.solvable.all():
            return f"{shift:g} was added to the diagonal of a kernel that does not need it"
    return ""


def _ends(kernel: Float) -> tuple[float, float]:
    """The smallest eigenvalue, and the largest one or entry."""
    values = np.linalg.eigvalsh(kernel) if kernel.size else np.zeros(1)
    return float(values[0]), max(float(values[-1]), float(np.abs(kernel).max(initial=0.0)))
