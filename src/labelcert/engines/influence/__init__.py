"""Linear models by their features: what influences foretell is proved or retrained."""

from labelcert.engines.influence.engine import Influence
from labelcert.engines.influence.weighted import Grown, TrainOnAll

__all__ = ["Grown", "Influence", "TrainOnAll"]
