"""Ensembles that count votes: every part is trained again by itself, and votes are added up.

A part votes for the class with its highest score. Where several classes share that, it votes as the adversary likes.
What a part adds to the votes of one class minus those of a rival is -1, 0 or 1. An attack on the ensemble is an attack
on each of its parts; the least that these add up to, within each budget, is found by spending on one part after the
other. Relabellings of a part that were not looked at count as if they turned its vote against every class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.verification.relabellings import TIED, Walk
from labelcert.verification.statement import Statement
from labelcert.verification.trainers import is_linear, machine_of

REMEMBERED = 5_000
"""Labellings of one part whose votes are kept."""

Table = dict[tuple[int, ...], Int]
"""For what is spent, in total and within each group of several parts: (K, n) the least that a part can add."""

Tops = tuple[Bool, Bool]
"""Which classes have the highest score: provably, and possibly."""


class Member:
    """The model of one part.

    Attributes
    ----------
    labels : array
        Which ones, ascending.
    largest : int
        The most that can be spent on it.
    """

    def __init__(self, statement: Statement, labels: Int, pace: Callable[[], None]) -> None:
        self.labels, self._pace = labels, pace
        self._own = own = replace(
            statement,
            K_train=np.ascontiguousarray(statement.K_train[np.ix_(labels, labels)]),
            K_test=np.ascontiguousarray(statement.K_test[:, labels]),
            codes=statement.codes[labels],
            allowed=statement.allowed[labels],
            costs=statement.costs[labels],
            groups=statement.groups[labels],
            part_of=None,
        )
        self.machine = machine_of(own, is_linear(own, pace), pace)
        self._walk = Walk(own, self.machine)
        self._known: dict[bytes, tuple[Bool, Bool]] = {}
        self.largest = min(own.budget, own.spendable)

    def tops(self, codes: Int) -> Tops:
        """(K, n) each, under labels of the part."""
        key = codes.tobytes()
        if key not in self._known:
            if len(self._known) > REMEMBERED:
                self._known.clear()
            self._known[key] = self._trained(codes)
        return self._known[key]

    def _trained(self, codes: Int) -> Tops:
        self._pace()
        models = self._walk.trained(codes[None, :])
        low = np.stack([one.value[0] - one.error[0] for one in models])
        high = np.stack([one.value[0] + one.error[0] for one in models])
        maybe: Bool = ~(high < low.max(axis=0)).astype(bool)
        sure = maybe & (maybe.sum(axis=0) == 1)
        for t in np.flatnonzero(~sure.any(axis=0)).tolist():
            near = np.flatnonzero(maybe[:, t]).tolist()
            signs = {(a, b): self._walk.compare(codes, t, a, b) for a in near for b in near if a != b}
            for a in near:
                ahead = [signs[a, b] for b in near if a != b]
                maybe[a, t] = all(sign is None or sign >= 0 for sign in ahead)
                sure[a, t] = all(sign is not None and sign >= 0 for sign in ahead)
        return sure, maybe

    def relabelled(self, cost: int) -> Iterator[Int]:
        """All labels of the part that cost this much, within the groups' budgets."""
        own = self._own
        options = [(i, np.flatnonzero(own.allowed[i]).tolist(), int(own.costs[i])) for i in own.movable.tolist()]
        rest = np.cumsum([0, *(c for _, _, c in reversed(options))])[::-1]  # what all later labels cost

        def of(k: int, left: int, chosen: list[int]) -> Iterator[list[int]]:
            if left == 0:
                yield chosen
            elif k < len(options) and left <= rest[k]:
                if options[k][2] <= left:
                    yield from of(k + 1, left - options[k][2], [*chosen, k])
                yield from of(k + 1, left, chosen)

        for chosen in of(0, cost, []):
            labels = np.array([options[k][0] for k in chosen], dtype=np.int64)
            self._pace()
            if own.within_caps(labels):
                for targets in product(*(options[k][1] for k in chosen)):
                    codes = own.codes.copy()
                    codes[labels] = targets
                    yield codes

    def spent(self, codes: Int, groups: Int) -> tuple[int, ...]:
        """What labels of the part cost: in total, and within some groups."""
        own = self._own
        costs = np.where(codes != own.codes, own.costs, 0)
        return (int(costs.sum()), *(int(costs[own.groups == g].sum()) for g in groups.tolist()))


