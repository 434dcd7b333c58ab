"""The studies of the paper, by name."""

from __future__ import annotations

from labelcert.checking import nearest
from labelcert.errors import InvalidInput
from labelcert.studies.schema import Study
from labelcert.studies.study_files import SHIPPED, shipped_study

ORDER = (
    "fig1-karate",
    *("accuracy-cora-ml-b", "accuracy-citeseer-b", "accuracy-csbm", "accuracy-cba", "accuracy-polblogs"),
    *("multi-class-citeseer", "multi-class-cora-ml", "tightness", "moves"),
    *("table-1", "cora-ml-b", "citeseer-b", "wiki-cs-b", "polblogs", "cora-b", "chameleon-b", "csbm", "cba"),
    *("sample-wise-and-collective", "ranks", "plateau", "collapse", "collapse-depth", "collapse-labels"),
    *("normalization", "skip-connections", "depth", "linear-or-relu"),
    *("appnp-alpha", "edge-weight", "csbm-density", "csbm-homophily", "cba-density", "csbm-structure-sample-wise"),
    *("graph-size", "graph-size-depth", "linear-kernel", "inductive"),
)
"""All names, in the order of the paper."""

BEYOND = ("moves", "collapse", "collapse-depth", "collapse-labels")
"""Those that answer what the paper leaves open: "all" goes without them."""

SHIPPED.update(dict.fromkeys(ORDER, (__package__, "studies")))


def paper_study(name: str) -> Study:
    """Read a study of the paper."""
    if name not in ORDER:
        raise InvalidInput(
            f"expected the name of a study of the paper, 'all', 'claims' or 'hyperparameters', got {name!r}"
            f"{nearest(name, ORDER) or ';'} `labelcert reproduce --list` lists all names"
        )
    return shipped_study(name)
