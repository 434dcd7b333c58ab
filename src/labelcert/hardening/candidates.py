"""Recipes to choose among, and how accurate they are by cross-validation over the labelled nodes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.certification import assign
from labelcert.checking import whole_number
from labelcert.errors import InvalidInput
from labelcert.graphs import Graph
from labelcert.losses import Loss, get_loss
from labelcert.losses.cross_validation import C_GRID, Folds, accuracies, stratified_folds
from labelcert.models import Model, Recipe, model_from_name
from labelcert.models.selection import variants
from labelcert.problem import Threat
from labelcert.problem.owners import total_cost
from labelcert.progress import Report

Grid = Mapping[str, Sequence[Any]]

MODELS: dict[str, Grid] = {
    "gcn": {"depth": (1, 2), "normalization": ("row", "symmetric")},
    "sgc": {"depth": (1, 2, 4, 10, 30)},
    "ppnp": {"alpha": (0.003, 0.01, 0.03, 0.1)},
    "appnp": {"alpha": (0.02, 0.1, 0.3)},
    "gcn-skip-pc": {},
    "graphsage": {},
    "mlp": {},
}
"""Architectures and options that are searched where nobody names any.

Smoothing over large neighbourhoods (SGC of many steps, small α) often certifies the most.
"""

LOSSES = ("hinge", "logistic", "square")
REPEATS = 5
"""Cross-validation is repeated with other folds: a few labels make it coarse."""

MANY_LABELS = 100
"""From this many labels on, cross-validation need not be repeated."""

MOST_SETS = 2_000_000
"""With more sets of labels within budget, only losses that are linear in the labels are tried, and ensembles."""


def settings(models: Mapping[str, Grid] | Sequence[str] | None) -> list[Model]:
    """Models, without C, that a user asks for: all by default, by name, or with grids of their own."""
    if models is None:
        models = MODELS
    elif not isinstance(models, Mapping):
        models = {name: MODELS.get(name, {}) for name in models}
    if not models:
        raise InvalidInput("models must name at least one model to search")
    each = (variants(model_from_name(name), grid, name, ("C", "variant")) for name, grid in models.items())
    return [model for found in each for model in found]


def within_reach(loss: str, m: int, flips: int) -> bool:
    """Whether every set of up to ``flips`` among m labels can be retrained on, or nothing has to be."""
    return get_loss(loss).always_linear or sum(math.comb(m, k) for k in range(flips + 1)) <= MOST_SETS


def no_parts(loss: str, n_classes: int) -> str:
    """Why no ensemble on parts of the labels is trained with a loss; empty where it can be."""
    trained_with = get_loss(loss)
    if trained_with.intercept:
        return "parts may hold labels of one class alone, so ensembles have no intercepts that are not regularised"
    return "it trains no class alone" if trained_with.coupled and n_classes > 2 else ""


@dataclass(frozen=True, kw_only=True)
class ModelSearch:
    """What is searched; see :func:`labelcert.harden` for each of its fields."""

    flips: int
    models: Mapping[str, Grid] | Sequence[str] | None = None
    losses: Sequence[str] = LOSSES
    C: Sequence[float] = C_GRID
    parts: Sequence[int] | None = None
    floor: float | None = None
    seed: int = 0
    inductive: bool = False
    threat: Threat | None = None
    device: str = "auto"
    collective: bool = True
    time_limit: float | None = None

    @property
    def limits(self) -> dict[str, Any]:
        """What certificates of any budget are asked with."""
        return {"threat": self.threat, "collective": self.collective, "time_limit": self.time_limit}

    def checked(self, m: int) -> ModelSearch:
        """The same with whole numbers; refuses what makes no sense for m labels."""
        flips = whole_number("flips", self.flips, 0, m if self.threat is None else total_cost(self.threat, m))
        if self.floor is not None and not 0 <= self.floor <= 1:
            raise InvalidInput(f"floor must be an accuracy between 0 and 1, got {self.floor!r}")
        for loss in self.losses:
            get_loss(loss)
        if not self.losses or not len(self.C) or min(self.C) <= 0:
            raise InvalidInput("losses and C must hold at least one entry each, and every C must be positive")
        parts = [whole_number("parts", count, 1, m, "one label each") for count in self.parts or ()]
        return replace(self, flips=flips, parts=parts)

    def left_out(self, m: int, n_classes: int) -> Iterator[str]:
        """What is not searched, and why."""
        for loss in self.losses:
            if not within_reach(loss, m, self.flips):
                yield f"single models with the loss {loss} were left out: {self.flips} flips of {m} labels are too many"
            if self.parts and (reason := no_parts(loss, n_classes)):
                yield f"parts with the loss {loss} were left out: {reason}"


def cross_validated(
    graph: Graph, labeled: Int, models: Sequence[Model], search: ModelSearch, report: Report, joining: Int | None
) -> Iterator[Recipe]:
    """Every model with every C and loss, and on parts of the labels, with its accuracy; kernels are shared.

    Models that cannot be certified at that many flips are left out. Nodes that are ``joining`` come after training:
    then they are not in the graph.
    """
    labels, parts = np.asarray(graph.labels)[labeled], search.parts or ()
    repeats = REPEATS if labels.size < MANY_LABELS else 1
    folds = [fold for repeat in range(repeats) for fold in stratified_folds(labels, seed=search.seed + repeat)]
    keys = graph.names(labeled)
    total, done = len(models) * len(search.losses) * (1 + len(parts)), 0
    for model in models:
        test = labeled[:1] if joining is None else joining
        K = model.kernel_blocks(graph, labeled, test, inductive=joining is not None)[0]
        for loss, count in itertools.product(search.losses, (None, *parts)):
            trained_with = get_loss(loss)
            if count is None and not within_reach(loss, labels.size, search.flips):
                continue
            if count is None:
                found = accuracies(K, labels, search.C, folds, trained_with)
            elif no_parts(loss, np.unique(labels).size):
                continue
            else:
                part_of = assign(keys, count, search.seed)
                found = _ensemble_accuracies(K, labels, search.C, folds, trained_with, part_of)
            done += 1
            report(done, total)
            error = np.maximum(
                found.std(axis=1) / np.sqrt(len(folds) / repeats),  # repeats are not independent
                _binomial_error(found.mean(axis=1), labels.size),
            )
            for C, accuracy, deviation in zip(search.C, found.mean(axis=1), error, strict=True):
                own = Recipe(replace(model, C=C), loss, accuracy=float(accuracy), deviation=float(deviation))
                yield own if count is None else replace(own, parts=count, seed=search.seed)


def _ensemble_accuracies(
    K: Float, labels: Int, values: Sequence[float], folds: Folds, loss: Loss, part_of: Int
) -> Float:
    """(values, folds) accuracies of the mean scores of models on parts of the labels."""
    classes, codes = np.unique(labels, return_inverse=True)
    found = np.zeros((len(values), len(folds)))
    for a, C in enumerate(values):
        for b, (fit, validation) in enumerate(folds):
            scores = np.zeros((classes.size, validation.size))
            for part in np.unique(part_of):
                own = fit[part_of[fit] == part]
                if own.size:
                    Z = loss.train_classes(np.ascontiguousarray(K[np.ix_(own, own)]), codes[own], classes.size, C)
                    scores += Z @ loss.rows(K[np.ix_(validation, own)]).T
            found[a, b] = np.mean(np.argmax(scores, axis=0) == codes[validation])
    return found


def _binomial_error(accuracy: Float, m: int) -> Float:
    """Standard error of an accuracy that was measured on m labels; one more of each kind keeps it from being zero."""
    share = (m * accuracy + 1) / (m + 2)
    return np.asarray(np.sqrt(share * (1 - share) / m))