class VoteWalk:
    """What an ensemble predicts under any labels; stands where a single model has its ``Walk``.

    Attributes
    ----------
    members : list of Member
    least : (n,) array
        A rival takes over once the votes of a class minus its own fall to this: 0, or what a margin comes to.
    """

    def __init__(self, statement: Statement, margins: Float, pace: Callable[[], None]) -> None:
        self._statement = statement
        self.members = [Member(statement, labels, pace) for labels in statement.blocks]
        self._nodes = np.arange(statement.n)
        k, movers = len(self.members), 2 if statement.n_classes == 2 else 1
        # Votes are whole numbers: a margin of 1/3 means the fraction, not the float next to it.
        self.least = np.array([min(k, math.floor(k * movers * _simplest(v))) for v in margins.tolist()], dtype=np.int64)

    def only(self, nodes: Int) -> VoteWalk:
        """About some test nodes alone."""
        part = copy(self)
        part._nodes, part.least = self._nodes[nodes], self.least[nodes]
        return part

    def trained(self, codes: Int) -> Tops:
        """(N, k, K, n) each: what all parts vote for under (N, m) labels."""
        found = [[member.tops(row[member.labels]) for member in self.members] for row in codes]
        sure, maybe = (np.array([[tops[i] for tops in row] for row in found]) for i in (0, 1))
        return sure[..., self._nodes], maybe[..., self._nodes]

    def leads(self, tops: Bool, own: Int) -> Int:
        """(..., K, n) votes of class ``own`` minus those of each rival, of all parts, at the least."""
        return np.asarray(added(tops, own).sum(axis=-3))

    def changed(self, codes: Int, own: Int, models: Tops | None = None, at: Bool | None = None) -> tuple[Bool, Bool]:
        """(N, n) whether a class reaches the predicted one; whether that is decided (``at`` is for larger models)."""
        sure, maybe = self.trained(codes) if models is None else models
        mine = np.where(own == TIED, 0, own)
        rival = (np.arange(self._statement.n_classes)[:, None] != mine)[None]
        yes = (rival & (self.leads(sure, mine) <= self.least)).any(axis=1) | (own == TIED)
        maybe_yes = (rival & (self.leads(maybe, mine) <= self.least)).any(axis=1)
        return yes, yes | ~maybe_yes

    def lowest(self, own: Int, upto: int, pace: Callable[[str], None]) -> Iterator[tuple[Int, Int]]:
        """Bounds on (n,) radii, from more and more relabellings of the parts.

        The first bound is below, as all that is left out is assumed to be as bad as can be. The second one is what
        some attack does. Both are one more than the largest budget where nothing is known that turns a node.
        """
        groups = self._shared_groups()
        floors, attacks = list[Table](), list[Table]()
        clean = self._statement.codes
        for member in self.members:
            start = (0,) * (1 + groups.size)
            sure, maybe = member.tops(clean[member.labels])
            floors.append({start: added(maybe[:, self._nodes], own)})
            attacks.append({start: added(sure[:, self._nodes], own)})
        for level in range(upto + 1):
            for member, floor, attack in zip(self.members, floors, attacks, strict=True):
                for codes in member.relabelled(level) if level else ():
                    spent = member.spent(codes, groups)
                    for table, tops in zip((attack, floor), member.tops(codes), strict=True):
                        table[spent] = np.minimum(table.get(spent, 1), added(tops[:, self._nodes], own))
                    pace(f"looked at attacks on single parts that cost {level}")
            worst = (level + 1, *[0] * groups.size)
            left = [member.largest > level for member in self.members]
            assumed = [
                {**floor, worst: np.full_like(next(iter(floor.values())), -1)} if more else floor
                for floor, more in zip(floors, left, strict=True)
            ]
            yield self._radii(assumed, own, groups), self._radii(attacks, own, groups)
            if not any(left):
                return

    def _radii(self, tables: list[Table], own: Int, groups: Int) -> Int:
        """(n,) least cost at which the votes of all parts can fall to what turns a node."""
        statement, budget = self._statement, self._statement.budget
        caps = [budget, *statement.caps[groups].tolist()]
        totals: Table = {(0,) * len(caps): np.zeros((statement.n_classes, own.size), dtype=np.int64)}
        for table in tables:
            new: Table = {}
            for (there, value), (here, more) in product(totals.items(), table.items()):
                spent = tuple(a + b for a, b in zip(there, here, strict=True))
                if all(a <= cap for a, cap in zip(spent, caps, strict=True)):
                    new[spent] = np.minimum(new[spent], value + more) if spent in new else value + more
            totals = new
        rival = np.arange(statement.n_classes)[:, None] != own
        radii = np.full(own.size, budget + 1, dtype=np.int64)
        for spent, value in totals.items():
            falls = (rival & (value <= self.least)).any(axis=0)
            radii[falls] = np.minimum(radii[falls], spent[0])
        return radii

    def _shared_groups(self) -> Int:
        """Groups of several parts, whose budgets do not pay for all of their labels."""
        s = self._statement
        shared = [
            g
            for g in range(s.caps.size)
            if s.caps[g] < min(s.budget, s.costs[s.groups == g].sum())
            and sum(bool(np.any(s.groups[member.labels] == g)) for member in self.members) > 1
        ]
        return np.array(shared, dtype=np.int64)


def added(tops: Bool, own: Int) -> Int:
    """(..., K, n) what a part adds to the votes of class ``own`` minus those of each rival, at the least."""
    others = tops & (np.arange(tops.shape[-2])[:, None] != own)
    return np.where(others, -1, np.where(others.any(axis=-2, keepdims=True), 0, 1)).astype(np.int64)


def strength(sure: Bool) -> Float:
    """(..., K, n) shares of the votes, from (..., k, K, n): a part that is tied gives each of its classes a share."""
    return np.asarray((sure / np.maximum(sure.sum(axis=-2, keepdims=True), 1)).mean(axis=-3))


def _simplest(margin: float) -> Fraction:
    """The fraction with a small denominator that a float stands for, if there is one."""
    written = Fraction(str(margin))
    simple = written.limit_denominator(10**6)
    return simple if float(simple) == margin else written
