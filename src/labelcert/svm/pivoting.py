"""The compiled SVM: block principal pivoting on a warm tableau.

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

Nothing here has to be believed: :mod:`~labelcert.svm.error_bound` bounds the error of whatever comes out.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import njit

from labelcert.arrays import Float, Int, Signs
from labelcert.compiling import by_reference, compiled

ZERO, FREE, CAP = 0, 1, 2
UNIT_ROUNDOFF = 2.0**-53

LARGEST_COLD = 300
"""Most labels that compiled code trains on from nothing; with more, LAPACK is faster, and can be stopped."""

COLD_TABLEAU = 1.0
"""Value of ``Scratch.v[FLAGS, 0]`` that asks for a new tableau before the next solve."""


SLACK = 1e-13
"""Violations up to this, relative to the numbers at hand, do not move a label: pivoting on noise leads nowhere."""


@by_reference
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


@by_reference
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
    v : (11, m) array
        Rows ``X`` and ``G``: ``g = T x``, what is given (``f`` on FREE, ``z`` elsewhere) and what follows (``z`` on
        FREE, ``f`` elsewhere). ``Z`` and ``F``: the solution and its margins. ``LOW`` and ``HIGH``: the range in which
        ``y g`` may move in each state. ``STEP``, ``IMAGE``, ``ROW``: scratch. ``FLAGS``: its first entry is
        ``COLD_TABLEAU`` where nothing above can be relied on but ``state``.
    rows : (L, m) array
    marks : (L + 2,) array
        Pivots that are noted instead of carried out: their labels in ``marks``, and the tableau's row of each at that
        time. The last two entries: how many there are, and whether pivots are noted at all (``AT_ONCE``, ``SHARED`` or
        ``DELAYED``).
    stop : (1,) array
        Non-zero tells trainings to give up: what comes out is poor, and its error bound says so.
    """

    T: Float
    state: Signs
    change: Signs
    v: Float
    rows: Float
    marks: Int
    stop: Signs

    @property
    def z(self) -> Float:
        """The solution z of the machine, where the last training ended."""
        return self.v[Z]

    def chill(self) -> None:
        """Forget everything: the next solve starts from nothing."""
        self.state[:] = CAP
        self.v[FLAGS, :1] = COLD_TABLEAU


def copy_of(s: Scratch) -> Scratch:
    """The same in memory of its own."""
    fresh = new_scratch(s.state.size)
    overwrite(fresh, s)
    return fresh


def overwrite(s: Scratch, other: Scratch) -> None:
    """Put everything of another one in its place."""
    s.T[:], s.state[:], s.change[:], s.v[:] = other.T, other.state, other.change, other.v
    s.rows[:], s.marks[:] = other.rows, other.marks


def sharing(s: Scratch, parent: Scratch) -> Scratch:
    """The same memory, but with the parent's tableau."""
    return s._replace(T=parent.T)


Worker = TypeVar("Worker", bound=NamedTuple)


def heeding(worker: Worker, flag: Signs) -> Worker:
    """The same memory of a worker, whose trainings give up once ``flag[0] != 0``."""
    memory = {name: value for name, value in worker._asdict().items() if isinstance(value, Scratch)}
    return worker._replace(**{name: s._replace(stop=flag) for name, s in memory.items()})


def new_scratch(m: int) -> Scratch:
    """Working memory for problems with ``m`` labels."""
    scratch = Scratch(
        T=np.zeros((m, m)),
        state=np.full(m, CAP, dtype=np.int8),
        change=np.zeros(m, dtype=np.int8),
        v=np.zeros((11, m)),
        rows=np.zeros((min(m, MOST_NOTED), m)),
        marks=np.zeros(min(m, MOST_NOTED) + 2, dtype=np.int64),
        stop=np.zeros(1, dtype=np.int8),
    )
    scratch.chill()
    return scratch


MOST_NOTED = 128
"""Most pivots that are noted before a solve starts over with a tableau of its own."""

AT_ONCE, SHARED, DELAYED = range(3)
"""Pivots change the tableau; or it is another's and must not change; or pivots are carried out many at a time, which
moves less memory."""

DELAYED_FROM = 100
"""From this many labels on, pivots are delayed."""

REORDER = {"reassoc", "contract"}
"""Sums may be reordered and fused: every error bound here holds for any order, and fusing only helps."""


@compiled(inner=True, fastmath=REORDER)
def multiply(A: Float, x: Float, out: Float) -> None:
    """``out = A x``."""
    for i in range(A.shape[0]):
        acc = 0.0
        for j in range(A.shape[1]):
            acc += A[i, j] * x[j]
        out[i] = acc


