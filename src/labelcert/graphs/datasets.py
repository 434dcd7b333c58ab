"""Graphs by name, prepared as in the paper.

To add a dataset, write a function that returns its graph and add one line to `_LISTED`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from labelcert.checking import nearest
from labelcert.errors import InvalidInput
from labelcert.graphs import published_datasets as paper
from labelcert.graphs.builtin import bundled_table, karate, neighbor_table
from labelcert.graphs.graph import Graph
from labelcert.graphs.random_models import cba, csbm
from labelcert.graphs.splits import Split, balanced_split, exhaustive_split


@dataclass(frozen=True)
class DatasetInfo:
    """What is known about a dataset without loading it; `name` is what `load_dataset` takes."""

    name: str
    description: str
    n_nodes: int | None
    n_edges: int | None
    n_classes: int | None
    """Like the other sizes, None if it depends on parameters or has not been measured."""
    source: str
    """"built in", "random", "download", or "file" for one of your own."""
    per_class: int = 5
    """How many nodes of each class `published_split` takes for training, and again for validation."""
    test: str = "collective"
    """The test nodes of the paper's experiments: "collective" or "multi-class"."""


MULTI_CLASS = "multi-class"
OWN_FILE = ".npz"

Registration = tuple[DatasetInfo, Callable[..., Graph]]


def _tables(name: str, rows: str, n_nodes: int, n_classes: int) -> tuple[Registration, Registration]:
    table = DatasetInfo(name, f"{rows}, a table without edges", n_nodes, 0, n_classes, "built in")
    joined = replace(table, name=f"{name}-knn", description=f"{rows}, joined to their nearest neighbours", n_edges=None)
    return (table, partial(bundled_table, name)), (joined, partial(neighbor_table, name))


def _paper(
    build: Callable[..., Graph], name: str, about: str, nodes: int | None, edges: int | None, classes: int, **more: Any
) -> Registration:
    """A graph of the paper; if it has several classes, test nodes are spread over them."""
    test = "collective" if classes == 2 else MULTI_CLASS
    return DatasetInfo(name, about, nodes, edges, classes, "download", test=test, **more), build


_LISTED: tuple[Registration, ...] = (
    (DatasetInfo("karate", "Zachary's karate club, two factions", 34, 78, 2, "built in", 2), karate),
    (DatasetInfo("csbm", "contextual stochastic block model", 200, None, 2, "random"), csbm),
    (DatasetInfo("cba", "contextual Barabási-Albert model", 200, None, 2, "random"), cba),
    _paper(paper.cora_ml, "cora-ml", "machine-learning papers and their citations", 2810, 7981, 7),
    _paper(paper.cora_ml_b, "cora-ml-b", "Cora-ML, two largest classes", 1235, 2500, 2),
    _paper(paper.citeseer, "citeseer", "papers and their citations", 2110, 3668, 6, per_class=10),
    _paper(paper.citeseer_b, "citeseer-b", "Citeseer, two largest classes", 1239, 1849, 2),
    _paper(paper.cora, "cora", "papers and their citations", 2485, 5069, 7),
    _paper(paper.cora_b, "cora-b", "Cora, two largest classes", 1200, 1972, 2),
    _paper(paper.polblogs, "polblogs", "political blogs in the US and their links", 1222, 16714, 2),
    _paper(paper.chameleon, "chameleon", "Wikipedia pages on chameleons, no duplicates", 792, 8026, 5),
    _paper(paper.chameleon_b, "chameleon-b", "Chameleon, two largest classes", 294, 1182, 2),
    _paper(paper.wiki_cs, "wiki-cs", "Wikipedia pages on computer science", None, None, 10),
    _paper(paper.wiki_cs_b, "wiki-cs-b", "Wiki-CS, two largest classes", 4660, 72806, 2),
    *_tables("iris", "flowers", 150, 3),
    *_tables("wine", "wines", 178, 3),
    *_tables("breast-cancer", "tumours", 569, 2),
    *_tables("digits", "8x8 images", 1797, 10),
)
DATASETS: dict[str, Registration] = {info.name: (info, build) for info, build in _LISTED}
"""Every dataset by name, with the function that builds it; lists show them in this order.

The keyword parameters of that function are those of the dataset. If it has parameters `seed`, `data_dir` or
`mirror`, `load_dataset` passes its own on.
"""


