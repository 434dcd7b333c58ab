"""Infinitely wide networks and plain kernels: from a graph to the kernel of the certified SVM."""

from labelcert.losses.cross_validation import C_GRID
from labelcert.models.base import GraphLike, Model
from labelcert.models.by_name import ModelInfo, model_from_name, models, name_of
from labelcert.models.convolutional import CNN
from labelcert.models.growing import Growing
from labelcert.models.message_passing import GCN, GIN, SGC, GCNSkipAlpha, GCNSkipPC, GraphSAGE
from labelcert.models.pagerank import APPNP, PPNP
from labelcert.models.plain_kernels import MLP, RBF, Linear
from labelcert.models.recipe import Partition, Recipe
from labelcert.models.selection import Selection, select

__all__ = ["APPNP", "CNN", "GCN", "GIN", "MLP", "PPNP", "RBF", "SGC"]
__all__ += ["GCNSkipAlpha", "GCNSkipPC", "GraphSAGE", "Linear"]
__all__ += ["GraphLike", "Growing", "Model", "ModelInfo", "model_from_name", "models", "name_of"]
__all__ += ["C_GRID", "Partition", "Recipe", "Selection", "select"]
