"""The checks that `Graph` runs on its arguments and on the files that it reads."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from labelcert.arrays import Float, Int, Values
from labelcert.checking import unmasked
from labelcert.errors import InvalidInput
from labelcert.reading import Archive

SparseMatrix: TypeAlias = "csr_array[np.float64, tuple[int, int]]"

UNLABELED = -1
"""The label of a node whose class is not known."""
DAMAGED_NPZ = (
    *(ValueError, TypeError, KeyError, OSError, EOFError, MemoryError, OverflowError, RuntimeError, SyntaxError),
    *(tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)
"""What NumPy raises on an npz that is damaged, encrypted or pickled, or on a file that is not an npz."""

_PLAUSIBLE_CLASSES = 10_000


def reason(error: BaseException) -> str:
    """Return the first line of an error's text, so that messages stay on one line."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(": ") if lines else type(error).__name__


def as_indices(nodes: ArrayLike, *, n_nodes: int, what: str = "nodes") -> Int:
    """Return distinct node indices from a list of indices (in its order) or a boolean mask over all nodes.

    Negative indices are refused, because they are rarely intended.
    """
    array = np.asarray(unmasked(what, nodes))
    if array.ndim != 1:
        raise InvalidInput(
            f"{what}: expected a one-dimensional list of indices or a boolean mask, got an array of shape "
            f"{array.shape}; choose one split of several masks as mask[:, 0], and flatten lists"
        )
    if array.dtype == np.bool_:
        if len(array) != n_nodes:
            raise InvalidInput(
                f"{what}: expected a boolean mask with one entry for each of the {n_nodes} nodes, got "
                f"{len(array)} entries; give a mask of that length, or indices"
            )
        return np.flatnonzero(array).astype(np.int64)
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise InvalidInput(
            f"{what}: expected integer indices or a boolean mask, got values of type {array.dtype} "
            f"(the first is {array.tolist()[0]!r}); convert them to int"
        )
    outside = np.flatnonzero((array < 0) | (array >= n_nodes))
    if outside.size:
        raise InvalidInput(
            f"{what}: expected indices in 0..{n_nodes - 1}, got {array[outside[0]]} at position "
            f"{outside[0]}; remove or correct it"
        )
    index = array.astype(np.int64)
    values, first, counts = np.unique(index, return_index=True, return_counts=True)
    if np.any(counts > 1):
        repeated = values[counts > 1][np.argmin(first[counts > 1])]
        raise InvalidInput(f"{what}: expected distinct nodes, got {repeated} more than once; remove the repetition")
    return index


def _read_only(array: Values) -> Values:
    # The owner of a buffer can make it writable again; a view of a read-only array cannot. SciPy's arrays may
    # themselves be views of longer ones, which would stay writable.
    owner = array if array.base is None else array.copy()
    owner.setflags(write=False)
    return owner.view()


