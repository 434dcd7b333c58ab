"""Linear models by their features: what influences foretell is proved or retrained."""

from labelcert.engines.influence.engine import Influence

__all__ = ["Influence"]
