"""All attacks within a budget, as far as they matter to the question which labels to verify.

Verifying labels removes every attack that touches one of them. So a node is safe once every set of labels whose change
can overturn it contains a verified label. Sets that contain a smaller one that does the same say nothing new.

Names: ν labels that the adversary may change, n nodes of the question.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Float, Int, Words
from labelcert.engines.base import Engine, Findings, Question
from labelcert.engines.bitsets import words_for
from labelcert.engines.control import Control
from labelcert.engines.enumerate import Enumerate
from labelcert.engines.observing import Visited
from labelcert.engines.registry import engines_for

_SETS = 4096
"""Sets of labels that are unpacked together."""


@dataclass(frozen=True, eq=False)
class AttackList:
    """Sets of labels whose change overturns predictions.

    Attributes
    ----------
    sets : (N, W) array
        Sets of labels, by their positions among those that may change, in words of 64 bits.
    overturned : (N, n) array
        Nodes that a change of exactly this set provably overturns, and that of no smaller one.
    strongest : (N,) array
        The largest weight of nodes that one change of the set overturns at once.
    complete : bool
        Whether all attacks within budget are listed, and all of them decided.
    trainings : int
    at_once : (N, W) array or None
        The nodes that the change with the largest weight overturns, in words of 64 bits; None for annotators.
    """

    sets: Words
    overturned: Bool
    strongest: Float
    complete: bool
    trainings: int
    at_once: Words | None = None


def list_attacks(question: Question, weights: Float, control: Control, *, strongest: bool) -> AttackList:
    """Retrain on every relabelling within budget, until time is up.

    Parameters
    ----------
    question : Question
    weights : (n,) array
        What each node counts, for the strongest attack.
    control : Control
    strongest : bool
        Whether anybody asks for it. If not, sets that contain a smaller one that does the same are left out.
    """
    listing = AttackListing(question, weights, strongest=strongest)
    _lister(question).run(replace(question, observers=(listing,)), control, Findings.nothing(question))
    return listing.attacks()


def seconds_to_list(question: Question, control: Control) -> float:
    """An estimate of how long that takes."""
    listing = AttackListing(question, np.zeros(question.nodes.size), strongest=False)
    return _lister(question).estimate(replace(question, observers=(listing,)), control).seconds


def _lister(question: Question) -> Engine:
    """Who shows all relabellings: an engine for such predictors, or one that asks any of them."""
    able = [engine for engine in engines_for(question.problem.kind) if engine.capabilities.automatic]
    return next((engine for engine in able if engine.capabilities.observes), Enumerate())


class AttackListing:
    """The observer that lists attacks.

    Parameters
    ----------
    question, weights, strongest
        As in :func:`list_attacks`.
    """

    def __init__(self, question: Question, weights: Float, *, strongest: bool) -> None:
        self._question, self._weights, self._strongest = question, weights, strongest
        self._batches: list[tuple[Words, Words, Float]] = []
        self._complete, self._visited = True, 0

    def observe(self, visited: Visited) -> None:
        """Keep what each relabelling overturns, one bit a node; single changes that overturn nothing say nothing."""
        self._complete &= bool((visited.changed | visited.unchanged).all())
        self._visited += visited.cost.size
        changed, flipped = visited.changed, visited.flipped()
        kept = changed.any(axis=1) | (flipped.sum(axis=1) > 1)
        if not kept.all():
            changed, flipped = changed[kept], flipped[kept]
        self._batches.append((packed(flipped), packed(changed), self._weight(changed)))

    def unvisited(self, cost: int) -> None:
        """The list is not complete."""
        self._complete = False

    def attacks(self) -> AttackList:
        """The list: the empty set, then others by size, in the order of their positions."""
        nu, n = self._question.problem.adversary.labels.size, self._question.nodes.size
        empty = np.zeros((1, max(1, words_for(nu))), dtype=np.uint64)
        clean = packed(self._question.contrary[None])
        nothing = (empty, clean, self._weight(self._question.contrary[None]))
        codes, changed, weight = (np.concatenate(parts) for parts in zip(nothing, *self._batches, strict=True))
        # Several relabellings of a set count as one.
        keys, first, which = np.unique(_keys(codes), return_index=True, return_inverse=True)
        order = np.lexsort((weight, which.ravel()))
        starts = np.searchsorted(which.ravel()[order], np.arange(keys.size))
        heaviest = order[np.append(starts[1:], order.size) - 1]
        sets, most = codes[first], weight[heaviest]
        own = np.bitwise_or.reduceat(changed[order], starts, axis=0)
        before = self._by_smaller_sets(sets, keys, own, clean[0])
        new = own & ~before
        size, members = _members(sets, nu)
        kept = np.flatnonzero((size == 0) | new.any(axis=1) | (self._strongest & (most > 0)))
        kept = kept[np.lexsort((*members[kept].T[::-1], size[kept]))]
        new[size == 0] = clean
        return AttackList(
            sets=sets[kept],
            overturned=bits(new[kept], n),
            strongest=most[kept],
            complete=self._complete,
            trainings=max(0, self._visited - 1),
            at_once=changed[heaviest[kept]],
        )

    def _by_smaller_sets(self, sets: Words, keys: Any, own: Words, clean: Words) -> Words:
        """What a smaller set of each set overturns already; ``own`` becomes what it or any smaller one does."""
        size, members = _members(sets, self._question.problem.adversary.labels.size)
        before = np.zeros_like(own)
        for s in range(1, int(size.max(initial=0)) + 1):
            here = np.flatnonzero(size == s)
            before[here] |= clean
            for column in members[here, :s].T:
                smaller = sets[here].copy()
                smaller[np.arange(here.size), column >> 6] ^= np.uint64(1) << (column & 63).astype(np.uint64)
                wanted = _keys(smaller)
                at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
                there = keys[at] == wanted  # all of them are, unless the walk was stopped
                before[here[there]] |= own[at[there]]
            own[here] |= before[here]
        return before

    def _weight(self, changed: Bool) -> Float:
        """(S,) weights of changed nodes."""
        weights = self._weights
        if weights.size and np.all(weights == weights[0]):  # added up as equal numbers
            sums = np.array([weights[:k].sum() for k in range(weights.size + 1)])
            return np.asarray(sums[changed.sum(axis=1)])
        return np.asarray(changed @ weights)


def packed(bits: Bool) -> Words:
    """(S, W) rows of bits as words of 64."""
    wide = np.zeros((bits.shape[0], 64 * max(1, words_for(bits.shape[1]))), dtype=bool)
    wide[:, : bits.shape[1]] = bits
    return np.packbits(wide, axis=1, bitorder="little").view(np.uint64)


def bits(words: Words, count: int) -> Bool:
    """(S, count) words as rows of bits."""
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :count].astype(bool)


def _members(sets: Words, count: int) -> tuple[Int, Int]:
    """How many labels are in each of (S, W) sets; and which, ascending, as many columns as the largest one has."""
    parts = [np.nonzero(bits(sets[i : i + _SETS], count)) for i in range(0, len(sets), _SETS)]
    rows = np.concatenate([i * _SETS + row for i, (row, _) in enumerate(parts)])
    size = np.bincount(rows, minlength=len(sets))
    members = np.full((len(sets), int(size.max(initial=0))), -1, dtype=np.int64)
    members[rows, np.arange(rows.size) - np.repeat(np.cumsum(size) - size, size)] = np.concatenate(
        [column for _, column in parts]
    )
    return size, members


def _keys(words: Words) -> Any:
    """(S,) one value for each row, to sort and find rows by."""
    words = np.ascontiguousarray(words)
    return words[:, 0] if words.shape[1] == 1 else words.view([("", np.uint64)] * words.shape[1]).ravel()
