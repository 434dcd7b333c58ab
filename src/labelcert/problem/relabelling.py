"""A change of labels: the one form in which attacks are handled inside the package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from labelcert.arrays import Int


class Removal(StrEnum):
    """What a witness says of a label that is removed: a value of its own, and a text where values are stored.

    Examples
    --------
    >>> import json, labelcert
    >>> print(labelcert.REMOVED, json.dumps({0: labelcert.REMOVED}))
    removed {"0": "removed"}
    """

    REMOVED = "removed"

    def __repr__(self) -> str:
        return self.value


REMOVED = Removal.REMOVED


@dataclass(frozen=True, eq=False)
class Relabelling:
    """Which labels change, by their ascending positions in ``Adversary.labels``, and what they become.

    Targets are classes, as positions in ``Problem.classes``; one past the last class where a label is removed.
    """

    positions: Int
    targets: Int

    @classmethod
    def of(cls, moves: Mapping[int, int]) -> Relabelling:
        """From ``{position: new class}``."""
        order = sorted(moves)
        return cls(np.array(order, dtype=np.int64), np.array([moves[i] for i in order], dtype=np.int64))

    @property
    def moves(self) -> dict[int, int]:
        """What changes, as ``{position: new class}``."""
        return dict(zip(self.positions.tolist(), self.targets.tolist(), strict=True))

    def plus(self, position: int, target: int) -> Relabelling:
        """With one more label changed."""
        return Relabelling.of({**self.moves, position: target})

    def __len__(self) -> int:
        return int(self.positions.size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Relabelling) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> bytes:
        return self.positions.tobytes() + self.targets.tobytes()


NOTHING = Relabelling.of({})
"""The clean labels."""
