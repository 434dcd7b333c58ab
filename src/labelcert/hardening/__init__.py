"""From measuring to deciding: which model to train."""

from labelcert.hardening.contest import Contest, Judge
from labelcert.hardening.result import Hardened

__all__ = ["Contest", "Hardened", "Judge"]
