"""The SVM on many labels, from nothing: sweeps over single labels, and Newton steps on those that are free.

The dual is ``min ½ z·Qz − y·z`` over a box. A sweep moves one label after the other to its optimum, which tells which
labels end at 0 or at their cap. Of the others, one linear system gives the optimum if they stay free. Labels that
should be elsewhere then go there, all at once, as long as that makes them fewer. Otherwise, labels that leave the box
stop at its border, and the next sweep goes on from there. On singular kernels that can take forever: then an
interior-point method finds the states. Nothing here has to be believed: see
:mod:`~labelcert.svm.error_bound`.
"""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Float, Signs
from labelcert.compiling import compiled
from labelcert.stopping import go_on
from labelcert.svm.factors import any_factor, solve
from labelcert.svm.interior import box_minimum
from labelcert.svm.pivoting import CAP, COLD_TABLEAU, FLAGS, FREE, HIGH, LOW, SLACK, ZERO, G, Machine, Scratch, X, Z

ROUNDS = 10
"""Most rounds of sweeps and Newton steps. Where labels depend on each other, more lead nowhere."""

PATIENCE = 2
"""Rounds in which the labels in wrong states have to become half as many."""

FIRST_SWEEPS, SWEEPS = 6, 2


@compiled()
def _sweep(Q: Float, ridge: float, y: Float, C: float, z: Float, f: Float) -> None:
    """Move each dual variable to its optimum, one after the other; ``f = Q z`` follows."""
    m = y.shape[0]
    for i in range(m):
        diagonal = Q[i, i] + ridge
        if not diagonal > 0.0:
            continue
        a = min(max(y[i] * (z[i] + (y[i] - f[i]) / diagonal), 0.0), C)
        change = y[i] * a - z[i]
        if change != 0.0:
            z[i] = y[i] * a
            for j in range(m):
                f[j] += change * Q[i, j]


def train(machine: Machine, s: Scratch, y: Float, start: Float | None = None) -> None:
    """Train on labels ``y``: states and solution into the scratch, whose tableau is left alone and counts as cold.

    Parameters
    ----------
    machine : Machine
    s : Scratch
    y : (m,) array
    start : (m,) array, optional
        The solution for similar labels.
    """
    Q, C = machine.Q, machine.C
    s.v[FLAGS, 0] = COLD_TABLEAU
    z = np.zeros(y.size) if start is None else y * np.clip(y * start, 0.0, C)
    left: list[int] = []
    for k in range(ROUNDS):
        f = Q @ z
        for _ in range(FIRST_SWEEPS if k == 0 else SWEEPS):
            go_on()
            _sweep(Q, machine.ridge, y, C, z, f)
        left.append(_exchanged(machine, s, y, z, _states(y * z, 0.0, C)))
        if left[-1] == 0:
            return
        if k >= PATIENCE and left[-1] > 0.5 * left[-1 - PATIENCE]:
            break
        z = _lower(machine, y, z, s.z)
    a, at_zero, at_cap = box_minimum(Q * np.outer(y, y), C)
    z, state = y * a, np.where(at_zero, ZERO, np.where(at_cap, CAP, FREE)).astype(np.int8)
    if not (_next_states(machine, s, y, z, state) == state).all():
        s.v[Z] = z


def _states(a: Float, low: float, high: float) -> Signs:
    return np.where(a <= low, ZERO, np.where(a >= high, CAP, FREE)).astype(np.int8)


def _exchanged(machine: Machine, s: Scratch, y: Float, z: Float, state: Signs) -> int:
    """Move labels to where they belong, all that are wrong at once, as long as that makes them fewer.

    Returns how many are still wrong; the solution that belongs to the last states is in the scratch.
    """
    fewest = y.size + 1
    while True:
        go_on()
        following = _next_states(machine, s, y, z, state)
        wrong = int((following != state).sum())
        if wrong == 0 or wrong >= fewest:
            return min(wrong, fewest)
        state, fewest = following, wrong


def _next_states(machine: Machine, s: Scratch, y: Float, z: Float, state: Signs) -> Signs:
    """Put the solution that belongs to some states into the scratch; the states that its labels should be in.

    The linear system is solved from ``z``, and improved once.
    """
    Q, C = machine.Q, machine.C
    aim = np.where(state == ZERO, 0.0, np.where(state == CAP, C * y, z))
    index = np.flatnonzero(state == FREE)
    if index.size:
        own = Q[index]
        L = any_factor(own[:, index], machine.ridge)
        for _ in range(2):
            aim[index] += solve(L, y[index] - own @ aim)
    s.v[Z], s.state[:] = aim, state
    norm1, margin, a = float(np.abs(aim).sum()), y * (Q @ aim), y * aim
    slack, room = SLACK * (1.0 + machine.entry_max * norm1), SLACK * (norm1 + C)
    freed = np.where(state == ZERO, margin < 1.0 - slack, (state == CAP) & (margin > 1.0 + slack))
    held = np.where(a < -room, ZERO, np.where(a > C + room, CAP, FREE))
    return np.where(freed, FREE, np.where(state == FREE, held, state)).astype(np.int8)


def _lower(machine: Machine, y: Float, z: Float, aim: Float) -> Float:
    """As far towards an aim as the objective falls, within the box."""

    def objective(x: Float) -> float:
        return float(0.5 * x @ (machine.Q @ x) - y @ x)

    now, t = objective(z), 1.0
    while t > 1e-3:
        step = y * np.clip(y * (z + t * (aim - z)), 0.0, machine.C)
        if objective(step) < now:
            return np.asarray(step)
        t *= 0.5
    return z


def tableau(machine: Machine, s: Scratch, y: Float) -> None:
    """The tableau of the states at hand, for labels ``y``: what pivoting starts from."""
    Q = machine.Q
    free, rest = np.flatnonzero(s.state == FREE), np.flatnonzero(s.state != FREE)
    T = s.T
    if free.size:
        L = any_factor(Q[np.ix_(free, free)], machine.ridge)
        for start in range(0, free.size, 512):
            go_on()
            part = slice(start, start + 512)
            T[np.ix_(free, free[part])] = solve(L, np.eye(free.size)[:, part])
    for start in range(0, rest.size, 512):
        go_on()
        some = rest[start : start + 512]
        columns = Q[:, some]
        T[np.ix_(rest, some)] = columns[rest]
        if free.size:
            weights = solve(L, columns[free])
            T[np.ix_(rest, some)] -= Q[np.ix_(rest, free)] @ weights
            T[np.ix_(free, some)], T[np.ix_(some, free)] = -weights, weights.T
        T[some, some] += machine.ridge
    f = Q @ s.v[Z] + machine.ridge * s.v[Z]
    is_free, at_zero = s.state == FREE, s.state == ZERO
    s.v[X], s.v[G] = np.where(is_free, y, s.v[Z]), np.where(is_free, s.v[Z], f)
    s.v[LOW] = np.where(is_free, 0.0, np.where(at_zero, 1.0, -np.inf))
    s.v[HIGH] = np.where(is_free, machine.C, np.where(at_zero, np.inf, 1.0))
    s.v[FLAGS, 0] = 0.0
    s.marks[-2:] = 0
