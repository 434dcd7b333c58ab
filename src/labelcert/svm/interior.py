"""A quadratic program over a box by an interior-point method: slow, but no kernel is too singular for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from labelcert.arrays import Bool, Float
from labelcert.stopping import go_on
from labelcert.svm.factors import factor, solve

MOST_STEPS = 80

CLOSE = 1e-13
"""A duality gap of this, as a share of the objective, is not worth another step."""

LOW_RANK = 0.2
"""Of a kernel with a rank of at most this share of its size, small systems are enough."""


def box_minimum(H: Float, C: float) -> tuple[Float, Bool, Bool]:
    """About where ``½ a·Ha − Σ a`` is least for ``0 ≤ a ≤ C``, and which entries are at either end of their range.

    Mehrotra's predictor and corrector, on ``(H + S/A + W/(C − A)) Δ = r`` with the multipliers S and W of both ends.
    """
    m = H.shape[0]
    systems = _systems(H)
    size = min(0.5 * C, 1.0 / max(float(np.abs(H).sum(axis=1).mean()), 1e-300))
    a, room, s, w = np.full(m, size), np.full(m, C - size), np.ones(m), np.ones(m)
    for _ in range(MOST_STEPS):
        go_on()
        slope = H @ a - 1.0
        mu = float(s @ a + w @ room) / (2 * m)
        off = float(np.abs(slope - s + w).max())
        if 2 * m * mu <= CLOSE * max(1e-300, abs(float(a.sum()))) and off <= 1e-12:
            break
        solved = systems(s / a + w / room)

        def step(low: Float, high: Float) -> tuple[Float, Float, Float, float]:
            da = solved(low / a - high / room - slope)  # noqa: B023
            ds, dw = low / a - s - s / a * da, high / room - w + w / room * da  # noqa: B023
            ends = ((a, da), (room, -da), (s, ds), (w, dw))  # noqa: B023
            far = [float((-v[d < 0] / d[d < 0]).min(initial=1.0)) for v, d in ends]
            return da, ds, dw, min(far)

        with np.errstate(all="ignore"):
            da, ds, dw, t = step(np.zeros(m), np.zeros(m))
            after = float((s + t * ds) @ (a + t * da) + (w + t * dw) @ (room - t * da)) / (2 * m)
            goal = mu * min(1.0, (after / mu) ** 3)
            da, ds, dw, t = step(goal - da * ds, goal + da * dw)
        if not np.isfinite(da).all() or t < 1e-12:
            break
        t *= 0.995
        a, room, s, w = a + t * da, room - t * da, s + t * ds, w + t * dw
    most = float(a.max())  # compared in the units of margins
    return a, most * s > a, most * w > room


def _systems(H: Float) -> Callable[[Float], Callable[[Float], Float]]:
    """What solves systems with H and any diagonal on top: by its factor, or in few dimensions where it has few."""
    m = H.shape[0]
    L, order, rank, _ = scipy.linalg.lapack.dpstrf(H, lower=1, tol=2.0**-48 * float(np.abs(np.diag(H)).max()))
    if rank > LOW_RANK * m:

        def whole(D: Float) -> Callable[[Float], Float]:
            A = H.copy()
            A[np.diag_indices(m)] += D
            try:
                own = factor(A)
            except np.linalg.LinAlgError:
                return lambda right: np.full(m, np.nan)
            return lambda right: solve(own, right)

        return whole
    G = np.zeros((m, rank))
    G[order - 1] = np.tril(L)[:, :rank]

    def narrow(D: Float) -> Callable[[Float], Float]:
        scaled = G / D[:, None]
        own = factor(np.eye(rank) + G.T @ scaled)
        return lambda right: right / D - scaled @ solve(own, scaled.T @ right)

    return narrow
