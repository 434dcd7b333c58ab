"""labelcert: exact certificates against corrupted training labels.

Data flows one way: graph → kernel → problem → engine → certificate → report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labelcert._version import __version__
from labelcert.certificate import Certificate, Comparison, compare, load
from labelcert.certification import certify, certify_linear, certify_partition
from labelcert.errors import (
    CertificateFileError,
    DataUnavailable,
    InvalidInput,
    LabelcertError,
    MissingExtra,
    WorkTooLarge,
)
from labelcert.estimators import from_sklearn
from labelcert.graphs import Graph, Split, graph_from_files, load_dataset, own_split, published_split
from labelcert.graphs.datasets import datasets
from labelcert.models import (
    APPNP,
    GCN,
    GIN,
    MLP,
    PPNP,
    RBF,
    SGC,
    GCNSkipAlpha,
    GCNSkipPC,
    GraphSAGE,
    Linear,
    Partition,
    model_from_name,
    select,
)
from labelcert.problem import Threat
from labelcert.rechecking import Recheck, recheck
from labelcert.verification import Verification, verify

if TYPE_CHECKING:
    from labelcert.estimators.classifier import CertifiedClassifier, make_certified_scorer
    from labelcert.hardening import Hardened, harden

__all__ = [
    "APPNP",
    "GCN",
    "GIN",
    "MLP",
    "PPNP",
    "RBF",
    "SGC",
    "Certificate",
    "CertificateFileError",
    "CertifiedClassifier",
    "Comparison",
    "DataUnavailable",
    "GCNSkipAlpha",
    "GCNSkipPC",
    "Graph",
    "GraphSAGE",
    "Hardened",
    "InvalidInput",
    "LabelcertError",
    "Linear",
    "MissingExtra",
    "Partition",
    "Recheck",
    "Split",
    "Threat",
    "Verification",
    "WorkTooLarge",
    "__version__",
    "certify",
    "certify_linear",
    "certify_partition",
    "compare",
    "datasets",
    "from_sklearn",
    "graph_from_files",
    "harden",
    "load",
    "load_dataset",
    "make_certified_scorer",
    "model_from_name",
    "own_split",
    "published_split",
    "recheck",
    "select",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import what takes a second to import when somebody asks for it."""
    if name in ("Hardened", "harden"):
        from labelcert import hardening

        return getattr(hardening, name)
    if name in ("CertifiedClassifier", "make_certified_scorer"):
        from labelcert.estimators import classifier

        return getattr(classifier, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
