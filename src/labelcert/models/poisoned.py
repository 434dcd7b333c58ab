r"""Entrywise bounds of kernels where the features of some nodes may change: poisoning, and backdoors.

Every poisoned node may add any d of a ball to its features: :math:`\|d\|_p \le r` for the norms "inf", 2 and 1, or up
to k entries that change by at most 1 each ("0": binary features). Rows of the first layer, :math:`h_i = (TX)_i`, then
move by at most :math:`s_i = \sum_{k \in A} |T_{ik}|` such balls, so that

.. math::
    |h'_i \cdot h'_j - h_i \cdot h_j| \le s_i \|h_j\|_* + s_j \|h_i\|_* + s_i s_j \rho^2

with the dual norm :math:`\|h\|_* = \max_d h \cdot d` and the longest :math:`\rho = \max_d \|d\|_2` of the ball. From
there on, intervals go through the recursion of :mod:`labelcert.models.recursion` entry by entry. The expectation E of
a product of two ReLUs grows with the covariance (its derivative is :math:`\kappa_0 \ge 0`) and with both variances
(:math:`\sqrt{v_j / v_i}\sqrt{1-u^2} / 2\pi \ge 0`), and :math:`\dot E = \kappa_0(u)` with the correlation u. So both
are bounded by their values at the ends. On the diagonal u is 1. Every step is rounded outwards.

With test nodes that join after training, both graphs are looked at as one, side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelcert.arrays import Bool, Float, Int
from labelcert.checking import in_short, one_of, real_number, whole_number
from labelcert.errors import InvalidInput
from labelcert.memory import require_memory
from labelcert.models.base import GraphLike, Model
from labelcert.models.features import Features, gram, squared_norms
from labelcert.models.layers import Architecture, Layer
from labelcert.models.relu import kappa0, relu_expectations

NORMS = ("inf", "2", "1", "0")

OUTWARDS = 1e-12
"""Share of a magnitude that covers the rounding of a sum of products."""

CORRELATION = 1e-14
"""The same of a correlation; more than what counts as collinear."""


@dataclass(frozen=True)
class FeatureBall:
    """What may be added to the features of a poisoned node.

    Parameters
    ----------
    radius : float
        With norm "0", how many entries may change by at most 1.
    norm : {"inf", "2", "1", "0"}
    """

    radius: float
    norm: str = "inf"

    def __post_init__(self) -> None:
        one_of("norm", self.norm, NORMS)
        number = real_number(self.radius)
        if number is None or number < 0.0:
            raise InvalidInput(f"radius must be a finite number of at least 0, got {in_short(self.radius)}")
        if self.norm == "0":
            whole_number("radius", int(number) if number == int(number) else self.radius, 0, remark="entries")

    def dual(self, rows: Features) -> Float:
        """(r,) the largest inner product of each row with anything in the ball."""
        r = self.radius
        if self.norm == "2":
            return np.asarray(r * np.sqrt(squared_norms(rows)))
        absolute = np.abs(rows if isinstance(rows, np.ndarray) else rows.toarray())
        if self.norm == "inf":
            return np.asarray(r * absolute.sum(axis=1))
        if self.norm == "1":
            return np.asarray(r * absolute.max(axis=1))
        k = min(int(r), absolute.shape[1])
        return np.asarray(np.sort(absolute, axis=1)[:, absolute.shape[1] - k :].sum(axis=1))

    def length(self, d: int) -> float:
        """The 2-norm of the longest vector in the ball, of d entries."""
        if self.norm == "inf":
            return self.radius * float(np.sqrt(d))
        return float(np.sqrt(min(self.radius, d))) if self.norm == "0" else self.radius


@dataclass(frozen=True, eq=False)
class Interval:
    """Lower and upper ends of the entries of a matrix."""

    low: Float
    high: Float

    @classmethod
    def outwards(cls, low: Float, high: Float, size: Float | float = 0.0) -> Interval:
        """A little wider, for rounding of numbers of this size."""
        off = OUTWARDS * (size + np.maximum(np.abs(low), np.abs(high))) + 1e-300
        return cls(low - off, high + off)

    @property
    def size(self) -> Float:
        """Magnitudes."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def __add__(self, other: Interval | float) -> Interval:
        low, high = (other.low, other.high) if isinstance(other, Interval) else (other, other)
        return Interval.outwards(self.low + low, self.high + high)

    def times(self, low: Float, high: Float) -> Interval:
        """With factors of at least 0."""
        return Interval.outwards(
            np.minimum(self.low * low, self.low * high), np.maximum(self.high * low, self.high * high)
        )

    def between(self, A: sp.csr_array | Float) -> Interval:
        """A M Aᵀ."""
        positive, negative = A.maximum(0.0) if sp.issparse(A) else np.maximum(A, 0.0), None
        if A.min() < 0.0:
            negative = -(A.minimum(0.0) if sp.issparse(A) else np.minimum(A, 0.0))
        half = _times(positive, negative, self)
        return _times(positive, negative, Interval(half.low.T, half.high.T))


