"""Compiled kernel logistic regression: Newton's method from a neighbour's solution, and a proved error bound.

The model minimises ``½‖w‖² + C Σ log(1 + exp(−y_i f_i))`` with ``w = Σ z_i φ_i`` and ``f = Q z``. At the optimum
``z = h(f)``, where ``h_i(f) = C y_i σ(−y_i f_i)`` and σ is the logistic function. A Newton step solves
``(I + DQ) e = r`` with the residual ``r = z − h(Qz)`` and ``D = C σ(f) σ(−f)``, through the inverse of
``B = I + D^½ Q D^½``. The inverse serves for as many steps as it brings the residual down quickly. Flipping a label
changes neither ``f`` nor ``D``, so it serves for the first steps of a neighbour, too.

The bound. Let ``e = z − z*``. Then ``r = e + D̃Qe`` with some diagonal ``0 ≤ D̃ ≤ C/4`` (mean values of the derivative).
The product with ``Qe`` gives ``‖e‖²_Q + ‖D̃^½Qe‖² = (Qe)·r ≤ ‖e‖_Q ‖r‖_Q``, hence ``‖e‖_Q ≤ ‖r‖_Q`` and
``‖D̃^½Qe‖ ≤ ‖r‖_Q / 2``. Since ``e = r − D̃Qe``, at last ``‖e‖₂ ≤ ‖r‖₂ + (√C / 4) ‖r‖_Q ≤ (1 + √(Cλ) / 4) ‖r‖₂``,
where λ is the largest eigenvalue of ``Q``. So ``|k·z − k·z*|`` is at most that for every row with ``‖k‖₂ ≤ 1``. Any
``z`` will do; nothing depends on how it was found.

An intercept that is not regularised. Then ``f = Qz + b``, and ``Σ z = 0`` is one more condition. ``Q`` gets a row and a
column of ones (and a zero where they meet), and ``z`` one more entry, b. All of the above holds for fixed b, with the
solution ``z(b)``. Let ``g(b) = Σ z(b)``, which falls with b: ``−g' = κ = 1·(D⁻¹ + Q)⁻¹1``. From ``|g(b)| ≤ G`` follows
``|b − b*| ≤ e G / κ =: δ``, as long as no ``f_i`` moves by more than 1 on the way, since then no entry of D falls below
1/e of itself, nor does κ. And ``|f_i'| ≤ 1 + √(Q_ii m C) / 4``, by the same argument as above. For any u and
``v = Du``, κ is at least ``(1·v)² / (u·v + v·Qv)``. At last ``‖z(b) − z(b*)‖ ≤ δ (1 + √(Cλ) / 4) · e ‖D1‖``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.compiling import by_reference, compiled
from labelcert.svm.pivoting import COLD_TABLEAU, FLAGS, UNIT_ROUNDOFF, F, Z, multiply, multiply_symmetric, pivot

RESIDUAL, STEP, ROOT, SLOPE, IMAGE, BEFORE, F_BEFORE, BORDER = 0, 1, 4, 5, 6, 7, 8, 10
"""Rows of ``Scratch.v`` beside ``Z`` and ``F``: ``r``, ``e``, ``D^½`` of the inverse, ``D``, scratch, the last iterate
with its margins, and ``(I + DQ)⁻¹D1`` with its sum κ behind it (for the intercept)."""

MOST_STEPS = 200
"""Most steps of one training; what has not converged by then has a large error bound."""

GOOD = 1e-9
"""An error bound of this, relative to the solution, is not worth another step."""

KEEP = 0.15
"""An inverse is kept while every step makes the residual so much smaller, or smaller still."""

SATURATED = 1e-8
"""A slope of less than this, as a share of C, does not tell how a margin moves."""

_TINY = 1e-290
"""Covers underflow: far above the smallest normal number, far below anything that matters."""


@by_reference
class LogisticMachine(NamedTuple):
    """One kernel logistic regression up to its labels.

    Attributes
    ----------
    Q : (m, m) or (m + 1, m + 1) array
        The kernel, exactly symmetric; with an intercept, bordered by ones.
    C : float
    entry_max : float
        ``max |Q_ij|``.
    factor : float
        Upper bound on ``1 + √(Cλ) / 4``.
    spread : float
        Upper bound on ``√(λ max Q_ii)``: how far a residual of 1 moves any ``f_i``.
    reach : float
        Upper bound on ``1 + √(m C max Q_ii) / 4``.
    """

    Q: Float
    C: float
    entry_max: float
    factor: float
    spread: float
    reach: float


@compiled(inner=True, error_model="numpy")
def _residual(machine: Any, s: Any, y: Float) -> float:
    """``f``, ``D`` and ``r`` of the current ``z``; returns ``‖r‖₂`` as it comes out."""
    multiply_symmetric(machine.Q, s.v[Z], s.v[F])
    return _terms(machine, s, y)


@compiled(inner=True, error_model="numpy")
def _terms(machine: Any, s: Any, y: Float) -> float:
    """The same for margins that are known."""
    C = machine.C
    total = 0.0
    for i in range(y.shape[0]):
        x = y[i] * s.v[F, i]
        small = math.exp(-abs(x))
        one = 1.0 / (1.0 + small)
        share = small * one if x >= 0.0 else one
        s.v[SLOPE, i] = C * small * one * one * y[i] * y[i]  # a label that takes no part has y_i = z_i = 0
        r = s.v[Z, i] - C * y[i] * share
        s.v[RESIDUAL, i] = r
        total += r * r
    for i in range(y.shape[0], s.v.shape[1]):
        s.v[SLOPE, i] = 0.0
        s.v[RESIDUAL, i] = s.v[F, i]  # the sum of all dual variables
        total += s.v[F, i] * s.v[F, i]
    return math.sqrt(total)


@compiled(inner=True, error_model="numpy")
def _invert(machine: Any, s: Any, labels: int) -> None:
    """The inverse of ``I + D^½ Q D^½`` into ``T``, by pivoting on every label; and the border."""
    m = machine.Q.shape[0]
    root = s.v[ROOT]
    for i in range(m):
        root[i] = math.sqrt(s.v[SLOPE, i])
    for i in range(m):
        for j in range(m):
            s.T[i, j] = root[i] * root[j] * machine.Q[i, j]
        s.T[i, i] += 1.0
    for k in range(m):
        if s.stop[0] != 0:
            return
        pivot(s.T, k, s.v[IMAGE])
    if labels < m:
        _solve(machine, s, s.T, s.v[SLOPE], s.v[BORDER])
        total = 0.0
        for i in range(labels):
            total += s.v[BORDER, i]
        s.v[BORDER, labels] = total


@compiled(inner=True, error_model="numpy")
def _solve(machine: Any, s: Any, T: Float, right: Float, out: Float) -> None:
    """``(I + DQ)⁻¹`` times a vector (0 for the intercept), as ``r − D^½ B⁻¹ D^½ Q r``."""
    x, root = s.v[IMAGE], s.v[ROOT]
    multiply_symmetric(machine.Q, right, x)
    for i in range(x.shape[0]):
        x[i] *= root[i]
    multiply(T, x, out)
    for i in range(x.shape[0]):
        out[i] = right[i] - root[i] * out[i]


@compiled(inner=True, error_model="numpy")
def _direction(machine: Any, s: Any, T: Float, labels: int) -> None:
    """The Newton step for the inverse in ``T``; with an intercept, the dual variables add up to 0 after it."""
    if labels == machine.Q.shape[0]:
        _solve(machine, s, T, s.v[RESIDUAL], s.v[STEP])
        return
    excess = s.v[RESIDUAL, labels]
    s.v[RESIDUAL, labels] = 0.0
    _solve(machine, s, T, s.v[RESIDUAL], s.v[STEP])
    total = 0.0
    for i in range(labels):
        total += s.v[STEP, i]
    beta = (total - excess) / s.v[BORDER, labels]
    for i in range(labels):
        s.v[STEP, i] -= beta * s.v[BORDER, i]
    s.v[STEP, labels] = beta
    s.v[RESIDUAL, labels] = excess


@compiled(inner=True)
def _back(s: Any) -> None:
    for i in range(s.v.shape[1]):
        s.v[Z, i] = s.v[BEFORE, i]


@compiled(inner=True, error_model="numpy")
def _shorten(machine: Any, s: Any, y: Float, residual: float) -> bool:
    """Go only a part of the last step, so that the residual falls; False where no part of it helps.

    A Newton step is a direction in which the residual falls, and margins change linearly along it.
    """
    t = 0.5
    while t > 1e-9:
        total = 0.0
        for i in range(y.shape[0]):
            f = s.v[F_BEFORE, i] - t * (s.v[F_BEFORE, i] - s.v[F, i])
            z = s.v[BEFORE, i] - t * (s.v[BEFORE, i] - s.v[Z, i])
            x = y[i] * f
            small = math.exp(-abs(x))
            share = small / (1.0 + small) if x >= 0.0 else 1.0 / (1.0 + small)
            r = z - machine.C * y[i] * share
            total += r * r
        for i in range(y.shape[0], s.v.shape[1]):
            r = s.v[F_BEFORE, i] - t * (s.v[F_BEFORE, i] - s.v[F, i])
            total += r * r
        if math.sqrt(total) <= (1.0 - 0.1 * t) * residual:
            for i in range(s.v.shape[1]):
                s.v[Z, i] = s.v[BEFORE, i] - t * (s.v[BEFORE, i] - s.v[Z, i])
            return True
        t *= 0.5
    return False


@compiled(inner=True, error_model="numpy")
def _advance(machine: Any, s: Any, y: Float, T: Float) -> float:
    """A full step with the inverse in ``T``; returns the new residual's norm."""
    m = y.shape[0]
    _direction(machine, s, T, m)
    told = True
    for i in range(s.v.shape[1]):
        s.v[BEFORE, i] = s.v[Z, i]
        s.v[F_BEFORE, i] = s.v[F, i]
        s.v[Z, i] -= s.v[STEP, i]
    for i in range(m):
        # D times the change of f is what the step leaves of the residual.
        slope = s.v[ROOT, i] * s.v[ROOT, i]
        told = told and (slope > SATURATED * machine.C or y[i] == 0.0)
        if slope > 0.0:
            s.v[F, i] -= (s.v[RESIDUAL, i] - s.v[STEP, i]) / slope
    if m < s.v.shape[1]:
        s.v[F, m] = 0.0
        for i in range(m):
            s.v[F, m] += s.v[Z, i]
    return _terms(machine, s, y) if told else _residual(machine, s, y)


