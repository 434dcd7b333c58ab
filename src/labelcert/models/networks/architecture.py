"""What a model's network looks like on one graph, at any width."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.models.layers import Layer

Propagate = Callable[[Float], Float]


@dataclass(frozen=True, eq=False)
class Architecture:
    """A network of the documented form, on one graph of n nodes."""

    layers: Sequence[Layer]
    """In their order. The last one has no activation, unless a second linear map follows it."""
    bias: bool = False
    """Whether each layer adds a trained bias."""
    propagate: Propagate | None = None
    """What happens to the outputs of all nodes, shape (n, c), in the end; `propagate_back` is the transposed map."""
    propagate_back: Propagate | None = None

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
