"""Kernels on graphs that change: only entries that a change reaches are computed again.

Entry (i, j) of a kernel depends on what the network reads to compute node i, and on what it reads for node j: one more
step from the node for each convolution. A change of edges moves degrees, and with them the convolution's rows at both
ends (at their neighbours, too, where degrees on both sides count); a change of features moves the node alone. Nodes
from which neither can be reached keep their entries among each other, digit for digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelcert.arrays import Bool, Float, Int
from labelcert.certificate import Certificate
from labelcert.models.base import GraphLike, Model, View
from labelcert.models.layers import Layer
from labelcert.models.plain_kernels import PairwiseModel


@dataclass(frozen=True, eq=False)
class _Known:
    """What was computed last, and for which nodes of which graphs."""

    before: View
    after: View
    K_train: Float
    K_test: Float
    inductive: bool


class Growing:
    """A model on a graph to which nodes and edges come, snapshot by snapshot.

    It is asked as the model itself is, and answers the same; what no change reaches is taken from the snapshot before.
    Nodes are known by their positions: new ones come last, and one that leaves keeps its position, without edges. Of
    APPNP and PPNP, which propagate over the whole graph, any change makes everything be computed again.

    Parameters
    ----------
    model : Model

    Attributes
    ----------
    fresh : array
        Test nodes whose rows of the kernel were computed for the latest snapshot: all where the kernel among labelled
        nodes is another one. The others have the radii they had, with the same labels and the same C.
    computed, kept : int
        Entries of the kernel that were computed for the latest snapshot, and those that were taken over.

    Examples
    --------
    >>> import numpy as np
    >>> from labelcert import GCN, Graph
    >>> from labelcert.models import Growing
    >>> path = np.diag(np.ones(19), 1) + np.diag(np.ones(19), -1)
    >>> growing = Growing(GCN(C=1.0))
    >>> test = np.arange(2, 19)
    >>> _ = growing.kernel_blocks(Graph(path[:19, :19], np.eye(20)[:19], [0, 1] + [-1] * 17), [0, 1], test)
    >>> _ = growing.kernel_blocks(Graph(path, np.eye(20), [0, 1] + [-1] * 18), [0, 1], [*test, 19])
    >>> growing.fresh.tolist(), growing.computed, growing.kept
    ([17, 18, 19], 6, 34)
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.fresh: Int = np.zeros(0, dtype=np.int64)
        self.computed = self.kept = 0
        self._known: _Known | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def __repr__(self) -> str:
        return repr(self.model)

    def certify(
        self, graph: GraphLike, labeled: npt.ArrayLike, test: npt.ArrayLike, *, inductive: bool = False, **options: Any
    ) -> Certificate:
        """Certify a snapshot, as the model would: see `Model.certify`."""
        from labelcert.certification import GraphCertifier

        found: Certificate = GraphCertifier(self, graph, labeled, [test], inductive=inductive).certify(test, **options)
        return found

    def kernel_blocks(
        self, graph: GraphLike, labeled: npt.ArrayLike, test: npt.ArrayLike, *, inductive: bool = False
    ) -> tuple[Float, Float]:
        """The two blocks for a snapshot: see `Model.kernel_blocks`."""
        before, after = self.model._views(graph, labeled, test, inductive=inductive)
        K_train, K_test, fresh = self._blocks(before, after, inductive)
        self._known = _Known(before, after, K_train, K_test, inductive)
        self.fresh = after.nodes[fresh]
        return K_train, K_test

    def _blocks(self, before: View, after: View, inductive: bool) -> tuple[Float, Float, Bool]:
        known, m, n = self._known, before.nodes.size, after.nodes.size
        self.computed, self.kept = m * (m + n), 0
        everything = np.ones(n, dtype=bool)
        if known is None or known.inductive != inductive or not np.array_equal(known.before.nodes, before.nodes):
            return *self._computed(before, after, inductive), everything
        by_training = reached(self.model, known.before, before)
        by_testing = reached(self.model, known.after, after) if inductive else by_training
        moved, place = by_training[before.nodes], _places(known.after.nodes, after.nodes)
        fresh = by_testing[after.nodes] | (place < 0)
        if moved.all() or fresh.all():
            return *self._computed(before, after, inductive), everything
        K_train, K_test = known.K_train, np.empty((n, m))
        K_test[~fresh] = known.K_test[place[~fresh]]
        self.computed, self.kept = int(fresh.sum()) * m, m * m + int((~fresh).sum()) * m
        if moved.any():
            some = View(before.adjacency, before.features, before.nodes[moved])
            rest = View(after.adjacency, after.features, after.nodes[~fresh])
            K_test[np.ix_(~fresh, moved)] = self._computed(some, rest, inductive)[1]
            taken = int((~fresh).sum()) * int(moved.sum()) + m * m
            self.computed, self.kept = self.computed + taken, self.kept - taken
        if fresh.any() or moved.any():
            own = after.nodes[fresh] if fresh.any() else after.nodes[:1]
            K, rows = self._computed(before, View(after.adjacency, after.features, own), inductive)
            K_train = K if moved.any() else K_train
            K_test[fresh] = rows[: int(fresh.sum())]
        return K_train, K_test, everything if moved.any() else fresh

    def _computed(self, before: View, after: View, inductive: bool) -> tuple[Float, Float]:
        return self.model._pair(before, after, same_graph=not inductive)