def _times(positive: sp.csr_array | Float, negative: sp.csr_array | Float | None, M: Interval) -> Interval:
    """(P − N) M with P, N of at least 0."""
    low, high, size = positive @ M.low, positive @ M.high, positive @ M.size
    if negative is not None:
        low, high, size = low - negative @ M.high, high - negative @ M.low, size + negative @ M.size
    return Interval.outwards(low, high, size)


@dataclass(frozen=True, eq=False)
class _Poisoned:
    """A graph (or two, side by side), its features, and what each row of a map of them moves by."""

    features: Features
    poisoned: Bool
    ball: FeatureBall

    def gram(self, T: sp.csr_array) -> Interval:
        """Inner products of the rows of T X'."""
        rows: Features = T @ self.features
        d = int(self.features.shape[1])
        s = np.asarray(abs(T) @ self.poisoned.astype(np.float64)) * (1.0 + OUTWARDS)
        lengths = np.sqrt(squared_norms(rows)) * (1.0 + OUTWARDS)
        dual = self.ball.dual(rows) * (1.0 + OUTWARDS)
        rho = self.ball.length(d) * (1.0 + OUTWARDS)
        middle = gram(rows, rows)
        off = np.outer(s, dual) + np.outer(dual, s) + rho**2 * np.outer(s, s)
        # Rows move by at most s ρ in the 2-norm.
        most = np.outer(lengths, s * rho)
        off = np.minimum(off, most + most.T + rho**2 * np.outer(s, s))
        found = Interval.outwards(middle - off, middle + off, np.outer(lengths, lengths))
        least = np.maximum(lengths * (1.0 - 3 * OUTWARDS) - s * rho, 0.0) ** 2
        np.fill_diagonal(found.low, np.maximum(found.low.diagonal(), least * (1.0 - 4 * OUTWARDS)))
        return found


def kernel_bounds(
    model: Model,
    graph: GraphLike,
    labeled: npt.ArrayLike,
    test: npt.ArrayLike,
    *,
    poisoned: npt.ArrayLike,
    ball: FeatureBall,
    inductive: bool = False,
) -> tuple[Interval, Interval]:
    """Bounds of both blocks of `Model.kernel_blocks`, whatever is added to the features of the poisoned nodes.

    Parameters
    ----------
    model : Model
        Of a network, ``variant="exact"``.
    graph, labeled, test, inductive
        As in `Model.kernel_blocks`.
    poisoned : (n,) boolean array
    ball : FeatureBall
        What may be added to each.

    Examples
    --------
    >>> from labelcert import Graph, Linear
    >>> from labelcert.models.poisoned import FeatureBall, kernel_bounds
    >>> graph = Graph([[0, 0], [0, 0]], [[3.0], [2.0]], [0, 1])
    >>> train, test = kernel_bounds(Linear(), graph, [0], [1], poisoned=[True, False], ball=FeatureBall(0.5))
    >>> test.low.round(6).tolist(), test.high.round(6).tolist()
    ([[5.0]], [[7.0]])
    """
    views = PoisonedViews.of(model, graph, labeled, test, inductive=inductive)
    return views.bounds(np.asarray(poisoned, dtype=bool), ball, np.arange(views.test.size))


