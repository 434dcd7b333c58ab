"""Graphs by name, prepared as in the paper."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import scipy.sparse as sp

from labelcert.errors import InvalidInput
from labelcert.graphs.builtin import bundled_table, karate
from labelcert.graphs.download import raw_graph
from labelcert.graphs.preprocessing import (
    binarize_features,
    drop_nodes_without_features,
    drop_self_loops,
    largest_component,
    symmetrize,
    two_largest_classes,
)
from labelcert.graphs.random_models import cba, csbm
from labelcert.graphs.splits import Split, balanced_split, exhaustive_split

if TYPE_CHECKING:
    from typing import TypeAlias

    from labelcert.graphs.graph import Graph

    Step: TypeAlias = Callable[[Graph], Graph]

_KNN_NEIGHBORS = 10


@dataclass(frozen=True)
class DatasetInfo:
    """What `load_dataset` knows about a name, without loading anything.

    Attributes
    ----------
    name, description : str
        The name to load it by, and one line on it.
    n_nodes, n_edges, n_classes : int or None
        Its size; None where it depends on parameters or has not been measured.
    source : str
        "built in", "random" or "download".
    per_class : int
        Nodes of each class that `published_split` takes for training, and as many for validation.
    """

    name: str
    description: str
    n_nodes: int | None
    n_edges: int | None
    n_classes: int
    source: str
    per_class: int = 5


def _features_from_identity(graph: Graph) -> Graph:
    return replace(graph, features=sp.eye_array(graph.n_nodes, format="csr"))


def _party_names(graph: Graph) -> Graph:
    return replace(graph, class_names=("liberal", "conservative"))


_COMMON_STEPS: dict[str, tuple[Step, ...]] = {
    "cora-ml": (binarize_features, symmetrize),
    "citeseer": (drop_self_loops, drop_nodes_without_features),
    "cora": (drop_self_loops, drop_nodes_without_features),
    "chameleon": (drop_nodes_without_features,),
    "wiki-cs": (symmetrize,),
}
_PREPARATION: dict[str, tuple[str, tuple[Step, ...]]] = {
    "polblogs": (
        "polblogs",
        (drop_self_loops, largest_component, symmetrize, _features_from_identity, _party_names),
    ),
    **{raw: (raw, (*steps, largest_component)) for raw, steps in _COMMON_STEPS.items()},
    **{f"{raw}-b": (raw, (*steps, two_largest_classes)) for raw, steps in _COMMON_STEPS.items()},
}

_BUILDERS: dict[str, Callable[..., Graph]] = {"karate": karate, "csbm": csbm, "cba": cba}

_INFOS = (
    DatasetInfo("karate", "Zachary's karate club, two factions", 34, 78, 2, "built in", 2),
    DatasetInfo("csbm", "contextual stochastic block model", 200, None, 2, "random"),
    DatasetInfo("cba", "contextual Barabási-Albert model", 200, None, 2, "random"),
    DatasetInfo("cora-ml", "machine-learning papers and their citations", 2810, 7981, 7, "download"),
    DatasetInfo("cora-ml-b", "Cora-ML, two largest classes", 1235, 2500, 2, "download"),
    DatasetInfo("citeseer", "papers and their citations", 2110, 3668, 6, "download", 10),
    DatasetInfo("citeseer-b", "Citeseer, two largest classes", 1239, 1849, 2, "download"),
    DatasetInfo("cora", "papers and their citations", 2485, 5069, 7, "download"),
    DatasetInfo("cora-b", "Cora, two largest classes", 1200, 1972, 2, "download"),
    DatasetInfo("polblogs", "political blogs in the US and their links", 1222, 16714, 2, "download"),
    DatasetInfo("chameleon", "Wikipedia pages on chameleons, no duplicates", 792, 8026, 5, "download"),
    DatasetInfo("chameleon-b", "Chameleon, two largest classes", 294, 1182, 2, "download"),
    DatasetInfo("wiki-cs", "Wikipedia pages on computer science", None, None, 10, "download"),
    DatasetInfo("wiki-cs-b", "Wiki-CS, two largest classes", 4660, 72806, 2, "download"),
    DatasetInfo("iris", "flowers, a table without edges", 150, 0, 3, "built in"),
    DatasetInfo("iris-knn", "flowers, joined to their nearest neighbours", 150, None, 3, "built in"),
    DatasetInfo("wine", "wines, a table without edges", 178, 0, 3, "built in"),
    DatasetInfo("wine-knn", "wines, joined to their nearest neighbours", 178, None, 3, "built in"),
    DatasetInfo("breast-cancer", "tumours, a table without edges", 569, 0, 2, "built in"),
    DatasetInfo("breast-cancer-knn", "tumours, joined to their nearest neighbours", 569, None, 2, "built in"),
    DatasetInfo("digits", "8x8 images, a table without edges", 1797, 0, 10, "built in"),
    DatasetInfo("digits-knn", "8x8 images, joined to their nearest neighbours", 1797, None, 10, "built in"),
)
_INFO_BY_NAME = {info.name: info for info in _INFOS}


def datasets() -> tuple[DatasetInfo, ...]:
    """Everything that `load_dataset` can load.

    Examples
    --------
    >>> [info.name for info in datasets()][:4]
    ['karate', 'csbm', 'cba', 'cora-ml']
    """
    return _INFOS


def load_dataset(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    mirror: str | None = None,
    seed: int | None = None,
    **parameters: Any,
) -> Graph:
    """Graph by name, prepared as in the paper.

    Parameters
    ----------
    name : str
        One of the names that `datasets` lists.
    data_dir : path, optional
        Folder with local copies; else what LABELCERT_DATA_DIR names, else the user's cache. What is not there
        is downloaded into it.
    mirror : str, optional
        Base address that replaces the public ones; else what LABELCERT_MIRROR names.
    seed : int, optional
        Seed of a random graph (0 where not given); other graphs do not depend on it.
    **parameters
        Parameters of `csbm`, `cba`, `karate` or `bundled_table`; the other graphs have none.

    Examples
    --------
    >>> load_dataset("karate")
    Graph('karate', 34 nodes, 78 edges, 34 features, 2 classes)
    >>> load_dataset("csbm", seed=1, density=2.0).n_edges
    746
    """
    info = dataset_info(name)
    if info.source == "random":
        parameters.update(seed=0 if seed is None else seed, data_dir=data_dir)
    if info.name in _PREPARATION:
        _refuse_unknown(info.name, parameters, allowed=())
        raw_name, steps = _PREPARATION[info.name]
        graph = raw_graph(raw_name, data_dir=data_dir, mirror=mirror)
        for step in steps:
            graph = step(graph)
        return replace(graph, name=info.name)
    if info.name in _BUILDERS:
        build = _BUILDERS[info.name]
        _refuse_unknown(info.name, parameters, allowed=tuple(inspect.signature(build).parameters))
        return build(**parameters)
    table = info.name.removesuffix("-knn")
    if table != info.name:
        _refuse_unknown(info.name, parameters, allowed=("neighbors", "standardize"))
        return bundled_table(table, **{"neighbors": _KNN_NEIGHBORS, **parameters})
    _refuse_unknown(info.name, parameters, allowed=("standardize",))
    return bundled_table(table, **parameters)


def dataset_info(name: str) -> DatasetInfo:
    """What is known about a name; capitals and underscores do not matter.

    Examples
    --------
    >>> dataset_info("Cora_ML-b").n_nodes
    1235
    """
    wanted = str(name).strip().lower().replace("_", "-")
    if wanted in _INFO_BY_NAME:
        return _INFO_BY_NAME[wanted]
    close = difflib.get_close_matches(wanted, _INFO_BY_NAME, n=1)
    suggestion = f"did you mean {close[0]!r}? " if close else ""
    raise InvalidInput(
        f"expected the name of a dataset, got {name!r}; {suggestion}There are {', '.join(_INFO_BY_NAME)}"
    )


def published_split(graph: Graph, *, seed: int = 0, per_class: int | None = None) -> Split:
    """Split of the paper for the graph, told by its name; `balanced_split` for graphs of other names.

    A graph read from a file is named after it with its suffix, so that `csbm.csv` is not taken for `csbm`.

    Parameters
    ----------
    graph : Graph
        A graph from `load_dataset`, or any other.
    seed : int
        Seed of the split; in the paper the one of the experiment, and of the random graph.
    per_class : int, optional
        Training nodes per class, and as many for validation; the paper's number where not given.

    Examples
    --------
    >>> len(published_split(load_dataset("karate")).labeled), len(published_split(csbm(seed=3), seed=3).pool)
    (8, 180)
    """
    info = _INFO_BY_NAME.get(graph.name)
    count = per_class if per_class is not None else (info.per_class if info else 5)
    if info is not None and info.source == "random":
        return exhaustive_split(graph, per_class=count, seed=seed)
    return balanced_split(graph, per_class=count, seed=seed)


def _refuse_unknown(name: str, parameters: dict[str, Any], *, allowed: tuple[str, ...]) -> None:
    unknown = next((key for key in parameters if key not in allowed), None)
    if unknown is not None:
        takes = f"takes {', '.join(allowed)}" if allowed else "takes no parameters"
        raise InvalidInput(f"{name!r} {takes}, got {unknown!r}; leave it out")
