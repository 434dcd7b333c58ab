"""Newton steps of smooth losses on many labels: conjugate gradients instead of an inverse.

A step solves ``(I + DQ) e = r`` with ``D = A Aᵀ``, hence ``e = r − A (I + AᵀQA)⁻¹ AᵀQ r``. The matrix in the middle is
symmetric, and few of its eigenvalues are far from 1, so that some dozens of products with the kernel are enough.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labelcert.arrays import Float
from labelcert.losses.newton import BORDER, GOOD, ROOT, SLOPE, LogisticMachine
from labelcert.stopping import go_on
from labelcert.svm.factors import factor, solve
from labelcert.svm.pivoting import COLD_TABLEAU, FLAGS, UNIT_ROUNDOFF, Scratch, Z

Root = Callable[[Float], Float]

MOST_STEPS = 100
MOST_PRODUCTS = 60
"""Products of one solve; where they are not enough, a factorisation takes no longer."""

ACCURACY = 1e-4
"""What a Newton step may leave of its residual."""


def resolved(Q: Float, A: Root, At: Root, right: Float, most: int, accuracy: float = ACCURACY) -> tuple[Float, bool]:
    """``(I + A Aᵀ Q)⁻¹`` times k right sides, and whether that was good enough within so many products.

    Parameters
    ----------
    Q : (m, m) array
    A, At : callable
        Products with A and its transpose, of (k, K, m) arrays.
    right : (k, K, m) array
    most : int
    accuracy : float
    """

    def kernel(X: Float) -> Float:
        return (X.reshape(-1, Q.shape[0]) @ Q).reshape(X.shape)

    def inner(X: Float, Y: Float) -> Float:
        return np.asarray((X * Y).sum(axis=(1, 2), keepdims=True))

    left = At(kernel(right))
    x, direction = np.zeros_like(left), left.copy()
    size = inner(left, left)
    goal = accuracy**2 * size
    for _ in range(most):
        if np.all(size <= goal):
            break
        go_on()
        image = direction + At(kernel(A(direction)))
        length = size / np.maximum(inner(direction, image), 1e-300)
        x += length * direction
        left -= length * image
        after = inner(left, left)
        direction = left + after / np.maximum(size, 1e-300) * direction
        size = after
    return right - A(x), bool(np.all(size <= goal))


def with_margins(machine: LogisticMachine, y: Float, z: Float) -> tuple[Float, Float]:
    """``z − h(Qz)``, behind it the sum of the dual variables where there is an intercept; and ``D``."""
    m, C = y.size, machine.C
    x = y * (machine.Q @ z)[:m]
    small = np.exp(-np.abs(x))
    residual = z.copy()
    residual[:m] -= C * y * np.where(x >= 0.0, small, 1.0) / (1.0 + small)
    residual[m:] = z[:m].sum()
    return residual, C * small / (1.0 + small) ** 2


def train_logistic(machine: LogisticMachine, s: Scratch, y: Float, start: Float | None = None) -> None:
    """Train on labels ``y``: the solution into the scratch, whose inverse is left alone and counts as cold.

    Parameters
    ----------
    machine : LogisticMachine
    s : Scratch
    y : (m,) array
    start : (m,) or (m + 1,) array, optional
        The solution for similar labels.
    """
    m = y.size
    s.v[FLAGS, 0] = COLD_TABLEAU
    z = np.zeros(machine.Q.shape[0]) if start is None else start.copy()
    residual, slopes = with_margins(machine, y, z)
    for _ in range(MOST_STEPS):
        size, norm = float(np.linalg.norm(residual)), float(np.linalg.norm(z))
        noise = min(1e-4, UNIT_ROUNDOFF * (4.0 + m * machine.entry_max * float(np.abs(z).sum())))
        good = GOOD if m == z.size else 1e-3 * GOOD  # an intercept magnifies what is left
        if size <= max(good / machine.factor, noise) * norm:
            break
        step, t = _step(machine, y, residual, slopes)[0], 1.0
        while t > 1e-9:
            after, there = with_margins(machine, y, z - t * step)
            if float(np.linalg.norm(after)) <= (1.0 - 0.1 * t) * size:
                break
            t *= 0.5
        else:
            break
        z, residual, slopes = z - t * step, after, there
    s.v[Z] = z
    if z.size > m:
        s.v[BORDER] = _step(machine, y, residual, slopes)[1]


def _step(machine: LogisticMachine, y: Float, residual: Float, slopes: Float) -> tuple[Float, Float]:
    """A Newton step; and with an intercept, ``(I + DQ)⁻¹D1`` with its sum behind it: see :mod:`.newton`."""
    m = y.size
    right = np.array([residual[:m]] if residual.size == m else [residual[:m], slopes])
    Q, root = machine.Q[:m, :m], np.sqrt(slopes)
    found, good = resolved(Q, lambda X: root * X, lambda X: root * X, right[:, None], MOST_PRODUCTS)
    solved = found[:, 0]
    if not good:
        L = factor(np.eye(m) + root[:, None] * Q * root)
        solved = right - root * solve(L, (root * (right @ Q)).T).T
    if residual.size == m:
        return solved[0], solved[0]
    step, border = solved
    beta = (step.sum() - residual[m]) / border.sum()
    return np.append(step - beta * border, beta), np.append(border, border.sum())


def inverse(machine: LogisticMachine, s: Scratch, y: Float) -> None:
    """The inverse of ``I + D^½ Q D^½`` at the solution at hand: what compiled Newton steps start from."""
    m, size = y.size, machine.Q.shape[0]
    _, slopes = with_margins(machine, y, s.v[Z])
    root = np.zeros(size)
    root[:m] = np.sqrt(slopes)
    s.v[ROOT] = root
    s.v[SLOPE] = root * root
    L = factor(np.eye(size) + root[:, None] * machine.Q * root)
    for start in range(0, size, 512):
        go_on()
        s.T[:, start : start + 512] = solve(L, np.eye(size, min(512, size - start), -start))
    if size > m:  # without the error of conjugate gradients, which margins would inherit
        s.v[BORDER] = s.v[SLOPE] - root * (s.T @ (root * (machine.Q @ s.v[SLOPE])))
        s.v[BORDER, m] = s.v[BORDER, :m].sum()
    s.v[FLAGS, 0] = 0.0
