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
"""Value of ``Scratch.v[FLAGS, 0]`` that asks for a new tableau before the next solve."""


SLACK = 1e-13
"""Violations up to this, relative to the numbers at hand, do not move a label: pivoting on noise leads nowhere."""


GOOD_BOUND = 1e-10
"""Error bounds below this, relative to the solution, are not worth improving."""


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


X, G, Z, F, LOW, HIGH, STEP, IMAGE, ROW, FLAGS = range(10)
"""Rows of ``Scratch.v``."""


class Scratch(NamedTuple):
    """Everything that one worker writes to while it solves.

    All vectors live in one array: a compiled function takes as long to compile as it has arrays in its arguments.

    Attributes
    ----------
    T : (m, m) array
        The tableau of the FREE set.
    state : (m,) array
    change : (m,) array
        Scratch.
    v : (10, m) array
        Rows ``X`` and ``G``: ``g = T x``, what is given (``f`` on FREE, ``z`` elsewhere) and what follows (``z`` on
        FREE, ``f`` elsewhere). ``Z`` and ``F``: the solution and its margins. ``LOW`` and ``HIGH``: the range in which
        ``y g`` may move in each state. ``STEP``, ``IMAGE``, ``ROW``: scratch. ``FLAGS``: its first entry is
        ``COLD_TABLEAU`` where nothing above can be relied on but ``state``.
    """

    T: Float
    state: npt.NDArray[np.int8]
    change: npt.NDArray[np.int8]
    v: Float

    @property
    def z(self) -> Float:
        """The solution."""
        return self.v[Z]

    def chill(self) -> None:
        """Forget everything: the next solve starts from nothing."""
        self.state[:] = CAP
        self.v[FLAGS, :1] = COLD_TABLEAU


def new_scratch(m: int) -> Scratch:
    """Working memory for problems with ``m`` labels."""
    scratch = Scratch(
        T=np.zeros((m, m)),
        state=np.full(m, CAP, dtype=np.int8),
        change=np.zeros(m, dtype=np.int8),
        v=np.zeros((10, m)),
    )
    scratch.chill()
    return scratch


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


@njit(cache=True, nogil=True, fastmath=REORDER, error_model="numpy")
def _pivot(T: Float, k: int, row: Float) -> None:
    """Exchange ``z_k`` and ``f_k`` in the tableau (principal pivot on ``T_kk``).

    Works from a copy of row k (``row`` is scratch), so that the compiler knows that nothing overlaps.
    """
    m = T.shape[0]
    inverse = 1.0 / T[k, k]
    for j in range(m):
        row[j] = T[k, j]
    for i in range(m):
        a = T[i, k] * inverse
        for j in range(m):
            T[i, j] -= a * row[j]
        T[i, k] = a
    for j in range(m):
        T[k, j] = -inverse * row[j]
    T[k, k] = inverse


@njit(inline="always")
def _assign(s: Any, j: int, state: int, C: float) -> None:
    """Set a state, and between which values ``y_j g_j`` may move in it."""
    s.state[j] = state
    s.v[LOW, j] = 0.0 if state == FREE else (1.0 if state == ZERO else -np.inf)
    s.v[HIGH, j] = C if state == FREE else (1.0 if state == CAP else np.inf)


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
                _pivot(s.T, k, s.v[ROW])
            else:
                s.state[k] = CAP
    for k in range(m):
        _assign(s, k, s.state[k], machine.C)
    s.v[FLAGS, 0] = 0.0


DRIVEN, ABSENT = 3, 4
"""States of the one label that is on its way in or out, and of labels that do not take part (``z = 0``)."""


@njit(inline="always")
def _leave_free(s: Any, j: int, state: int, z: float, y: float, C: float) -> bool:
    """Take label ``j`` out of FREE, at value ``z``; its margin is 1."""
    if not s.T[j, j] > 0.0:
        return False
    _pivot(s.T, j, s.v[ROW])
    _assign(s, j, state, C)
    s.v[X, j] = z
    s.v[G, j] = y
    return True


