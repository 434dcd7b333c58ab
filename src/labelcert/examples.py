"""Small problems that ship with the package, so that there is something to certify at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labelcert.arrays import Float, Text


@dataclass(frozen=True, eq=False)
class Example:
    """Points in the plane, some of them labelled, and a Gaussian kernel between them."""

    K_train: Float
    K_test: Float
    labels: Text
    truth: Text
    """True labels of the test points."""
    C: float


def two_clouds(*, n_labels: int = 16, n_test: int = 12, seed: int = 0) -> Example:
    """Two overlapping clouds of points, "fraud" and "fine", as a few reviewers might have labelled them.

    Examples
    --------
    >>> example = two_clouds()
    >>> example.K_train.shape, example.K_test.shape
    ((16, 16), (12, 16))
    """
    rng = np.random.default_rng(seed)
    y = np.arange(n_labels + n_test) % 2
    points = rng.normal(size=(y.size, 2)) + 1.2 * np.where(y[:, None] == 1, 1.0, -1.0)
    return _example(points, np.array(["fine", "fraud"])[y], 0.25, n_labels)


def several_clouds(*, classes: int = 3, n_labels: int = 15, n_test: int = 12, seed: int = 0) -> Example:
    """Overlapping clouds of points around centres on a circle, up to six: "red", "green", "blue" and so on.

    Examples
    --------
    >>> example = several_clouds()
    >>> example.K_train.shape, example.labels[:3].tolist()
    ((15, 15), ['red', 'green', 'blue'])
    """
    rng = np.random.default_rng(seed)
    y = np.arange(n_labels + n_test) % classes
    angles = 2.0 * np.pi * y / classes
    points = 1.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1) + 0.9 * rng.normal(size=(y.size, 2))
    return _example(points, np.array(["red", "green", "blue", "cyan", "pink", "grey"])[y], 0.5, n_labels)


def _example(points: Float, names: Text, gamma: float, m: int) -> Example:
    """The first m points are labelled."""
    K = np.exp(-gamma * np.sum((points[:, None] - points[None, :]) ** 2, axis=2))
    return Example(K_train=K[:m, :m], K_test=K[m:, :m], labels=names[:m], truth=names[m:], C=1.0)
