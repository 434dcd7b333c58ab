"""Networks that alternate graph convolutions and weights: GCN, SGC, GraphSAGE, GIN, and skip connections.

h is the width, S the graph convolution and σ the activation with its c
(:mod:`labelcert.models.activations`: 2 for the ReLU, 1 for none). All W have
independent standard Gaussian entries and are trained, unless stated otherwise. There are no biases. ``depth``
counts hidden layers. The kernels follow from the recursion of :mod:`labelcert.models.recursion`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from labelcert.arrays import Float
from labelcert.models.activations import Activation
from labelcert.models.base import Model, Variant, View, require_between
from labelcert.models.layers import Architecture, Layer, Side
from labelcert.models.propagation import Normalization, convolution_matrix, mean_aggregation_matrix
from labelcert.models.recursion import kernel_block


@dataclass(frozen=True, kw_only=True)
class MessagePassing(Model):
    """Base of the message-passing networks; a subclass only defines its layers."""

    depth: int = 1
    variant: Variant = "exact"

    def _convolution(self, adjacency: sp.csr_array) -> sp.csr_array:
        """Return the graph convolution S."""
        normalization: Normalization = getattr(self, "normalization", "none")
        edge_weight: float = getattr(self, "edge_weight", 1.0)
        return convolution_matrix(adjacency, normalization=normalization, edge_weight=edge_weight)

    @property
    def _activation(self) -> Activation:
        found: Activation = getattr(self, "activation", "linear")
        return found

    def layers(self, adjacency: sp.csr_array) -> list[Layer]:
        """Return the network's layers on a graph: L hidden ones, and the readout."""
        S = self._convolution(adjacency)
        return [Layer(S, activation=self._activation)] * self.depth + [Layer(S, activation="linear")]

    def _architecture(self, adjacency: sp.csr_array) -> Architecture:
        return Architecture(self.layers(adjacency))

    def _square(self, view: View) -> Float:
        nodes, inverse = np.unique(view.nodes, return_inverse=True)
        side = Side(self.layers(view.adjacency), view.features, nodes)
        K = kernel_block(side, side, same_graph=True, published=self.variant == "published")
        return K if np.array_equal(nodes, view.nodes) else K[np.ix_(inverse, inverse)]

    def _pair(self, train: View, test: View, *, same_graph: bool) -> tuple[Float, Float]:
        published = self.variant == "published"
        columns, from_columns = np.unique(train.nodes, return_inverse=True)
        rows, from_rows = np.unique(test.nodes, return_inverse=True)
        layers = self.layers(train.adjacency)
        right = Side(layers, train.features, columns)
        left = Side(layers if same_graph else self.layers(test.adjacency), test.features, rows)
        K_train = kernel_block(right, right, same_graph=True, published=published)
        K_test = kernel_block(left, right, same_graph=same_graph, published=published)
        return K_train[np.ix_(from_columns, from_columns)], K_test[np.ix_(from_rows, from_columns)]


