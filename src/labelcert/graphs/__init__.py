"""The graph object, the sources that graphs come from, and the splits into labelled and test nodes."""

from labelcert.graphs.builtin import bundled_table, karate, nearest_neighbor_graph, neighbor_table
from labelcert.graphs.checks import UNLABELED
from labelcert.graphs.csv_and_parquet import graph_from_files
from labelcert.graphs.datasets import DatasetInfo, dataset_info, load_dataset, published_split
from labelcert.graphs.graph import Graph
from labelcert.graphs.other_libraries import to_networkx, to_pyg, to_scipy
from labelcert.graphs.random_models import cba, csbm
from labelcert.graphs.splits import (
    Split,
    balanced_split,
    collective_targets,
    exhaustive_split,
    multi_class_targets,
    own_split,
)

from_networkx, from_pyg, from_scipy = Graph.from_networkx, Graph.from_pyg, Graph.from_scipy

__all__ = ["UNLABELED", "Graph", "graph_from_files"]
__all__ += ["from_networkx", "from_pyg", "from_scipy", "to_networkx", "to_pyg", "to_scipy"]
__all__ += ["DatasetInfo", "cba", "csbm", "dataset_info", "karate", "load_dataset"]
__all__ += ["bundled_table", "nearest_neighbor_graph", "neighbor_table"]
__all__ += ["Split", "balanced_split", "exhaustive_split", "own_split", "published_split"]
__all__ += ["collective_targets", "multi_class_targets"]
