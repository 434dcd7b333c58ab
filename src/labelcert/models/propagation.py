"""Graph convolution matrices S, and the personalised PageRank propagation of (A)PPNP.

Every architecture sees the graph through one sparse matrix S of shape (n, n). Self-loops in the adjacency
matrix are ignored: every node gets exactly one self-loop, of weight 1.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp

from labelcert.arrays import Float
from labelcert.errors import InvalidInput

Normalization = Literal["row", "symmetric", "none"]
NORMALIZATIONS: tuple[str, ...] = get_args(Normalization)


def without_self_loops(adjacency: sp.csr_array) -> sp.csr_array:
    """Return the adjacency matrix with an empty diagonal."""
    coo = adjacency.tocoo()
    row, column = coo.coords
    off = (row != column) & (coo.data != 0.0)
    return sp.csr_array((coo.data[off].astype(np.float64), (row[off], column[off])), shape=adjacency.shape)


def convolution_matrix(
    adjacency: sp.csr_array, *, normalization: Normalization = "row", edge_weight: float = 1.0
) -> sp.csr_array:
    r"""Return the graph convolution S of the GCN family, shape (n, n), from non-negative weights A.

    It is built from :math:`B = \beta A + I` with the edge weight β and degrees :math:`D = \mathrm{diag}(B 1)`:
    ``"row"``: :math:`D^{-1} B`; ``"symmetric"``: :math:`D^{-1/2} B D^{-1/2}`; ``"none"``: B.
    """
    A = _weights(adjacency)
    B = sp.csr_array(edge_weight * A + sp.eye_array(A.shape[0], format="csr"))
    if normalization == "none":
        return B
    degree = np.asarray(B.sum(axis=1), dtype=np.float64).ravel()
    if normalization == "row":
        return sp.csr_array(sp.diags_array(1.0 / degree) @ B)
    scale = sp.diags_array(1.0 / np.sqrt(degree))
    return sp.csr_array(scale @ B @ scale)


def mean_aggregation_matrix(adjacency: sp.csr_array) -> sp.csr_array:
    r"""Return GraphSAGE's :math:`S = I + D^{-1} A`; degrees exclude self-loops, isolated nodes keep only I."""
    A = _weights(adjacency)
    degree = np.asarray(A.sum(axis=1), dtype=np.float64).ravel()
    inverse = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0.0)
    return sp.csr_array(sp.diags_array(inverse) @ A + sp.eye_array(A.shape[0], format="csr"))


def pagerank_iterations(alpha: float) -> int:
    r"""Return the k for which :math:`(1-\alpha)^k` is below float64 rounding, so that APPNP equals PPNP."""
    if alpha >= 1.0:
        return 1
    return math.ceil(math.log(2.0**-56) / math.log1p(-alpha))


def propagate(S: sp.csr_array, M: Float, *, alpha: float, iterations: int) -> Float:
    r"""Apply the propagation :math:`P_k` of APPNP to the columns of M, shape (n, c), without forming it.

    :math:`P_0 = I` and :math:`P_k = (1 - \alpha) S P_{k-1} + \alpha I`; the limit is the PPNP matrix
    :math:`\alpha (I - (1 - \alpha) S)^{-1}`.
    """
    Z = np.ascontiguousarray(M)
    if alpha == 1.0:
        return Z.copy()
    walk = sp.csr_array((1.0 - alpha) * S)
    restart = alpha * Z
    for _ in range(iterations):
        Z = walk @ Z
        Z += restart
    return Z


def _weights(adjacency: sp.csr_array) -> sp.csr_array:
    A = without_self_loops(adjacency)
    if A.nnz and float(A.data.min()) < 0.0:
        raise InvalidInput(
            f"graph convolutions need non-negative edge weights, but the smallest is {A.data.min():g}; "
            "shift the weights or drop negative edges"
        )
    return A
