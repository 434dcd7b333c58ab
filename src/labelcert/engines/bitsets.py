"""Sets of labels as bits in 64-bit words."""

from __future__ import annotations

import numpy as np

from labelcert.arrays import Int, Words


def words_for(labels: int) -> int:
    """Number W of 64-bit words that hold a set of labels."""
    return max(1, -(-labels // 64))


def positions_of(bits: Words) -> Int:
    """Positions of the set bits, ascending."""
    return np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).astype(np.int64)
