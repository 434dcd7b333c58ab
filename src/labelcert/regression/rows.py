"""Values that are linear in the targets: rows of a matrix, in blocks, with proved error bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from labelcert.arrays import Float
from labelcert.errors import InvalidInput

UNIT = 2.0**-53
"""Relative error of one rounding."""


@dataclass(frozen=True, eq=False)
class TargetRows:
    """k rows of a matrix H with m columns: the values are ``(H @ y) / scale``.

    - ``row_error`` (k,), ``column_error`` (m,): entry (t, i) of H is off by at most their product.
    - ``scale`` (k,): positive numbers. Sums of neighbours are exact before they are divided.
    """

    H: Float
    row_error: Float
    column_error: Float
    scale: Float

    @classmethod
    def exact(cls, H: Float, scale: Float | None = None) -> TargetRows:
        """Rows that are what they are."""
        k, m = H.shape
        return cls(H, np.zeros(k), np.zeros(m), np.ones(k) if scale is None else scale)


@dataclass(frozen=True, eq=False)
class TargetMap:
    """n rows for m targets; ``read(start, stop)`` returns some of them."""

    n: int
    m: int
    read: Callable[[int, int], TargetRows]


def given_map(H: Any) -> TargetMap:
    """The map of an array, or of a SciPy sparse matrix."""
    sparse = hasattr(H, "tocsr")
    rows: Any = H.tocsr() if sparse else np.asarray(H)
    entries: Any = rows.data if sparse else rows
    if rows.ndim != 2 or entries.dtype.kind not in "fiub":
        raise InvalidInput("H must be a table of numbers with one row per prediction and one column per target")
    if not np.isfinite(entries).all():
        raise InvalidInput("H must not hold missing or infinite values")
    n, m = rows.shape

    def read(start: int, stop: int) -> TargetRows:
        part = rows[start:stop]
        return TargetRows.exact(np.asarray(part.toarray() if sparse else part, dtype=np.float64))

    return TargetMap(n, m, read)
