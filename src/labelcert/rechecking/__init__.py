"""From measuring to deciding: which labels to verify."""

from labelcert.rechecking.from_arrays import recheck
from labelcert.rechecking.result import Recheck

__all__ = ["Recheck", "recheck"]
