"""The SVM in rational arithmetic: no rounding, no tolerance.

Every float64 is a rational number, so the optimal ``z`` of a labelling is too, and so is every score. This is
what decides ties and near-ties, where float64 cannot. Integers are those of FLINT.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import fmpq, fmpz, fmpz_mat

from labelcert.arrays import Float, Signs
from labelcert.svm.pivoting import CAP, FREE, ZERO

_GRID = 60
"""Values of undetermined labels are rounded to multiples of ``2**-60``."""

CRISS_CROSS_LIMIT = 48
"""Largest m for the criss-cross method, whose tableau is dense and exact."""


def to_integers(A: Float) -> tuple[list[list[int]], int]:
    """Integers ``N`` and a shift ``s ≥ 0`` with ``A = N / 2**s`` exactly.

    Parameters
    ----------
    A : (r, c) array

    Examples
    --------
    >>> to_integers(np.array([[0.5, 3.0]]))
    ([[1, 6]], 1)
    """
    mantissa, exponent = np.frexp(A)
    digits = (mantissa * 2.0**53).astype(np.int64)
    power = exponent.astype(np.int64) - 53
    nonzero = digits != 0
    trailing = np.where(nonzero, np.frexp((digits & -digits).astype(float))[1] - 1, 0)  # zeros behind the last 1
    digits >>= trailing
    power += trailing
    shift = max(0, -int(power[nonzero].min())) if np.any(nonzero) else 0
    rows = [
        [int(d) << (int(p) + shift) if d else 0 for d, p in zip(drow, prow, strict=True)]
        for drow, prow in zip(digits, power, strict=True)
    ]
    return rows, shift


def with_ridge(Q: Float, ridge: Fraction) -> tuple[list[list[int]], int]:
    """Integers ``N`` and ``d > 0`` with ``Q + ridge·I = N / d`` exactly.

    Examples
    --------
    >>> with_ridge(np.array([[0.5]]), Fraction(1, 3))
    ([[5]], 6)
    """
    rows, shift = to_integers(Q)
    above, below = ridge.numerator << shift, ridge.denominator
    scaled = [[below * v + (above if i == j else 0) for j, v in enumerate(row)] for i, row in enumerate(rows)]
    return scaled, below << shift


def is_psd(A: Float) -> bool:
    """Whether the symmetric matrix is positive semidefinite, decided exactly.

    The eigenvalues of a symmetric matrix are real, and real roots are all non-negative if and only if the
    coefficients of the characteristic polynomial alternate in sign (Descartes' rule).

    Examples
    --------
    >>> is_psd(np.array([[1.0, 1.0], [1.0, 1.0]])), is_psd(np.array([[1.0, 1.0], [1.0, 1.0 - 2**-52]]))
    (True, False)
    """
    m = A.shape[0]
    coefficients = fmpz_mat(to_integers(A)[0]).charpoly().coeffs()
    return all((-1) ** (m - k) * c >= 0 for k, c in enumerate(coefficients))


def in_range(A: Float, rows: Float) -> bool:
    """Whether every row lies in the row space of the symmetric matrix ``A``, decided exactly.

    Parameters
    ----------
    A : (m, m) array
    rows : (r, m) array
    """
    null, nullity = fmpz_mat(to_integers(A)[0]).nullspace()
    if nullity == 0:
        return True
    kept = fmpz_mat([[null[i, j] for j in range(int(nullity))] for i in range(A.shape[0])])
    return bool((fmpz_mat(to_integers(rows)[0]) * kept).is_zero())


class ExactSVM:
    """One kernel and cap, ready to be trained on any labels without rounding.

    The solution comes as integers ``Z`` with ``z = Z / D`` for a positive integer ``D``. The sign of a score ``k·z``
    is that of ``k·Z``; only scores of different models need ``D`` to be compared.

    Parameters
    ----------
    Q : (m, m) array
        Positive semidefinite (exactly).
    C : float
    ridge : Fraction
        Added to the diagonal.

    Examples
    --------
    >>> svm = ExactSVM(np.eye(2), 1.0)
    >>> [int(v) for v in svm.train(np.array([1.0, -1.0]), np.array([CAP, CAP], dtype=np.int8))]
    [1, -1]
    """

    def __init__(self, Q: Float, C: float, ridge: Fraction = Fraction(0)) -> None:
        self._rows, one = with_ridge(Q, ridge)
        self._m = Q.shape[0]
        self._matrix = fmpz_mat(self._rows)
        self._one = fmpz(one)
        ratio = Fraction(C)
        self._c_num, self._c_den = fmpz(ratio.numerator), fmpz(ratio.denominator)

    def train(self, y: Float, hint: Signs, z: Float | None = None) -> list[Any] | None:
        """Integers proportional to the optimal ``z`` for labels ``y`` (±1), starting from states ``hint``.

        None where the problem is too large; see :meth:`solution`.
        """
        found = self.solution(y, hint, z)
        return None if found is None else found[0]

    def solution(self, y: Float, hint: Signs, z: Float | None = None) -> tuple[list[Any], Any] | None:
        """``(Z, D)`` with the optimal ``z = Z / D`` for labels ``y`` (±1), starting from states ``hint``.

        Block principal pivoting as in :func:`labelcert.svm.pivoting.settle`, then, where a singular kernel keeps it
        from ending, the criss-cross method; None where the problem is too large for that one. On a singular kernel
        the dual solution is not unique: labels whose value the others do not determine stay at their value in ``z``,
        an approximate solution, so that the exact one lies close to it and within the box.
        """
        labels = [int(v) for v in y]
        states = [int(s) for s in hint]
        values = [0] * self._m
        if z is not None:
            values = [round(Fraction(float(v)) * (1 << _GRID)) for v in z]
        fewest, patience = self._m + 1, 3
        for _ in range(20 + 2 * self._m):
            Z, D, loose = self._solve(labels, states, values)
            wrong = self._violations(labels, states, Z, D, loose)
            if not wrong:
                return Z, D
            if len(wrong) < fewest:
                fewest, patience = len(wrong), 3
            else:
                patience -= 1
            for index, state in wrong if patience > 0 else wrong[-1:]:
                states[index] = state
        return self._criss_cross(labels) if self._m <= CRISS_CROSS_LIMIT else None

    def _solve(self, y: list[int], states: list[int], values: list[int]) -> tuple[list[Any], Any, list[int]]:
        """``(Z, D, loose)`` with ``z = Z / D`` for these states.

        ``loose`` are FREE labels that depend on the other FREE ones: they keep their ``values`` (in units of the grid).
        """
        free = [i for i in range(self._m) if states[i] == FREE]
        loose: list[int] = []
        if free:
            block = self._block(free)
            if block.rank() < len(free):
                independent = _pivot_columns(block)
                loose = [i for k, i in enumerate(free) if k not in independent]
                free = [free[k] for k in independent]
        grid = fmpz(1 << _GRID) if loose else fmpz(1)
        capped = [j for j in range(self._m) if states[j] == CAP]
        denominator = fmpz(1)
        solved: list[Any] = []
        if free:
            right = [
                grid * (self._one * self._c_den * y[i] - self._c_num * sum(self._rows[i][j] * y[j] for j in capped))
                - self._c_den * sum(self._rows[i][j] * values[j] for j in loose)
                for i in free
            ]
            numerators, denominator = _solution(self._block(free), right)
            solved = [numerators[k, 0] for k in range(len(free))]
        Z = [fmpz(0)] * self._m
        for j in capped:
            Z[j] = self._c_num * denominator * grid * y[j]
        for i, value in zip(free, solved, strict=True):
            Z[i] = value
        for i in loose:
            Z[i] = self._c_den * denominator * values[i]
        return Z, denominator * self._c_den * grid, loose

    def _block(self, index: list[int]) -> Any:
        return fmpz_mat([[self._rows[i][j] for j in index] for i in index])

    def _violations(
        self, y: list[int], states: list[int], Z: list[Any], D: Any, loose: list[int]
    ) -> list[tuple[int, int]]:
        """All labels that violate their states, and the states they should take; empty at the optimum."""
        cap = self._c_num * (D // self._c_den)
        one = self._one * D
        image = self._matrix * fmpz_mat(self._m, 1, Z)
        wrong = []
        for i in range(self._m):
            margin = y[i] * image[i, 0]
            if states[i] == FREE:
                if y[i] * Z[i] < 0 or (i in loose and margin > one):
                    wrong.append((i, ZERO))
                elif y[i] * Z[i] > cap or (i in loose and margin < one):
                    wrong.append((i, CAP))
                continue
            if (states[i] == ZERO and margin < one) or (states[i] == CAP and margin > one):
                wrong.append((i, FREE))
        return wrong

    def _criss_cross(self, y: list[int]) -> tuple[list[Any], Any]:
        """Least-index criss-cross method: finite on every positive semidefinite kernel, singular ones included.

        Works on the linear complementarity problem ``u = Q̃α − 1 + v ⟂ α``, ``s = C − α ⟂ v`` (all ≥ 0), whose
        matrix is positive semidefinite, hence sufficient.
        """
        m = self._m
        M = np.full((2 * m, 2 * m), fmpq(0), dtype=object)
        q = np.full(2 * m, fmpq(-1), dtype=object)
        for i in range(m):
            for j in range(m):
                M[i, j] = fmpq(self._rows[i][j] * y[i] * y[j]) / self._one
            M[i, m + i] = fmpq(1)
            M[m + i, i] = fmpq(-1)
            q[m + i] = fmpq(self._c_num) / self._c_den
        swapped = np.zeros(2 * m, dtype=bool)
        while True:
            infeasible = next((i for i in range(2 * m) if q[i] < 0), None)
            if infeasible is None:
                break
            block = [infeasible]
            if M[infeasible, infeasible] == 0:
                block.append(next(j for j in range(2 * m) if M[infeasible, j] > 0))
            _exchange(M, q, sorted(block))
            swapped[block] = ~swapped[block]
        alpha = [q[i] if swapped[i] else fmpq(0) for i in range(m)]
        scale = fmpz(1)
        for a in alpha:
            scale = scale.lcm(a.q)
        return [fmpz((a * scale).p) * y[i] for i, a in enumerate(alpha)], scale


def _solution(A: Any, right: list[Any]) -> tuple[Any, Any]:
    """Numerators and common denominator of ``A⁻¹ right``."""
    return A.solve(fmpz_mat(len(right), 1, right)).numer_denom()


def _pivot_columns(A: Any) -> list[int]:
    """Columns of a maximal independent set, from the reduced echelon form."""
    reduced, _, r = A.rref()
    return [next(j for j in range(A.ncols()) if reduced[row, j] != 0) for row in range(r)]


def _exchange(M: npt.NDArray[np.object_], q: npt.NDArray[np.object_], block: list[int]) -> None:
    """Principal pivot on one or two indices of ``w = M x + q``, in place."""
    rest = [i for i in range(q.size) if i not in block]
    if len(block) == 1:
        inverse = np.array([[1 / M[block[0], block[0]]]], dtype=object)
    else:
        (a, b), (c, d) = M[np.ix_(block, block)]
        determinant = a * d - b * c
        inverse = np.array([[d, -b], [-c, a]], dtype=object) / determinant
    upper = -inverse.dot(M[np.ix_(block, rest)])
    lower = M[np.ix_(rest, block)]
    head = -inverse.dot(q[block])
    q[rest] = q[rest] + lower.dot(head)
    q[block] = head
    M[np.ix_(rest, rest)] = M[np.ix_(rest, rest)] + lower.dot(upper)
    M[np.ix_(rest, block)] = lower.dot(inverse)
    M[np.ix_(block, rest)] = upper
    M[np.ix_(block, block)] = inverse


class ExactRidge:
    """Kernel ridge regression without rounding: ``z = (Q + I/(2C))⁻¹ y`` up to a positive factor.

    With an intercept, the system is bordered by ones, and what it adds is the last entry of a solution.

    Attributes
    ----------
    scale : int
        That factor: what multiplies ``Z / D`` to make it ``z``.
    """

    def __init__(self, Q: Float, C: float, *, intercept: bool = False) -> None:
        rows, self.scale = with_ridge(Q, 1 / (2 * Fraction(C)))
        if intercept:  # times that factor, as everything else
            rows = [*([*row, self.scale] for row in rows), [self.scale] * len(rows) + [0]]
        self._matrix = fmpz_mat(rows)

    def solve(self, right: list[int]) -> list[Any]:
        """Integers proportional, by a positive factor, to the system's inverse times `right`."""
        return self.solution(right)[0]

    def solution(self, right: list[int]) -> tuple[list[Any], Any]:
        """``(Z, D)``, D > 0, with ``Z / D`` proportional to that by a factor that is the same for every ``right``.

        With an intercept, labels alone have a 0 behind them.
        """
        right = right + [0] * (self._matrix.nrows() - len(right))
        numerators, denominator = _solution(self._matrix, right)
        return [numerators[i, 0] for i in range(len(right))], denominator
