"""Models that ignore edges: the fully connected network, the linear kernel and the RBF kernel."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from labelcert.arrays import Float
from labelcert.memory import require_memory
from labelcert.models.activations import Activation, activate, expectations
from labelcert.models.base import Model, Variant, View, require, require_positive
from labelcert.models.features import Features, gram, squared_norms
from labelcert.models.layers import Architecture, Layer
from labelcert.models.relu import clip_at_smaller_variance

KEEPING = ("relu", "linear")
"""Activations that keep the variance of what they are given."""


def mlp_kernel(
    left: Features, right: Features, *, depth: int, activation: Activation, published: bool = False, same: bool = False
) -> Float:
    r"""Compute the tangent kernel of the fully connected network with biases, shape (rows of left, rows of right).

    :math:`\Sigma_1 = X X'^\top + 1`, :math:`\Sigma_{l+1} = E_l + 1`, :math:`\Theta_1 = \Sigma_1`,
    :math:`\Theta_{l+1} = \Sigma_{l+1} + \Theta_l \odot \dot E_l`; the kernel is :math:`\Theta_{L+1}`. With `same`, both
    sides are the same points, so that the diagonal holds their variances. With `published`, covariances are clipped at
    the smaller variance.
    """
    sigma = gram(left, right)
    sigma += 1.0
    v_left, v_right = (_mlp_variances(X, depth, activation) for X in (left, right))
    theta: Float | None = None
    for level in range(depth):
        if activation != "linear":
            if same:
                np.fill_diagonal(sigma, v_left[level])
            if published:
                clip_at_smaller_variance(sigma, v_left[level], v_right[level])
        theta = sigma.copy() if theta is None else theta + sigma
        activate(activation, sigma, theta, v_left[level], v_right[level])
        sigma += 1.0
    return sigma if theta is None else sigma + theta


def _mlp_variances(X: Features, depth: int, activation: Activation) -> list[Float]:
    """(L + 1) variances of each point; those of a ReLU network are exact, because it keeps them."""
    found = [squared_norms(X) + 1.0]
    for level in range(1, depth + 1):
        v = found[-1]
        found.append(found[0] + level if activation in KEEPING else expectations(activation, v, v, v)[0] + 1.0)
    return found


def mlp_diagonal(X: Features, *, depth: int, activation: Activation) -> Float:
    r"""Compute :math:`\Theta_{ii}` of `mlp_kernel` alone, shape (n,)."""
    variances = _mlp_variances(X, depth, activation)
    if activation in KEEPING:  # the sum of the variances (|x|² + 1) + l
        return (depth + 1) * variances[0] + depth * (depth + 1) / 2
    theta = variances[0]
    for v, after in pairwise(variances):
        theta = after + theta * expectations(activation, v, v, v)[1]
    return theta


@dataclass(frozen=True, kw_only=True)
class PairwiseModel(Model):
    """Base of the kernels that only compare the features of two nodes, inductive or not."""

    @abstractmethod
    def _between(self, left: Features, right: Features, *, same: bool) -> Float:
        """Return the kernel between two sets of points; `same` tells whether they are the same set."""

    def _square(self, view: View) -> Float:
        X = view.features[view.nodes]
        m = len(view.nodes)
        require_memory(3 * 8 * m * m, f"a kernel of {m} nodes")
        K = self._between(X, X, same=True)
        return np.asarray(0.5 * (K + K.T))

    def _pair(self, train: View, test: View, *, same_graph: bool) -> tuple[Float, Float]:
        require_memory(3 * 8 * len(train.nodes) * len(test.nodes), f"a kernel block of {len(test.nodes)} rows")
        K_test = self._between(test.features[test.nodes], train.features[train.nodes], same=False)
        return self._square(train), K_test


@dataclass(frozen=True, kw_only=True)
class MLP(PairwiseModel):
    r"""Fully connected network with biases; edges play no role.

    Network: :math:`f = H_L W_{L+1} + b_{L+1}`, :math:`H_l = \sqrt{c/h}\,\sigma(H_{l-1} W_l + b_l)`,
    :math:`H_0 = X`; all weights and biases are standard Gaussian and trained.

    Kernel: that of `mlp_kernel`; for one hidden layer :math:`\Sigma \odot \dot E + E + 1` with
    :math:`\Sigma = X X^\top + 1`.

    Examples
    --------
    >>> from labelcert import Graph, MLP
    >>> MLP().kernel(Graph([[0, 0], [0, 0]], [[1, 0], [0, 1]], [0, 1])).diagonal().tolist()
    [5.0, 5.0]
    """

    depth: int = 1
    activation: Activation = "relu"
    variant: Variant = "exact"

    def _architecture(self, adjacency: sp.csr_array) -> Architecture:
        own = sp.eye_array(adjacency.shape[0], format="csr")
        hidden = Layer(own, activation=self.activation)
        return Architecture([*[hidden] * self.depth, Layer(own, activation="linear")], bias=True)

    def _between(self, left: Features, right: Features, *, same: bool) -> Float:
        published = self.variant == "published"
        return mlp_kernel(left, right, depth=self.depth, activation=self.activation, published=published, same=same)


@dataclass(frozen=True, kw_only=True)
class Linear(PairwiseModel):
    r"""Linear model :math:`f = X w`, w trained: the kernel is :math:`X X^\top`.

    Parameters
    ----------
    bias
        Whether to add a trained bias, :math:`f = X w + b`, which adds 1 to every entry.

    Examples
    --------
    >>> from labelcert import Graph, Linear
    >>> Linear(bias=True).kernel(Graph([[0]], [[3.0]], [0])).tolist()
    [[10.0]]
    """

    bias: bool = False

    def _check(self) -> None:
        require(isinstance(self.bias, bool), f"bias must be True or False, got {self.bias!r}")

    def _architecture(self, adjacency: sp.csr_array) -> Architecture:
        return Architecture(
            [Layer(sp.eye_array(adjacency.shape[0], format="csr"), activation="linear")], bias=self.bias
        )

    def _between(self, left: Features, right: Features, *, same: bool) -> Float:
        K = gram(left, right)
        if self.bias:
            K += 1.0
        return K


@dataclass(frozen=True, kw_only=True)
class RBF(PairwiseModel):
    r"""Gaussian kernel :math:`\exp(-\gamma \|x - x'\|^2)`: not a network, but the same certificates apply.

    Parameters
    ----------
    gamma
        γ > 0.

    Examples
    --------
    >>> from labelcert import Graph, RBF
    >>> RBF(gamma=0.5).kernel(Graph([[0, 0], [0, 0]], [[0.0], [1.0]], [0, 1])).round(4).tolist()
    [[1.0, 0.6065], [0.6065, 1.0]]
    """

    gamma: float = 1.0

    def _check(self) -> None:
        require_positive("gamma", self.gamma)

    def _between(self, left: Features, right: Features, *, same: bool) -> Float:
        K = -2.0 * gram(left, right)
        K += squared_norms(left)[:, None]
        K += squared_norms(right)[None, :]
        np.maximum(K, 0.0, out=K)
        if same:
            np.fill_diagonal(K, 0.0)
        return np.asarray(np.exp(-self.gamma * K))
