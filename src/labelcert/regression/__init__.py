"""Numbers as targets: how far wrong ones move predictions and coefficients that are linear in them."""

from labelcert.regression.asking import certified_targets
from labelcert.regression.result import RegressionCertificate
from labelcert.regression.rows import TargetMap, TargetRows, given_map

__all__ = ["RegressionCertificate", "TargetMap", "TargetRows", "certified_targets", "given_map"]
