"""Whether the paper's protocol of cross-validation returns the hyperparameters that the paper used.

The protocol: stratified folds over the labelled nodes of each split, and the C (and the alpha) of the best accuracy,
or, on some datasets, the smallest C within one standard deviation of it. The paper prints one choice for all splits, so
accuracies are means over the folds of all splits here, and deviations are over all these folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from labelcert.errors import DataUnavailable
from labelcert.models import C_GRID, Recipe, model_from_name, select
from labelcert.models.selection import Rule, choose
from labelcert.paper.paper_settings import PAPER_SETTINGS
from labelcert.paper.paper_studies import paper_study
from labelcert.pipeline import choose_split
from labelcert.pipeline.settings import ModelSetting, known_rule
from labelcert.studies import Graphs, Study
from labelcert.studies.report import Sheet
from labelcert.studies.schema import DatasetSpec

TABLES = (
    "ranks",
    "polblogs",
    "cora-b",
    "chameleon-b",
    "cba",
    "wiki-cs-b",
    "multi-class-citeseer",
    "multi-class-cora-ml",
)
"""Studies that name all datasets and architectures of the paper."""

ALPHAS = (0.0, 0.1, 0.2, 0.3, 0.5)
"""Values of APPNP's teleport probability that the paper studies; the skip's alpha takes the same but for 0."""

SEARCHED = {"appnp": ("alpha", ALPHAS), "gcn-skip-alpha": ("skip_alpha", ALPHAS[1:])}
"""What is chosen beside C."""


def grid_of(dataset: str) -> tuple[float, ...]:
    """The published grid, and the values that the paper has for this dataset: some of its studies added finer ones."""
    return tuple(sorted({*C_GRID, *(setting.C for setting in PAPER_SETTINGS if setting.dataset == dataset)}))


class Choice(NamedTuple):
    """Values of C and, where it is searched, alpha."""

    C: float
    alpha: float | None

    def __str__(self) -> str:
        return f"{self.C:g}" + ("" if self.alpha is None else f", α = {self.alpha:g}")


@dataclass(frozen=True)
class Returned:
    """What the protocol chooses for one model on one dataset, beside what the paper has."""

    dataset: str
    model: str
    rule: Rule
    paper: Choice
    found: Choice
    accuracy: tuple[float, float]
    """Cross-validated accuracy in percent of the paper's choice, and of the one that was found."""
    within: bool
    """Whether the paper's choice is at most one standard deviation below the best."""

    def row(self) -> tuple[str, ...]:
        """Its row in the table."""
        what = "the same" if self.found == self.paper else "within the deviation" if self.within else "no"
        numbers = (f"{value:.1f}" for value in self.accuracy)
        return (self.dataset, self.model, self.rule, str(self.paper), str(self.found), *numbers, what)


HEADINGS = (
    *("dataset", "model", "rule", "C of the paper", "C of the protocol"),
    *("accuracy % of the paper's", "of the protocol's", "returned"),
)


def hyperparameter_sheets(graphs: Graphs, seeds: Sequence[int] | None = None) -> list[Sheet]:
    """Run the protocol for every dataset and architecture of the paper that is here, and count what agrees."""
    found = [each for study in map(paper_study, TABLES) for each in _of_study(study, graphs, seeds)]
    rows = tuple(each.row() for each in found)
    counts = []
    for dataset in dict.fromkeys(each.dataset for each in found):
        own = [each for each in found if each.dataset == dataset]
        same, within = sum(each.found == each.paper for each in own), sum(each.within for each in own)
        lost = np.mean([each.accuracy[1] - each.accuracy[0] for each in own])
        counts.append((dataset, own[0].rule, f"{same} of {len(own)}", f"{within} of {len(own)}", f"{lost:.1f}"))
    headings = ("dataset", "rule", "the same", "within one deviation of the best", "points of accuracy apart")
    return [
        Sheet("What cross-validation returns", HEADINGS, rows),
        Sheet("How often it returns the paper's choice", headings, tuple(counts)),
    ]


def _of_study(study: Study, graphs: Graphs, seeds: Sequence[int] | None) -> list[Returned]:
    found = []
    for dataset in study.datasets:
        for spec in study.models:
            own = spec.on(dataset)
            setting = next((s for s in PAPER_SETTINGS if (s.dataset, s.model) == (dataset.name, own.name)), None)
            if own.skip or setting is None:
                continue
            try:
                measured = _measured(setting, dataset, graphs, study.seeds if seeds is None else seeds)
            except DataUnavailable:
                continue
            rule = known_rule(setting.dataset)
            found.append(_returned(dataset.label, own.label, rule, setting, measured))
    return found


def _measured(setting: ModelSetting, dataset: DatasetSpec, graphs: Graphs, seeds: Sequence[int]) -> list[Recipe]:
    """All candidates with accuracies and deviations over the folds of all splits."""
    model = model_from_name(setting.model, **setting.options)
    grid = dict([SEARCHED[setting.model]]) if setting.model in SEARCHED else {}
    by_seed = []
    for seed in seeds:
        graph = graphs.load(dataset, seed, dataset.parameters)
        labeled = choose_split(graph, seed=seed, per_class=dataset.per_class).labeled
        by_seed.append(select(model, graph, labeled, seed=seed, C=grid_of(setting.dataset), grid=grid).candidates)
    return [_pooled(candidates) for candidates in zip(*by_seed, strict=True)]


def _pooled(candidates: Sequence[Recipe]) -> Recipe:
    """One candidate on all splits, each of which has as many folds."""
    means, deviations = (np.array([getattr(c, what) for c in candidates]) for what in ("accuracy", "deviation"))
    mean = float(means.mean())
    spread = float(np.sqrt(np.mean(deviations**2 + (means - mean) ** 2)))
    return replace(candidates[0], accuracy=mean, deviation=spread)


def _returned(dataset: str, model: str, rule: Rule, setting: ModelSetting, measured: Sequence[Recipe]) -> Returned:
    searched = SEARCHED.get(setting.model, (None,))[0]

    def choice(recipe: Recipe) -> Choice:
        return Choice(float(recipe.C), None if searched is None else float(recipe.options[searched]))

    paper = Choice(setting.C, None if searched is None else float(setting.options[searched]))
    chosen = choose(measured, rule)
    at = {choice(recipe): recipe for recipe in measured}
    found = next(name for name, recipe in at.items() if recipe.model == chosen)
    best = max(measured, key=lambda recipe: recipe.accuracy or 0.0)
    lowest = (best.accuracy or 0.0) - (best.deviation or 0.0)
    accuracy = tuple(at[name].accuracy or 0.0 for name in (paper, found))
    return Returned(
        *(dataset, model, rule, paper, found), (100 * accuracy[0], 100 * accuracy[1]), accuracy[0] >= lowest - 1e-12
    )
