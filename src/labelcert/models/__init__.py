"""Infinitely wide networks and plain kernels: from a graph to the kernel of the certified SVM."""

from labelcert.losses.cross_validation import C_GRID
from labelcert.models.base import GraphLike, Model
from labelcert.models.message_passing import GCN, GIN, SGC, GCNSkipAlpha, GCNSkipPC, GraphSAGE
from labelcert.models.pagerank import APPNP, PPNP
from labelcert.models.partition import Partition
from labelcert.models.plain_kernels import MLP, RBF, Linear
from labelcert.models.registry import ModelInfo, model_from_name, models
from labelcert.models.selection import Candidate, Selection, select

__all__ = [
    "APPNP",
    "C_GRID",
    "GCN",
    "GIN",
    "MLP",
    "PPNP",
    "RBF",
    "SGC",
    "Candidate",
    "GCNSkipAlpha",
    "GCNSkipPC",
    "GraphLike",
    "GraphSAGE",
    "Linear",
    "Model",
    "ModelInfo",
    "Partition",
    "Selection",
    "model_from_name",
    "models",
    "select",
]
