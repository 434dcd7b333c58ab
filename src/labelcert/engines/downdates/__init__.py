"""Kernel ridge regression on the labels that are left, by downdates of one inverse."""

from labelcert.engines.downdates.engine import Downdates

__all__ = ["Downdates"]
