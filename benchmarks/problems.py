"""The problems that are timed. Deterministic by seed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from labelcert.graphs import Graph
from labelcert.prediction.scoring import RetrainingScorer
from labelcert.problem import Problem
from labelcert.svm.pivoting import FREE, new_scratch, settle

Float = npt.NDArray[np.float64]

DENSE_C = 3.0
"""Cap at which most labels of :func:`dense` are Free, at the clean labels and at random ones."""


class Arrays(NamedTuple):
    """First arguments of :func:`labelcert.certify`: (m, m) kernel, m labels, (n, m) test rows, cap."""

    K_train: Float
    labels: npt.NDArray[np.int64]
    K_test: Float
    C: float


def dense(m: int, n: int, *, seed: int = 0) -> Arrays:
    """Inner products of Gaussian features with a common mean and a weak class signal: no entry is small.

    Parameters
    ----------
    m, n : int
        Numbers of labels and of test nodes.
    """
    rng = np.random.default_rng([seed, m])
    width = 2 * m
    common, signal = 0.5 * rng.normal(size=width), 0.15 * rng.normal(size=width)
    labels = np.arange(m) % 2
    side = np.where(np.concatenate([labels, np.arange(n) % 2]) == 1, 1.0, -1.0)
    features = rng.normal(size=(m + n, width)) + common + side[:, None] * signal
    K_train = features[:m] @ features[:m].T / width
    return Arrays((K_train + K_train.T) / 2, labels, features[m:] @ features[:m].T / width, DENSE_C)


def clouds(m: int, n: int, classes: int, *, seed: int = 0) -> Arrays:
    """A Gaussian kernel on overlapping clouds of points in ten dimensions, one for each class.

    Parameters
    ----------
    m, n : int
        Numbers of labels and of test nodes.
    classes : int
    """
    rng = np.random.default_rng([seed, m])
    labels = np.concatenate([np.arange(m) % classes, rng.integers(0, classes, n)])
    features = 1.2 * rng.normal(size=(classes, 10))[labels] + rng.normal(size=(m + n, 10))
    squares = (features**2).sum(axis=1)
    distances = squares[:, None] + squares[None, :m] - 2.0 * features @ features[:m].T
    K = np.exp(-np.maximum(distances, 0.0) / 20.0)
    return Arrays((K[:m] + K[:m].T) / 2, labels[:m], K[m:], 1.0)


def citation_like(n: int, edges: int, *, seed: int = 0) -> Graph:
    """A random graph with sparse 0/1 features, about the shape of a citation network.

    Parameters
    ----------
    n, edges : int
        Numbers of nodes and of edges (a few less, where two coincide).
    """
    rng = np.random.default_rng([seed, n])
    ends = rng.integers(0, n, size=(2, edges))
    ends = ends[:, ends[0] != ends[1]]
    A = sp.csr_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(n, n))
    words = np.sort(rng.integers(0, 1500, size=(n, 45), dtype=np.int32), axis=1)
    new = np.diff(words, axis=1, prepend=-1) > 0
    starts = np.concatenate([[0], np.cumsum(new.sum(axis=1))]).astype(np.int32)
    X = sp.csr_array((np.ones(starts[-1]), words[new], starts), shape=(n, 1500))
    return Graph(sp.csr_array(((A + A.T) > 0).astype(np.float64)), X, rng.integers(0, 2, n))


def share_free(arrays: Arrays, *, samples: int = 200, seed: int = 0) -> tuple[float, float]:
    """Share of labels in state Free: at the clean labels, and on average over random labellings."""
    problem = Problem.build(*arrays, max_flips=0)
    machine = RetrainingScorer(problem).machine
    scratch = new_scratch(problem.m)
    settle(machine, scratch, problem.y.copy())
    clean = float(np.mean(scratch.state == FREE))
    shares = []
    for y in random_labellings(problem.m, samples, seed=seed):
        scratch = new_scratch(problem.m)
        settle(machine, scratch, y)
        shares.append(float(np.mean(scratch.state == FREE)))
    return clean, float(np.mean(shares))


def random_labellings(m: int, count: int, *, seed: int = 0) -> Float:
    """(count, m) random labels ±1, both classes in every row (scikit-learn refuses one class)."""
    rng = np.random.default_rng([seed, m, 1])
    labellings = rng.choice([-1.0, 1.0], size=(count, m))
    labellings[:, 0], labellings[:, 1] = 1.0, -1.0
    return labellings