@compiled(inner=True)
def _enough(machine: Any, s: Any, residual: float, labels: int) -> bool:
    """Whether another step is not worth it: the error bound is good, or all that is left is rounding."""
    total, one = 0.0, 0.0
    for i in range(s.v.shape[1]):
        total += s.v[Z, i] * s.v[Z, i] if i < labels else 0.0
        one += abs(s.v[Z, i])
    noise = min(1e-4, UNIT_ROUNDOFF * (4.0 + s.v.shape[1] * machine.entry_max * one))
    good = GOOD if labels == s.v.shape[1] else 1e-3 * GOOD  # an intercept magnifies what is left
    return bool(residual <= max(good / machine.factor, noise) * math.sqrt(total))


@compiled(error_model="numpy")
def relabel(machine: Any, s: Any, y: Float, i: int, value: float) -> None:
    """Change label ``i`` to ±1, or 0 to leave it out; the solution at hand is where the next training starts."""
    y[i] = value


@compiled(error_model="numpy")
def relabel_all(machine: Any, s: Any, y: Float, flips: Int, to: Float) -> None:
    """Change several labels to what they are in ``to``."""
    for i in flips:
        y[i] = to[i]


@compiled(error_model="numpy")
def settle(machine: Any, s: Any, y: Float) -> int:
    """Train on labels ``y`` from what is at hand; returns the number of steps, negative where it did not converge.

    Where that leads nowhere, it starts over from nothing, and so does the next training.
    """
    present = 0
    for i in range(y.shape[0]):
        present += y[i] != 0.0
    if present == 0:  # relative to nothing, no step would be small enough
        for i in range(s.v.shape[1]):
            s.v[Z, i] = 0.0
        s.v[FLAGS, 0] = COLD_TABLEAU
        return 0
    warm = s.v[FLAGS, 0] == 0.0
    steps = _iterate(machine, s, y, warm)
    if steps < 0 and warm and s.stop[0] == 0:
        steps = _iterate(machine, s, y, False)
    s.v[FLAGS, 0] = 0.0 if steps >= 0 else COLD_TABLEAU
    return steps


