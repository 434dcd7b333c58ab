"""From measuring to deciding: which labels to confirm."""

from labelcert.rechecking.advice import Recheck
from labelcert.rechecking.advising import recheck

__all__ = ["Recheck", "recheck"]
