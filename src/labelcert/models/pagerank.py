"""Predict, then propagate: APPNP and PPNP (Gasteiger et al., 2019)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from labelcert.arrays import Float
from labelcert.checking import whole_number
from labelcert.memory import require_memory
from labelcert.models import chunks
from labelcert.models.activations import Activation
from labelcert.models.base import Model, Variant, View, require, require_between
from labelcert.models.features import Features
from labelcert.models.layers import Architecture
from labelcert.models.plain_kernels import MLP, mlp_diagonal
from labelcert.models.propagation import Normalization, convolution_matrix, pagerank_iterations, propagate


@dataclass(frozen=True, kw_only=True)
class PropagatedMLP(Model):
    r"""Base of APPNP and PPNP: the outputs of an MLP are propagated.

    :math:`f = P\,\mathrm{MLP}(X)`, hence the kernel :math:`P\,\Theta_{\mathrm{MLP}}\,P^\top`.
    """

    alpha: float = 0.1
    depth: int = 1
    normalization: Normalization = "symmetric"
    activation: Activation = "relu"
    edge_weight: float = 1.0
    variant: Variant = "exact"

    def _check(self) -> None:
        require_between("alpha", self.alpha, 0.0, 1.0)

    @abstractmethod
    def _propagate(self, S: sp.csr_array, M: Float) -> Float:
        """Return P M for signals M of shape (n, c)."""

    @property
    def _network(self) -> MLP:
        return MLP(depth=self.depth, activation=self.activation, variant=self.variant)

    def _architecture(self, adjacency: sp.csr_array) -> Architecture:
        S = self._convolution(adjacency)
        return replace(
            self._network._architecture(adjacency),
            propagate=partial(self._propagate, S),
            propagate_back=partial(self._propagate, sp.csr_array(S.T)),
        )

    def _convolution(self, adjacency: sp.csr_array) -> sp.csr_array:
        return convolution_matrix(adjacency, normalization=self.normalization, edge_weight=self.edge_weight)

    def _square(self, view: View) -> Float:
        n = int(view.adjacency.shape[0])
        require_memory(4 * 8 * n * n, f"the kernel of {n} nodes")
        S = self._convolution(view.adjacency)
        K = self._propagate(S, self._network._between(view.features, view.features, same=True))
        K = self._propagate(S, K.T)
        K += K.T.copy()
        K *= 0.5
        return K if np.array_equal(view.nodes, np.arange(n)) else K[np.ix_(view.nodes, view.nodes)]

    def _pair(self, train: View, test: View, *, same_graph: bool) -> tuple[Float, Float]:
        n, m = int(test.adjacency.shape[0]), len(train.nodes)
        require_memory(6 * 8 * n * m, f"propagating {m} labelled nodes over {n} nodes")
        S = self._convolution(train.adjacency)
        unit = np.zeros((S.shape[0], m))
        unit[train.nodes, np.arange(m)] = 1.0
        # P is a polynomial in S, so its rows at the labelled nodes are columns of the same polynomial in S^T.
        P_labeled = self._propagate(sp.csr_array(S.T), unit)
        inner = self._smooth(train.features, train.features, P_labeled, same=True)
        K_train = P_labeled.T @ inner
        if same_graph:
            K_test = self._propagate(S, inner)[test.nodes]
        else:
            inner = self._smooth(test.features, train.features, P_labeled, same=False)
            K_test = self._propagate(self._convolution(test.adjacency), inner)[test.nodes]
        return np.asarray(0.5 * (K_train + K_train.T)), K_test

    def _smooth(self, left: Features, right: Features, P: Float, *, same: bool) -> Float:
        r"""Compute :math:`\Theta_{\mathrm{MLP}} P`, shape (n_left, m), in chunks of rows."""
        n_left, n_right = int(left.shape[0]), int(right.shape[0])
        out = np.empty((n_left, P.shape[1]))
        for rows in chunks.row_chunks(n_left, n_right, chunks.MLP_ENTRIES):
            theta = self._network._between(left[rows], right, same=False)
            if same:
                own = np.arange(rows.start, rows.stop)
                theta[np.arange(len(own)), own] = mlp_diagonal(left[rows], depth=self.depth, activation=self.activation)
            out[rows] = theta @ P
        return out

    def _require_limit(self) -> None:
        require(
            self.alpha >= 1e-3,
            f"the limit of personalised PageRank needs alpha of at least 0.001, got {self.alpha!r}; "
            "use APPNP with iterations",
        )
        require(
            self.normalization != "none",
            "the limit of personalised PageRank needs normalization 'row' or 'symmetric', got 'none'; "
            "use APPNP with iterations",
        )

    def _propagate_limit(self, S: sp.csr_array, M: Float) -> Float:
        """Return P M for PPNP: by one dense factorisation for many signals, by power iteration for few."""
        n, c = M.shape
        k = pagerank_iterations(self.alpha)
        if 8 * k * S.nnz * c < n * n * (n / 3 + c):
            return propagate(S, M, alpha=self.alpha, iterations=k)
        require_memory(4 * 8 * n * n, f"the propagation matrix of {n} nodes")
        system = np.asfortranarray(np.eye(n) - (1.0 - self.alpha) * S.toarray())
        factors = scipy.linalg.lu_factor(system, overwrite_a=True, check_finite=False)
        return np.asarray(self.alpha * scipy.linalg.lu_solve(factors, M, check_finite=False))


@dataclass(frozen=True, kw_only=True)
class APPNP(PropagatedMLP):
    r"""Approximate personalised propagation of neural predictions.

    Network: :math:`f = P_k (\sqrt{c/h}\,\sigma(X W_1 + b_1) W_2 + b_2)` (one hidden layer; more as in
    `MLP`), weights and biases standard Gaussian and trained, :math:`P_0 = I`, :math:`P_k = (1 - \alpha) S
    P_{k-1} + \alpha I`.

    Kernel: :math:`P_k \Theta_{\mathrm{MLP}} P_k^\top`.

    Parameters
    ----------
    alpha
        Teleport probability in [0, 1]: how much of a node's own prediction is kept; 1 is the MLP.
    iterations
        Power iterations k; None means the limit, `PPNP`.

    Examples
    --------
    >>> from labelcert import APPNP, Graph
    >>> APPNP(alpha=1.0).kernel(Graph([[0, 1], [1, 0]], [[1, 0], [0, 1]], [0, 1])).diagonal().tolist()
    [5.0, 5.0]
    """

    iterations: int | None = 10

    def _check(self) -> None:
        super()._check()
        if self.iterations is None:
            self._require_limit()
        else:
            whole_number("iterations", self.iterations, least=1, remark="None for the limit")

    def _propagate(self, S: sp.csr_array, M: Float) -> Float:
        if self.iterations is None:
            return self._propagate_limit(S, M)
        return propagate(S, M, alpha=self.alpha, iterations=self.iterations)


@dataclass(frozen=True, kw_only=True)
class PPNP(PropagatedMLP):
    r"""Personalised propagation of neural predictions: the limit of `APPNP`.

    Network and kernel: those of `APPNP` with :math:`P = \alpha (I - (1 - \alpha) S)^{-1}`.

    Parameters
    ----------
    alpha
        Teleport probability, above 0. The limit needs the normalisation ``"row"`` or ``"symmetric"``.

    Examples
    --------
    >>> import numpy as np
    >>> from labelcert import APPNP, Graph, PPNP
    >>> graph = Graph([[0, 1], [1, 0]], np.eye(2), [0, 1])
    >>> bool(np.allclose(PPNP().kernel(graph), APPNP(iterations=400).kernel(graph)))
    True
    """

    def _check(self) -> None:
        super()._check()
        self._require_limit()

    _propagate = PropagatedMLP._propagate_limit