def canonical_csr(matrix: Any) -> SparseMatrix:
    """Return a float64 CSR copy with sorted indices, merged duplicates and no stored zeros."""
    csr = csr_array(matrix, dtype=np.float64, copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    return cast("SparseMatrix", csr)


def _frozen_csr(matrix: SparseMatrix) -> SparseMatrix:
    # SciPy computes these flags on first use and may then sort in place, so ask before the arrays are read-only.
    _ = matrix.has_sorted_indices, matrix.has_canonical_format
    for part in ("data", "indices", "indptr"):
        setattr(matrix, part, _read_only(getattr(matrix, part)))
    return matrix


def assembled_csr(data: Values, indices: Values, indptr: Values, shape: Values, *, what: str) -> SparseMatrix:
    """Build a CSR matrix from its parts; refuse parts that do not fit together."""
    parts = {"data": data, "indices": indices, "indptr": indptr, "shape": shape}
    try:
        for part, array in parts.items():
            # An empty list does not have an integer type.
            kinds = "biuf" if part == "data" or array.size == 0 else "iu"
            if array.ndim != 1 or array.dtype.kind not in kinds:
                numbers = "real numbers" if part == "data" else "whole numbers"
                raise ValueError(
                    f"its part {part!r} is not a list of {numbers} (type {array.dtype}, shape {array.shape})"
                )
        if shape.size != 2 or shape.min() < 0:
            raise ValueError(f"its shape is {shape.tolist()} instead of two numbers of rows and columns")
        return canonical_csr(checked_csr(data, indices, indptr, (int(shape[0]), int(shape[1]))))
    except (ValueError, TypeError, IndexError, OverflowError, MemoryError) as error:
        raise InvalidInput(f"{what} is not a valid CSR matrix: {reason(error)}; write the file again") from error


def checked_csr(data: Values, indices: Values, indptr: Values, shape: tuple[int, int]) -> SparseMatrix:
    """A CSR matrix whose parts fit together: SciPy's compiled code writes anywhere if they do not."""
    starts, columns = (part.astype(np.int64) for part in (indptr, indices))
    if starts.shape != (shape[0] + 1,):
        raise ValueError(f"it has {shape[0]} rows, but {starts.size - 1} are described")
    if starts[0] != 0 or starts[-1] != columns.size or columns.size != data.size or (np.diff(starts) < 0).any():
        raise ValueError("its rows do not add up to its entries")
    if columns.size and not 0 <= columns.min() <= columns.max() < shape[1]:
        raise ValueError(f"an entry lies outside of its {shape[1]} columns")
    return cast("SparseMatrix", csr_array((data, columns, starts), shape=shape))


def first_asymmetry(adjacency: SparseMatrix) -> tuple[int, int] | None:
    """Return the first pair (i, j) whose two weights differ, or None if the matrix is symmetric."""
    difference = (adjacency - adjacency.T).tocoo()
    nonzero = np.flatnonzero(difference.data)
    i, j = difference.coords
    return (int(i[nonzero[0]]), int(j[nonzero[0]])) if nonzero.size else None


def _as_matrix(value: Any, *, what: str) -> Any:
    try:
        matrix: Any = value if sp.issparse(value) else np.asarray(unmasked(what, value))
        # NumPy would drop imaginary parts, and turn dates into numbers of days or nanoseconds.
        if matrix.dtype.kind in "cmM":
            raise TypeError(f"real numbers are needed, not values of type {matrix.dtype}")
        return matrix if sp.issparse(matrix) else np.asarray(matrix, dtype=np.float64)
    except InvalidInput:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(
            f"expected numbers in {what}: {reason(error)}; convert or encode the other entries"
        ) from error


def checked_adjacency(value: Any, *, directed: bool) -> SparseMatrix:
    """Return a read-only CSR adjacency matrix that is square, finite, non-negative and, if undirected, symmetric."""
    matrix = _as_matrix(value, what="the adjacency matrix")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        shape = "x".join(str(s) for s in matrix.shape)
        raise InvalidInput(
            f"expected a square adjacency matrix, got one of shape {shape}; give one row and column per node"
        )
    adjacency = canonical_csr(matrix)
    bad = np.flatnonzero(~np.isfinite(adjacency.data) | (adjacency.data < 0))
    if bad.size:
        row = int(np.searchsorted(adjacency.indptr, bad[0], side="right")) - 1
        raise InvalidInput(
            f"expected finite, non-negative edge weights, got {adjacency.data[bad[0]]} between nodes {row} "
            f"and {adjacency.indices[bad[0]]}; drop the edge or rescale the weights"
        )
    if not directed and (pair := first_asymmetry(adjacency)):
        i, j = pair
        raise InvalidInput(
            f"expected a symmetric adjacency matrix, got weight {adjacency[i, j]} from node {i} to {j} "
            f"but {adjacency[j, i]} back; symmetrise it, or pass directed=True"
        )
    return _frozen_csr(adjacency)


def checked_features(value: Any, n: int) -> Float | SparseMatrix:
    """Return read-only, finite features with n rows, dense or CSR as given."""
    matrix = _as_matrix(value, what="the features")
    if matrix.ndim != 2 or matrix.shape[0] != n:
        raise InvalidInput(
            f"expected features of shape ({n}, d), one row per node, got shape {tuple(matrix.shape)}; "
            f"give every node exactly one row"
        )
    sparse = sp.issparse(matrix)
    features: Any = canonical_csr(matrix) if sparse else matrix
    if not np.isfinite(features.data if sparse else features).all():
        entries = sp.coo_array(features)
        bad = np.flatnonzero(~np.isfinite(entries.data))[0]
        row, column = (axis[bad] for axis in entries.coords)
        raise InvalidInput(
            f"expected finite features, got {entries.data[bad]} for node {row}, feature {column}; fill it in or drop it"
        )
    return _frozen_csr(features) if sparse else _read_only(np.array(features, order="C"))


def checked_labels(value: Any, n: int) -> Int:
    """Return n read-only int64 labels of at least -1."""
    labels = np.asarray(unmasked("labels", value))
    if labels.shape != (n,):
        raise InvalidInput(
            f"expected one label for each of the {n} nodes, got an array of shape {labels.shape}; "
            f"use -1 for unlabelled nodes"
        )
    if n == 0:
        return _read_only(np.empty(0, dtype=np.int64))
    if labels.dtype.kind not in "iu":
        raise InvalidInput(
            f"expected integer labels 0..K-1 and -1 for unlabelled nodes, got values of type {labels.dtype} "
            f"(the first is {labels.tolist()[0]!r}); number the classes and pass their names as class_names"
        )
    bad = np.flatnonzero((labels < UNLABELED) | (labels > np.iinfo(np.int64).max))
    if bad.size:
        raise InvalidInput(
            f"expected labels 0..K-1 and -1 for unlabelled nodes, got {labels[bad[0]]} for node {bad[0]}; "
            f"number the classes from 0"
        )
    return _read_only(labels.astype(np.int64))


def checked_class_names(names: Sequence[str], labels: Int) -> tuple[str, ...]:
    """Return distinct names of all classes; by default the numbers 0..K-1."""
    needed = int(labels.max(initial=UNLABELED)) + 1
    if len(names) == 0 and needed > max(len(labels), _PLAUSIBLE_CLASSES):
        raise InvalidInput(
            f"expected classes numbered 0..K-1 without large gaps, got label {needed - 1} among {len(labels)} "
            f"nodes; number the classes from 0 and pass their names as class_names"
        )
    given = tuple(str(name) for name in names) or tuple(str(k) for k in range(needed))
    if len(given) < needed:
        raise InvalidInput(
            f"expected a name for each of the {needed} classes in the labels, got {len(given)} class names "
            f"{given}; name every class"
        )
    _refuse_repetition(given, "class names")
    return given


def checked_node_names(names: Sequence[str] | None, n: int) -> tuple[str, ...] | None:
    """Return distinct names of all nodes, or None."""
    if names is None:
        return None
    given = tuple(str(name) for name in names)
    if len(given) != n:
        raise InvalidInput(f"expected {n} node names, got {len(given)}; give one per node, or None")
    _refuse_repetition(given, "node names")
    return given


def _refuse_repetition(names: tuple[str, ...], what: str) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InvalidInput(f"expected distinct {what}, got {repeated[0]!r} more than once; rename one of them")


def read_npz(source: Path) -> dict[str, Values]:
    """Return all arrays of an npz; refuse pickled ones."""
    if not source.exists():
        raise InvalidInput(f"expected a graph in an npz file, but there is no file {source}; check the path")
    try:
        with Archive(source) as archive:
            return archive.arrays()
    except DAMAGED_NPZ as error:
        raise InvalidInput(
            f"expected an npz file without pickled content, but {source} cannot be read as one ({reason(error)}); "
            f"write the file with Graph.to_npz"
        ) from error


def scalar_of(arrays: dict[str, Values], key: str, kinds: str, source: Path) -> Any:
    """Return the single value under `key` in an npz, or None; its type must be of one of NumPy's `kinds`."""
    if key not in arrays:
        return None
    if arrays[key].ndim != 0 or arrays[key].dtype.kind not in kinds:
        raise _unfit(arrays, key, "a single value", source)
    return arrays[key].item()


def names_of(arrays: dict[str, Values], key: str, source: Path) -> tuple[str, ...] | None:
    """Return the list of names under `key` in an npz, or None."""
    if key not in arrays:
        return None
    if arrays[key].ndim != 1:
        raise _unfit(arrays, key, "a list of names", source)
    return tuple(str(name) for name in arrays[key].tolist())


def _unfit(arrays: dict[str, Values], key: str, expected: str, source: Path) -> InvalidInput:
    return InvalidInput(
        f"expected {expected} as {key} in {source}, got an array of shape {arrays[key].shape} and type "
        f"{arrays[key].dtype}; write the file with Graph.to_npz"
    )


def features_from_arrays(arrays: dict[str, Values], n: int, source: Path) -> Any:
    """Return the features among the arrays of an npz; by default the identity matrix."""
    if "x" in arrays:
        return arrays["x"]
    parts = ("x_data", "x_indices", "x_indptr", "x_shape")
    missing = [key for key in parts if key not in arrays]
    if len(missing) == len(parts):
        return sp.eye_array(n, format="csr")
    if missing:
        raise InvalidInput(
            f"expected {', '.join(parts)} for sparse features in {source}, but {', '.join(missing)} is "
            f"missing; write the file with Graph.to_npz"
        )
    return assembled_csr(*(arrays[key] for key in parts), what=f"the feature matrix in {source}")
