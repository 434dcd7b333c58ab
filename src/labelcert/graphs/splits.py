"""Splits of the nodes into labelled and test nodes: those of the paper, and the user's own.

Every random choice starts a fresh ``Generator(PCG64(seed))``, so that a seed always gives the same split.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from labelcert.arrays import Int
from labelcert.checking import whole_number
from labelcert.errors import InvalidInput
from labelcert.graphs.checks import UNLABELED, as_indices
from labelcert.graphs.graph import Graph

TEST_FRACTION = 0.1
"""Share of each class that the paper's split of a real graph holds out for testing."""


@dataclass(frozen=True, eq=False)
class Split:
    """Four disjoint sets of node indices; the order within each is part of the split.

    Parameters
    ----------
    train, validation : ndarray of int64
        The labelled nodes; a certificate lets the adversary change their labels.
    test : ndarray of int64
        Nodes held out for testing.
    unlabeled : ndarray of int64
        All other nodes; they take part in message passing and may be tested too.

    Examples
    --------
    >>> from labelcert import Split
    >>> split = Split(train=[3, 1], validation=[0], test=[2], unlabeled=[4])
    >>> split.labeled, split.pool
    (array([3, 1, 0]), array([4, 2]))
    """

    train: Int
    validation: Int
    test: Int
    unlabeled: Int

    def __post_init__(self) -> None:
        limit = np.iinfo(np.int64).max
        for field in ("train", "validation", "test", "unlabeled"):
            index = as_indices(getattr(self, field), n_nodes=limit, what=f"{field} nodes")
            index.setflags(write=False)
            object.__setattr__(self, field, index)
        values, counts = np.unique(
            np.concatenate((self.train, self.validation, self.test, self.unlabeled)), return_counts=True
        )
        if np.any(counts > 1):
            raise InvalidInput(
                f"expected disjoint sets of nodes, got node {values[counts > 1][0]} in more than one of "
                f"train, validation, test and unlabeled; leave it in one of them"
            )

    @property
    def labeled(self) -> Int:
        """The m labelled nodes: training nodes, then validation nodes."""
        return np.concatenate((self.train, self.validation))

    @property
    def pool(self) -> Int:
        """The pool P that test nodes are drawn from: unlabelled nodes, then test nodes."""
        return np.concatenate((self.unlabeled, self.test))


def balanced_split(graph: Graph, *, per_class: int = 5, seed: int = 0) -> Split:
    """Return the paper's split of a real graph, with 2 · `per_class` labelled nodes in each class.

    The nodes of each class are permuted. The first `per_class` are for training, the next `per_class` for
    validation and the next 10 % of the class (rounded up) for testing. Then train, validation and test are
    permuted, in that order. All other nodes are unlabelled, in ascending order.

    Examples
    --------
    >>> from labelcert.graphs import karate
    >>> split = balanced_split(karate(), per_class=2, seed=0)
    >>> len(split.labeled), len(split.test), len(split.unlabeled)
    (8, 4, 22)
    """
    rng = _generator(seed)
    train, validation, test = [], [], []
    for members in _members_by_class(graph, per_class):
        shuffled = rng.permutation(members)
        n_test = int(np.ceil(TEST_FRACTION * len(members)))
        train.append(shuffled[:per_class])
        validation.append(shuffled[per_class : 2 * per_class])
        test.append(shuffled[2 * per_class : 2 * per_class + n_test])
    first, second, third = (rng.permutation(np.concatenate(part)) for part in (train, validation, test))
    rest = np.setdiff1d(np.arange(graph.n_nodes), np.concatenate((first, second, third)))
    return Split(train=first, validation=second, test=third, unlabeled=rest)


def exhaustive_split(graph: Graph, *, per_class: int = 5, seed: int = 0) -> Split:
    """Return the paper's split of a CSBM or CBA graph: every node is for training, validation or testing.

    The nodes of each class are permuted. The first `per_class` are for training, the next `per_class` for
    validation and the others for testing. Nodes without a label, if any, are unlabelled.

    Examples
    --------
    >>> from labelcert.graphs import csbm
    >>> split = exhaustive_split(csbm(seed=0), seed=0)
    >>> len(split.labeled), len(split.pool)
    (20, 180)
    """
    rng = _generator(seed)
    shuffled = [rng.permutation(members) for members in _members_by_class(graph, per_class)]
    return Split(
        train=np.concatenate([s[:per_class] for s in shuffled]),
        validation=np.concatenate([s[per_class : 2 * per_class] for s in shuffled]),
        test=np.concatenate([s[2 * per_class :] for s in shuffled]),
        unlabeled=np.flatnonzero(graph.labels == UNLABELED),
    )


