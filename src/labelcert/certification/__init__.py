"""From arrays, or from a graph and a kernel, to a certificate."""

from labelcert.certification.facades import certify, certify_linear, certify_on_features, certify_partition
from labelcert.certification.from_graph import GraphCertifier, KernelModel
from labelcert.certification.solve import solve
from labelcert.certification.task import GivenFeatures, GivenKernel, GivenRows, Predicts, Run, Task
from labelcert.certification.versions import versions
from labelcert.engines.freezing import Names
from labelcert.engines.partition.engine import Parts
from labelcert.engines.partition.parts import assign

__all__ = [
    "GivenFeatures",
    "GivenKernel",
    "GivenRows",
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
    "solve",
    "versions",
]
