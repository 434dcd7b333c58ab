"""Adversaries who own annotators: budgets count annotators, and labels change as far as their votes change them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Int, Values
from labelcert.checking import in_short, is_flat, is_missing, unmasked, whole_number
from labelcert.errors import InvalidInput
from labelcert.problem.ballots import Ballots, Votes, whole_multiples
from labelcert.problem.relabelling import Relabelling
from labelcert.problem.threat import MAX_TOTAL_COST, Adversary, Threat


@dataclass(frozen=True, eq=False)
class VotedRelabelling(Relabelling):
    """A change of labels, and the votes that make it: ``votes[k]``, by its position, becomes one for ``says[k]``."""

    votes: Int
    says: Int

    @cached_property
    def _key(self) -> bytes:
        own = (self.positions, self.targets, self.votes, self.says)
        return b"|".join(array.tobytes() for array in own)


@dataclass(frozen=True, eq=False)
class OwnerAdversary(Adversary):
    """Who may own some of A annotators and say what they say. Labels that no vote can change are not among its own."""

    ballots: Ballots
    prices: Int
    """(A,) what it costs to own each annotator; 0 for those who are trusted."""
    wrong_votes: int | None = None
    """Most votes of one annotator that are changed; None: all may be."""

    def among(self, index: Int) -> Adversary:
        """Of some labels alone, who may change as many as there are."""
        kept = np.flatnonzero(np.isin(self.labels, index)).astype(np.int64)
        may = np.zeros_like(self.targets)
        may[kept] = self.targets[kept]
        part = self.within(may)
        return replace(part, m=int(index.size), labels=np.searchsorted(index, part.labels).astype(np.int64))

    @cached_property
    def buyable(self) -> Int:
        """The annotators that are not trusted."""
        return np.flatnonzero(self.prices > 0).astype(np.int64)

    @property
    def spendable(self) -> int:
        """The price of all annotators."""
        return int(self.prices.sum())

    def most_flips(self, budget: int) -> int:
        """All labels that can change: an upper bound."""
        return int(self.labels.size)

    def owners(self, change: Relabelling) -> Int:
        """The annotators whose votes a relabelling changes."""
        none = np.zeros(0, dtype=np.int64)
        return np.unique(self.ballots.who[change.votes]) if isinstance(change, VotedRelabelling) else none

    def cost(self, change: Relabelling) -> int:
        """The price of the annotators whose votes change; more than there is, where nobody says which votes do."""
        if len(change) and not isinstance(change, VotedRelabelling):
            return self.never
        return int(self.prices[self.owners(change)].sum())

    def admits(self, change: Relabelling, budget: int) -> bool:
        """Whether annotators within the budget can make a relabelling: the changed votes are counted again."""
        if not super().admits(change, budget) or self.cost(change) > budget:
            return False
        if not isinstance(change, VotedRelabelling):
            return len(change) == 0
        owners = self.ballots.who[change.votes]
        if owners.size and not (owners.min() >= 0 and self.prices[owners].min() > 0):
            return False
        if self.wrong_votes is not None and owners.size and np.bincount(owners).max() > self.wrong_votes:
            return False
        says = self.ballots.says.copy()
        says[change.votes] = change.says
        changed = self.labels[change.positions]
        return bool(
            np.unique(change.votes).size == change.votes.size
            and np.array_equal(np.unique(self.ballots.item[change.votes]), changed)
            and np.array_equal(self.ballots.outcome(says)[changed], change.targets)
        )

    def affords(self, positions: Int, budget: int) -> bool:
        """Whether a budget may pay for changing some labels: True also where nobody found out."""
        return bool(self._most_labels(budget, positions) >= positions.size - 1e-6)

    def _most_labels(self, budget: float, positions: Int) -> float:
        """An upper bound on how many of some labels a budget can change: annotators in part, who share no label."""
        touched = np.isin(self.ballots.item, self.labels[positions]) & (self.ballots.who >= 0)
        reach = np.bincount(self.ballots.who[touched], minlength=self.prices.size).astype(np.float64)
        if self.wrong_votes is not None:
            reach = np.minimum(reach, self.wrong_votes)
        order = self.buyable[np.argsort(-(reach / np.maximum(self.prices, 1))[self.buyable], kind="stable")]
        left, found = float(budget), 0.0
        for a in order.tolist():
            part = min(1.0, left / float(self.prices[a]))
            left, found = left - part * float(self.prices[a]), found + part * reach[a]
        return found

    def price_of(self, count: int) -> int:
        """The least budget that may pay for changing so many labels: a lower bound; more than there is for too many."""
        every = np.arange(self.labels.size)
        return self._least(lambda budget: self._most_labels(budget, every) >= count - 1e-6)

    def least_cost(self, positions: Int) -> int:
        """The least budget that may pay for changing some labels: a lower bound."""
        return self._least(lambda budget: self.affords(positions, budget))

    def _least(self, enough: Callable[[int], bool]) -> int:
        low, high = 0, self.spendable + 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle + 1, high)
        return low

    def attainable(self, sets: Bool) -> Bool:
        """(s, ν, K) which class each label may become for each of s sets of annotators, (s, A)."""
        return np.asarray(self.ballots.attainable(sets)[:, self.labels] & self.targets)

    def within(self, may: Bool) -> Adversary:
        """Who may change any label as far as a set of annotators can, (ν, K), one unit each."""
        positions = np.flatnonzero(may.any(axis=1)).astype(np.int64)
        groups, caps = np.full(positions.size, -1), np.zeros(0, dtype=np.int64)
        if self.wrong_votes is not None and self.ballots.lone:
            groups = self.ballots.who[self.labels[positions]]
            caps = np.full(self.prices.size, self.wrong_votes, dtype=np.int64)
        return Adversary(
            m=self.m,
            labels=self.labels[positions],
            costs=np.ones(positions.size, dtype=np.int64),
            groups=groups,
            group_caps=caps,
            never=self.m + 1,
            targets=may[positions],
        )

    def voted(self, change: Relabelling, owners: Bool) -> VotedRelabelling | None:
        """How some annotators, (A,), make a relabelling that they can make; None where no way was found.

        With few votes, where these are limited; else with all that they have.
        """
        if self.wrong_votes is None and self.ballots.aggregate is None:
            target = np.full(self.m, -1)
            target[self.labels[change.positions]] = change.targets
            own = target[self.ballots.item]
            cast = np.flatnonzero(self.ballots.owned_by(owners) & (own >= 0) & (own != self.ballots.says))
            return VotedRelabelling(change.positions, change.targets, cast.astype(np.int64), own[cast])
        left = np.full(self.prices.size, self.ballots.item.size if self.wrong_votes is None else self.wrong_votes)
        votes, says = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for i, c in zip(self.labels[change.positions].tolist(), change.targets.tolist(), strict=True):
            free = (way for way in self.ballots.ways(i, c, owners) if np.all(left[self.ballots.who[way[0]]] > 0))
            chosen, said = next(free, (None, None))
            if chosen is None or said is None:
                return None
            left[self.ballots.who[chosen]] -= 1
            votes.append(chosen)
            says.append(said)
        flat, answers = np.concatenate(votes), np.concatenate(says)
        order = np.argsort(flat)
        return VotedRelabelling(change.positions, change.targets, flat[order], answers[order].astype(np.int64))

    def sets_of(self, price: int) -> Iterator[tuple[int, ...]]:
        """All sets of annotators of one price together."""
        prices = self.prices[self.buyable].tolist()

        def extended(start: int, left: int) -> Iterator[tuple[int, ...]]:
            if left == 0:
                yield ()
                return
            for k in range(start, len(prices)):
                if prices[k] <= left:
                    for rest in extended(k + 1, left - prices[k]):
                        yield (k, *rest)

        return (tuple(int(self.buyable[k]) for k in one) for one in extended(0, price))

    def count_sets_by_price(self, budget: int) -> Any:
        """(B + 1,) number of sets of annotators of each price."""
        ways = np.zeros(budget + 1)
        ways[0] = 1.0
        for price in self.prices[self.buyable].tolist():
            if price <= budget:
                ways[price:] += ways[: budget + 1 - price].copy()
        return ways

    def members(self, sets: list[tuple[int, ...]]) -> Bool:
        """(s, A) sets of annotators as a table."""
        table = np.zeros((len(sets), self.prices.size), dtype=bool)
        for k, one in enumerate(sets):
            table[k, list(one)] = True
        return table

    def digested(self) -> bytes:
        """What beside the labels decides an answer."""
        limit = -1 if self.wrong_votes is None else self.wrong_votes
        return self.prices.astype("<i8").tobytes() + self.ballots.digest() + str(limit).encode()

    def trusting(self, annotators: Int) -> OwnerAdversary:
        """The same where more annotators are trusted."""
        prices = self.prices.copy()
        prices[annotators] = 0
        return replace(self, prices=prices)


def resolved(threat: Threat, labels: Values, classes: Values) -> Adversary:
    """A threat against (m,) labels: whether budgets count labels or annotators."""
    if not threat.owns_annotators:
        return threat.resolve(labels, classes)
    if threat.removes or not threat.changes:
        raise InvalidInput("annotators change labels, and remove none; leave out removable and changes")
    names = ("annotators", "votes", "prices", "trusted_annotators", "wrong_votes")
    own: dict[str, Any] = dict.fromkeys(names)
    flips = replace(threat, **own).resolve(labels, classes)
    return _owning(threat, labels, classes, flips)


def total_cost(threat: Threat, m: int) -> int:
    """What all that an adversary could change would cost, of m labels or of everybody who gave them.

    Examples
    --------
    >>> total_cost(Threat(annotators=["ann", "ann", "bob"], prices={"bob": 0.5}), 3)
    3
    """
    if not threat.owns_annotators:
        return m if threat.costs is None else int(whole_multiples("costs", np.asarray(threat.costs).tolist())[0].sum())
    names = threat.annotators if threat.votes is None else Votes.of(threat.votes).annotators
    given = dict.fromkeys((who for who in names or () if not is_missing(who)), 1.0) | dict(threat.prices or {})
    return int(whole_multiples("prices", list(given.values()))[0].sum())


def _owning(threat: Threat, labels: Values, classes: Values, flips: Adversary) -> OwnerAdversary:
    """The adversary of a threat that counts annotators, from the one who may change the same labels one by one."""
    codes, targets = np.searchsorted(classes, labels), np.zeros((labels.size, classes.size), dtype=bool)
    targets[flips.labels] = flips.targets
    flippable = targets.any(axis=1)
    ballots = _ballots(threat, codes, classes)
    honest = list(threat.trusted_annotators or ())
    given = {**dict.fromkeys(ballots.annotators, 1), **dict(threat.prices or {})}
    for who in (*given, *honest):
        if who not in ballots.annotators:
            raise InvalidInput(f"the threat names the annotator {in_short(who)}, who gave no label")
    prices, _ = whole_multiples("prices", [given[who] for who in ballots.annotators], MAX_TOTAL_COST)
    total = int(prices.sum())
    prices[[ballots.annotators.index(who) for who in honest]] = 0
    wrong = np.flatnonzero(flippable & (ballots.labels != codes))
    if wrong.size:
        i = int(wrong[0])
        raise InvalidInput(
            f"label {i} is {str(labels[i])!r}, but its votes make it {str(classes[ballots.labels[i]])!r} ({wrong.size} "
            "such labels); certify the labels of Votes(...).labels, or mark those as trusted that were checked"
        )
    touched = np.zeros(labels.size, dtype=bool)
    touched[ballots.item[np.append(prices, 0)[ballots.who] > 0]] = True
    index = np.flatnonzero(flippable & touched)
    return OwnerAdversary(
        m=labels.size,
        labels=index,
        costs=np.ones(index.size, dtype=np.int64),
        groups=np.full(index.size, -1),
        group_caps=np.zeros(0, dtype=np.int64),
        never=total + 1,
        targets=targets[index],
        ballots=ballots,
        prices=prices,
        wrong_votes=None if threat.wrong_votes is None else whole_number("wrong_votes", threat.wrong_votes, 1),
    )


def _ballots(threat: Threat, codes: Int, classes: Values) -> Ballots:
    names, m = threat.annotators, codes.size
    if threat.costs is not None or threat.groups is not None or (names is not None and threat.votes is not None):
        raise InvalidInput(
            "annotators, votes, costs and groups count in different ways: give either annotators or votes, with prices "
            "instead of costs; groups and group_budgets are limits inside each group, where budgets count labels"
        )
    if names is None:
        ballots = Votes.of(threat.votes).ballots(classes)
    elif not is_flat(unmasked("annotators", names)) or len(names) != m:
        raise InvalidInput(
            f"annotators must have one entry per label ({m}), got {in_short(names)}; several votes for each label go "
            "into votes"
        )
    else:
        ballots = Ballots.one_each(names, codes, classes)
    if ballots.m != m:
        raise InvalidInput(f"votes are about {ballots.m} items, but there are {m} labels")
    return ballots
