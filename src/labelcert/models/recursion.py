r"""The tangent-kernel recursion of message-passing networks, for requested blocks only.

A network is a sequence of layers. Layer l = 1..D reads the previous layer's output H (the features X for l
= 1) and, in a network with skip connections, the fixed random embedding :math:`H_0`:

.. math::
    U_l = (T_l H_{l-1} + R_l H_0)\, W_l, \qquad
    H_l = \sqrt{c/h}\,\sigma(U_l),

all :math:`W_l` standard Gaussian and trained. With widths going to infinity, pre-activations become
Gaussian with covariance :math:`\Sigma_l`, and the tangent kernel :math:`\Theta_l` of :math:`U_l` follows
(Jacot et al., 2018; for graph convolutions Sabanayagam et al., 2023):

.. math::
    \Sigma_1 &= T_1 X X^\top T_1^\top, &
    \Sigma_{l+1} &= T_{l+1} E_l T_{l+1}^\top + R_{l+1} X X^\top R_{l+1}^\top, \\
    \Theta_1 &= \Sigma_1, &
    \Theta_{l+1} &= \Sigma_{l+1} + T_{l+1} (\Theta_l \odot \dot E_l)\, T_{l+1}^\top,

where :math:`E_l, \dot E_l` are the expectations of :mod:`labelcert.models.activations` for :math:`\Sigma_l`, c = 1
without activation.

Rows and columns may belong to two different graphs that share the weights: the recursion then runs with one
:math:`T_l` and X on the left and another on the right. That is the kernel between a node of the graph seen
at test time and a node of the graph seen in training.

Only what a block depends on is computed. Entry (i, j) of layer l needs layer l − 1 at the neighbours of i and
of j, and the variances there. The first layer is computed in chunks, which enter the sums of the second layer
at once and are never stored.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from labelcert.arrays import Float, Int
from labelcert.memory import require_memory
from labelcert.models import chunks
from labelcert.models.activations import activate, expectations
from labelcert.models.features import gram
from labelcert.models.layers import Side
from labelcert.models.relu import clip_at_smaller_variance


def kernel_block(left: Side, right: Side, *, same_graph: bool, published: bool = False) -> Float:
    r"""Compute the tangent kernel :math:`\Theta_D` between the nodes of two sides, shape (rows of left, rows of right).

    Both sides are of one architecture; they are the same object for a square block. `same_graph` says whether equal
    indices mean the same node; `published`, whether to clip covariances and round to float32 where the published code
    does.
    """
    require_memory(estimate_bytes(left, right), f"a kernel block of {len(left.nodes[len(left.layers)])} rows")
    if left is not right:
        for side in (left, right):
            _complete_variances(side, published=published)
    theta = _Recursion(left, right, same_graph=same_graph, published=published).run()
    if left is right:
        theta += theta.T.copy()
        theta *= 0.5
    return theta


def estimate_bytes(left: Side, right: Side) -> int:
    """Estimate the peak memory of `kernel_block` in bytes: two consecutive layers, and a chunk of the first."""
    depth = len(left.layers)

    def area(a: Side, b: Side, level: int) -> int:
        return len(a.nodes[level]) * len(b.nodes[level]) if 1 <= level <= depth else 0

    chunk = min(4 * chunks.STREAM_ENTRIES, 4 * len(left.nodes[1]) * max(len(right.first.columns), 1))
    blocks = (2 * area(left, right, k) + 2 * area(left, right, k + 1) for k in range(2, depth + 1))
    block = max(blocks, default=area(left, right, 1))
    incomplete = [s for s in (left, right) if left is not right and s.last_active not in s.variances]
    squares = (area(s, s, k) + area(s, s, k + 1) for s in incomplete for k in range(2, s.last_active))
    square = max(squares, default=0)
    return 8 * (max(block, square) + chunk)


class _Recursion:
    """One run over the layers; the module docstring explains the symbols."""

    def __init__(self, left: Side, right: Side, *, same_graph: bool, published: bool) -> None:
        self.left, self.right = left, right
        self.same_graph, self.published = same_graph, published
        self.depth = len(left.layers)

    def run(self) -> Float:
        """Run over all layers and return Theta_D."""
        if self.depth == 1:
            out = np.empty((self.left.first.size, self.right.first.size))
            for rows in self.left.first.chunks(self.right.first):
                out[rows] = self._first_layer(rows)[1]
            return out
        sigma, propagated = self._first_into_second()
        for level in range(2, self.depth):
            theta = self._complete_layer(level, sigma, propagated)
            sigma, propagated = self._convolve(level + 1, sigma, theta)
        return self._complete_layer(self.depth, sigma, propagated)

    def run_covariances(self, last: int) -> None:
        """Compute the variances of layers 2..last, on a square block."""
        E = self._first_into_second(tangent=False)[0]
        for level in range(2, last + 1):
            self._complete_covariance(level, E)
            if level < last:
                activation = self.left.layers[level - 1].activation
                activate(activation, E, None, self.left.variances[level], self.right.variances[level])
                E = _sandwich(self.left.convolutions[level + 1], E, self.right.convolutions[level + 1])

    def _first_layer(self, rows: slice) -> tuple[Float, Float]:
        layer = self.left.layers[0]
        sigma = self.left.first.covariances(self.right.first, rows)
        left_variance, right_variance = self.left.variances[1][rows], self.right.variances[1]
        if layer.active:
            self._set_diagonal(1, sigma, rows)
            if self.published:
                clip_at_smaller_variance(sigma, left_variance, right_variance)
        theta = sigma.copy()
        if layer.active:
            activate(layer.activation, sigma, theta, left_variance, right_variance)
        if layer.readout:
            theta += sigma
        return sigma, theta

    def _first_into_second(self, *, tangent: bool = True) -> tuple[Float, Float | None]:
        shape = (len(self.left.nodes[2]), len(self.right.nodes[2]))
        merged = tangent and self._merges_at(2)
        sigma = np.zeros(shape)
        theta = np.zeros(shape) if tangent and not merged else None
        T_left, T_right = sp.csc_array(self.left.convolutions[2]), self.right.convolutions[2]
        G_left = sp.csc_array(self.left.gradient_convolutions[2])
        G_right = self.right.gradient_convolutions[2]
        for rows in self.left.first.chunks(self.right.first):
            E, theta_dot = self._first_layer(rows)
            if merged:
                E += theta_dot
            _add_product(sigma, T_left, rows, E, T_right)
            if theta is not None:
                _add_product(theta, G_left, rows, theta_dot, G_right)
        return sigma, theta

    def _convolve(self, level: int, sigma: Float, theta: Float) -> tuple[Float, Float | None]:
        T = self.left.convolutions[level], self.right.convolutions[level]
        if self._merges_at(level):
            sigma += theta
            return _sandwich(T[0], sigma, T[1]), None
        G = self.left.gradient_convolutions[level], self.right.gradient_convolutions[level]
        return _sandwich(T[0], sigma, T[1]), _sandwich(G[0], theta, G[1])

    def _merges_at(self, level: int) -> bool:
        """Tell whether the layer only adds Sigma and Theta, so that their sum can be convolved at once."""
        layer = self.left.layers[level - 1]
        plain = not layer.active and not layer.readout and layer.gradient_convolution is None
        return level == self.depth and plain

    def _complete_covariance(self, level: int, sigma: Float) -> None:
        layer = self.left.layers[level - 1]
        if layer.skip is not None:
            left, right = self.left.skips[level], self.right.skips[level]
            for rows in left.chunks(right):
                part = left.covariances(right, rows)
                if self.published and layer.clip_skip:
                    clip_at_smaller_variance(part, left.variances[rows], right.variances)
                sigma[rows] += part
        if not layer.active:
            return
        if self.left is self.right:
            self.left.variances[level] = sigma.diagonal().copy()
        self._set_diagonal(level, sigma, slice(0, len(sigma)))
        if self.published:
            clip_at_smaller_variance(sigma, self.left.variances[level], self.right.variances[level])

    def _complete_layer(self, level: int, sigma: Float, theta: Float | None) -> Float:
        layer = self.left.layers[level - 1]
        self._complete_covariance(level, sigma)
        if theta is None:
            theta = sigma.copy() if layer.active else sigma
        else:
            if self.published and level < self.depth:
                theta[...] = theta.astype(np.float32)
            theta += sigma
        if layer.active:
            activate(layer.activation, sigma, theta, self.left.variances[level], self.right.variances[level])
        if layer.readout:
            theta += sigma
        return theta

    def _set_diagonal(self, level: int, sigma: Float, rows: slice) -> None:
        """Set the covariance of a node with itself to its variance.

        Near correlation 1 the arc cosine turns a rounding error of 1e-16 into one of 1e-8.
        """
        if not self.same_graph:
            return
        a, b = self.left.nodes[level][rows], self.right.nodes[level]
        _, i, j = np.intersect1d(a, b, assume_unique=True, return_indices=True)
        sigma[i, j] = self.right.variances[level][j]


def _complete_variances(side: Side, *, published: bool) -> None:
    """Fill in the variances of every layer with an activation."""
    last = side.last_active
    if last < 2 or last in side.variances:
        return
    if last == 2 and _local_is_cheaper(side):
        side.variances[2] = _second_variances(side, published=published)
    else:
        _Recursion(side, side, same_graph=True, published=published).run_covariances(last)


def _local_is_cheaper(side: Side) -> bool:
    """Tell whether `_second_variances` is faster than the dense recursion, or the only one to fit into memory."""
    fan_in = np.diff(side.convolutions[2].indptr).astype(np.int64)
    pairs = int((fan_in**2).sum()) // 2
    dense_entries = len(side.nodes[1]) ** 2
    return dense_entries > chunks.STREAM_ENTRIES or pairs * side.first.width < 5 * dense_entries


def _second_variances(side: Side, *, published: bool) -> Float:
    r"""Compute the variances of layer 2 alone, :math:`(\Sigma_2)_{ii} = \sum_{jk} T_{ij} T_{ik} (E_1)_{jk}`.

    Only pairs j, k with a common neighbour i contribute, so no dense matrix is needed.
    """
    T = side.convolutions[2]
    out = np.zeros(T.shape[0])
    pairs = np.diff(T.indptr).astype(np.int64) ** 2
    hubs = pairs > chunks.PAIR_ENTRIES
    for i in np.flatnonzero(hubs):
        row = slice(T.indptr[i], T.indptr[i + 1])
        out[i] = _hub_variance(side, T.indices[row].astype(np.int64), T.data[row], published=published)
    rest = np.flatnonzero(~hubs)
    pairs_up_to = np.cumsum(pairs[rest])
    start = 0
    while start < len(rest):
        done = pairs_up_to[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(pairs_up_to, done + chunks.PAIR_ENTRIES // 4, side="right")))
        part = sp.csr_array(T[rest[start:stop]])
        pattern = sp.csr_array((np.ones_like(part.data), part.indices, part.indptr), shape=part.shape)
        shared = sp.triu(pattern.T @ pattern, format="coo")
        i, j = (index.astype(np.int64) for index in shared.coords)
        E = np.where(i == j, 1.0, 2.0) * _first_expectation(side, i, j, published=published)
        weighted = part @ sp.csr_array((E, (i, j)), shape=shared.shape)
        out[rest[start:stop]] = np.asarray(weighted.multiply(part).sum(axis=1), dtype=np.float64).ravel()
        start = stop
    if 2 in side.skips:
        out += side.skips[2].variances
    return out


def _hub_variance(side: Side, neighbours: Int, weights: Float, *, published: bool) -> float:
    r"""Compute one entry of `_second_variances`, :math:`t^\top E_1 t`, for a node with many neighbours."""
    X = side.first.mapped(neighbours)
    v = side.variances[1][neighbours]
    total = 0.0
    for rows in chunks.row_chunks(len(neighbours), len(neighbours), chunks.STREAM_ENTRIES // 8):
        sigma = gram(X[rows], X)
        index = np.arange(rows.start, rows.stop)
        sigma[index - rows.start, index] = v[rows]
        if side.layers[0].active:
            if published:
                clip_at_smaller_variance(sigma, v[rows], v)
            activate(side.layers[0].activation, sigma, None, v[rows], v)
        total += float(weights[rows] @ (sigma @ weights))
    return total


def _first_expectation(side: Side, i: Int, j: Int, *, published: bool) -> Float:
    """Return entries (i, j) of E_1, or of Sigma_1 if the first layer has no activation."""
    v_i, v_j = side.variances[1][i], side.variances[1][j]
    sigma = np.where(i == j, v_i, side.first.pair_covariances(i, j))
    if not side.layers[0].active:
        return sigma
    if published:
        sigma = np.minimum(sigma, np.minimum(v_i, v_j))
    return expectations(side.layers[0].activation, sigma, v_i, v_j)[0]


def _sandwich(A: sp.csr_array, M: Float, B: sp.csr_array) -> Float:
    r"""Compute :math:`A M B^\top` with sparse A and B, in chunks of rows."""
    out = np.empty((A.shape[0], B.shape[0]))
    for rows in chunks.row_chunks(A.shape[0], M.shape[1], chunks.STREAM_ENTRIES // 8):
        out[rows] = (B @ (sp.csr_array(A[rows]) @ M).T).T
    return out


def _add_product(out: Float, A: sp.csc_array, columns: slice, M: Float, B: sp.csr_array) -> None:
    r"""Add :math:`A_{:,\mathrm{columns}} M B^\top` to `out`, touching only the rows that change."""
    part = sp.csr_array(A[:, columns])
    touched = np.flatnonzero(np.diff(part.indptr))
    out[touched] += sp.csr_array(part[touched]) @ np.ascontiguousarray((B @ M.T).T)
