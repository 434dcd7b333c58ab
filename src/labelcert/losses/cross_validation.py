"""Cross-validated accuracy of a kernel machine, for one C after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.errors import InvalidInput
from labelcert.losses.base import Loss
from labelcert.stopping import Stopped, go_on

CROSS_VALIDATED = "cv"
"""Stands where C would: choose it by cross-validation over the labels."""

CHOSEN = (
    "C was chosen by cross-validation over these labels, wrong ones among them; an attack on that choice is not covered"
)
"""What certificates say whose C depends on labels that may be wrong."""

C_GRID = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""The paper's grid for C."""

FOLDS = 4

Folds = list[tuple[Int, Int]]


def stratified_folds(labels: Int, *, folds: int | None = None, seed: int = 0) -> Folds:
    """Labels to fit on and labels to validate on, for each fold.

    Parameters
    ----------
    labels : (m,) array
    folds : int, optional
        4 by default, or as many as the smallest class has labels.
    seed : int
        Of the shuffle.
    """
    from sklearn.model_selection import StratifiedKFold

    smallest = int(np.unique(labels, return_counts=True)[1].min())
    if smallest < 2:
        raise InvalidInput(
            "cross-validation needs at least two labels of each class to choose C, but some class has a single one; "
            "give C as a number"
        )
    folds = min(FOLDS, smallest) if folds is None else folds
    if not 2 <= folds <= smallest:
        raise InvalidInput(
            f"folds must lie between 2 and the size of the smallest class of labelled nodes ({smallest}), "
            f"got {folds}; label more nodes or use fewer folds"
        )
    splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
    return [(fit, validation) for fit, validation in splitter.split(np.zeros(len(labels)), labels)]


def accuracies(
    K: Float, labels: Int, values: Sequence[float], parts: Folds, loss: Loss, done: Callable[[], None] = lambda: None
) -> Float:
    """(values, folds) the accuracy for each C on each fold.

    Parameters
    ----------
    K : (m, m) array
    labels : (m,) array
        Classes, as numbers.
    values : sequence of float
        Values of C.
    parts : list
        From :func:`stratified_folds`.
    loss : Loss
    done : callable
        Called after each training.

    Examples
    --------
    >>> from labelcert.losses import get_loss
    >>> labels = np.array([0, 0, 1, 1])
    >>> K = np.where(labels[:, None] == labels, 1.0, -1.0)
    >>> accuracies(K, labels, [1.0], stratified_folds(labels), get_loss("hinge")).tolist()
    [[1.0, 1.0]]
    """
    found = np.zeros((len(values), len(parts)))
    for a, C in enumerate(values):
        for b, (fit, validation) in enumerate(parts):
            classes, codes = np.unique(labels[fit], return_inverse=True)
            Z = loss.train_classes(np.ascontiguousarray(K[np.ix_(fit, fit)]), codes, classes.size, C)
            scores = Z @ loss.rows(K[np.ix_(validation, fit)]).T
            found[a, b] = np.mean(classes[np.argmax(scores, axis=0)] == labels[validation])
            done()
    return found


def best_C(K: Float, labels: Int, loss: Loss) -> float:  # noqa: N802 (the name that everybody gives it)
    """The value of the paper's grid with the highest accuracy; among equals, the smallest.

    Where time ends before, it is the best of the values that were tried, which are the smallest ones.
    """
    parts, reached = stratified_folds(labels), list[float]()
    with suppress(Stopped):
        for C in C_GRID:
            reached.append(float(accuracies(K, labels, [C], parts, loss, go_on).mean()))
    return C_GRID[int(np.argmax(reached))] if reached else C_GRID[0]
