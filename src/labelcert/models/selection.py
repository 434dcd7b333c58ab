"""Chooses C, and any other option, by cross-validation over the labelled nodes, as in the paper."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Int
from labelcert.errors import InvalidInput
from labelcert.losses import Loss, get_loss
from labelcert.models.base import GraphLike, Model, as_nodes, require, require_choice

C_GRID = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""The paper's grid for C."""

Rule = Literal["best", "smallest"]
RULES: tuple[str, ...] = get_args(Rule)


@dataclass(frozen=True)
class Candidate:
    """One point of the grid and its accuracy.

    Attributes
    ----------
    model
        The model with these options.
    accuracy
        Validation accuracy, averaged over the folds.
    deviation
        Standard deviation over the folds.
    """

    model: Model
    accuracy: float
    deviation: float


@dataclass(frozen=True)
class Selection:
    """Outcome of a cross-validation.

    Attributes
    ----------
    model
        The model that was chosen.
    candidates
        Every point of the grid, in the order of the grid.
    """

    model: Model
    candidates: tuple[Candidate, ...]


def select(
    model: Model,
    graph: GraphLike,
    labeled: npt.ArrayLike,
    *,
    seed: int,
    C: Sequence[float] = C_GRID,
    grid: Mapping[str, Sequence[Any]] | None = None,
    loss: str = "hinge",
    rule: Rule = "best",
    folds: int = 4,
    progress: Callable[[int, int], None] | None = None,
) -> Selection:
    """Choose C, and other options if a grid for them is given, by stratified cross-validation.

    The kernel is computed once per combination of options and serves all C and all folds.

    Parameters
    ----------
    model
        The model; options that are not searched keep its values.
    graph
        Graph with n nodes and the labels of the labelled ones.
    labeled
        Labelled nodes: indices or a boolean mask. Their order affects how scikit-learn shuffles them into folds.
    seed
        Seed of that shuffle; the paper uses the seed of the split.
    C
        Values of C to try.
    grid
        Values of other options to try, by name, such as ``{"alpha": (0.0, 0.1, 0.2)}``.
    loss
        What the model is trained with, as in `certify`.
    rule
        ``"best"``: the highest accuracy; among equals, the earliest in the grid. ``"smallest"``: the smallest C
        whose accuracy is at most one standard deviation of the best candidate below the best; among equals, the
        more accurate.
    folds
        Number of folds.
    progress
        Called after each evaluation with the number done and the total.

    Returns
    -------
    Selection

    Examples
    --------
    >>> from labelcert import Graph, Linear
    >>> x = [[1.0], [2.0], [3.0], [4.0], [-1.0], [-2.0], [-3.0], [-4.0]]
    >>> graph = Graph(np.zeros((8, 8)), x, [1, 1, 1, 1, 0, 0, 0, 0])
    >>> select(Linear(), graph, np.arange(8), seed=0, C=(0.1, 1.0), rule="smallest").model
    Linear(C=0.1, bias=False)
    """
    require_choice("rule", rule, RULES)
    trained_with = get_loss(loss)
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    require(whole and 0 <= seed < 2**32, f"seed must be a whole number from 0 to 2**32 - 1, got {seed!r}")
    require(len(C) > 0, "C must hold at least one value to try, got none")
    options = {name: tuple(values) for name, values in (grid or {}).items()}
    known = {field.name for field in fields(model)} - {"C"}
    for name, values in options.items():
        require(
            name in known, f"{type(model).__name__} has no option {name!r} to search; it has {', '.join(sorted(known))}"
        )
        require(len(values) > 0, f"the grid for {name!r} must hold at least one value, got none")
    nodes = as_nodes(labeled, int(graph.adjacency.shape[0]), "labeled")
    labels = np.asarray(graph.labels)[nodes]
    require(
        bool((labels >= 0).all()),
        f"every node in `labeled` needs a label, but {int((labels < 0).sum())} of {len(labels)} have none",
    )
    parts = _stratified_folds(labels, folds=folds, seed=seed)
    settings = [dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())]
    total, done = len(settings) * len(C) * len(parts), 0
    candidates: list[Candidate] = []
    for setting in settings:
        variant = replace(model, **setting)
        K = variant.kernel_blocks(graph, nodes, nodes[:1])[0]
        for value in C:
            accuracies = []
            for fit, validation in parts:
                predicted = _predict(K[np.ix_(fit, fit)], labels[fit], K[np.ix_(validation, fit)], value, trained_with)
                accuracies.append(float(np.mean(predicted == labels[validation])))
                done += 1
                if progress is not None:
                    progress(done, total)
            candidates.append(
                Candidate(replace(variant, C=value), float(np.mean(accuracies)), float(np.std(accuracies)))
            )
    return Selection(_choose(candidates, rule), tuple(candidates))


def _choose(candidates: Sequence[Candidate], rule: Rule) -> Model:
    best = max(candidates, key=lambda candidate: candidate.accuracy)
    if rule == "best":
        return best.model
    # Accuracies are means of ratios of small integers. Without slack, rounding would decide ties.
    threshold = best.accuracy - best.deviation - 1e-12
    close = [candidate for candidate in candidates if candidate.accuracy >= threshold]
    return min(close, key=lambda candidate: (candidate.model.C, -candidate.accuracy)).model


def _stratified_folds(labels: Int, *, folds: int, seed: int) -> list[tuple[Int, Int]]:
    from sklearn.model_selection import StratifiedKFold

    smallest = int(np.unique(labels, return_counts=True)[1].min())
    if not 2 <= folds <= smallest:
        raise InvalidInput(
            f"folds must lie between 2 and the size of the smallest class of labelled nodes ({smallest}), "
            f"got {folds}; label more nodes or use fewer folds"
        )
    splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
    return [(fit, validation) for fit, validation in splitter.split(np.zeros(len(labels)), labels)]


def _predict(K: Float, labels: Int, K_test: Float, C: float, loss: Loss) -> Int:
    """The class with the highest score."""
    classes, codes = np.unique(labels, return_inverse=True)
    Z = loss.train_classes(np.ascontiguousarray(K), codes, classes.size, C)
    return np.asarray(classes[np.argmax(Z @ loss.rows(K_test).T, axis=0)])
