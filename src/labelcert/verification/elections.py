"""Elections among models that nobody knows, counted again: who wins, and what it costs at least to change that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from labelcert.arrays import Bool, Int
from labelcert.verification.ballots import NOBODY

FAR = 1 << 41


@dataclass(frozen=True, eq=False)
class Election:
    """What k models say about n test nodes, which classes are the first of them, and what can be bought.

    Attributes
    ----------
    ranks : (n, k, R) array
        Classes from the best one on; the first alone where a plurality decides.
    classes : int
    prices : (I,) array
        Or (n, I), where votes for some nodes cost more.
    touches : (I, k) array
        Which models each purchase takes over.
    """

    ranks: Int
    classes: int
    prices: Int
    touches: Bool

    @property
    def plurality(self) -> bool:
        """Whether the class with the most votes wins, and not a second round among two."""
        return bool(self.ranks.shape[2] == 1)

    @cached_property
    def _takeable(self) -> list[bool]:
        """Which models somebody can buy."""
        return [bool(some) for some in np.any(self.touches, axis=0)]

    def for_first(self, t: int, a: int, b: int) -> list[bool]:
        """Which models prefer one class to another for a node."""
        orders = self.ranks[t].tolist()
        return [order.index(a) < order.index(b) for order in orders]

    def winner(self, t: int) -> int:
        """Who wins; ties go to the class that comes first."""
        counts = np.bincount(self.ranks[t, :, 0], minlength=self.classes).tolist()
        order = sorted(range(self.classes), key=lambda c: (-counts[c], c))
        if self.plurality:
            return order[0]
        a, b = sorted(order[:2])
        votes = sum(self.for_first(t, a, b))
        return a if 2 * votes >= self.ranks.shape[1] else b

    def shares(self, t: int) -> list[float]:
        """What is shown of an election: shares of the votes, those of the second round above them."""
        k = self.ranks.shape[1]
        counts = np.bincount(self.ranks[t, :, 0], minlength=self.classes).tolist()
        shown = [count / k for count in counts]
        if not self.plurality:
            a, b = sorted(range(self.classes), key=lambda c: (-counts[c], c))[:2]
            votes = sum(self.for_first(t, a, b))
            shown[a], shown[b] = 1.0 + votes / k, 2.0 - votes / k
        return shown

    def least_costs(self, own: Int) -> Int:
        """(n,) no purchase that costs less changes these winners."""
        return np.array([min(self._ways(t, int(own[t])), default=NOBODY) for t in range(own.size)])

    def _ways(self, t: int, own: int) -> Iterator[int]:
        """What each way to change a winner costs at least."""
        votes = self.ranks[t, :, 0].tolist()
        rivals = [c for c in range(self.classes) if c != own]
        for r in rivals:
            if self.plurality:
                yield self._price(*self._gap(votes, own, r), t)
            else:
                yield self._second(t, votes, own, r)
        if not self.plurality:
            for r, s in combinations(rivals, 2):
                yield self._pair(votes, own, r, s)

    @staticmethod
    def _gap(votes: list[int], a: int, b: int) -> tuple[list[int], int]:
        """What each model that votes for b instead takes from the lead of a, and that lead."""
        gains = [(vote == a) + (vote != b) for vote in votes]
        return gains, votes.count(a) - votes.count(b) + (b > a)

    def _second(self, t: int, votes: list[int], own: int, r: int) -> int:
        """A rival is ahead of every third class, and wins the second round."""
        prefer = self.for_first(t, own, r)
        lead = 2 * sum(prefer) - len(votes) + (r > own)
        third = {s: self._gap(votes, s, r) for s in range(self.classes) if s not in (own, r)}
        paid = [self._price([2 * one for one in prefer], lead), *(self._price(*gap) for gap in third.values())]
        free = self._takeable
        kinds = [(vote, likes) for vote, likes, may in zip(votes, prefer, free, strict=True) if may and vote != r]

        def enough(X: int) -> bool:
            wasted = 0
            for s, (_, need) in third.items():
                forced = max(0, need - X)
                mine = [likes for vote, likes in kinds if vote == s]
                if forced > len(mine):
                    return False
                wasted += max(0, forced - sum(mine))
            must = sum(max(0, need - X) for _, need in third.values())
            return must <= X and 2 * min(sum(likes for _, likes in kinds), X - wasted) >= lead

        return max(*paid, self._first(enough, len(kinds)))

    def _pair(self, votes: list[int], own: int, r: int, s: int) -> int:
        """Two rivals get ahead of the winner in the first round."""
        one, two = self._gap(votes, own, r), self._gap(votes, own, s)
        sums = [3 * (vote == own) + (vote not in (own, r, s)) for vote in votes]
        paid = [self._price(*one), self._price(*two), self._price(sums, one[1] + two[1])]
        free = [vote for vote, may in zip(votes, self._takeable, strict=True) if may]
        held = {c: free.count(c) for c in (own, r, s)}

        def enough(X: int) -> bool:
            taken = min(X, held[own])
            missing = {c: votes.count(own) - taken + (c > own) - votes.count(c) for c in (r, s)}
            wanted = sum(max(0, gap) for gap in missing.values())
            spare = sum(min(-gap, held[c]) for c, gap in missing.items() if gap < 0)
            return wanted <= min(X, held[own] + len(free) - sum(held.values()) + spare)

        return max(*paid, self._first(enough, len(free)))

    def _first(self, enough: Callable[[int], bool], most: int) -> int:
        """What as many models cost as are enough, the cheapest first."""
        low, high = 0, most + 1
        while low < high:
            middle = (low + high) // 2
            if middle <= most and enough(middle):
                high = middle
            else:
                low = middle + 1
        return NOBODY if low > most else self._price([1] * self.ranks.shape[1], low)

    def _price(self, gains: list[int], need: int, t: int = 0) -> int:
        """The least that purchases cost whose gains, added up, reach a need: an integer knapsack."""
        if need <= 0:
            return 0
        adds = (self.touches @ np.array(gains, dtype=np.int64)).tolist()
        if sum(adds) < need:
            return NOBODY
        prices = (self.prices if self.prices.ndim == 1 else self.prices[t]).tolist()
        if len(set(prices)) == 1:
            total = 0
            for count, gain in enumerate(sorted(adds, reverse=True), 1):
                total += gain
                if total >= need:
                    return int(min(count * prices[0], NOBODY))
        # table[w]: the least price of gains of w or more
        table = np.full(need + 1, FAR)
        table[0] = 0
        for gain, price in zip(adds, prices, strict=True):
            before = table[np.maximum(np.arange(need + 1) - gain, 0)]
            table = np.minimum(table, np.minimum(before + price, FAR))
        return int(min(table[need], NOBODY))
