"""All attacks up to a budget, as far as they matter to whoever verifies labels."""

from __future__ import annotations

from dataclasses import dataclass

from labelcert.arrays import Bool, Int


@dataclass(frozen=True, eq=False)
class ListedAttacks:
    """Sets of labels whose change overturns predictions; verifying a label removes all sets that hold it.

    Set k of N holds the labels ``labels[starts[k]:starts[k + 1]]``, by their indices.
    """

    flips: int
    """No set within this budget is missing."""
    starts: Int
    labels: Int
    costs: Int
    """(N,) what changing each set costs."""
    overturned: Bool
    """(N, n) nodes that a change of exactly this set provably overturns, and that of no smaller one."""
    strongest: Int
    """(N,) the most nodes that one change of the set overturns at once."""