@njit(inline="always")
def _enter_free(s: Any, j: int, y: float, smallest: float, C: float) -> bool:
    """Let label ``j`` move, from where it is; its margin is 1."""
    if not s.T[j, j] > smallest:
        return False
    _pivot(s.T, j, s.v[ROW])
    _assign(s, j, FREE, C)
    s.v[G, j] = s.v[X, j]
    s.v[X, j] = y
    return True


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDER, forceinline=True)
def _rates(s: Any, y: Float, i: int, way: float) -> None:
    """Rates ``dg/d|z_i|`` in ``s.v[STEP]``, and in ``s.v[IMAGE]`` how far each label can go before its state ends."""
    for j in range(y.shape[0]):
        # Column i of the tableau is its row i, but for the sign of the FREE entries.
        rate = s.T[i, j] * (-way if s.state[j] == FREE else way)
        s.v[STEP, j] = rate
        dv = y[j] * rate
        v = y[j] * s.v[G, j]
        room = max(s.v[HIGH, j] - v if dv > 0.0 else v - s.v[LOW, j], 0.0)
        s.v[IMAGE, j] = room / abs(dv) if dv != 0.0 else np.inf


@njit(cache=True, nogil=True)
def _drive(machine: Any, s: Any, y: Float, i: int, target: float) -> bool:
    """Move ``z_i`` to ``target`` along the path of optima of all other labels, one event at a time.

    An event is a label that reaches the end of its state; it changes state by one pivot. Label ``i`` itself becomes
    FREE where it reaches ``s.v[HIGH, i]``. Returns whether all went well.
    """
    m = y.shape[0]
    C = machine.C
    smallest = 1e-13 * machine.entry_max
    for _ in range(8 * m + 20):
        left = target - s.v[X, i]
        way = 1.0 if left > 0.0 else -1.0
        _rates(s, y, i, way)
        length = abs(left)
        event = -1
        for j in range(m):
            if s.v[IMAGE, j] < length:
                length = s.v[IMAGE, j]
                event = j
        for j in range(m):
            s.v[G, j] += length * s.v[STEP, j]
        s.v[X, i] += way * length
        if event < 0:
            s.v[X, i] = target
            return True
        if s.state[event] == FREE:
            state = ZERO if y[event] * s.v[STEP, event] < 0.0 else CAP
            if not _leave_free(s, event, state, 0.0 if state == ZERO else C * y[event], y[event], C):
                return False
        else:
            if not _enter_free(s, event, y[event], smallest, C):
                return False
            if event == i:
                return True
    return False


@njit(inline="always")
def _insert(machine: Any, s: Any, y: Float, i: int) -> bool:
    """Let a label with ``z_i = 0`` take part: it stays there, or ``z_i`` grows to its margin or its cap."""
    C = machine.C
    if y[i] * s.v[G, i] >= 1.0:
        _assign(s, i, ZERO, C)
        return True
    _assign(s, i, DRIVEN, C)
    s.v[HIGH, i] = 1.0
    fine = _drive(machine, s, y, i, C * y[i])
    if s.state[i] == DRIVEN:
        _assign(s, i, CAP, C)
    return fine


@njit(cache=True, nogil=True)
def relabel(machine: Any, s: Any, y: Float, i: int) -> None:
    """Flip ``y_i`` and follow the optimum: take the point out, then put it back on the other side.

    The path has few events, since neighbouring labellings have similar solutions. Should rounding end it early,
    :func:`settle` starts over.
    """
    if s.v[FLAGS, 0] != 0.0:
        y[i] = -y[i]
        return
    C = machine.C
    fine = True
    if s.state[i] == FREE:
        fine = _leave_free(s, i, DRIVEN, s.v[G, i], y[i], C)
    _assign(s, i, DRIVEN, C)
    if fine and s.v[X, i] != 0.0:
        fine = _drive(machine, s, y, i, 0.0)
    y[i] = -y[i]
    if fine:
        fine = _insert(machine, s, y, i)
    if not fine:
        s.state[i] = CAP
        s.v[FLAGS, 0] = COLD_TABLEAU


@njit(cache=True, nogil=True)
def _grow(machine: Any, s: Any, y: Float) -> bool:
    """The optimum from nothing: one label after the other joins. Returns whether all went well.

    On a singular kernel the FREE set never outgrows the rank, since a dependent label's margin stands still.
    """
    m = y.shape[0]
    for i in range(m):
        for j in range(m):
            s.T[i, j] = machine.Q[i, j]
        s.T[i, i] += machine.ridge
        s.v[X, i] = 0.0
        s.v[G, i] = 0.0
        _assign(s, i, ABSENT, machine.C)
    fine = True
    for i in range(m):
        fine = fine and _insert(machine, s, y, i)
    if not fine:
        for i in range(m):
            if s.state[i] > CAP:
                s.state[i] = CAP
        return False
    s.v[FLAGS, 0] = 0.0
    return True


