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
    from labelcert.certificate import Certificate, compare, load
    from labelcert.certificate import Comparison as Comparison
    from labelcert.certificate import Metric as Metric
    from labelcert.certificate import WorstCase as WorstCase
    from labelcert.certification import certify, certify_linear, certify_partition
    from labelcert.certification import certify_votes as certify_votes
    from labelcert.certification import seeded as seeded
    from labelcert.errors import CertificateFileError as CertificateFileError
    from labelcert.errors import DataUnavailable as DataUnavailable
    from labelcert.errors import InvalidInput, LabelcertError
    from labelcert.errors import MissingExtra as MissingExtra
    from labelcert.errors import WorkTooLarge as WorkTooLarge
    from labelcert.estimators import certify_regression as certify_regression
    from labelcert.estimators import from_sklearn
    from labelcert.estimators.classifier import CertifiedClassifier
    from labelcert.estimators.ensemble import CertifiedEnsemble as CertifiedEnsemble
    from labelcert.estimators.keeping import CertifiedEstimator as CertifiedEstimator
    from labelcert.estimators.keeping import make_certified_scorer as make_certified_scorer
    from labelcert.finite import FiniteMargin as FiniteMargin
    from labelcert.finite import Stress as Stress
    from labelcert.finite import finite_margin
    from labelcert.finite import stress as stress
    from labelcert.graphs import Graph, graph_from_files, load_dataset, published_split
    from labelcert.graphs import Split as Split
    from labelcert.graphs import own_split as own_split
    from labelcert.graphs.datasets import datasets
    from labelcert.hardening import Hardened as Hardened
    from labelcert.hardening import harden
    from labelcert.labelnoise import AccuracyUnderNoise as AccuracyUnderNoise
    from labelcert.labelnoise import Noise as Noise
    from labelcert.labelnoise import noise
    from labelcert.labelnoise import noise_linear as noise_linear
    from labelcert.models import APPNP as APPNP
    from labelcert.models import CNN as CNN
    from labelcert.models import GCN as GCN
    from labelcert.models import GIN as GIN
    from labelcert.models import MLP as MLP
    from labelcert.models import PPNP as PPNP
    from labelcert.models import RBF as RBF
    from labelcert.models import SGC as SGC
    from labelcert.models import GCNSkipAlpha as GCNSkipAlpha
    from labelcert.models import GCNSkipPC as GCNSkipPC
    from labelcert.models import GraphSAGE as GraphSAGE
    from labelcert.models import Linear as Linear
    from labelcert.models import Partition as Partition
    from labelcert.models import model_from_name as model_from_name
    from labelcert.models import select as select
    from labelcert.pages import write_report
    from labelcert.poisoning import FeatureAttack as FeatureAttack
    from labelcert.poisoning import attack_features as attack_features
    from labelcert.poisoning import certify_features as certify_features
    from labelcert.problem import REMOVED as REMOVED
    from labelcert.problem import Threat
    from labelcert.problem import Votes as Votes
    from labelcert.rechecking import Recheck as Recheck
    from labelcert.rechecking import recheck
    from labelcert.regression import RegressionCertificate as RegressionCertificate
    from labelcert.verification.targets import verify_regression as verify_regression
    from labelcert.verification.verdict import Verification as Verification
    from labelcert.verification.verify import verify

_HOMES = {
    "attacks": ("attack",),
    "baselines": ("certify_baseline",),
    "certificate": ("Certificate", "Comparison", "Metric", "WorstCase", "compare", "load"),
    "certification": ("certify", "certify_linear", "certify_partition", "certify_votes", "seeded"),
    "errors": (
        *("CertificateFileError", "DataUnavailable", "InvalidInput", "LabelcertError", "MissingExtra"),
        "WorkTooLarge",
    ),
    "estimators": ("certify_regression", "from_sklearn"),
    "estimators.classifier": ("CertifiedClassifier",),
    "estimators.ensemble": ("CertifiedEnsemble",),
    "estimators.keeping": ("CertifiedEstimator", "make_certified_scorer"),
    "finite": ("FiniteMargin", "Stress", "finite_margin", "stress"),
    "graphs": ("Graph", "Split", "graph_from_files", "load_dataset", "own_split", "published_split"),
    "graphs.datasets": ("datasets",),
    "hardening": ("Hardened", "harden"),
    "labelnoise": ("AccuracyUnderNoise", "Noise", "noise", "noise_linear"),
    "models": (
        *(
            "APPNP",
            "CNN",
            "GCN",
            "GIN",
            "MLP",
            "PPNP",
            "RBF",
            "SGC",
            "GCNSkipAlpha",
            "GCNSkipPC",
            "GraphSAGE",
            "Linear",
        ),
        *("Partition", "model_from_name", "select"),
    ),
    "pages": ("write_report",),
    "poisoning": ("FeatureAttack", "attack_features", "certify_features"),
    "problem": ("REMOVED", "Threat", "Votes"),
    "rechecking": ("Recheck", "recheck"),
    "regression": ("RegressionCertificate",),
    "verification": ("Verification", "verify"),
    "verification.targets": ("verify_regression",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Certificate",
    "CertifiedClassifier",
    "Graph",
    "InvalidInput",
    "LabelcertError",
    "Threat",
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
    "noise",
    "published_split",
    "recheck",
    "verify",
    "write_report",
]
"""What to begin with. All other names of `_HOMES` can be imported from here, too."""


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
