"""The compiled SVM: block principal pivoting on a warm tableau, with a rigorous error bound.

The bias-free SVM on labels ``y`` is the box-constrained problem in the signed dual ``z_i = y_i α_i``:

===== ============================ ===============
state ``z_i``                      margin
===== ============================ ===============
ZERO  0                            ``y_i f_i ≥ 1``
FREE  between 0 and ``y_i C``      ``y_i f_i = 1``
CAP   ``y_i C``                    ``y_i f_i ≤ 1``
===== ============================ ===============

with ``f = Q z``. A *tableau* ``T`` is the principal pivot transform of ``Q`` on the FREE set: given ``f``
on FREE and ``z`` elsewhere, one product with ``T`` gives ``z`` on FREE and ``f`` elsewhere. Moving one
label in or out of FREE costs one rank-one update, so the tableau of one labelling is an excellent start
for its neighbours.

Nothing here has to be believed: :func:`bound` takes the ``z`` that came out, whatever it is, and returns a
number ``τ`` such that ``|k·z − k·z*| ≤ τ`` for every row with ``‖k‖₂ ≤ 1``, where ``z*`` is optimal.
Rounding errors of every operation are covered, by the standard model ``|fl(a∘b) − a∘b| ≤ u·|a∘b|``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

Float = npt.NDArray[np.float64]

ZERO, FREE, CAP = 0, 1, 2
UNIT_ROUNDOFF = 2.0**-53
_TINY = 1e-290
"""Covers underflow: far above the smallest normal number, far below anything that matters."""

COLD_TABLEAU = 1.0
"""Value of ``Scratch.flags[0]`` that asks for a new tableau before the next solve."""


class Machine(NamedTuple):
    """One SVM up to its labels: the kernel and the constants that its error bounds need.

    Attributes
    ----------
    Q : (m, m) array
        The kernel, exactly symmetric.
    C : float
        Cap of the dual variables.
    ridge : float
        Added to the diagonal inside the tableau alone (0 where ``Q`` is well conditioned), so that no pivot
        vanishes; :func:`bound` measures against ``Q`` itself.
    min_eig : float
        Proved lower bound on the smallest eigenvalue of ``Q`` (0 where nothing is proved).
    entry_max : float
        ``max |Q_ij|``.
    row_norm : float
        Upper bound on ``max_i ‖Q_i‖₂``.
    gap_ridge, gap_factor : float
        ``gap_factor ≥ k·(Q + gap_ridge·I)⁻¹·k`` for every test row ``k`` (scaled to norm at most 1).
    """

    Q: Float
    C: float
    ridge: float
    min_eig: float
    entry_max: float
    row_norm: float
    gap_ridge: float
    gap_factor: float


class Scratch(NamedTuple):
    """Everything that one worker writes to while it solves: states, tableau, solution."""

    T: Float
    state: npt.NDArray[np.int8]
    x: Float
    g: Float
    z: Float
    f: Float
    change: npt.NDArray[np.int8]
    flags: Float


def new_scratch(m: int) -> Scratch:
    """Working memory for problems with ``m`` labels; every label starts at CAP."""
    return Scratch(
        T=np.zeros((m, m)),
        state=np.full(m, CAP, dtype=np.int8),
        x=np.zeros(m),
        g=np.zeros(m),
        z=np.zeros(m),
        f=np.zeros(m),
        change=np.zeros(m, dtype=np.int8),
        flags=np.array([COLD_TABLEAU, 0.0]),
    )


REORDER = {"reassoc", "contract"}
"""Sums may be reordered and fused: every error bound here holds for any order, and fusing only helps."""


@njit(cache=True, nogil=True, fastmath=REORDER)
def multiply(A: Float, x: Float, out: Float) -> None:
    """``out = A x``."""
    for i in range(A.shape[0]):
        acc = 0.0
        for j in range(A.shape[1]):
            acc += A[i, j] * x[j]
        out[i] = acc


@njit(cache=True, nogil=True, fastmath=REORDER)
def _pivot(T: Float, k: int) -> None:
    """Exchange ``z_k`` and ``f_k`` in the tableau (principal pivot on ``T_kk``)."""
    m = T.shape[0]
    inv = 1.0 / T[k, k]
    for i in range(m):
        if i != k:
            a = T[i, k] * inv
            if a != 0.0:
                for j in range(m):
                    T[i, j] -= a * T[k, j]
            T[i, k] = a
    for j in range(m):
        T[k, j] *= -inv
    T[k, k] = inv


@njit(cache=True, nogil=True)
def _rebuild(machine: Any, s: Any) -> None:
    """The tableau of the current FREE set, from scratch."""
    m = machine.Q.shape[0]
    for i in range(m):
        for j in range(m):
            s.T[i, j] = machine.Q[i, j]
        s.T[i, i] += machine.ridge
    for k in range(m):
        if s.state[k] == FREE:
            if s.T[k, k] > 0.0:
                _pivot(s.T, k)
            else:
                s.state[k] = CAP
    s.flags[0] = 0.0


@njit(cache=True, nogil=True)
def settle(machine: Any, s: Any, y: Float) -> int:
    """Pivot from the current states to (numerically) optimal ones for labels ``y``; ``s.z`` is the solution.

    All violated labels change state at once; after a few rounds without progress only the last violated one
    does, which cannot cycle on a positive definite kernel. Returns the number of rounds, negative if the limit
    was reached: the result is then poor, and :func:`bound` will say so.
    """
    m = machine.Q.shape[0]
    C = machine.C
    if s.flags[0] != 0.0:
        _rebuild(machine, s)
    fewest = m + 1
    patience = 3
    limit = 60 + 20 * m
    for rounds in range(limit):
        norm1 = 0.0
        for i in range(m):
            if s.state[i] == FREE:
                s.x[i] = y[i]
            elif s.state[i] == CAP:
                s.x[i] = C * y[i]
            else:
                s.x[i] = 0.0
        multiply(s.T, s.x, s.g)
        for i in range(m):
            s.z[i] = s.g[i] if s.state[i] == FREE else s.x[i]
            norm1 += abs(s.z[i])
        slack_f = 64.0 * UNIT_ROUNDOFF * (1.0 + machine.entry_max * norm1)
        slack_z = 64.0 * UNIT_ROUNDOFF * (norm1 + C)
        violated = 0
        last = -1
        for i in range(m):
            v = y[i] * s.g[i]
            s.change[i] = -1
            if s.state[i] == FREE:
                if v < -slack_z:
                    s.change[i] = ZERO
                elif v > C + slack_z:
                    s.change[i] = CAP
            elif s.state[i] == ZERO:
                if v < 1.0 - slack_f:
                    s.change[i] = FREE
            elif v > 1.0 + slack_f:
                s.change[i] = FREE
            if s.change[i] >= 0:
                violated += 1
                last = i
        if violated == 0:
            return rounds + 1
        if violated < fewest:
            fewest = violated
            patience = 3
        else:
            patience -= 1
        for i in range(m):
            if s.change[i] >= 0 and (patience > 0 or i == last):
                if s.change[i] == FREE or s.state[i] == FREE:
                    if s.T[i, i] > 0.0:
                        _pivot(s.T, i)
                    else:
                        s.flags[0] = COLD_TABLEAU
                s.state[i] = s.change[i]
        if s.flags[0] != 0.0:
            _rebuild(machine, s)
    s.flags[0] = COLD_TABLEAU
    return -limit


@njit(cache=True, nogil=True)
def _margins(machine: Any, s: Any) -> float:
    """``f = Q z``; returns a bound on the rounding error of every ``f_i`` (and of ``y_i − f_i``)."""
    m = machine.Q.shape[0]
    norm1 = 0.0
    biggest = 1.0
    for i in range(m):
        norm1 += abs(s.z[i])
    multiply(machine.Q, s.z, s.f)
    for i in range(m):
        biggest = max(biggest, abs(s.f[i]))
    return 1.01 * UNIT_ROUNDOFF * ((m + 2) * machine.entry_max * norm1 + 4.0 * biggest) + m * _TINY


@njit(cache=True, nogil=True)
def _residual(s: Any, y: Float, err: float) -> float:
    """Upper bound on ``‖y_F − (Qz)_F‖₂`` over the FREE set."""
    total = 0.0
    for i in range(y.shape[0]):
        if s.state[i] == FREE:
            r = abs(y[i] - s.f[i]) + err
            total += r * r
    return 1.01 * math.sqrt(total)


@njit(cache=True, nogil=True)
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
            s.x[j] = 0.0
        for k in range(m):
            if s.state[k] == FREE:
                a = s.T[i, k]
                norm_x += a * a
                for j in range(m):
                    s.x[j] += a * machine.Q[k, j]
        for j in range(m):
            if s.state[j] == FREE:
                e = s.x[j] - (1.0 if i == j else 0.0)
                norm_e += e * e
                norm_q += machine.Q[i, j] * machine.Q[i, j]
    norm_x = math.sqrt(norm_x)
    theta = 1.01 * (math.sqrt(norm_e) + UNIT_ROUNDOFF * (m + 3) * norm_x * math.sqrt(norm_q) + m * _TINY)
    if not theta < 0.5:
        return np.inf
    return 1.01 * norm_x / (1.0 - theta)


@njit(cache=True, nogil=True)
def _strictly_optimal(machine: Any, s: Any, y: Float, err: float, delta: float) -> bool:
    """Whether the exact solution of the FREE system satisfies all optimality conditions.

    The exact solution differs from ``s.z`` by at most ``delta`` (2-norm, on FREE alone).
    """
    C = machine.C
    wide = 1.01 * (err + machine.row_norm * delta)
    for i in range(y.shape[0]):
        if s.state[i] == FREE:
            v = y[i] * s.z[i]
            if v < 1.01 * delta or v > C - 1.01 * delta - 2.0 * UNIT_ROUNDOFF * C:
                return False
        else:
            v = y[i] * s.f[i] - 1.0
            if s.state[i] == ZERO:
                if v < wide:
                    return False
            elif v > -wide:
                return False
    return True


@njit(cache=True, nogil=True)
def bound(machine: Any, s: Any, y: Float) -> tuple[float, int]:
    """Rigorous error bound ``τ`` on ``k·z`` for rows with ``‖k‖₂ ≤ 1``, and how it was proved.

    1 or 2: the active set is proved optimal, with the global or a local bound on the inverse, and ``τ`` is the
    error of one linear solve. 3: the duality gap of the solution (clipped to the box) bounds it.
    """
    m = machine.Q.shape[0]
    C = machine.C
    err = _margins(machine, s)
    residual = _residual(s, y, err)
    for _ in range(2):
        if residual <= 4.0 * math.sqrt(m) * err:
            break
        for i in range(m):
            s.x[i] = y[i] - s.f[i] if s.state[i] == FREE else 0.0
        multiply(s.T, s.x, s.g)
        for i in range(m):
            if s.state[i] == FREE:
                s.z[i] += s.g[i]
        err = _margins(machine, s)
        better = _residual(s, y, err)
        if better > 0.5 * residual:
            s.flags[0] = COLD_TABLEAU
            residual = better
            break
        residual = better

    norm2 = 0.0
    for i in range(m):
        norm2 += s.z[i] * s.z[i]
    rounding = 1.01 * UNIT_ROUNDOFF * (m + 3) * math.sqrt(norm2) + m * _TINY

    if machine.min_eig > 0.0:
        delta = 1.01 * residual / machine.min_eig
        if _strictly_optimal(machine, s, y, err, delta):
            return 1.01 * (delta + rounding), 1
    inverse = _inverse_norm(machine, s)
    if inverse < np.inf:
        delta = 1.01 * residual * inverse
        if _strictly_optimal(machine, s, y, err, delta):
            return 1.01 * (delta + rounding), 2

    for i in range(m):
        a = min(max(y[i] * s.z[i], 0.0), C)
        s.z[i] = y[i] * a
    err = _margins(machine, s)
    gap = 0.0
    for i in range(m):
        a = y[i] * s.z[i]
        excess = y[i] * s.f[i] - 1.0
        high = max(a * (excess + err), (a - C) * (excess + err))
        low = max(a * (excess - err), (a - C) * (excess - err))
        gap += max(high, low, 0.0)
    gap = 1.01 * gap + m * _TINY
    total = gap + 1.01 * machine.gap_ridge * m * C * C
    norm2 = 0.0
    for i in range(m):
        norm2 += s.z[i] * s.z[i]
    rounding = 1.01 * UNIT_ROUNDOFF * (m + 3) * math.sqrt(norm2) + m * _TINY
    return 1.01 * (math.sqrt(machine.gap_factor * total) + rounding), 3
