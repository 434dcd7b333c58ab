"""The layers of a message-passing network, and the parts of them that a block of its kernel needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from labelcert.arrays import Float, Int
from labelcert.models import chunks
from labelcert.models.activations import Activation
from labelcert.models.features import Features, entries_of, gram, row_products, squared_norms


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer of a message-passing network on one graph of n nodes; matrices have shape (n, n)."""

    convolution: sp.csr_array
    """T, applied to the previous layer's output."""
    skip: sp.csr_array | None = None
    """R, applied to the fixed random embedding of the features."""
    activation: Activation = "relu"
    readout: bool = False
    """Whether a second trained linear map follows the activation."""
    gradient_convolution: sp.csr_array | None = None
    """Replaces T for gradients, in published variants whose formula differs."""
    clip_skip: bool = False
    """Whether the published variant clips the skip term like the first layer (Skip-PC)."""

    @property
    def active(self) -> bool:
        """Whether the layer has an activation."""
        return self.activation != "linear"


@dataclass(frozen=True, eq=False)
class Architecture:
    """A network of the documented form, on one graph of n nodes."""

    layers: Sequence[Layer]
    """In their order. The last one has no activation, unless a second linear map follows it."""
    bias: bool = False
    """Whether each layer adds a trained bias."""
    propagate: Callable[[Float], Float] | None = None
    """What happens to the outputs of all nodes, shape (n, c), in the end; `propagate_back` is the transposed map."""
    propagate_back: Callable[[Float], Float] | None = None

    @property
    def embedded(self) -> bool:
        """Whether the network reads a fixed random embedding of the features, as those with skip connections do."""
        return any(layer.skip is not None for layer in self.layers)

    def propagation_rows(self, nodes: Int) -> Float | None:
        """Rows of the propagation at some nodes, shape (len(nodes), n); None where nothing is propagated."""
        if self.propagate_back is None:
            return None
        unit = np.zeros((int(self.layers[0].convolution.shape[0]), len(nodes)))
        unit[nodes, np.arange(len(nodes))] = 1.0
        return np.ascontiguousarray(self.propagate_back(unit).T)


class Embedding:
    """Rows of M X for a sparse map M of shape (r, n), and their covariances.

    If features are sparse, those on the right are mapped after the product: mapped features have many more
    entries, so the product of two mapped sets would cost most. Where they would take much memory, they are not kept
    either, but mapped again, some rows at a time.
    """

    def __init__(self, M: sp.csr_array, features: Features) -> None:
        self.columns: Int = np.unique(M.indices).astype(np.int64)
        self.map = sp.csr_array(M[:, self.columns])
        self.source: Features = features[self.columns]
        rows = self.size if isinstance(self.source, np.ndarray) else self.map.nnz
        entries = rows * entries_of(self.source) / max(1, len(self.columns))  # at most, on average
        self._mapped: Features | None = self.map @ self.source if entries <= chunks.MAPPED_ENTRIES else None
        self.width = max(1, int(entries) // max(1, self.size))
        self.variances: Float = np.empty(self.size)
        for part in chunks.row_chunks(self.size, self.width, chunks.PAIR_ENTRIES):
            self.variances[part] = squared_norms(self.mapped(part))

    @property
    def size(self) -> int:
        """Number of rows r."""
        return int(self.map.shape[0])

    def mapped(self, rows: slice | Int) -> Features:
        """Some rows of M X."""
        return self.map[rows] @ self.source if self._mapped is None else self._mapped[rows]

    def chunks(self, other: Embedding) -> list[slice]:
        """Return row slices for which `covariances` stays within `chunks.STREAM_ENTRIES`."""
        return chunks.row_chunks(self.size, max(other.size, len(other.columns)), chunks.STREAM_ENTRIES)

    def covariances(self, other: Embedding, rows: slice) -> Float:
        r"""Return rows of :math:`(M X)(M' X')^\top`, shape (len(rows), r')."""
        mine = self.mapped(rows)
        if isinstance(mine, np.ndarray) or isinstance(other.source, np.ndarray):
            return np.ascontiguousarray(_dense_rows(mine) @ _dense_rows(other.mapped(slice(None))).T)
        return np.ascontiguousarray((other.map @ gram(mine, other.source).T).T)

    def pair_covariances(self, i: Int, j: Int) -> Float:
        """Return the covariances of the row pairs (i, j), shape (len(i),)."""
        out = np.empty(len(i))
        for part in chunks.row_chunks(len(i), self.width, chunks.PAIR_ENTRIES):
            rows, places = np.unique(np.concatenate([i[part], j[part]]), return_inverse=True)
            mapped, (left, right) = self.mapped(rows), np.split(places, 2)
            out[part] = row_products(mapped[left], mapped[right])
        return out


class Side:
    """The rows (or columns) of a kernel block: the nodes that each layer needs, and the maps between them.

    Of the ascending `nodes`, the block is requested. ``nodes[l]`` for l = 1..D are those whose layer l is needed, so
    ``nodes[D]`` are the requested ones. ``variances[l]``, of layer l's pre-activations there, are filled in as they are
    found.
    """

    def __init__(self, layers: Sequence[Layer], features: Features, nodes: Int) -> None:
        self.layers = layers
        depth = len(layers)
        self.nodes: dict[int, Int] = {depth: nodes}
        self.convolutions: dict[int, sp.csr_array] = {}
        self.gradient_convolutions: dict[int, sp.csr_array] = {}
        self.skips: dict[int, Embedding] = {}
        for level in range(depth, 1, -1):
            layer = layers[level - 1]
            rows = self.nodes[level]
            T = sp.csr_array(layer.convolution[rows])
            below = np.unique(T.indices).astype(np.int64)
            self.nodes[level - 1] = below
            self.convolutions[level] = sp.csr_array(T[:, below])
            self.gradient_convolutions[level] = self.convolutions[level]
            if layer.gradient_convolution is not None:
                self.gradient_convolutions[level] = sp.csr_array(layer.gradient_convolution[rows][:, below])
            if layer.skip is not None:
                self.skips[level] = Embedding(sp.csr_array(layer.skip[rows]), features)
        self.first = Embedding(sp.csr_array(layers[0].convolution[self.nodes[1]]), features)
        self.variances: dict[int, Float] = {1: self.first.variances}

    @property
    def last_active(self) -> int:
        """The last layer with an activation; 0 if there is none."""
        return max((level for level, layer in enumerate(self.layers, start=1) if layer.active), default=0)


def _dense_rows(rows: Features) -> Float:
    return rows if isinstance(rows, np.ndarray) else rows.toarray()
