"""Moved to :mod:`tests.helpers.problems`; this name goes once nothing imports it any more."""

from tests.helpers.problems import gaussian

__all__ = ["gaussian"]