def datasets() -> tuple[DatasetInfo, ...]:
    """Return everything that `load_dataset` can load.

    Examples
    --------
    >>> from labelcert import datasets
    >>> [info.name for info in datasets()][:4]
    ['karate', 'csbm', 'cba', 'cora-ml']
    """
    return tuple(info for info, _ in DATASETS.values())


def dataset_info(name: str) -> DatasetInfo:
    """Look a dataset up by name; capitals and underscores do not matter. The path of an ``.npz`` is its own name."""
    if str(name).endswith(OWN_FILE):
        return DatasetInfo(str(name), "a graph of your own", None, None, None, "file")
    wanted = str(name).strip().lower().replace("_", "-")
    if wanted in DATASETS:
        return DATASETS[wanted][0]
    hint = nearest(wanted, DATASETS) or ";"
    raise InvalidInput(f"expected the name of a dataset, got {name!r}{hint} The datasets are {', '.join(DATASETS)}")


def load_dataset(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    mirror: str | None = None,
    seed: int | None = None,
    **parameters: Any,
) -> Graph:
    """Load a graph by name, prepared as in the paper, or one of your own.

    Parameters
    ----------
    name : str
        One of the names that `datasets` lists, or the path of a file that `Graph.to_npz` wrote.
    data_dir : path, optional
        Folder with local copies; missing ones are downloaded into it. Defaults to the folder that
        LABELCERT_DATA_DIR names, else to the user's cache.
    mirror : str, optional
        Base address that replaces the public ones. Defaults to the one that LABELCERT_MIRROR names.
    seed : int, optional
        Seed of a random graph, 0 by default; other graphs do not depend on it.
    **parameters
        Parameters of the dataset: those of `csbm`, `cba`, `karate`, `bundled_table` or `neighbor_table`.

    Examples
    --------
    >>> from labelcert import load_dataset
    >>> load_dataset("karate")
    Graph('karate', 34 nodes, 78 edges, 34 features, 2 classes)
    >>> load_dataset("csbm", seed=1, density=2.0).n_edges
    746
    """
    info = dataset_info(name)
    build = partial(Graph.from_npz, info.name) if info.source == "file" else DATASETS[info.name][1]
    accepted = inspect.signature(build).parameters
    shared = {"seed": 0 if seed is None else seed, "data_dir": data_dir, "mirror": mirror}
    allowed = [key for key in accepted if key not in shared]
    unknown = next((key for key in parameters if key not in allowed), None)
    if unknown is not None:
        takes = f"takes {', '.join(allowed)}" if allowed else "takes no parameters"
        raise InvalidInput(f"{info.name!r} {takes}, got {unknown!r}; leave it out")
    graph = build(**{key: value for key, value in shared.items() if key in accepted}, **parameters)
    return graph if graph.name == info.name or info.source == "file" else replace(graph, name=info.name)


def published_split(graph: Graph, *, seed: int = 0, per_class: int | None = None) -> Split:
    """Return the paper's split of a graph, recognised by its name, or `balanced_split` for other graphs.

    A graph that is read from a file keeps the file's suffix in its name, so `csbm.csv` is not taken for `csbm`.

    Parameters
    ----------
    graph : Graph
        A graph from `load_dataset`, or any other.
    seed : int
        Seed of the split. The paper uses the seed of the experiment, which is also that of a random graph.
    per_class : int, optional
        Number of training nodes per class, and of validation nodes. Defaults to the paper's number.

    Examples
    --------
    >>> from labelcert import load_dataset, published_split
    >>> split = published_split(load_dataset("karate"), seed=0)
    >>> len(split.labeled), len(split.pool)
    (8, 26)
    """
    info = DATASETS[graph.name][0] if graph.name in DATASETS else None
    count = per_class if per_class is not None else (info.per_class if info else 5)
    if info is not None and info.source == "random":
        return exhaustive_split(graph, per_class=count, seed=seed)
    return balanced_split(graph, per_class=count, seed=seed)
