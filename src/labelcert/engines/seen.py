"""Everything that a walk saw, in short: what each attack costs, what it does to each node, and which one it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from labelcert.arrays import Bool, Int, Words
from labelcert.engines.base import Question
from labelcert.engines.bitsets import positions_of
from labelcert.engines.control import Control
from labelcert.engines.observing import Counted, Counter, Visited
from labelcert.engines.walks import Collector
from labelcert.problem import Adversary, Relabelling


class Seen(NamedTuple):
    """What S attacks do to n nodes."""

    cost: Int  # (S,)
    code: Any  # (S, L) which attacks they are: see ``FlipBits`` and ``MoveNumbers``
    # changed, unchanged: (S, n) nodes that each of them provably changes, and nodes that it provably does not
    changed: Bool
    unchanged: Bool


class Counts(NamedTuple):
    """What S attacks do to J kinds of nodes."""

    cost: Int  # (S,)
    code: Any  # (S, L)
    # changed, open: (S, J)
    changed: Int
    open: Int


def clean_labels(question: Question) -> Seen:
    """What the clean labels do: nothing, but to nodes whose prediction was given and is another."""
    contrary = question.contrary[None]
    return Seen(
        np.zeros(1, dtype=np.int64), np.full((1, 1), -1, dtype=np.int64), contrary.copy(), ~question.unsure[None]
    )


class Shorthand(Protocol):
    """A short form of attacks, as rows of an array."""

    def change(self, code: Any) -> Relabelling:
        """The relabelling that one row stands for."""

    def flipped(self, codes: Any) -> Bool:
        """(S, ν) labels that each row changes."""


class FlipBits:
    """Two classes: sets of flipped labels, as bits in words of 64."""

    def __init__(self, adversary: Adversary) -> None:
        self._adversary = adversary

    def change(self, code: Words) -> Relabelling:
        """The other class for each label of the set."""
        return self._adversary.flipped(positions_of(code))

    def flipped(self, codes: Words) -> Bool:
        """One column per label, from bits that words hold 64 at a time."""
        bits = np.unpackbits(codes.view(np.uint8), axis=1, bitorder="little")
        return bits[:, : self._adversary.labels.size].astype(bool)


class MoveNumbers:
    """Any number of classes: numbers of single moves, ascending, and -1 behind the last one.

    - ``position``, ``target`` (o,): the label that each move changes, and the class that it becomes.
    - ``number`` (ν, K): the number of each move; -1 where the threat does not allow it.
    """

    def __init__(self, adversary: Adversary) -> None:
        self.position, self.target = np.argwhere(adversary.targets).T.astype(np.int64)
        self.number = np.full(adversary.targets.shape, -1, dtype=np.int64)
        self.number[self.position, self.target] = np.arange(self.position.size)

    def change(self, code: Int) -> Relabelling:
        """All moves that its numbers stand for."""
        used = code[code >= 0]
        return Relabelling(self.position[used], self.target[used])

    def flipped(self, codes: Int) -> Bool:
        """The labels that moves change."""
        flipped = np.zeros((len(codes), len(self.number)), dtype=bool)
        rows, columns = np.nonzero(codes >= 0)
        flipped[rows, self.position[codes[rows, columns]]] = True
        return flipped


class Telling(Collector):
    """The collector that shows everything to the observers of a question.

    What a walk leaves open is decided one by one, as far as the predictor can, until the run is closed.

    - ``short``: how the walk writes attacks down.
    - ``read``: what a chunk saw, from what it found.
    """

    def __init__(self, question: Question, control: Control, short: Shorthand, read: Callable[[Any], Seen]) -> None:
        self._question, self._control, self._short, self._read = question, control, short, read

    def collect(self, found: Any, chunk: Any) -> None:
        """Show what one chunk found."""
        seen, short, question = self._read(found), self._short, self._question
        close = ~(seen.changed | seen.unchanged)
        for s in np.flatnonzero(close.any(axis=1)).tolist():
            if self._control.closed():
                break
            nodes = np.flatnonzero(close[s])
            seen.changed[s, nodes], seen.unchanged[s, nodes] = question.changed(short.change(seen.code[s]), nodes)
        if seen.cost.size == 0:
            return
        visited = Visited(
            cost=seen.cost,
            changed=seen.changed,
            unchanged=seen.unchanged,
            close=close,
            change=lambda s: short.change(seen.code[s]),
            flipped=lambda: short.flipped(seen.code),
        )
        for observer in question.observers:
            observer.observe(visited)

    def unvisited(self, cost: int) -> None:
        """Tell every observer what the walk left out."""
        for observer in self._question.observers:
            observer.unvisited(cost)


class Counting(Collector):
    """The collector of a walk that counts nodes itself.

    ``read``: what a chunk counted, from what it found.
    """

    def __init__(self, question: Question, counter: Counter, short: Shorthand, read: Callable[[Any], Counts]) -> None:
        self._counter, self._short, self._read = counter, short, read
        self._frontier = question.budget + 1

    def collect(self, found: Any, chunk: Any) -> None:
        """Show what one chunk counted."""
        counts, short = self._read(found), self._short
        if counts.cost.size:
            change = lambda s: short.change(counts.code[s])  # noqa: E731
            self._counter.count(Counted(counts.cost, counts.changed, counts.open, change))

    def unvisited(self, cost: int) -> None:
        """Remember what the walk left out."""
        self._frontier = min(self._frontier, cost)

    def settle(self, control: Control) -> None:
        """Tell how far the walk came."""
        self._counter.visited(self._frontier)


class CountingShown:
    """The observer that shows a counter how many nodes of each kind change, where a walk shows every node."""

    def __init__(self, question: Question, counter: Counter) -> None:
        self._counter, self._frontier = counter, question.budget + 1

    def observe(self, visited: Visited) -> None:
        """Count; what a walk could not decide itself may be tied."""
        first = self._counter.kinds[:-1]
        changed = visited.changed & ~visited.close
        undecided = ~(changed | visited.unchanged)
        sure, open_ = (np.add.reduceat(found, first, axis=1, dtype=np.int64) for found in (changed, undecided))
        self._counter.count(Counted(visited.cost, sure, open_, visited.change))

    def unvisited(self, cost: int) -> None:
        """Remember what the walk left out."""
        self._frontier = min(self._frontier, cost)

    def settle(self, control: Control) -> None:
        """Tell how far the walk came."""
        self._counter.visited(self._frontier)