@njit(cache=True, nogil=True)
def settle(machine: Any, s: Any, y: Float) -> int:
    """Make sure that the states are (numerically) optimal for labels ``y``; ``s.v[Z]`` is the solution.

    After :func:`relabel` they are, and one product confirms it. Otherwise all violated labels change state at once
    (block principal pivoting); after a few rounds without progress only the last violated one does, which cannot
    cycle on a positive definite kernel. Returns the number of rounds, negative if the limit was reached: the result
    is then poor, and :func:`bound` will say so.
    """
    m = machine.Q.shape[0]
    C = machine.C
    if s.v[FLAGS, 0] != 0.0 and not _grow(machine, s, y):
        _rebuild(machine, s)
    fewest = m + 1
    patience = 3
    limit = 60 + 20 * m
    for rounds in range(limit):
        norm1 = 0.0
        for i in range(m):
            if s.state[i] == FREE:
                s.v[X, i] = y[i]
            elif s.state[i] == CAP:
                s.v[X, i] = C * y[i]
            else:
                s.v[X, i] = 0.0
        multiply(s.T, s.v[X], s.v[G])
        for i in range(m):
            s.v[Z, i] = s.v[G, i] if s.state[i] == FREE else s.v[X, i]
            norm1 += abs(s.v[Z, i])
        slack_f = SLACK * (1.0 + machine.entry_max * norm1)
        slack_z = SLACK * (norm1 + C)
        violated = 0
        last = -1
        for i in range(m):
            v = y[i] * s.v[G, i]
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
            if rounds > 0:
                for i in range(m):
                    _assign(s, i, s.state[i], C)
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
                        _pivot(s.T, i, s.v[ROW])
                    else:
                        s.v[FLAGS, 0] = COLD_TABLEAU
                s.state[i] = s.change[i]
        if s.v[FLAGS, 0] != 0.0:
            _rebuild(machine, s)
    s.v[FLAGS, 0] = COLD_TABLEAU
    return -limit


@njit(cache=True, nogil=True)
def _margins(machine: Any, s: Any) -> float:
    """``f = Q z``; returns a bound on the rounding error of every ``f_i`` (and of ``y_i − f_i``)."""
    m = machine.Q.shape[0]
    norm1 = 0.0
    biggest = 1.0
    for i in range(m):
        norm1 += abs(s.v[Z, i])
    multiply(machine.Q, s.v[Z], s.v[F])
    for i in range(m):
        biggest = max(biggest, abs(s.v[F, i]))
    return 1.01 * UNIT_ROUNDOFF * ((m + 2) * machine.entry_max * norm1 + 4.0 * biggest) + m * _TINY


@njit(cache=True, nogil=True)
def _residual(s: Any, y: Float, err: float) -> float:
    """Upper bound on ``‖y_F − (Qz)_F‖₂`` over the FREE set."""
    total = 0.0
    for i in range(y.shape[0]):
        if s.state[i] == FREE:
            r = abs(y[i] - s.v[F, i]) + err
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
    theta = 1.01 * (math.sqrt(norm_e) + UNIT_ROUNDOFF * (m + 3) * norm_x * math.sqrt(norm_q) + m * _TINY)
    if not theta < 0.5:
        return np.inf
    return 1.01 * norm_x / (1.0 - theta)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def bound(machine: Any, s: Any, y: Float) -> tuple[float, int]:
    """Rigorous error bound ``τ`` on ``k·z`` for rows with ``‖k‖₂ ≤ 1``, and how it was proved.

    1 or 2: the active set is proved optimal, with the global or a local bound on the inverse, and ``τ`` is the
    error of one linear solve. 3: the duality gap of the solution (clipped to the box) bounds it. Every test is
    written so that a NaN fails it; where nothing is proved, ``τ`` is infinite.
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
        multiply(s.T, s.v[STEP], s.v[IMAGE])
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
    inverse = _inverse_norm(machine, s) if usable else np.inf
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