@compiled(inner=True, fastmath=REORDER)
def multiply_symmetric(A: Float, x: Float, out: Float) -> None:
    """``out = A x`` for a symmetric matrix, of which only the rows where ``x`` is not zero are read."""
    m = A.shape[0]
    for j in range(m):
        out[j] = 0.0
    i = 0
    while i < m:
        # The next four such rows, or fewer: a row more, times zero, changes nothing.
        i0 = i
        while i0 < m - 1 and x[i0] == 0.0:
            i0 += 1
        i1 = min(i0 + 1, m - 1)
        while i1 < m - 1 and x[i1] == 0.0:
            i1 += 1
        i2 = min(i1 + 1, m - 1)
        while i2 < m - 1 and x[i2] == 0.0:
            i2 += 1
        i3 = min(i2 + 1, m - 1)
        while i3 < m - 1 and x[i3] == 0.0:
            i3 += 1
        x0 = x[i0]
        x1 = x[i1] if i1 > i0 else 0.0
        x2 = x[i2] if i2 > i1 else 0.0
        x3 = x[i3] if i3 > i2 else 0.0
        a0, a1, a2, a3 = A[i0], A[i1], A[i2], A[i3]
        for j in range(m):
            out[j] += (x0 * a0[j] + x1 * a1[j]) + (x2 * a2[j] + x3 * a3[j])
        i = i3 + 1


@compiled(inner=True, fastmath=REORDER, error_model="numpy")
def pivot(T: Float, k: int, row: Float) -> None:
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


@compiled(fastmath=REORDER, error_model="numpy")
def row_of(s: Any, r: int, out: Float) -> None:
    """Row ``r`` of the tableau, after the pivots that are noted."""
    m = s.T.shape[0]
    for j in range(m):
        out[j] = s.T[r, j]
    for p in range(s.marks[-2]):
        k = s.marks[p]
        inverse = 1.0 / s.rows[p, k]
        a = -inverse if r == k else out[k] * inverse
        if r == k:
            for j in range(m):
                out[j] = a * s.rows[p, j]
            out[k] = inverse
        else:
            for j in range(m):
                out[j] -= a * s.rows[p, j]
            out[k] = a


@compiled(inner=True, fastmath=REORDER, error_model="numpy")
def image(s: Any, x: Float, out: Float) -> None:
    """``g = T x`` on FREE, after the pivots that are noted; ``x`` is overwritten.

    A pivot exchanges one entry of ``g`` and ``x``. So the pivots are taken back from the last to the first, which gives
    what to multiply the tableau with.
    """
    m = s.T.shape[0]
    for p in range(s.marks[-2] - 1, -1, -1):
        k = s.marks[p]
        acc = 0.0
        for j in range(m):
            acc += s.rows[p, j] * x[j]
        x[k] -= (acc - x[k]) / s.rows[p, k]
        s.v[ROW, p] = x[k]
    for i in range(m):
        acc = 0.0
        if s.state[i] == FREE:
            for j in range(m):
                acc += s.T[i, j] * x[j]
        out[i] = acc
    for p in range(s.marks[-2]):
        out[s.marks[p]] = s.v[ROW, p]


@compiled(inner=True)
def carry_out(s: Any) -> None:
    """Carry out the pivots that are noted."""
    m = s.T.shape[0]
    if s.marks[-2] > 0:
        for r in range(m):
            row_of(s, r, s.v[ROW])
            for j in range(m):
                s.T[r, j] = s.v[ROW, j]
    s.marks[-2] = 0


@njit(inline="always")
def _exchange(s: Any, k: int, smallest: float) -> bool:
    """Pivot on label ``k``, or note it; False where its diagonal entry is too small, or there is no room."""
    if s.marks[-1] == AT_ONCE:
        if not s.T[k, k] > smallest:
            return False
        pivot(s.T, k, s.v[ROW])
        return True
    if s.marks[-2] == s.rows.shape[0]:
        if s.marks[-1] == SHARED:
            return False
        carry_out(s)
    p = s.marks[-2]
    row_of(s, k, s.rows[p])
    if not s.rows[p, k] > smallest:
        return False
    s.marks[p] = k
    s.marks[-2] = p + 1
    return True


@njit(inline="always")
def _assign(s: Any, j: int, state: int, C: float) -> None:
    """Set a state, and between which values ``y_j g_j`` may move in it."""
    s.state[j] = state
    s.v[LOW, j] = 0.0 if state == FREE else (1.0 if state == ZERO else -np.inf)
    s.v[HIGH, j] = C if state == FREE else (1.0 if state == CAP else np.inf)


@compiled(inner=True)
def _rebuild(machine: Any, s: Any) -> None:
    """The tableau of the current FREE set, from scratch."""
    m = machine.Q.shape[0]
    for i in range(m):
        for j in range(m):
            s.T[i, j] = machine.Q[i, j]
        s.T[i, i] += machine.ridge
    for k in range(m):
        if s.state[k] == FREE:
            if s.T[k, k] > 0.0 and s.stop[0] == 0:
                pivot(s.T, k, s.v[ROW])
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
    if not _exchange(s, j, 0.0):
        return False
    _assign(s, j, state, C)
    s.v[X, j] = z
    s.v[G, j] = y
    return True


