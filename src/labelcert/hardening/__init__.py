"""From measuring to deciding: which model to train."""

from labelcert.hardening.harden import harden
from labelcert.hardening.result import Hardened

__all__ = ["Hardened", "harden"]