@compiled(inner=True, error_model="numpy")
def _iterate(machine: Any, s: Any, y: Float, warm: bool) -> int:
    """Newton steps from the solution at hand, or from nothing."""
    fresh = not warm
    if fresh:
        for i in range(s.v.shape[1]):
            s.v[Z, i] = 0.0
    residual = _residual(machine, s, y)
    if fresh:
        _invert(machine, s, y.shape[0])
    for step in range(MOST_STEPS):
        if _enough(machine, s, residual, y.shape[0]):
            return step
        if s.stop[0] != 0:  # perhaps in the middle of an inverse, which is worth nothing then
            return -step - 1
        after = _advance(machine, s, y, s.T)
        if after <= KEEP * residual:
            residual, fresh = after, False
            continue
        if fresh and not after <= 0.5 * residual:
            if not _shorten(machine, s, y, residual):
                _back(s)
                _residual(machine, s, y)
                return -step - 1
            after = _residual(machine, s, y)
        elif not after <= 0.5 * residual:
            _back(s)
            after = _residual(machine, s, y)
        residual = after
        _invert(machine, s, y.shape[0])
        fresh = True
    return -MOST_STEPS


@compiled(error_model="numpy")
def bound(machine: Any, s: Any, y: Float, sharp: bool) -> tuple[float, int]:
    """Rigorous error bound ``τ`` on ``k·z`` for rows with ``‖k‖₂ ≤ 1``; see above. Infinite where nothing is proved."""
    m, size = y.shape[0], machine.Q.shape[0]
    _residual(machine, s, y)
    computed, norm1, norm2, target = 0.0, 0.0, 0.0, 0.0
    for i in range(m):
        computed += s.v[RESIDUAL, i] * s.v[RESIDUAL, i]
        h = s.v[Z, i] - s.v[RESIDUAL, i]
        target += h * h
    for i in range(size):
        norm1 += abs(s.v[Z, i])
        norm2 += s.v[Z, i] * s.v[Z, i]
    err = 1.01 * UNIT_ROUNDOFF * (size + 2) * machine.entry_max * norm1 + size * _TINY
    if not err < 1e-3:
        return np.inf, 3
    # σ changes by at most its own size times the change of f, and the exponential is good to a few units.
    residual = 1.01 * (math.sqrt(computed) + (32.0 * UNIT_ROUNDOFF + 1.01 * err) * math.sqrt(target))
    residual += 1.01 * (8.0 * UNIT_ROUNDOFF * math.sqrt(norm2) + m * _TINY * (1.0 + machine.C))
    residual += math.sqrt(m * _TINY)  # squares that underflow
    rounding = 1.01 * UNIT_ROUNDOFF * (size + 3) * math.sqrt(norm2) + size * _TINY
    off = machine.factor * residual
    if m < size:
        shift, slopes = _shift(machine, s, m, 1.01 * (abs(s.v[F, m]) + err + math.sqrt(m) * off))
        if not machine.reach * shift + machine.spread * residual + err <= 0.99:
            return np.inf, 3
        off += shift * (1.0 + machine.factor * 2.8 * slopes)
    tau = 1.01 * (off + rounding)
    return (tau if tau < np.inf else np.inf), 3