@njit(inline="always")
def _enter_free(s: Any, j: int, y: float, smallest: float, C: float) -> bool:
    """Let label ``j`` move, from where it is; its margin is 1."""
    if not _exchange(s, j, smallest):
        return False
    _assign(s, j, FREE, C)
    s.v[G, j] = s.v[X, j]
    s.v[X, j] = y
    return True


@compiled(inner=True, error_model="numpy", fastmath=REORDER, forceinline=True)
def _rates(s: Any, y: Float, i: int, way: float) -> None:
    """Rates ``dg/d|z_i|`` in ``s.v[STEP]``, and in ``s.v[IMAGE]`` how far each label can go before its state ends."""
    row_of(s, i, s.v[ROW])
    for j in range(y.shape[0]):
        # Column i of the tableau is its row i, but for the sign of the FREE entries.
        rate = s.v[ROW, j] * (-way if s.state[j] == FREE else way)
        s.v[STEP, j] = rate
        dv = y[j] * rate
        v = y[j] * s.v[G, j]
        room = max(s.v[HIGH, j] - v if dv > 0.0 else v - s.v[LOW, j], 0.0)
        s.v[IMAGE, j] = room / abs(dv) if dv != 0.0 else np.inf


@compiled(inner=True)
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
        event = m  # none
        for j in range(m):
            if s.v[IMAGE, j] < length:
                length = s.v[IMAGE, j]
                event = j
        for j in range(m):
            s.v[G, j] += length * s.v[STEP, j]
        s.v[X, i] += way * length
        if event == m:
            s.v[X, i] = target
            return True
        if s.stop[0] != 0:
            return False
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
    """Let a label with ``z_i = 0`` take part: it stays there, or ``z_i`` grows to its margin or its cap.

    With ``y_i = 0`` it takes no part: its cap is 0, and it never leaves it.
    """
    C = machine.C
    if y[i] == 0.0:
        _assign(s, i, CAP, C)
        return True
    if y[i] * s.v[G, i] >= 1.0:
        _assign(s, i, ZERO, C)
        return True
    _assign(s, i, DRIVEN, C)
    s.v[HIGH, i] = 1.0
    fine = _drive(machine, s, y, i, C * y[i])
    if s.state[i] == DRIVEN:
        _assign(s, i, CAP, C)
    return fine


@compiled()
def relabel(machine: Any, s: Any, y: Float, i: int, value: float) -> None:
    """Change ``y_i`` to ±1 and follow the optimum: take the point out, then put it back; 0 leaves it out.

    The path has few events, since neighbouring labellings have similar solutions. Should rounding end it early,
    :func:`settle` starts over.
    """
    if s.v[FLAGS, 0] != 0.0:
        y[i] = value
        return
    C = machine.C
    fine = True
    if s.state[i] == FREE:
        fine = _leave_free(s, i, DRIVEN, s.v[G, i], y[i], C)
    _assign(s, i, DRIVEN, C)
    if fine and s.v[X, i] != 0.0:
        fine = _drive(machine, s, y, i, 0.0)
    y[i] = value
    if fine:
        fine = _insert(machine, s, y, i)
    if not fine:
        s.state[i] = CAP
        s.v[FLAGS, 0] = COLD_TABLEAU


@compiled()
def relabel_all(machine: Any, s: Any, y: Float, flips: Int, to: Float) -> None:
    """Several labels, one after the other, to what they are in ``to``."""
    s.marks[-1] = DELAYED if y.shape[0] >= DELAYED_FROM else AT_ONCE
    for i in flips:
        relabel(machine, s, y, i, to[i])
    carry_out(s)
    s.marks[-1] = AT_ONCE


@compiled(inner=True)
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
    s.marks[-2] = 0
    s.marks[-1] = DELAYED if m >= DELAYED_FROM else AT_ONCE
    for i in range(m):
        fine = fine and s.stop[0] == 0 and _insert(machine, s, y, i)
    carry_out(s)
    s.marks[-1] = AT_ONCE
    if not fine:
        for i in range(m):
            if s.state[i] > CAP:
                s.state[i] = CAP
        return False
    s.v[FLAGS, 0] = 0.0
    return True


@compiled()
def settle(machine: Any, s: Any, y: Float) -> int:  # noqa: C901
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
        if s.stop[0] != 0:
            break
        if violated < fewest:
            fewest = violated
            patience = 3
        else:
            patience -= 1
        for i in range(m):
            if s.change[i] >= 0 and (patience > 0 or i == last):
                if s.change[i] == FREE or s.state[i] == FREE:
                    if s.T[i, i] > 0.0:
                        pivot(s.T, i, s.v[ROW])
                    else:
                        s.v[FLAGS, 0] = COLD_TABLEAU
                s.state[i] = s.change[i]
        if s.v[FLAGS, 0] != 0.0:
            _rebuild(machine, s)
    s.v[FLAGS, 0] = COLD_TABLEAU
    return -limit