def own_split(graph: Graph, *, train: ArrayLike, validation: ArrayLike = (), test: ArrayLike | None = None) -> Split:
    """Build a split from indices or boolean masks.

    Parameters
    ----------
    graph : Graph
        The graph; its training and validation nodes must have labels.
    train, validation : array of int or names, or boolean mask of shape (n,)
        The labelled nodes.
    test : array of int or names, or boolean mask of shape (n,), optional
        Test nodes. Defaults to all other nodes.

    Examples
    --------
    >>> from labelcert import own_split
    >>> from labelcert.graphs import karate
    >>> split = own_split(karate(), train=[0, 33], test=[8, 30])
    >>> split.test, len(split.unlabeled)
    (array([ 8, 30]), 30)
    """
    n = graph.n_nodes
    chosen = graph.indices(train, what="train nodes")
    checked = graph.indices(validation, what="validation nodes")
    labeled = np.concatenate((chosen, checked))
    if labeled.size == 0:
        raise InvalidInput("expected at least one labelled node to train on, got none; name some in train")
    without = labeled[graph.labels[labeled] == UNLABELED]
    if without.size:
        raise InvalidInput(
            f"expected training and validation nodes with labels, but node {without[0]} of {graph.name!r} "
            f"has none; leave it out or label it"
        )
    tested = np.setdiff1d(np.arange(n), labeled) if test is None else graph.indices(test, what="test nodes")
    rest = np.setdiff1d(np.arange(n), np.concatenate((labeled, tested)))
    return Split(train=chosen, validation=checked, test=tested, unlabeled=rest)


def collective_targets(split: Split, *, count: int = 50, seed: int = 0) -> Int:
    """Return the paper's test nodes for collective certificates: `count` nodes of the pool, or all if fewer.

    Examples
    --------
    >>> from labelcert.graphs import csbm
    >>> split = exhaustive_split(csbm(seed=0), seed=0)
    >>> len(collective_targets(split)), len(collective_targets(split, count=500))
    (50, 180)
    """
    whole_number("count", count, 1, remark="test nodes")
    pool = split.pool
    if count >= len(pool):
        return pool
    return _generator(seed).choice(pool, count, replace=False)


def multi_class_targets(graph: Graph, split: Split, *, count: int = 50, seed: int = 0) -> Int:
    """Return the paper's test nodes for several classes, spread evenly over the classes.

    Target τ = 0..count-1 is of class τ mod K: it is entry ⌊τ / K⌋ of the permuted nodes of that class in the pool.

    Examples
    --------
    >>> from labelcert.graphs import csbm
    >>> graph = csbm(seed=0)
    >>> graph.labels[multi_class_targets(graph, exhaustive_split(graph, seed=0), count=5)]
    array([0, 1, 0, 1, 0])
    """
    whole_number("count", count, 1, remark="test nodes")
    pool = split.pool
    if pool.size and pool.max() >= graph.n_nodes:
        raise InvalidInput(
            f"expected a split of {graph.name!r} with its {graph.n_nodes} nodes, got node {pool.max()} in it"
        )
    K = graph.n_classes
    if K == 0:
        raise _no_labels(graph)
    by_class = [_generator(seed).permutation(pool[graph.labels[pool] == k]) for k in range(K)]
    for tau in range(count):
        if tau // K >= len(by_class[tau % K]):
            raise InvalidInput(
                f"expected at least {tau // K + 1} nodes of class {graph.class_names[tau % K]!r} in the "
                f"pool for {count} targets, got {len(by_class[tau % K])}; ask for at most {tau} targets"
            )
    return np.array([by_class[tau % K][tau // K] for tau in range(count)], dtype=np.int64)


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(whole_number("seed", seed)))


def _no_labels(graph: Graph) -> InvalidInput:
    return InvalidInput(f"expected a graph with labels, but no node of {graph.name!r} has one; label some nodes")


def _members_by_class(graph: Graph, per_class: int) -> list[Int]:
    whole_number("per_class", per_class, least=1)
    if graph.n_classes == 0:
        raise _no_labels(graph)
    members = [np.flatnonzero(graph.labels == k) for k in range(graph.n_classes)]
    for name, nodes in zip(graph.class_names, members, strict=True):
        if len(nodes) < 2 * per_class:
            raise InvalidInput(
                f"expected at least {2 * per_class} nodes in every class (train and validation take "
                f"{per_class} each), got {len(nodes)} in class {name!r} of {graph.name!r}; lower per_class"
            )
    return members
