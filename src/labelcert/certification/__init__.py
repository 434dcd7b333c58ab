"""From arrays, or from a graph and a kernel, to a certificate."""

from labelcert.certification.from_arrays import answer, certify, versions
from labelcert.certification.from_graph import GraphCertifier, KernelModel
from labelcert.certification.linear import certify_linear
from labelcert.certification.partition import certify_partition

__all__ = ["GraphCertifier", "KernelModel", "answer", "certify", "certify_linear", "certify_partition", "versions"]
