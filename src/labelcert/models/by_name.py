"""Models by name, for the command line and for configuration files.

To add a model, write its class in a module of its own and add one line to `_LISTED`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from labelcert.checking import known_name
from labelcert.errors import InvalidInput
from labelcert.models.base import Model
from labelcert.models.convolutional import CNN
from labelcert.models.message_passing import GCN, GIN, SGC, GCNSkipAlpha, GCNSkipPC, GraphSAGE
from labelcert.models.pagerank import APPNP, PPNP
from labelcert.models.plain_kernels import MLP, RBF, Linear


@dataclass(frozen=True)
class ModelInfo:
    """A model that can be built by name: lower case, words joined by hyphens."""

    name: str
    description: str
    model: type[Model]

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the model's options."""
        return tuple(field.name for field in fields(self.model))


_LISTED = (
    ModelInfo("gcn", "graph convolutional network", GCN),
    ModelInfo("sgc", "simplified graph convolution: a GCN without activations", SGC),
    ModelInfo("graphsage", "GraphSAGE with mean aggregation, S = I + A/degree", GraphSAGE),
    ModelInfo("gin", "graph isomorphism network, S = A + I, an MLP after each sum", GIN),
    ModelInfo("appnp", "MLP, then 10 steps of personalised PageRank", APPNP),
    ModelInfo("ppnp", "MLP, then exact personalised PageRank", PPNP),
    ModelInfo("gcn-skip-pc", "GCN whose layers all see the input again", GCNSkipPC),
    ModelInfo("gcn-skip-alpha", "GCN with a share of the input in every layer", GCNSkipAlpha),
    ModelInfo("mlp", "fully connected network on the features, edges unused", MLP),
    ModelInfo("cnn", "convolutional network on images, edges unused", CNN),
    ModelInfo("linear", "linear kernel on the features, edges unused", Linear),
    ModelInfo("rbf", "Gaussian kernel on the features, edges unused", RBF),
)
MODELS: dict[str, ModelInfo] = {info.name: info for info in _LISTED}
"""Every model by name; lists show them in this order."""


def models() -> tuple[ModelInfo, ...]:
    """Return all models.

    Examples
    --------
    >>> [info.name for info in models()][:3]
    ['gcn', 'sgc', 'graphsage']
    """
    return tuple(MODELS.values())


def name_of(model: Model) -> str:
    """The name of a model that is listed, or that of its class."""
    return next((info.name for info in models() if info.model is type(model)), type(model).__name__)


def model_from_name(name: str, **options: Any) -> Model:
    """Build a model by its name.

    Parameters
    ----------
    name
        One of the names of `models`.
    **options
        Options of the model's class.

    Examples
    --------
    >>> from labelcert import model_from_name
    >>> model_from_name("appnp", alpha=0.2, C=0.5).alpha
    0.2
    """
    info = MODELS[known_name("model", name, MODELS)]
    unknown = [option for option in options if option not in info.options]
    if unknown:
        raise InvalidInput(f"model {name!r} has no option {unknown[0]!r}; its options are {', '.join(info.options)}")
    return info.model(**options)
