"""Votes of models that nobody knows: each is trained on some of the labels, and may say anything once one changes."""

from labelcert.engines.voting.engine import BLACK_BOX, BlackBox, VoteEngine
from labelcert.engines.voting.seeding import seeded

__all__ = ["BLACK_BOX", "BlackBox", "VoteEngine", "seeded"]
