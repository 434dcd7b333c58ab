"""All attacks up to a budget, as far as they matter to whoever verifies labels."""

from __future__ import annotations

from dataclasses import dataclass

from labelcert.arrays import Bool, Int


@dataclass(frozen=True, eq=False)
class ListedAttacks:
    """Sets of labels whose change overturns predictions; verifying a label removes all sets that hold it.

    Attributes
    ----------
    flips : int
        No set within this budget is missing.
    starts : (N + 1,) array
    labels : array
        Set k holds the labels ``labels[starts[k]:starts[k + 1]]``, by their indices.
    costs : (N,) array
        What changing each set costs.
    overturned : (N, n) array
        Nodes that a change of exactly this set provably overturns, and that of no smaller one.
    strongest : (N,) array
        The most nodes that one change of the set overturns at once.
    """

    flips: int
    starts: Int
    labels: Int
    costs: Int
    overturned: Bool
    strongest: Int
