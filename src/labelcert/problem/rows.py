"""Rows of a matrix that need not be in memory as a whole: dense, sparse, or an iterable of blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from labelcert.arrays import Float, Int
from labelcert.checking import unmasked
from labelcert.errors import InvalidInput
from labelcert.problem.validation import check_matrix

BLOCK_CELLS = 4_000_000
"""Most entries that are worked on at a time."""

SPARSE_ROWS = 256
"""Most sparse rows that are worked on at a time: together, they have entries in few columns."""


class RowBlock(NamedTuple):
    """Some rows, with the ascending columns that are not all zero; None: all of them."""

    rows: Float
    columns: Int | None = None

    def update(self, digest: hashlib._Hash, m: int) -> None:
        """Take rows of m columns into a hash, each by itself: dense or sparse, in whatever blocks, it is the same."""
        for row in self.rows:
            if row.size == m and row.all():
                digest.update(b"full")
                digest.update(np.ascontiguousarray(row, dtype="<f8").data)
            else:
                at = np.flatnonzero(row)
                where = at if self.columns is None else self.columns[at]
                digest.update(b"part" + where.astype("<i8").tobytes() + row[at].astype("<f8").tobytes())
            digest.update(b"|")


class Rows:
    """Rows with one column per label, read block by block: of an array, a SciPy sparse matrix, or an iterable of such.

    An iterable is read once. Arrays are checked at once, blocks as they come.
    """

    def __init__(self, H: Any, m: int) -> None:
        self._m = m
        self._known_good = False
        self._parts: Iterable[Any]
        whole = scipy.sparse.issparse(H) or hasattr(H, "__array__") or (isinstance(H, list | tuple) and not _blocks(H))
        if whole:
            H = H if scipy.sparse.issparse(H) else _dense(H)
            self._parts = (H,)
            self.n: int | None = int(H.shape[0])
            if H.shape[0] == 0:
                raise InvalidInput("H has no rows: there is no test node to certify")
            for _ in self:
                pass
            self._known_good = True
        elif isinstance(H, Iterable) and not isinstance(H, str | bytes | dict):
            self._parts, self.n = H, None
        else:
            raise InvalidInput(
                f"H must be a matrix, a SciPy sparse matrix, or an iterable of blocks of rows, got {type(H).__name__}"
            )

    def __iter__(self) -> Iterator[RowBlock]:
        done = 0
        for part in self._parts:
            yield from self._sparse(part, done) if scipy.sparse.issparse(part) else self._full(_dense(part), done)
            done += int(part.shape[0])
        if done == 0:
            raise InvalidInput("H has no rows: there is no test node to certify (an iterator can be read only once)")

    def _full(self, part: Any, done: int) -> Iterator[RowBlock]:
        self._check_width(part, done)
        step = max(1, BLOCK_CELLS // self._m)
        for start in range(0, part.shape[0], step):
            yield RowBlock(self._checked(part[start : start + step], done + start))

    def _sparse(self, part: Any, done: int) -> Iterator[RowBlock]:
        self._check_width(part, done)
        table = scipy.sparse.csr_array(part)
        table.sum_duplicates()
        start, size = 0, SPARSE_ROWS
        while start < table.shape[0]:
            some = table[start : start + size]
            columns = np.unique(some.indices).astype(np.int64)
            if columns.size * some.shape[0] > BLOCK_CELLS and size > 1:
                size //= 2
                continue
            if columns.size == 0:  # rows of zeros are ties, whatever the labels
                columns = np.zeros(1, dtype=np.int64)
            yield RowBlock(self._checked(some[:, columns].toarray(), done + start), columns)
            start += size

    def _checked(self, rows: Any, first: int) -> Float:
        if self._known_good:
            return np.asarray(rows, dtype=np.float64)
        name = f"H (from row {first} on)" if first else "H"
        return check_matrix(name, rows, "multiply each row by a positive number")

    def _check_width(self, part: Any, done: int) -> None:
        if part.ndim != 2 or part.shape[1] != self._m:
            hint = "; it looks transposed: pass H.T" if part.ndim == 2 and part.shape[0] == self._m else ""
            where = f" (block from row {done} on)" if self.n is None else ""
            raise InvalidInput(
                f"H must have one row per test node and one column per label ({self._m}), got shape {part.shape}"
                f"{where}{hint}"
            )


class OffsetRows:
    """Rows with one more column per class: its (n, K) offsets, which scores begin with whatever the labels are."""

    def __init__(self, rows: Rows | OffsetRows, offsets: Float, m: int) -> None:
        self._rows, self._offsets = rows, offsets
        self._columns = m + np.arange(offsets.shape[1])
        self.n: int | None = rows.n

    def __iter__(self) -> Iterator[RowBlock]:
        done = 0
        for rows, columns in self._rows:
            own = self._offsets[done : done + rows.shape[0]]
            done += rows.shape[0]
            yield RowBlock(np.hstack([rows, own]), None if columns is None else np.append(columns, self._columns))


def _blocks(H: Any) -> bool:
    return len(H) > 0 and all(scipy.sparse.issparse(part) or np.ndim(part) == 2 for part in H)


def _dense(part: Any) -> Any:
    """An array, without a copy where it is one."""
    try:
        return np.asarray(unmasked("H", part))
    except InvalidInput:
        raise
    except ValueError as error:
        raise InvalidInput(f"H must be a matrix: rows of equal length ({error})") from None