@dataclass(frozen=True, eq=False)
class PoisonedViews:
    """The graph that a model sees, or both of them side by side, before and after test nodes join."""

    architecture: Architecture
    features: Features
    origin: Int
    """(N,) node of the user's graph that each row is."""
    labeled: Int
    test: Int
    """(m,) and (n,) rows."""
    labeled_from: Float | None
    test_from: Float | None
    """(m, N) and (n, N) what the last propagation takes from each row, of models that have one."""

    @classmethod
    def of(
        cls, model: Model, graph: GraphLike, labeled: npt.ArrayLike, test: npt.ArrayLike, *, inductive: bool
    ) -> PoisonedViews:
        """As in `kernel_bounds`."""
        options = getattr(model, "variant", "exact"), getattr(model, "activation", "linear")
        if not model.has_network or options not in (("exact", "relu"), ("exact", "linear")):
            raise InvalidInput(
                "kernels under poisoned features are bounded for networks with variant='exact' and activation 'relu' "
                f"or 'linear', got {model!r}; use one of gcn, sgc, graphsage, gin, appnp, ppnp, the skip connections, "
                "mlp or linear"
            )
        before, after = model._views(graph, labeled, test, inductive=inductive)
        n = int(graph.adjacency.shape[0])
        if not inductive:
            one, everybody = model._architecture(graph.adjacency), np.arange(n)
            rows = (one.propagation_rows(before.nodes), one.propagation_rows(after.nodes))
            return cls(one, after.features, everybody, before.nodes, after.nodes, *rows)
        kept = np.setdiff1d(np.arange(n), after.nodes)
        first, second = model._architecture(before.adjacency), model._architecture(after.adjacency)
        left, right = first.propagation_rows(before.nodes), second.propagation_rows(after.nodes)
        if left is not None and right is not None:
            left = np.hstack([left, np.zeros((len(left), n))])
            right = np.hstack([np.zeros((len(right), kept.size)), right])
        return cls(
            _side_by_side(first, second),
            _stacked(before.features, after.features),
            np.concatenate([kept, np.arange(n)]),
            before.nodes,
            kept.size + after.nodes,
            left,
            right,
        )

    def bounds(self, poisoned: Bool, ball: FeatureBall, which: Int) -> tuple[Interval, Interval]:
        """Of both blocks, for some test nodes."""
        if self.labeled_from is None:
            nodes = np.concatenate([self.labeled, self.test[which]])
            return self._cut(
                _recursion(self.architecture, _Poisoned(self.features, poisoned[self.origin], ball), nodes)
            )
        return self._propagated(self._everywhere(poisoned, ball), which)

    def each_alone(self, poisoned: Bool, ball: FeatureBall) -> Iterator[tuple[Interval, Interval]]:
        """Of both blocks, for each test node: where its own features may change, too, and not those of the others.

        Where features are propagated after the last layer, its kernel is a matter of pairs of nodes, so that one node
        changes one row and one column; there, two of them that are tested count as both poisoned.
        """
        tested = np.isin(np.arange(poisoned.size), self.origin[self.test])
        if self.labeled_from is not None:
            before, after = self._everywhere(poisoned, ball), self._everywhere(poisoned | tested, ball)
        for k, row in enumerate(self.test.tolist()):
            if self.labeled_from is None:
                own = poisoned.copy()
                own[self.origin[row]] = True
                yield self.bounds(own, ball, np.array([k]))
                continue
            theta = Interval(before.low.copy(), before.high.copy())
            for end, other in ((theta.low, after.low), (theta.high, after.high)):
                end[row], end[:, row] = other[row], other[:, row]
            yield self._propagated(theta, np.array([k]))

    def _everywhere(self, poisoned: Bool, ball: FeatureBall) -> Interval:
        """The kernel of the last layer among all rows."""
        whole = _Poisoned(self.features, poisoned[self.origin], ball)
        return _recursion(self.architecture, whole, np.arange(self.origin.size))

    def _propagated(self, theta: Interval, which: Int) -> tuple[Interval, Interval]:
        assert self.labeled_from is not None
        assert self.test_from is not None
        return self._cut(theta.between(np.vstack([self.labeled_from, self.test_from[which]])))

    def _cut(self, theta: Interval) -> tuple[Interval, Interval]:
        """Into both blocks."""
        m = self.labeled.size
        return (
            Interval(theta.low[:m, :m], theta.high[:m, :m]),
            Interval(np.ascontiguousarray(theta.low[m:, :m]), np.ascontiguousarray(theta.high[m:, :m])),
        )


def _stacked(first: Features, second: Features) -> Features:
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return np.vstack([first, second])
    return sp.csr_array(sp.vstack([sp.csr_array(first), sp.csr_array(second)]))


