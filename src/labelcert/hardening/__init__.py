"""From measuring to deciding: which model to train."""

from labelcert.hardening.candidates import ModelSearch
from labelcert.hardening.contest import Contest
from labelcert.hardening.hardened import Hardened
from labelcert.hardening.model_search import SearchedCell, harden

__all__ = ["Contest", "Hardened", "ModelSearch", "SearchedCell", "harden"]
