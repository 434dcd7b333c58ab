"""From arrays, or from a graph and a kernel, to a certificate."""

from labelcert.certification.facades import (
    certify,
    certify_linear,
    certify_on_features,
    certify_partition,
    certify_votes,
)
from labelcert.certification.from_graph import GraphCertifier, KernelModel
from labelcert.certification.solve import solve
from labelcert.certification.task import (
    GivenFeatures,
    GivenKernel,
    GivenNeighbours,
    GivenRows,
    GivenVotes,
    Predicts,
    Run,
    Task,
)
from labelcert.certification.versions import versions
from labelcert.engines.freezing import Names
from labelcert.engines.partition.engine import Parts
from labelcert.engines.partition.parts import assign
from labelcert.engines.voting import seeded

__all__ = [
    "GivenFeatures",
    "GivenKernel",
    "GivenNeighbours",
    "GivenRows",
    "GivenVotes",
    "GraphCertifier",
    "KernelModel",
    "Names",
    "Parts",
    "Predicts",
    "Run",
    "Task",
    "assign",
    "certify",
    "certify_linear",
    "certify_on_features",
    "certify_partition",
    "certify_votes",
    "seeded",
    "solve",
    "versions",
]