@compiled(inner=True, error_model="numpy")
def _shift(machine: Any, s: Any, m: int, excess: float) -> tuple[float, float]:
    """Bound δ on the distance of the intercept from its optimum, where ``|g(b)| ≤ excess``; and ``‖D1‖``."""
    for i in range(m):
        s.v[STEP, i] = s.v[BORDER, i]
    s.v[STEP, m] = 0.0
    multiply_symmetric(machine.Q, s.v[STEP], s.v[IMAGE])
    total, quadratic, slopes, norm1 = 0.0, 0.0, 0.0, 0.0
    for i in range(m):
        u, d = 1.0 - s.v[IMAGE, i], s.v[SLOPE, i]
        s.v[STEP, i] = d * u
        total += d * u
        norm1 += abs(d * u)
        slopes += d * d
        quadratic += d * u * u
    multiply_symmetric(machine.Q, s.v[STEP], s.v[IMAGE])
    for i in range(m):
        quadratic += s.v[STEP, i] * s.v[IMAGE, i]
    # D has a few units of error, which change both sums by a tiny part.
    above = total - 1e-2 * norm1
    below = 1.02 * abs(quadratic) + 1.01 * UNIT_ROUNDOFF * (2 * m + 8) * machine.entry_max * norm1 * norm1
    if not above > 0.0:
        return np.inf, np.inf
    return 2.75 * 1.01 * excess * (below + _TINY) / (above * above), 1.02 * math.sqrt(slopes) + _TINY


