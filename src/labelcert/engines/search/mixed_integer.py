"""A mixed-integer linear program as sparse arrays, and a builder that reads like the formulas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from labelcert.arrays import Bool, Float, Index
from labelcert.problem import Adversary

INF = float("inf")


@dataclass(frozen=True, eq=False)
class MixedInteger:
    """Minimise ``cost·x`` subject to ``row_lower ≤ A x ≤ row_upper``, ``lower ≤ x ≤ upper``, some x whole."""

    matrix: scipy.sparse.csr_array  # (R, N)
    # row_lower, row_upper: (R,)
    row_lower: Float
    row_upper: Float
    # lower, upper: (N,)
    lower: Float
    upper: Float
    integer: Bool  # (N,)
    cost: Float  # (N,)
    # columns, rows: where each named block of variables and of constraints lies
    columns: dict[str, Index]
    rows: dict[str, Index]

    @property
    def size(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return int(self.row_lower.size), int(self.lower.size)

    def resolvable(self, tolerance: float) -> bool:
        """Whether float64 resolves rows well below a tolerance: no solver can be believed where it does not."""
        width = self.upper - self.lower
        sums = abs(self.matrix) @ width
        entries = float(np.diff(self.matrix.indptr).max(initial=1))
        return bool(entries * 2.0**-53 * float(sums.max(initial=0.0)) <= 0.1 * tolerance)


class Builder:
    """Collects blocks of variables and constraints.

    Examples
    --------
    >>> b = Builder()
    >>> x = b.variables("x", 2, 0, 1, integer=True)
    >>> b.constrain("at most one", [(x, np.ones((1, 2)))], upper=1)
    >>> b.minimise(x, [-1.0, -2.0])
    >>> b.build().size
    (1, 2)
    """

    def __init__(self) -> None:
        self._lower: list[Float] = []
        self._upper: list[Float] = []
        self._integer: list[Bool] = []
        self._columns: dict[str, Index] = {}
        self._rows: dict[str, Index] = {}
        self._entries: list[tuple[Index, Index, Float]] = []
        self._row_lower: list[Float] = []
        self._row_upper: list[Float] = []
        self._cost: list[tuple[Index, Float]] = []
        self._n = 0
        self._r = 0

    def variables(
        self,
        name: str,
        shape: int | tuple[int, ...],
        lower: npt.ArrayLike = 0.0,
        upper: npt.ArrayLike = INF,
        *,
        integer: bool = False,
    ) -> Index:
        """New variables; returns their column numbers in the given shape."""
        index = self._n + np.arange(int(np.prod(shape)), dtype=np.intp).reshape(shape)
        self._lower.append(np.broadcast_to(np.asarray(lower, dtype=float), index.shape).ravel())
        self._upper.append(np.broadcast_to(np.asarray(upper, dtype=float), index.shape).ravel())
        self._integer.append(np.full(index.size, integer))
        self._columns[name] = index
        self._n += index.size
        return index

    def constrain(
        self, name: str, terms: list[tuple[Index, Any]], lower: npt.ArrayLike = -INF, upper: npt.ArrayLike = INF
    ) -> None:
        """New rows ``lower ≤ Σ terms ≤ upper``.

        ``terms``: columns of shape (r,) with coefficients of shape () or (r,): one entry in each row. Columns of shape
        (k,) with coefficients of shape (r, k): a dense block.
        """
        widths = [np.ndim(coefficients) == 2 for _, coefficients in terms]
        columns, coefficients = terms[0]
        r = int(np.shape(coefficients)[0]) if widths[0] else int(np.size(columns))
        rows = self._r + np.arange(r, dtype=np.intp)
        for (columns, coefficients), dense in zip(terms, widths, strict=True):
            columns = np.ravel(columns)
            if dense:
                block = np.asarray(coefficients, dtype=float)
                at = np.nonzero(block)
                self._entries.append((rows[at[0]], columns[at[1]], block[at]))
            else:
                values = np.broadcast_to(np.asarray(coefficients, dtype=float), (r,))
                kept = values != 0
                self._entries.append((rows[kept], np.broadcast_to(columns, (r,))[kept], values[kept]))
        self._row_lower.append(np.broadcast_to(np.asarray(lower, dtype=float), (r,)))
        self._row_upper.append(np.broadcast_to(np.asarray(upper, dtype=float), (r,)))
        self._rows[name] = rows
        self._r += r

    def minimise(self, columns: Index, coefficients: npt.ArrayLike) -> None:
        """Add terms to the objective."""
        self._cost.append((np.ravel(columns), np.ravel(np.asarray(coefficients, dtype=float))))

    def build(self) -> MixedInteger:
        """The program of all variables, rows and terms that were added."""
        cost = np.zeros(self._n)
        for columns, coefficients in self._cost:
            np.add.at(cost, columns, coefficients)
        nowhere = np.zeros(0, dtype=np.intp)
        rows = np.concatenate([nowhere, *(entry[0] for entry in self._entries)])
        where = np.concatenate([nowhere, *(entry[1] for entry in self._entries)])
        values = np.concatenate([np.zeros(0), *(entry[2] for entry in self._entries)])
        matrix = scipy.sparse.coo_array((values, (rows, where)), shape=(self._r, self._n)).tocsr()
        return MixedInteger(
            matrix=matrix,
            row_lower=np.concatenate([np.zeros(0), *self._row_lower]),
            row_upper=np.concatenate([np.zeros(0), *self._row_upper]),
            lower=np.concatenate(self._lower),
            upper=np.concatenate(self._upper),
            integer=np.concatenate(self._integer),
            cost=cost,
            columns=dict(self._columns),
            rows=dict(self._rows),
        )


def add_budget(b: Builder, flips: Index, adversary: Adversary, budget: int) -> None:
    """What the adversary can pay, in all and in every group.

    ``flips`` (ν, k): each row adds up to 1 where the label is flipped, else to 0.
    """
    width = flips.shape[1]
    spend = np.repeat(adversary.costs.astype(float), width)
    if flips.size:
        b.constrain("budget", [(flips.ravel(), spend[None, :])], upper=float(budget))
    for group, cap in enumerate(adversary.group_caps.tolist()):
        own = adversary.groups == group
        if own.any():
            part = np.repeat(own, width)
            b.constrain(f"group {group}", [(flips[own].ravel(), spend[None, part])], upper=float(cap))