@dataclass(frozen=True, kw_only=True)
class GCN(MessagePassing):
    r"""Graph convolutional network (Kipf and Welling, 2017), with S before every weight matrix.

    Network: :math:`f = S H_L W_{L+1}` with :math:`H_l = \sqrt{c/h}\,\sigma(S H_{l-1} W_l)` and :math:`H_0 =
    X`.

    Kernel: :math:`\Sigma_1 = S X X^\top S^\top`, :math:`\Sigma_{l+1} = S E_l S^\top`, :math:`\Theta_1 =
    \Sigma_1`, :math:`\Theta_{l+1} = \Sigma_{l+1} + S (\Theta_l \odot \dot E_l) S^\top`; the kernel is
    :math:`\Theta_{L+1}`.

    The network has L + 1 convolutions. The linear GCN is `SGC`.

    Examples
    --------
    >>> from labelcert import GCN, Graph
    >>> GCN(depth=1, normalization="row").kernel(Graph([[0, 1], [1, 0]], [[1, 0], [0, 1]], [0, 1])).round(12).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    normalization: Normalization = "row"
    activation: Activation = "relu"
    edge_weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class SGC(MessagePassing):
    r"""Simplified graph convolution (Wu et al., 2019): a GCN without activations.

    Network: :math:`f = S H_L W_{L+1}` with :math:`H_l = S H_{l-1} W_l / \sqrt{h}` and :math:`H_0 = X`.

    Kernel: :math:`(L + 1)\, S^{L+1} X X^\top (S^{L+1})^\top`, one equal term for each of the L + 1 weight
    matrices.

    Examples
    --------
    >>> from labelcert import Graph, SGC
    >>> SGC(depth=1).kernel(Graph([[0, 1], [1, 0]], [[1, 0], [0, 1]], [0, 1])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    normalization: Normalization = "row"
    edge_weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class GraphSAGE(MessagePassing):
    r"""GraphSAGE with mean aggregation (Hamilton et al., 2017); a node and its neighbours share weights.

    Network: that of `GCN` with :math:`S = I + D^{-1} A`, degrees without self-loop. Kernel: that of `GCN`
    with this S. The weight of edges cancels in :math:`D^{-1} A`, so there is no ``edge_weight``.

    Examples
    --------
    >>> from labelcert import Graph, GraphSAGE
    >>> GraphSAGE(depth=1).kernel(Graph([[0, 1], [1, 0]], [[1, 0], [0, 1]], [0, 1])).round(12).tolist()
    [[16.0, 16.0], [16.0, 16.0]]
    """

    activation: Activation = "relu"

    def _convolution(self, adjacency: sp.csr_array) -> sp.csr_array:
        return mean_aggregation_matrix(adjacency)


@dataclass(frozen=True, kw_only=True)
class GIN(MessagePassing):
    r"""Graph isomorphism network (Xu et al., 2019): sums over neighbours, each followed by a small MLP.

    Network: :math:`f = H_L`, :math:`H_l = \sqrt{c/h}\,\sigma(S H_{l-1} W_l / \sqrt{h})\, V_l` with :math:`S
    = \beta A + I` and :math:`H_0 = X` (no :math:`1/\sqrt{h}` on X). For L = 1: :math:`\sqrt{c/h}\,\sigma(S
    X W_1) V_1`.

    Kernel: :math:`\Sigma_1 = S X X^\top S^\top`, :math:`\Sigma_{l+1} = S E_l S^\top`, :math:`\Theta_1 =
    \Sigma_1`, :math:`K_l = \Theta_l \odot \dot E_l + E_l`, :math:`\Theta_{l+1} = \Sigma_{l+1} + S K_l
    S^\top`; the kernel is :math:`K_L`.

    Each of the L convolutions has one hidden layer. The published variant always has depth 1.

    Examples
    --------
    >>> from labelcert import GIN, Graph
    >>> GIN().kernel(Graph([[0, 1], [1, 0]], [[1, 0], [0, 1]], [0, 1])).round(12).tolist()
    [[4.0, 4.0], [4.0, 4.0]]
    """

    activation: Activation = "relu"
    edge_weight: float = 1.0

    def layers(self, adjacency: sp.csr_array) -> list[Layer]:
        """Return the L layers on a graph."""
        depth = 1 if self.variant == "published" else self.depth
        return [Layer(self._convolution(adjacency), activation=self._activation, readout=True)] * depth


@dataclass(frozen=True, kw_only=True)
class GCNSkipPC(GCN):
    r"""GCN in which every layer sees the input again (Skip-PC of Sabanayagam et al., 2023; linear skip).

    Network: :math:`f = S (H_L + H_0) W_{L+1}`, :math:`H_l = \sqrt{c/h}\,\sigma(S (H_{l-1} + H_0) W_l)` for
    l > 1, :math:`H_1 = \sqrt{c/h}\,\sigma(S H_0 W_1)`, with the fixed random embedding :math:`H_0 = X W_0 /
    \sqrt{h}`: :math:`W_0` is not trained.

    Kernel: :math:`\Sigma_1 = S X X^\top S^\top`, :math:`\Sigma_{l+1} = S E_l S^\top + \Sigma_1`, and
    :math:`\Theta_{l+1} = \Sigma_{l+1} + S (\Theta_l \odot \dot E_l) S^\top`. Products of :math:`H_l` and
    :math:`H_0` vanish in the limit: given what enters :math:`W_l`, the columns of :math:`H_0` have mean
    zero and are independent of those of :math:`H_l`.

    Examples
    --------
    >>> from labelcert import GCNSkipPC, Graph
    >>> GCNSkipPC().kernel(Graph([[0, 1], [1, 0]], [[1, 0], [0, 1]], [0, 1])).round(12).tolist()
    [[1.5, 1.5], [1.5, 1.5]]
    """

    def layers(self, adjacency: sp.csr_array) -> list[Layer]:
        """Return the L + 1 layers on a graph."""
        S, activation = self._convolution(adjacency), self.activation
        inner = Layer(S, skip=S, activation=activation, clip_skip=activation == "relu")
        last = replace(inner, activation="linear")
        return [Layer(S, activation=activation), *([inner] * (self.depth - 1)), last]


@dataclass(frozen=True, kw_only=True)
class GCNSkipAlpha(GCN):
    r"""GCN in which every layer mixes in a share of the input (Skip-α of Sabanayagam et al., 2023; linear skip).

    Network: :math:`f = ((1 - \alpha) S H_L + \alpha H_0) W_{L+1}`, :math:`H_l = \sqrt{c/h}\,\sigma(((1 -
    \alpha) S H_{l-1} + \alpha H_0) W_l)`, with the fixed random embedding :math:`H_0 = X W_0 / \sqrt{h}`:
    :math:`W_0` is not trained.

    Kernel: with :math:`S_\alpha = (1 - \alpha) S + \alpha I`: :math:`\Sigma_1 = S_\alpha X X^\top
    S_\alpha^\top`, :math:`\Sigma_{l+1} = (1 - \alpha)^2 S E_l S^\top + \alpha^2 X X^\top`, and
    :math:`\Theta_{l+1} = \Sigma_{l+1} + (1 - \alpha)^2 S (\Theta_l \odot \dot E_l) S^\top`. The published
    variant omits the factor :math:`(1 - \alpha)^2` of the last term.

    Parameters
    ----------
    skip_alpha
        α in [0, 1]; 0 is the GCN.

    Examples
    --------
    >>> from labelcert import GCNSkipAlpha, Graph
    >>> GCNSkipAlpha(skip_alpha=0.0).kernel(Graph([[0, 1], [1, 0]], [[1, 0], [0, 1]], [0, 1])).round(12).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    skip_alpha: float = 0.1

    def _check(self) -> None:
        super()._check()
        require_between("skip_alpha", self.skip_alpha, 0.0, 1.0)

    def layers(self, adjacency: sp.csr_array) -> list[Layer]:
        """Return the L + 1 layers on a graph."""
        S, activation = self._convolution(adjacency), self.activation
        keep = sp.csr_array((1.0 - self.skip_alpha) * S)
        skip = sp.csr_array(self.skip_alpha * sp.eye_array(S.shape[0], format="csr"))
        through = S if self.variant == "published" else None
        inner = Layer(keep, skip=skip, activation=activation, gradient_convolution=through)
        first = Layer(sp.csr_array(keep + skip), activation=activation)
        return [first, *([inner] * (self.depth - 1)), replace(inner, activation="linear")]