@compiled(error_model="numpy")
def solve_descendant(machine: Any, parent: Any, own: Any, y: Float, flips: Int, to: Float) -> tuple[float, int]:
    """Change labels of a solved parent, whose inverse is shared: error bound and proof, as from :func:`bound`.

    The bound is infinite where the parent's inverse is not good enough. The solution is in ``own``, labels in ``y``.
    """
    for i in flips:
        y[i] = to[i]
    return _chords(machine, parent, own, y)


@compiled(error_model="numpy")
def solve_child(machine: Any, parent: Any, own: Any, y: Float, i: int, value: float) -> tuple[float, int]:
    """The same for one label."""
    y[i] = value
    return _chords(machine, parent, own, y)


@compiled(inner=True)
def _chords(machine: Any, parent: Any, own: Any, y: Float) -> tuple[float, int]:
    """Steps from the parent's solution with its inverse, for labels that are changed already."""
    for row in range(parent.v.shape[0]):
        for j in range(parent.v.shape[1]):
            own.v[row, j] = parent.v[row, j]
    residual = _residual(machine, own, y)
    for _ in range(y.shape[0]):
        if _enough(machine, own, residual, y.shape[0]):
            return bound(machine, own, y, False)
        after = _advance(machine, own, y, parent.T)
        if not after <= 0.7 * residual:
            break
        residual = after
    return np.inf, 3


def new_machine(Q: Float, C: float, *, intercept: bool = False) -> LogisticMachine:
    """The machine of a kernel: its largest eigenvalue is at most the largest sum of a row's magnitudes."""
    m = Q.shape[0]
    largest, diagonal = 1.01 * float(np.abs(Q).sum(axis=1).max()), float(np.diag(Q).max())
    if intercept:
        Q = np.block([[Q, np.ones((m, 1))], [np.ones((1, m)), np.zeros((1, 1))]])
        Q.setflags(write=False)
    return LogisticMachine(
        Q=Q,
        C=C,
        entry_max=float(np.abs(Q).max()),
        factor=1.01 * (1.0 + math.sqrt(C) * math.sqrt(largest) / 4.0),
        spread=1.01 * math.sqrt(largest) * math.sqrt(diagonal),
        reach=1.01 * (1.0 + math.sqrt(m * C) * math.sqrt(diagonal) / 4.0),
    )
