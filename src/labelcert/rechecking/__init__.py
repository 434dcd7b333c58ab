"""From measuring to deciding: which labels to confirm."""

from labelcert.rechecking.advising import recheck
from labelcert.rechecking.advice import Recheck

__all__ = ["Recheck", "recheck"]
