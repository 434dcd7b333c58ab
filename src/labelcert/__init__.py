"""labelcert: exact certificates against corrupted training labels.

Data flows one way: graph → kernel → problem → engine → certificate → report.

Everything is imported when somebody asks for it, so that importing labelcert itself takes no time.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from labelcert._version import __version__

if TYPE_CHECKING:
    from labelcert.attacks import attack
    from labelcert.baselines import certify_baseline
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
    from labelcert.estimators.classifier import CertifiedClassifier, make_certified_scorer
    from labelcert.finite import FiniteMargin, finite_margin
    from labelcert.graphs import Graph, Split, graph_from_files, load_dataset, own_split, published_split
    from labelcert.graphs.datasets import datasets
    from labelcert.hardening import Hardened
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
    from labelcert.pages import write_report
    from labelcert.problem import Threat
    from labelcert.rechecking import Recheck, recheck
    from labelcert.studies.harden import harden
    from labelcert.verification.verdict import Verification
    from labelcert.verification.verify import verify

_HOMES = {
    "attacks": ("attack",),
    "baselines": ("certify_baseline",),
    "certificate": ("Certificate", "Comparison", "compare", "load"),
    "certification": ("certify", "certify_linear", "certify_partition"),
    "errors": (
        *("CertificateFileError", "DataUnavailable", "InvalidInput", "LabelcertError", "MissingExtra"),
        "WorkTooLarge",
    ),
    "estimators": ("from_sklearn",),
    "estimators.classifier": ("CertifiedClassifier", "make_certified_scorer"),
    "finite": ("FiniteMargin", "finite_margin"),
    "graphs": ("Graph", "Split", "graph_from_files", "load_dataset", "own_split", "published_split"),
    "graphs.datasets": ("datasets",),
    "hardening": ("Hardened",),
    "models": (
        *("APPNP", "GCN", "GIN", "MLP", "PPNP", "RBF", "SGC", "GCNSkipAlpha", "GCNSkipPC", "GraphSAGE", "Linear"),
        *("Partition", "model_from_name", "select"),
    ),
    "pages": ("write_report",),
    "problem": ("Threat",),
    "rechecking": ("Recheck", "recheck"),
    "studies.harden": ("harden",),
    "verification": ("Verification", "verify"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

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
    "FiniteMargin",
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
    "attack",
    "certify",
    "certify_baseline",
    "certify_linear",
    "certify_partition",
    "compare",
    "datasets",
    "finite_margin",
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
    "write_report",
]


def __getattr__(name: str) -> Any:
    """A public name, or a part of the package, imported now."""
    home = _HOME_OF.get(name)
    if home is not None:
        found = getattr(importlib.import_module(f"labelcert.{home}"), name)
        globals()[name] = found
        return found
    if not name.startswith("_"):
        try:
            return importlib.import_module(f"labelcert.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"labelcert.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
