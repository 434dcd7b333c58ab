"""Whole numbers instead of floats: every comparison of the verifier is made here or with what comes from here.

A float64 is a whole number times a power of two. Arrays are taken apart into whole numbers of any size (NumPy arrays of
Python integers) and one exponent; sums and products of these are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Bool, Float

Whole = npt.NDArray[np.object_]
"""Python integers in an array."""


def whole(array: npt.ArrayLike) -> tuple[Whole, int]:
    """``(N, e)``, e ≥ 0, such that the array is exactly ``N · 2**-e``."""
    values = np.asarray(array, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("a number is not finite")
    mantissas, exponents = np.frexp(values)
    numbers = np.ldexp(mantissas, 53).astype(np.int64)
    used = exponents[values != 0]
    lowest = min(53, int(used.min())) if used.size else 53
    shifts = np.where(values != 0, exponents - lowest, 0)
    flat = [int(n) << int(s) for n, s in zip(numbers.ravel(), shifts.ravel(), strict=True)]
    return np.array(flat, dtype=object).reshape(values.shape), 53 - lowest


def shifted(numbers: Any, by: int) -> Any:
    """Multiplied by ``2**by``, rounded down."""
    return numbers * (1 << by) if by >= 0 else numbers // (1 << -by)


def shifted_up(numbers: Any, by: int) -> Any:
    """Multiplied by ``2**by``, rounded up."""
    return -shifted(-numbers, by)


def choose(condition: npt.NDArray[Any], yes: Any, no: Any) -> Whole:
    """``np.where`` for whole numbers of any size."""
    return np.where(condition, np.asarray(yes, dtype=object), np.asarray(no, dtype=object))


def root(number: int, by: int = 0) -> int:
    """An upper bound on the square root of ``number · 2**by``."""
    return isqrt(max(0, shifted_up(number, by))) + 1


class Elimination:
    """A symmetric matrix of whole numbers, eliminated exactly beside some right sides.

    Attributes
    ----------
    semidefinite : bool
        No pivot is negative, and what is left where pivots vanish is zero.
    solvable : (k,) array
        Right sides in the range of the matrix.
    solution : (m, k) array
        Solves the system, times ``scale``.
    scale : int
        Positive.
    """

    semidefinite: bool
    solvable: Bool
    solution: Whole
    scale: int

    def __init__(self, matrix: Whole, right: Whole, pace: Callable[[], None] = lambda: None) -> None:
        m = matrix.shape[0]
        table: Whole = np.concatenate([matrix, right], axis=1)
        left = list(range(m))
        done: list[int] = []
        scale = 1
        self.semidefinite = True
        while left:
            pace()
            pivot = max(left, key=lambda i: table[i, i])
            p = table[pivot, pivot]
            if p <= 0:
                break
            # Fraction-free: the division leaves no remainder, and the solved rows share the denominator.
            row = table[pivot].copy()
            column = table[:, pivot].copy()
            table = (p * table - column[:, None] * row[None, :]) // scale
            table[pivot] = row
            scale = p
            left.remove(pivot)
            done.append(pivot)
        rest = table[left]
        self.semidefinite = not np.any(rest[:, :m] != 0)
        self.solvable = np.asarray((rest[:, m:] == 0).all(axis=0) if left else np.ones(right.shape[1], dtype=bool))
        self.scale = scale
        self.solution = np.zeros(right.shape, dtype=object)
        self.solution[done] = table[done, m:]


def optimal_dual(
    Q: Whole, C: int, one: int, y: Float, guess: Float, pace: Callable[[], None] = lambda: None
) -> tuple[Whole, int]:
    """The support vector machine solved exactly: dual variables times a positive scale, and that scale.

    Mostly the guess is right about which labels are at 0, at their cap, or between: then one linear system is solved,
    and the optimality conditions prove it. They are also a linear complementarity problem with a positive semidefinite
    matrix, for which the criss-cross method with least indices ends after finitely many steps, wherever it starts.

    Parameters
    ----------
    Q : (m, m) whole numbers
    C, one : int
        The cap, and the margin 1, in the units of ``Q``.
    y : (m,) array
        Labels, ±1.
    guess : (m,) array
        Dual variables as shares of the cap: where to start.
    """
    m = y.size
    signs = y.astype(np.int64).astype(object)
    solved = solved_as_guessed(Q * signs[:, None] * signs[None, :], C, one, guess, pace)
    if solved is not None:
        return solved
    table = np.zeros((2 * m, 2 * m + 1), dtype=object)
    index = np.arange(m)
    # w = M x + q, with x = (alpha, v) and w = (u, C - alpha); columns 0..2m-1 are M, the last one is q.
    table[:m, :m] = Q * signs[:, None] * signs[None, :]
    table[index, m + index] = 1
    table[m + index, index] = -1
    table[:m, -1] = -one
    table[m:, -1] = C
    swapped = np.zeros(2 * m, dtype=bool)  # whether x is basic, and w is not
    state = _Pivoting(table, swapped)
    for i in np.flatnonzero(guess > 0.0).tolist():
        state.exchange_if_possible(i)
        if guess[i] >= 1.0:
            state.exchange_if_possible(m + i)
    state.crisscross(pace)
    alpha = np.where(state.swapped[:m], state.table[:m, -1], 0)
    return alpha, state.scale


def solved_as_guessed(
    H: Whole, C: int, one: int, guess: Float, pace: Callable[[], None] = lambda: None
) -> tuple[Whole, int] | None:
    """The solution with the labels between 0 and their cap that a guess has, if it is optimal."""
    free, cap = np.flatnonzero((guess > 0.0) & (guess < 1.0)), guess >= 1.0
    right = one - C * H[:, cap].sum(axis=1)
    found = Elimination(H[np.ix_(free, free)], right[free, None], pace)
    if not found.solvable.all():
        return None
    alpha = choose(cap, C * found.scale, 0)
    alpha[free] = found.solution[:, 0]
    excess = H @ alpha - one * found.scale
    inside = np.all(alpha >= 0) and np.all(alpha <= C * found.scale)
    optimal = np.all(excess[alpha > 0] <= 0) and np.all(excess[alpha < C * found.scale] >= 0)
    return (alpha, found.scale) if inside and optimal else None


class _Pivoting:
    """A table of whole numbers over one positive denominator; row and column i belong to the pair (w_i, x_i)."""

    def __init__(self, table: Whole, swapped: Bool) -> None:
        self.table, self.swapped, self.scale = table, swapped, 1

    def crisscross(self, pace: Callable[[], None]) -> None:
        """Until no basic variable is negative."""
        while True:
            pace()
            bad = np.flatnonzero(self.table[:, -1] < 0)
            if not bad.size:
                return
            k = int(bad[0])
            if self.table[k, k] != 0:
                self._pivot(k, k)
                self.swapped[k] ^= True
                continue
            r = int(np.flatnonzero(self.table[k, :-1] > 0)[0])
            self._pivot(k, r)
            self._pivot(r, k)
            # Both pairs changed sides, and their rows hold each other's variable.
            self.table[[k, r]] = self.table[[r, k]]
            self.table[:, [k, r]] = self.table[:, [r, k]]
            self.swapped[[k, r]] ^= True

    def exchange_if_possible(self, i: int) -> None:
        """Bring ``x_i`` into the basis if its diagonal entry allows it."""
        if self.table[i, i] > 0:
            self._pivot(i, i)
            self.swapped[i] ^= True

    def _pivot(self, i: int, j: int) -> None:
        """Exchange the basic variable of row i with the nonbasic one of column j."""
        t, p = self.table, self.table[i, j]
        row, column = t[i].copy(), t[:, j].copy()
        new = (p * t - column[:, None] * row[None, :]) // self.scale
        new[i] = -row
        new[:, j] = column
        new[i, j] = self.scale
        scale = p
        if scale < 0:
            new, scale = -new, -scale
        self.table, self.scale = new, scale