def reached(model: Model, old: View, new: View) -> Bool:
    """(n,) nodes of a graph for which a model may read something else than for the node at that position before."""
    n = int(new.adjacency.shape[0])
    features = _moved_rows(sp.csr_array(old.features), sp.csr_array(new.features))
    features[int(old.adjacency.shape[0]) :] = True
    if isinstance(model, PairwiseModel):
        return features
    edges = _moved_rows(old.adjacency, new.adjacency)
    if not model.has_network or model._architecture(new.adjacency).propagate is not None:
        return np.full(n, bool(features.any() or edges.any()))
    layers = (model._architecture(view.adjacency).layers for view in (old, new))
    found = features
    for was, now in zip(*layers, strict=True):
        moved = features.copy() if now.skip is None else _moved_rows(*_pair_of(was, now, "skip")) | features
        moved |= _moved_rows(was.convolution, now.convolution) | _reads(now.convolution, found)
        if now.skip is not None:
            moved |= _reads(now.skip, features)
        if now.gradient_convolution is not None:
            moved |= _moved_rows(*_pair_of(was, now, "gradient_convolution"))
            moved |= _reads(now.gradient_convolution, found)
        found = moved
    return found


def _pair_of(was: Layer, now: Layer, what: str) -> tuple[sp.csr_array, sp.csr_array]:
    return getattr(was, what), getattr(now, what)


def _reads(M: sp.csr_array, nodes: Bool) -> Bool:
    """(n,) rows with an entry at any of some nodes."""
    pattern = sp.csr_array((np.ones(M.data.size), M.indices, M.indptr), shape=M.shape)
    return np.asarray(pattern @ nodes.astype(np.float64)) > 0.0


def _moved_rows(old: sp.csr_array, new: sp.csr_array) -> Bool:
    """(n,) rows that differ; where one of the two is smaller, it is filled up with zeros."""
    rows, columns = (max(int(old.shape[k]), int(new.shape[k])) for k in (0, 1))
    difference = sp.csr_array(_padded(old, rows, columns) - _padded(new, rows, columns))
    difference.eliminate_zeros()
    moved: Bool = np.diff(difference.indptr) > 0
    return moved[: int(new.shape[0])]  # rows of nodes that are gone are nobody's


def _padded(M: sp.csr_array, rows: int, columns: int) -> sp.csr_array:
    more = np.full(rows - int(M.shape[0]), M.indptr[-1], dtype=M.indptr.dtype)
    return sp.csr_array((M.data, M.indices, np.concatenate([M.indptr, more])), shape=(rows, columns))


def _places(known: Int, wanted: Int) -> Int:
    """Where each wanted node is among the known ones; −1 where it is not."""
    order = np.argsort(known, kind="stable")
    at = np.minimum(np.searchsorted(known[order], wanted), known.size - 1)
    return np.where(known[order][at] == wanted, order[at], -1)
