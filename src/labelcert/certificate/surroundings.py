"""The graph around a certificate's labels and test nodes, as far as a picture of it needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labelcert.arrays import Int, Text


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Nodes and edges, and where the labels and test nodes of a certificate are among them, in its order."""

    names: Text
    """(N,) what all nodes of the graph are called."""
    edges: Int
    """(E, 2) pairs of nodes, each pair once."""
    labeled: Int
    tested: Int
    truth: Text
    """(n,) the true classes of test nodes; empty where nobody knows."""

    def fits(self, m: int, n: int) -> bool:
        """Whether it is well formed and speaks of m labels and n test nodes."""
        numbers = (self.edges, self.labeled, self.tested)
        return bool(
            self.names.ndim == 1
            and self.edges.ndim == 2
            and self.edges.shape[1] == 2
            and self.labeled.shape == (m,)
            and self.tested.shape == self.truth.shape == (n,)
            and all(a.dtype.kind in "iu" for a in numbers)
            and all(a.dtype.kind == "U" for a in (self.names, self.truth))
            and all(np.all((a >= 0) & (a < self.names.size)) for a in numbers)
        )
