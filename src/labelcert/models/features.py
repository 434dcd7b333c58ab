"""Node features, dense or sparse, and what kernels need of them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from labelcert.arrays import Float
from labelcert.errors import InvalidInput

Features = Float | sp.csr_array

SPARSE_BELOW = 0.1
"""Features with a smaller share of nonzero entries are multiplied as sparse matrices."""


def as_features(features: Features, n: int) -> Features:
    """Return features as float64, dense or CSR, whichever multiplies faster."""
    if len(features.shape) != 2 or features.shape[0] != n:
        raise InvalidInput(f"features must have one row per node, shape ({n}, d), got {tuple(features.shape)}")
    if not isinstance(features, np.ndarray):
        compressed = sp.csr_array(features).astype(np.float64)
        entries = compressed.shape[0] * compressed.shape[1]
        return compressed if compressed.nnz < SPARSE_BELOW * entries else compressed.toarray()
    dense = np.ascontiguousarray(features, dtype=np.float64)
    if np.count_nonzero(dense) < SPARSE_BELOW * dense.size and dense.size > 1 << 16:
        return sp.csr_array(dense)
    return dense


def gram(left: Features, right: Features) -> Float:
    r"""Return the inner products :math:`X X'^\top`, dense, shape (rows of left, rows of right)."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return np.ascontiguousarray(left @ right.T)
    return np.ascontiguousarray((sp.csr_array(left) @ sp.csr_array(right).T).toarray())


def row_products(left: Features, right: Features) -> Float:
    """Return the inner product of each row with the row at its place in `right`, shape (n,)."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", left, right))
    return np.asarray(sp.csr_array(left).multiply(right).sum(axis=1), dtype=np.float64).ravel()


def entries_of(features: Features) -> int:
    """Return how many entries are stored."""
    return int(features.size if isinstance(features, np.ndarray) else features.nnz)


def squared_norms(features: Features) -> Float:
    """Return the squared Euclidean norms of the rows, shape (n,)."""
    return row_products(features, features)
