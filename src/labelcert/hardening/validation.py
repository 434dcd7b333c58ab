"""How accurate candidates are by cross-validation: work that is run and kept as certificates are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from labelcert.arrays import Float, Int
from labelcert.certification import GraphCertifier, assign
from labelcert.hardening.learners import LearnerRecipe
from labelcert.jobs.cells import Answer, Cell, Job, digest
from labelcert.losses import Loss, get_loss
from labelcert.losses.cross_validation import FOLDS, Folds, accuracies, stratified_folds
from labelcert.models import Recipe
from labelcert.stopping import go_on

REPEATS = 5
"""Cross-validation is repeated with other folds: a few labels make it coarse."""

MANY_LABELS = 100
"""From this many labels on, cross-validation need not be repeated."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ValidatedCell(Cell):
    """The accuracy of a recipe with each of several ``values`` of C, over all folds; nothing is certified."""

    values: tuple[float, ...]

    def decides(self, job: Job) -> dict[str, Any]:
        """The values and the folds; test nodes only where they join the graph later."""
        recipe = self.recipe
        folds = {"folds": FOLDS, "repeats": repeats(len(job.labeled)), "seed": job.seed}
        parts = None if recipe.parts is None else {"parts": recipe.parts, "seed": recipe.seed}
        joining = digest(self.test) if job.inductive else None
        how = {"C": list(map(float, self.values)), "loss": recipe.loss, "parts": parts, "joining": joining}
        return {"validate": {**how, **folds, **({} if recipe.extra is None else {"learner": recipe.extra})}}

    def answer(self, job: Job, certifier: GraphCertifier, workers: int | None) -> Answer:
        """Train on all folds."""
        K, _ = certifier.blocks(self.test)
        labels, recipe = np.asarray(job.graph.labels)[job.labeled], self.recipe
        often = repeats(labels.size)
        folds = [fold for repeat in range(often) for fold in stratified_folds(labels, seed=job.seed + repeat)]
        if isinstance(recipe, LearnerRecipe):
            found = recipe.accuracies(job.graph, job.labeled, folds)
        elif recipe.parts is None:
            found = accuracies(K, labels, self.values, folds, get_loss(recipe.loss), go_on)
        else:
            part_of = assign(job.graph.names(job.labeled), recipe.parts, recipe.seed)
            found = _ensemble_accuracies(K, labels, self.values, folds, get_loss(recipe.loss), part_of)
        mean = found.mean(axis=1)
        error = found.std(axis=1) / np.sqrt(len(folds) / often)  # repeats are not independent
        error = np.maximum(error, _binomial_error(mean, labels.size))
        return None, {"validated": {"accuracy": mean.tolist(), "error": error.tolist()}}

    @property
    def parts_enumerated(self) -> None:
        """No labelling is enumerated."""
        return None

    def recipes(self, validated: dict[str, list[float]]) -> list[Recipe]:
        """One recipe for each C, with its accuracy."""
        found = zip(self.values, validated["accuracy"], validated["error"], strict=True)
        own = self.recipe
        return [replace(own, model=replace(own.model, C=C), accuracy=a, deviation=e) for C, a, e in found]


def repeats(m: int) -> int:
    """How often cross-validation over m labels is repeated."""
    return REPEATS if m < MANY_LABELS else 1


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
                    go_on()
                    Z = loss.train_classes(np.ascontiguousarray(K[np.ix_(own, own)]), codes[own], classes.size, C)
                    scores += Z @ loss.rows(K[np.ix_(validation, own)]).T
            found[a, b] = np.mean(np.argmax(scores, axis=0) == codes[validation])
    return found


def _binomial_error(accuracy: Float, m: int) -> Float:
    """Standard error of an accuracy that was measured on m labels; one more of each kind keeps it from being zero."""
    share = (m * accuracy + 1) / (m + 2)
    return np.asarray(np.sqrt(share * (1 - share) / m))
