"""Who wins: the two ways to combine votes, and what somebody has to change about them.

Ballots are (n, k, R) arrays: for each test point and each of k models, the classes from the best one on. Votes need the
first alone (R = 1), run-off elections all K. Ties go to the class that comes first, among equally many votes as among
equal scores, so that every point has a prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from labelcert.arrays import Bool, Float, Int

VOTES, RUN_OFF = RULES = ("votes", "run-off")
"""What ``combine=`` takes."""


class Condition(NamedTuple):
    """What taking models over has to add up to: ``gains`` (n, k) of the models that are taken reach ``need`` (n,)."""

    gains: Int
    need: Int


class Way(NamedTuple):
    """One way in which predictions change: all ``conditions`` hold, which takes ``least`` (n,) models or more."""

    conditions: list[Condition]
    least: Int


@dataclass(frozen=True, eq=False)
class Ballots:
    """The ballots of all models, and the rule that counts them.

    Attributes
    ----------
    ranks : (n, k, R) array
    classes : int
        Number K of classes.
    rule : str
        One of :data:`RULES`.
    takeable : (k,) array
        Which models somebody can take over at all.
    """

    ranks: Int
    classes: int
    rule: str
    takeable: Bool

    @property
    def votes(self) -> Int:
        """(n, k) what each model votes for."""
        return self.ranks[:, :, 0]

    @property
    def counts(self) -> Int:
        """(n, K) number of votes for each class."""
        return np.stack([(self.votes == c).sum(axis=1) for c in range(self.classes)], axis=1)

    def winners(self) -> Int:
        """(n,) the class that wins."""
        first, second = leaders(self.counts)
        if self.rule == VOTES:
            return first
        low, high = np.minimum(first, second), np.maximum(first, second)
        return np.where(2 * self.prefers(low, high).sum(axis=1) >= self.ranks.shape[1], low, high)

    def prefers(self, a: Int, b: Int) -> Bool:
        """(n, k) whether each model prefers class ``a`` (n,) to class ``b`` (n,)."""
        at_a = (self.ranks == a[:, None, None]).argmax(axis=2)
        return np.asarray(at_a < (self.ranks == b[:, None, None]).argmax(axis=2))

    def strength(self) -> Float:
        """(n, K) shares of the votes; in a run-off, one more than the share in the second round for its two classes."""
        shares = self.counts / self.ranks.shape[1]
        if self.rule == VOTES:
            return np.asarray(shares)
        first, second = leaders(self.counts)
        ahead, rows = self.prefers(first, second).mean(axis=1), np.arange(first.size)
        shares[rows, first], shares[rows, second] = 1.0 + ahead, 2.0 - ahead
        return np.asarray(shares)

    def of(self, nodes: Int) -> Ballots:
        """Of some test points."""
        return Ballots(self.ranks[nodes], self.classes, self.rule, self.takeable)

    def ways(self, own: Int) -> Iterator[Way]:
        """All ways in which the winners ``own`` (n,) can lose, whatever the models that are taken over say.

        Of plurality: some rival gets ahead. Of a run-off: two rivals get ahead in the first round, or one gets there
        and wins the second round.
        """
        rows = np.arange(own.size)
        for r in range(self.classes):
            rival = np.where(own == r, (r + 1) % self.classes, r)  # a class is no rival of itself: see below
            way = self._overtaking(own, rival) if self.rule == VOTES else self._second_round(own, rival)
            yield _only(way, own != r)
        if self.rule == RUN_OFF:
            for r, s in combinations(range(self.classes), 2):
                yield _only(
                    self._two_overtake(own, np.full(rows.size, r), np.full(rows.size, s)), (own != r) & (own != s)
                )

    def _overtaking(self, own: Int, rival: Int) -> Way:
        """A rival gets ahead of the winner: each model taken from it counts two, from anybody else one."""
        condition = self._ahead(own, rival)
        return Way([condition], -(-condition.need // 2))

    def _ahead(self, a: Int, b: Int) -> Condition:
        """Class ``b`` gets ahead of class ``a`` in the first round."""
        voted = self.votes
        gains = np.where(voted == a[:, None], 2, np.where(voted == b[:, None], 0, 1)).astype(np.int64)
        return Condition(gains, self._lead(a, b))

    def _lead(self, a: Int, b: Int) -> Int:
        """(n,) votes of ``a`` minus those of ``b``, and one more where ``a`` wins ties."""
        counts, rows = self.counts, np.arange(a.size)
        return np.asarray(counts[rows, a] - counts[rows, b] + (b > a), dtype=np.int64)

    def _second_round(self, own: Int, rival: Int) -> Way:
        """The rival is ahead of all others in the first round, and of the winner in the second.

        Whoever is taken over votes for the rival in both. Of X models that are taken, enough vote for class s that the
        rival gets ahead of it; the others are chosen among those that prefer the winner.
        """
        prefer = self.prefers(own, rival)
        ahead = prefer.sum(axis=1)
        lead = 2 * ahead - prefer.shape[1] + (rival > own)
        second = Condition(2 * prefer.astype(np.int64), lead)
        others = [np.full(own.size, s) for s in range(self.classes)]
        first = [self._ahead(s, rival) for s in others]
        third = [(own != s) & (rival != s) for s in others]
        needs = np.array([np.where(t, one.need, 0) for one, t in zip(first, third, strict=True)])
        take, voted = self.takeable, self.votes
        could = np.array([((voted == s[:, None]) & take).sum(axis=1) for s in others])
        loyal = np.array([((voted == s[:, None]) & prefer & take).sum(axis=1) for s in others])
        most = (take & (voted != rival[:, None])).sum(axis=1)
        turned = (prefer & take).sum(axis=1)

        def enough(X: Int) -> Bool:
            forced = np.maximum(needs - X, 0)
            useless = np.maximum(forced - loyal, 0).sum(axis=0)
            gained = 2 * np.minimum(turned, X - useless)
            return (forced <= could).all(axis=0) & (forced.sum(axis=0) <= X) & (gained >= lead)

        # A class that stands for nobody asks for nothing.
        conditions = [Condition(one.gains, need) for one, need in zip(first, needs, strict=True)]
        return Way([second, *conditions], _smallest(enough, most))

    def _two_overtake(self, own: Int, r: Int, s: Int) -> Way:
        """Two rivals get ahead of the winner in the first round.

        Models are best taken from the winner, then from anybody else, and last from one rival for the other one.
        """
        counts, rows, take, voted = self.counts, np.arange(own.size), self.takeable, self.votes
        one, two = self._ahead(own, r), self._ahead(own, s)

        def held(c: Int) -> Int:
            return np.asarray(((voted == c[:, None]) & take).sum(axis=1))

        own_held, r_held, s_held = held(own), held(r), held(s)
        rest = int(take.sum()) - own_held - r_held - s_held

        def enough(X: Int) -> Bool:
            left = counts[rows, own] - np.minimum(X, own_held)
            for_r = left + (r > own) - counts[rows, r]
            for_s = left + (s > own) - counts[rows, s]
            lent = np.where(for_r < 0, np.minimum(-for_r, r_held), 0) + np.where(
                for_s < 0, np.minimum(-for_s, s_held), 0
            )
            wanted = np.maximum(for_r, 0) + np.maximum(for_s, 0)
            # Where both rivals miss votes, none can lend some; where none does, nothing is wanted.
            return np.asarray(wanted <= np.minimum(X, own_held + rest + lent))

        # A model of the winner that goes to one rival counts two there and one for the other; of others, one in all.
        both = Condition(
            np.where(voted == own[:, None], 3, np.where(one.gains + two.gains == 2, 1, 0)), one.need + two.need
        )
        return Way([one, two, both], _smallest(enough, np.full(own.size, int(take.sum()))))


def leaders(counts: Int) -> tuple[Int, Int]:
    """(n,) and (n,) the classes with the most votes, and with the most among the others."""
    rows = np.arange(len(counts))
    first = counts.argmax(axis=1)
    others = counts.copy()
    others[rows, first] = -1
    return first, others.argmax(axis=1)


def _only(way: Way, applies: Bool) -> Way:
    """A way that exists for some points alone: nothing is enough for the others."""
    never = np.iinfo(np.int32).max
    conditions = [Condition(one.gains, np.where(applies, one.need, never)) for one in way.conditions]
    return Way(conditions, np.where(applies, way.least, never))


def _smallest(enough: Callable[[Int], Bool], most: Int) -> Int:
    """(n,) the smallest number up to ``most`` that is enough, by bisection: more never hurts. Else a large number."""
    low, high = np.zeros_like(most), most + 1
    while np.any(low < high):
        middle = (low + high) // 2
        good = enough(np.minimum(middle, most)) & (middle <= most)
        low, high = np.where(good | (low >= high), low, middle + 1), np.where(good & (low < high), middle, high)
    return np.where(low > most, np.iinfo(np.int32).max, low)
