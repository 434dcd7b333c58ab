"""A rigorous error bound on a trained SVM, whatever solver produced it.

Nothing has to be believed: :func:`bound` takes the ``z`` that came out, whatever it is, and returns a
number ``τ`` such that ``|k·z − k·z*| ≤ τ`` for every row with ``‖k‖₂ ≤ 1``, where ``z*`` is optimal.
Rounding errors of every operation are covered, by the standard model ``|fl(a∘b) − a∘b| ≤ u·|a∘b|``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from labelcert.arrays import Float
from labelcert.compiling import compiled
from labelcert.svm.pivoting import (
    CAP,
    COLD_TABLEAU,
    FLAGS,
    FREE,
    IMAGE,
    STEP,
    UNIT_ROUNDOFF,
    ZERO,
    F,
    Z,
    image,
    multiply_symmetric,
)

_TINY = 1e-290
"""Covers underflow: far above the smallest normal number, far below anything that matters."""

GOOD_BOUND = 1e-10
"""Error bounds below this, relative to the solution, are not worth improving."""


@compiled(inner=True)
def _margins(machine: Any, s: Any) -> float:
    """``f = Q z``; returns a bound on the rounding error of every ``f_i`` (and of ``y_i − f_i``)."""
    m = machine.Q.shape[0]
    norm1 = 0.0
    biggest = 1.0
    for i in range(m):
        norm1 += abs(s.v[Z, i])
    multiply_symmetric(machine.Q, s.v[Z], s.v[F])
    for i in range(m):
        biggest = max(biggest, abs(s.v[F, i]))
    return 1.01 * UNIT_ROUNDOFF * ((m + 2) * machine.entry_max * norm1 + 4.0 * biggest) + m * _TINY


@compiled(inner=True)
def _residual(s: Any, y: Float, err: float) -> float:
    """Upper bound on ``‖y_F − (Qz)_F‖₂`` over the FREE set."""
    total = 0.0
    for i in range(y.shape[0]):
        if s.state[i] == FREE:
            r = abs(y[i] - s.v[F, i]) + err
            total += r * r
    return 1.01 * math.sqrt(total)


@compiled(inner=True)
def _inverse_norm(machine: Any, s: Any) -> float:
    """Proved upper bound on ``‖Q_FF⁻¹‖₂``, infinite where none is found.

    With ``X`` the tableau's block and ``θ ≥ ‖I − X Q_FF‖``: ``‖Q_FF⁻¹‖ ≤ ‖X‖ / (1 − θ)``.
    """
    m = machine.Q.shape[0]
    norm_x = 0.0
    norm_q = 0.0
    norm_e = 0.0
    for i in range(m):
        if s.state[i] != FREE:
            continue
        for j in range(m):
            s.v[STEP, j] = 0.0
        for k in range(m):
            if s.state[k] == FREE:
                a = s.T[i, k]
                norm_x += a * a
                for j in range(m):
                    s.v[STEP, j] += a * machine.Q[k, j]
        for j in range(m):
            if s.state[j] == FREE:
                e = s.v[STEP, j] - (1.0 if i == j else 0.0)
                norm_e += e * e
                norm_q += machine.Q[i, j] * machine.Q[i, j]
    norm_x = math.sqrt(norm_x)
    theta = 1.01 * (math.sqrt(norm_e) + UNIT_ROUNDOFF * (m + 8) * norm_x * math.sqrt(norm_q) + m * _TINY)
    if not theta < 0.5:
        return np.inf
    return 1.01 * norm_x / (1.0 - theta)


@compiled(inner=True)
def _strictly_optimal(machine: Any, s: Any, y: Float, err: float, delta: float) -> bool:
    """Whether the exact solution of the FREE system satisfies all optimality conditions.

    The exact solution differs from ``s.v[Z]`` by at most ``delta`` (2-norm, on FREE alone).
    """
    C = machine.C
    wide = 1.01 * (err + machine.row_norm * delta)
    for i in range(y.shape[0]):
        if s.state[i] == FREE:
            v = y[i] * s.v[Z, i]
            if not (v >= 1.01 * delta and v <= C - 1.01 * delta - 2.0 * UNIT_ROUNDOFF * C):
                return False
        else:
            v = y[i] * s.v[F, i] - 1.0
            if s.state[i] == ZERO:
                if not v >= wide:
                    return False
            elif not v <= -wide:
                return False
    return True


@compiled()
def bound(machine: Any, s: Any, y: Float, sharp: bool) -> tuple[float, int]:  # noqa: C901
    """Rigorous error bound ``τ`` on ``k·z`` for rows with ``‖k‖₂ ≤ 1``, and how it was proved.

    1 or 2: the active set is proved optimal, with the global or a local bound on the inverse, and ``τ`` is the
    error of one linear solve. 3: the duality gap of the solution (clipped to the box) bounds it. Every test is
    written so that a NaN fails it; where nothing is proved, ``τ`` is infinite. The local bound takes cubic work; it is
    tried only for a ``sharp`` result.
    """
    m = machine.Q.shape[0]
    C = machine.C
    usable = True
    for i in range(m):
        # A proof about the states needs the solution that belongs to them, whatever came before.
        if s.state[i] == ZERO:
            s.v[Z, i] = 0.0
        elif s.state[i] == CAP:
            s.v[Z, i] = C * y[i]
        elif s.state[i] != FREE:
            usable = False
    err = _margins(machine, s)
    residual = _residual(s, y, err)
    for _ in range(2):
        if residual <= 4.0 * math.sqrt(m) * err:
            break
        for i in range(m):
            s.v[STEP, i] = y[i] - s.v[F, i] if s.state[i] == FREE else 0.0
        image(s, s.v[STEP], s.v[IMAGE])
        for i in range(m):
            if s.state[i] == FREE:
                s.v[Z, i] += s.v[IMAGE, i]
        err = _margins(machine, s)
        better = _residual(s, y, err)
        if better > 0.5 * residual:
            s.v[FLAGS, 0] = COLD_TABLEAU
            residual = better
            break
        residual = better

    norm2 = 0.0
    for i in range(m):
        norm2 += s.v[Z, i] * s.v[Z, i]
    rounding = 1.01 * UNIT_ROUNDOFF * (m + 3) * math.sqrt(norm2) + m * _TINY

    proved = np.inf
    if usable and machine.min_eig > 0.0:
        delta = 1.01 * residual / machine.min_eig
        if _strictly_optimal(machine, s, y, err, delta):
            proved = 1.01 * (delta + rounding)
            if proved <= GOOD_BOUND * math.sqrt(norm2):
                return proved, 1
    inverse = _inverse_norm(machine, s) if usable and sharp else np.inf
    if inverse < np.inf:
        delta = 1.01 * residual * inverse
        if _strictly_optimal(machine, s, y, err, delta):
            return min(proved, 1.01 * (delta + rounding)), 2
    if proved < np.inf:
        return proved, 1

    for i in range(m):
        a = min(max(y[i] * s.v[Z, i], 0.0), C)
        s.v[Z, i] = y[i] * a
    err = _margins(machine, s)
    gap = 0.0
    for i in range(m):
        if y[i] == 0.0:  # a label that takes no part
            continue
        a = y[i] * s.v[Z, i]
        excess = y[i] * s.v[F, i] - 1.0
        high = max(a * (excess + err), (a - C) * (excess + err))
        low = max(a * (excess - err), (a - C) * (excess - err))
        gap += high if high >= low else low
    gap = 1.01 * gap + m * _TINY
    total = gap + 1.01 * machine.gap_ridge * m * C * C
    norm2 = 0.0
    for i in range(m):
        norm2 += s.v[Z, i] * s.v[Z, i]
    rounding = 1.01 * UNIT_ROUNDOFF * (m + 3) * math.sqrt(norm2) + m * _TINY
    tau = 1.01 * (math.sqrt(machine.gap_factor * total) + rounding)
    return (tau if tau < np.inf else np.inf), 3
