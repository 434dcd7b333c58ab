"""Adversaries who own annotators: exact answers set by set, and bounds that are sums over annotators."""

from labelcert.engines.annotators.engine import AnnotatorEngine

__all__ = ["AnnotatorEngine"]
