"""What only the paper's reproduction needs. It registers itself: nothing else in labelcert imports it."""

from labelcert.paper import milp

__all__ = ["milp"]
