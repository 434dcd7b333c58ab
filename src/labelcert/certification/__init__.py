"""From arrays, or from a graph and a kernel, to a certificate."""

from labelcert.certification.from_arrays import answer, certify
from labelcert.certification.from_graph import GraphCertifier, KernelModel
from labelcert.certification.linear import certify_linear
from labelcert.certification.partition import certify_partition
from labelcert.certification.versions import versions
from labelcert.engines.freezing import Names
from labelcert.engines.partition.parts import assign

__all__ = [
    "GraphCertifier",
    "KernelModel",
    "Names",
    "answer",
    "assign",
    "certify",
    "certify_linear",
    "certify_partition",
    "versions",
]
