"""A network of finite width in PyTorch: what is fixed, what is trained, and its outputs for many trainings at once.

Trained weights are written as what training adds to their initial values. The first layer reads that many features that
this would be most of the work. Training moves its weights inside the span of the inputs that labelled nodes see, so
they are written in an orthonormal basis of this span. That is the same network, the same penalty and the same
gradients, in fewer numbers.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from labelcert.arrays import Int
from labelcert.models.activations import SCALES
from labelcert.models.features import Features
from labelcert.models.layers import Architecture, Side
from labelcert.models.networks.torch_extra import torch

Tensor = Any
"""A ``torch.Tensor``."""

DENSE_ABOVE = 0.05
"""Convolutions with a larger share of nonzero entries are multiplied as dense matrices."""


@dataclass(frozen=True)
class Place:
    """Where a network lives, and how precise its numbers are."""

    device: str
    dtype: Any

    def put(self, array: Any) -> Tensor:
        """A NumPy array as a tensor."""
        return torch().as_tensor(np.asarray(array), dtype=self.dtype, device=self.device)


class Operator:
    """A fixed matrix that multiplies the nodes of a batch, shape (B, n, h) → (B, k, h)."""

    def __init__(self, matrix: Features, place: Place) -> None:
        if not isinstance(matrix, np.ndarray) and matrix.nnz > DENSE_ABOVE * matrix.shape[0] * matrix.shape[1]:
            matrix = matrix.toarray()
        self.shape = matrix.shape
        self._dense: Tensor = None
        self._forth: Tensor = None
        self._back: Tensor = None
        if isinstance(matrix, np.ndarray):
            self.entries = matrix.size
            self._dense = place.put(matrix)
        else:
            self.entries = matrix.nnz
            self._forth, self._back = _compressed(matrix, place), _compressed(sp.csr_array(matrix.T), place)

    def dense(self) -> Tensor:
        """The matrix as a dense tensor."""
        return self._forth.to_dense() if self._dense is None else self._dense

    def __call__(self, H: Tensor) -> Tensor:
        """Multiply; gradients flow into the batch, not into the matrix."""
        if self._dense is not None:
            return self._dense @ H
        return _sparse_product()(H, self._forth, self._back)


def _compressed(matrix: sp.csr_array, place: Place) -> Tensor:
    t = torch()
    matrix.sort_indices()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")  # that PyTorch calls such tensors new
        return t.sparse_csr_tensor(
            t.as_tensor(matrix.indptr.astype(np.int64)),
            t.as_tensor(matrix.indices.astype(np.int64)),
            t.as_tensor(matrix.data.astype(np.float64)),
            size=matrix.shape,
            dtype=place.dtype,
            device=place.device,
            check_invariants=False,
        )


@cache
def _sparse_product() -> Any:
    """The product of a fixed sparse matrix and a batch, differentiable."""
    t = torch()

    class SparseProduct(t.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, H: Tensor, forth: Tensor, back: Tensor) -> Tensor:
            ctx.back = back
            return _multiply(forth, H)

        @staticmethod
        def backward(ctx: Any, G: Tensor) -> Any:
            return _multiply(ctx.back, G), None, None

    return SparseProduct.apply


@cache
def _activations() -> dict[str, Any]:
    t = torch()
    return {"relu": t.relu, "linear": t.positive, "erf": t.erf, "gelu": t.nn.functional.gelu, "tanh": t.tanh}


def _multiply(matrix: Tensor, H: Tensor) -> Tensor:
    """A sparse (k, n) matrix times a batch (B, n, h)."""
    B, n, h = H.shape
    flat = H.permute(1, 0, 2).reshape(n, B * h)
    return (matrix @ flat).reshape(matrix.shape[0], B, h).permute(1, 0, 2)


class Weights:
    """The initial values of all weights of a network, and the shapes of what training adds to them.

    They are standard Gaussian, with a scale after each layer. With `standard`, they are as practitioners draw them,
    without such scales: with a variance of two over the sum of inputs and outputs, and biases of zero. These are in
    ``start``, and training adds them to zeros.
    """

    def __init__(
        self,
        architecture: Architecture,
        n_features: int,
        width: int,
        outputs: int,
        seed: int,
        place: Place,
        *,
        standard: bool = False,
    ) -> None:
        rng = torch().Generator().manual_seed(int(seed))
        self.width, self.place, self.standard = width, place, standard

        def draw(*shape: int) -> Tensor:
            drawn = torch().randn(shape, generator=rng, dtype=place.dtype).to(place.device)
            if not standard:
                return drawn
            return 0.0 * drawn if len(shape) == 1 else drawn * math.sqrt(2.0 / (shape[0] + shape[1]))

        layers = architecture.layers
        self.embedding = draw(n_features, width) / self.root if architecture.embedded else None
        alone = len(layers) == 1 and not layers[0].readout
        self.first = draw(width if architecture.embedded else n_features, outputs if alone else width)
        self.linear: list[Tensor] = []
        self.biases: list[Tensor] = []
        self.readouts: list[Tensor] = []
        for level, layer in enumerate(layers):
            last = level == len(layers) - 1
            if level:
                self.linear.append(draw(width, width if layer.readout or not last else outputs))
            if architecture.bias:
                self.biases.append(draw(width if layer.readout or not last else outputs))
            if layer.readout:
                self.readouts.append(draw(width, outputs if last else width))

        self.start = [weights.clone() for weights in self.all] if standard else None
        for weights in self.all if standard else ():
            weights.zero_()

    @property
    def root(self) -> float:
        """What weights are divided by: the root of the width, unless they are drawn that small."""
        return 1.0 if self.standard else math.sqrt(self.width)

    @property
    def all(self) -> list[Tensor]:
        """Initial values, in the order of `Wired.outputs`."""
        return [self.first, *self.linear, *self.biases, *self.readouts]

    def shapes(self, first_inputs: int) -> list[tuple[int, ...]]:
        """Shapes of what training adds, in the order of `Wired.outputs`."""
        trained = [(first_inputs, int(self.first.shape[1])), *(tuple(w.shape) for w in self.linear)]
        return [*trained, *(tuple(b.shape) for b in self.biases), *(tuple(v.shape) for v in self.readouts)]


class Wired:
    """A network on one graph, for the outputs of some nodes, ascending.

    The first layer's weights move in the span of `basis`, orthonormal, shape (inputs, r); without it, among all inputs.
    """

    def __init__(
        self, weights: Weights, architecture: Architecture, features: Features, nodes: Int, basis: Tensor | None = None
    ) -> None:
        self.weights, self.architecture, place = weights, architecture, weights.place
        wanted = nodes if architecture.propagate is None else np.arange(int(features.shape[0]))
        side = Side(architecture.layers, features, wanted)
        self.nodes = nodes
        given, embedding = Operator(side.first.mapped(slice(None)), place), cast(Tensor, weights.embedding)
        self.inputs: Operator | Tensor = given
        if embedding is not None:
            embedded = given(embedding[None])[0]
            self.inputs, self.base = embedded, embedded @ weights.first
        else:
            self.base = given(weights.first[None])[0]
        if basis is not None:
            self.inputs = self.inputs @ basis if embedding is not None else given(basis[None])[0]
        levels = range(2, len(architecture.layers) + 1)
        self._convolutions = [Operator(side.convolutions[level], place) for level in levels]
        self._skips = [
            Operator(side.skips[level].mapped(slice(None)), place)(embedding[None]) if level in side.skips else None
            for level in levels
        ]

    def span(self) -> Tensor | None:
        """An orthonormal basis of the span of this side's inputs, where working in it is cheaper; else None."""
        inputs = self.inputs
        rows, columns = inputs.shape
        if isinstance(inputs, Operator):
            if inputs.entries < rows * min(rows, columns):
                return None
            inputs = inputs.dense()
        if rows >= columns:
            return None
        return torch().linalg.qr(inputs.T.double())[0].to(inputs.dtype)

    @property
    def first_inputs(self) -> int:
        """How many numbers each first-layer unit is trained on."""
        return int(self.inputs.shape[1])

    def outputs(self, moves: Sequence[Tensor]) -> Tensor:
        """(B, nodes, c) outputs of the wanted nodes (of all nodes before propagation), from what B trainings added."""
        w, layers = self.weights, self.architecture.layers
        linear = iter(moves[1 : 1 + len(w.linear)])
        biases = iter(moves[1 + len(w.linear) : 1 + len(w.linear) + len(w.biases)])
        readouts = iter(moves[1 + len(w.linear) + len(w.biases) :])
        U = self.base + (self.inputs(moves[0]) if isinstance(self.inputs, Operator) else self.inputs @ moves[0])
        H = self._after(0, U, biases, readouts)
        for level in range(1, len(layers)):
            A = self._convolutions[level - 1](H)
            if self._skips[level - 1] is not None:
                A = A + self._skips[level - 1]
            U = A @ (w.linear[level - 1] + next(linear))
            if layers[level - 1].readout:
                U = U / w.root
            H = self._after(level, U, biases, readouts)
        return H

    def _after(self, level: int, U: Tensor, biases: Any, readouts: Any) -> Tensor:
        w, layer = self.weights, self.architecture.layers[level]
        if w.biases:
            U = U + w.biases[level] + next(biases)[:, None, :]
        if level == len(self.architecture.layers) - 1 and not layer.readout:
            return U
        c = 1.0 if w.standard else SCALES[layer.activation]
        H = _activations()[layer.activation](U) * (math.sqrt(c) / w.root)
        return H @ (w.readouts[level] + next(readouts)) if layer.readout else H
