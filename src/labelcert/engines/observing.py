"""What a walk over labellings tells about them, to whoever asks.

A walk trains on labellings; an observer turns what they do into an answer. Radii, the curve, lists of attacks and
worst cases of a metric are observers. No walk knows an observer, and no observer knows how labellings are walked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from labelcert.arrays import Bool, Int
from labelcert.problem import Relabelling


@dataclass(frozen=True, eq=False)
class Visited:
    """A batch of S relabellings that a walk visited, and what each of them does to the n nodes of its question."""

    cost: Int  # (S,) what each of them costs the adversary
    # changed, unchanged: (S, n) nodes that are provably changed, and nodes that provably are not. Where both are False,
    # it is open.
    changed: Bool
    unchanged: Bool
    # (S, n) nodes that the walk could not decide itself: where they count as changed, the highest score may be shared
    close: Bool
    change: Callable[[int], Relabelling]  # ``change(s)`` is the relabelling itself
    # ``flipped()`` are the (S, ν) labels that each of them changes, among those that the adversary may change
    flipped: Callable[[], Bool]


@dataclass(frozen=True, eq=False)
class Counted:
    """A batch of S relabellings, and how many nodes of each of J kinds they change: all that a count needs."""

    cost: Int  # (S,) what each of them costs the adversary
    # changed, open: (S, J) nodes that are provably changed and have one highest score, and nodes about which that is
    # not decided
    changed: Int
    open: Int
    change: Callable[[int], Relabelling]  # ``change(s)`` is the relabelling itself


class Counter(Protocol):
    """Looks at all relabellings that a walk visits, but only at how many nodes of each kind they change.

    That is much less to write down. A walk that an observer asks for must show all; a counter takes what there is.
    """

    @property
    def kinds(self) -> Int:
        """(J + 1,) where each kind of nodes begins, in the order of the question's nodes, and their number."""

    @property
    def forms(self) -> Int:
        """(L, J) sums of counts: a walk need not count what has none that is larger than all of at most its cost.

        Where there are none, everything is counted.
        """

    @property
    def reach(self) -> int:
        """All relabellings that cost less were counted."""

    def count(self, counted: Counted) -> None:
        """Take note of a batch."""

    def visited(self, cost: int) -> None:
        """Learn that all relabellings that cost less were counted, by one walk."""


class Observer(Protocol):
    """Looks at all relabellings that a walk visits, each of them once, in one process.

    The clean labels are one of them. The order is the walk's own.
    """

    def observe(self, visited: Visited) -> None:
        """Take note of a batch."""

    def unvisited(self, cost: int) -> None:
        """Learn that some relabellings of this cost or more were not visited; all cheaper ones were."""