def _side_by_side(first: Architecture, second: Architecture) -> Architecture:
    """The same weights on two graphs that know nothing of each other."""

    def both(a: sp.csr_array | None, b: sp.csr_array | None) -> sp.csr_array | None:
        return None if a is None or b is None else sp.csr_array(sp.block_diag([a, b]))

    layers = []
    for a, b in zip(first.layers, second.layers, strict=True):
        T = both(a.convolution, b.convolution)
        assert T is not None
        layers.append(Layer(T, both(a.skip, b.skip), a.activation, a.readout))
    return Architecture(layers, first.bias)


def _recursion(architecture: Architecture, whole: _Poisoned, nodes: Int) -> Interval:
    """The tangent kernel among some nodes, in intervals."""
    layers, bias = architecture.layers, float(architecture.bias)
    needed = [nodes]  # of each layer, from the last to the first
    for layer in reversed(layers[1:]):
        needed.append(np.unique(sp.csr_array(layer.convolution[needed[-1]]).indices).astype(np.int64))
    needed.reverse()
    require_memory(12 * 8 * max(len(own) for own in needed) ** 2, "bounds of a kernel")
    sigma = whole.gram(sp.csr_array(layers[0].convolution[needed[0]])) + bias
    theta = sigma
    for level, layer in enumerate(layers):
        if level:
            T = sp.csr_array(layer.convolution[needed[level]][:, needed[level - 1]])
            sigma = sigma.between(T) + bias
            if layer.skip is not None:
                sigma = sigma + whole.gram(sp.csr_array(layer.skip[needed[level]]))
            theta = theta.between(T) + sigma
        sigma = _possible(sigma, needed[level])
        if layer.active:
            sigma, theta = _activated(sigma, theta, needed[level])
        if layer.readout:
            theta = theta + sigma
    return theta


def _possible(sigma: Interval, nodes: Int) -> Interval:
    """Variances are at least 0, and no covariance exceeds the root of their product; equal nodes are one."""
    v_low, v_high = np.maximum(sigma.low.diagonal(), 0.0), sigma.high.diagonal()
    most = np.sqrt(np.outer(v_high, v_high)) * (1.0 + OUTWARDS)
    low, high = np.maximum(sigma.low, -most), np.minimum(sigma.high, most)
    np.fill_diagonal(low, v_low)
    same = nodes[:, None] == nodes[None, :]
    i, j = np.nonzero(same & ~np.eye(nodes.size, dtype=bool))
    low[i, j], high[i, j] = v_low[i], v_high[i]
    return Interval(low, high)


def _activated(sigma: Interval, theta: Interval, nodes: Int) -> tuple[Interval, Interval]:
    """E and Θ ⊙ Ė."""
    v_low, v_high = sigma.low.diagonal().copy(), sigma.high.diagonal().copy()
    q_low, q_high = np.sqrt(np.outer(v_low, v_low)), np.sqrt(np.outer(v_high, v_high))
    E = Interval.outwards(relu_expectations(sigma.low, q_low)[0], relu_expectations(sigma.high, q_high)[0], q_high)
    u_low = _quotient(sigma.low, np.where(sigma.low >= 0.0, q_high, q_low), -1.0)
    u_high = _quotient(sigma.high, np.where(sigma.high >= 0.0, q_low, q_high), 1.0)
    k_low = np.maximum(kappa0(np.clip(u_low - CORRELATION, -1.0, 1.0)) - 1e-15, 0.0)
    k_high = np.minimum(kappa0(np.clip(u_high + CORRELATION, -1.0, 1.0)) + 1e-15, 1.0)
    same = nodes[:, None] == nodes[None, :]
    # A node with itself has correlation 1; without any variance, what Ė multiplies is 0.
    positive = same & (v_low > 0.0)[:, None]
    k_low[positive], k_high[same] = 1.0, 1.0
    E.low[...] = np.where(same, v_low[:, None], np.maximum(E.low, 0.0))
    E.high[...] = np.where(same, v_high[:, None], E.high)
    return E, theta.times(k_low, k_high)


def _quotient(a: Float, b: Float, instead: float) -> Float:
    """Divide, where b is not 0."""
    return np.asarray(np.divide(a, b, out=np.full(a.shape, instead), where=b > 0.0))
