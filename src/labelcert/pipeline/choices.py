"""Choices that precede a certificate: which nodes are labelled, which are tested, which model with which C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Int
from labelcert.checking import known_name
from labelcert.errors import InvalidInput
from labelcert.graphs import (
    UNLABELED,
    Graph,
    Split,
    collective_targets,
    multi_class_targets,
    own_split,
    published_split,
)
from labelcert.graphs.datasets import DATASETS, MULTI_CLASS, DatasetInfo
from labelcert.models import C_GRID, Recipe, model_from_name, models, select
from labelcert.models.selection import Rule
from labelcert.pipeline.settings import known_rule, known_setting
from labelcert.pipeline.table_models import TABLE_MODELS, choose_table_model
from labelcert.problem.validation import check_labels
from labelcert.progress import Report

ALL, COLLECTIVE, OWN, ROWS = "all", "collective", "own", "rows"
COLLECTIVE_COUNT = 50
"""Nodes of the paper's collective test on real graphs, and of its test with more than two classes."""


@dataclass(frozen=True, eq=False)
class Targets:
    """Test nodes: "all" unlabelled ones, a test of the paper ("collective", "multi-class"), the user's own, or rows."""

    name: str
    nodes: Int

    @property
    def title(self) -> str:
        """What headings call these nodes, with their number."""
        count = len(self.nodes)
        own = {ALL: f"all {count} unlabelled nodes", OWN: f"{count} chosen nodes", ROWS: f"{count} rows"}
        return own.get(self.name, f"the {count} nodes of the paper's {self.name} test")


def choose_split(
    graph: Graph, *, seed: int = 0, per_class: int | None = None, labeled: npt.ArrayLike | None = None
) -> Split:
    """Which nodes are labelled.

    The user's own choice, ``labeled``; else, for a graph in which some nodes have no label, all those that have one;
    else the paper's split, which is also what ``per_class`` asks for.
    """
    if labeled is not None:
        if per_class is not None:
            raise InvalidInput("name the labelled nodes, or say how many per class, but not both")
        return own_split(graph, train=labeled, test=[])
    known = np.flatnonzero(graph.labels != UNLABELED)
    if per_class is None and _info(graph) is None and 0 < known.size < graph.n_nodes:
        return own_split(graph, train=known, test=[])
    return published_split(graph, seed=seed, per_class=per_class)


def choose_targets(
    graph: Graph, split: Split, *, test: str | npt.ArrayLike | None = None, seed: int = 0
) -> list[Targets]:
    """Which nodes are tested: "all", "collective", "multi-class", or indices or a mask.

    By default all nodes that are not labelled and, for a graph of the paper on which that is a smaller set, the nodes
    of its collective test as a second set. For a graph of the paper with more than two classes, the nodes of its
    multi-class test.
    """
    if isinstance(test, str) and test not in (ALL, COLLECTIVE, MULTI_CLASS):
        raise InvalidInput(f"test must be 'all', 'collective', 'multi-class' or a list of nodes, got {test!r}")
    everything = Targets(ALL, split.pool)
    if test is not None and not isinstance(test, str):
        nodes = own_split(graph, train=split.labeled, test=test).test
        if nodes.size == 0:
            raise InvalidInput("expected at least one test node, got none")
        return [Targets(OWN, nodes)]
    if everything.nodes.size == 0:
        raise InvalidInput(
            f"all {graph.n_nodes} nodes of {graph.name!r} are labelled, so none is left to test; "
            "name fewer labelled nodes"
        )
    info = _info(graph)
    multi_class = test is None and info is not None and info.source == "download" and info.test == MULTI_CLASS
    if multi_class or test == MULTI_CLASS:
        return [Targets(MULTI_CLASS, multi_class_targets(graph, split, count=COLLECTIVE_COUNT, seed=seed))]
    # On random graphs the paper's collective test takes every node.
    count = len(split.pool) if info is not None and info.source == "random" else COLLECTIVE_COUNT
    some = Targets(COLLECTIVE, collective_targets(split, count=count, seed=seed))
    if test is not None:
        return [everything if test == ALL else some]
    published = info is not None and info.source == "download" and len(some.nodes) < len(everything.nodes)
    return [everything, some] if published else [everything]


def choose_model(
    name: str,
    graph: Graph,
    labeled: npt.ArrayLike,
    *,
    C: float | str | None = None,
    rule: str | None = None,
    seed: int = 0,
    loss: str = "hinge",
    validate: bool = False,
    joining: npt.ArrayLike | None = None,
    report: Report | None = None,
    **options: Any,
) -> Recipe:
    """A model by name, with the paper's options and C where it has them, else with C by cross-validation.

    The paper has values of C for the hinge loss alone; ``C="cv"`` is cross-validation even there, by a rule (the
    paper's for the dataset by default). With ``validate``, its accuracy is told even where C needs none.
    Nodes ``joining`` after training have no part in it.
    """
    if name in TABLE_MODELS:
        how: dict[str, Any] = {"seed": seed, "loss": loss, "validate": validate, "report": report}
        return choose_table_model(name, graph, labeled, C=C, **how, **options)
    known = model_from_name(name, **options)
    setting = known_setting(graph.name, name, options)
    extra = {} if setting is None else dict(setting.options)
    model = replace(known, **extra)
    grid: tuple[float, ...] = C_GRID
    source = "cross-validation"
    if C is None and setting is not None and loss == "hinge":
        grid, source = (setting.C,), setting.source
    elif C is not None and C != "cv":
        if isinstance(C, str):
            raise InvalidInput(f"C must be a positive number or 'cv', got {C!r}")
        grid, source = (float(C),), "given"
    labels = graph.named_labels(np.asarray(labeled))
    check_labels(labels)
    if len(grid) == 1 and not (validate and np.unique(labels, return_counts=True)[1].min() > 1):
        return Recipe(replace(model, C=grid[0]), loss, source=source)
    chosen = known_rule(graph.name) if rule is None else cast(Rule, rule)
    how = {"C": grid, "rule": chosen, "loss": loss, "seed": seed, "joining": joining}
    found = select(model, graph, labeled, progress=report, **how)
    return Recipe(found.model, loss, source=source, accuracy=found.accuracy)


def known_options() -> dict[str, tuple[str, ...]]:
    """The options of every model by name, those of plain tables included."""
    graphs = {info.name: info.options for info in models()}
    return graphs | {info.name: info.options for info in TABLE_MODELS.values()}


def model_options(names: Sequence[str], given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The options for each of several models: each takes those that it has; an option that none has is refused."""
    known = known_options()
    takes = [known[known_name("model", name, known)] for name in names]
    for option in given:
        if not any(option in options for options in takes):
            listed = "; ".join(f"{name} has {', '.join(known[name]) or 'none'}" for name in names)
            raise InvalidInput(f"no model that was asked for has the option {option!r}: {listed}")
    return [{k: v for k, v in given.items() if k in options} for options in takes]


def _info(graph: Graph) -> DatasetInfo | None:
    """What is known about the graph, if it is one of the datasets."""
    return DATASETS[graph.name][0] if graph.name in DATASETS else None
