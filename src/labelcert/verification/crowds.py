"""Budgets that count annotators: votes are counted again, and who cast them is paid for."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from labelcert.arrays import Int, Values
from labelcert.certificate import Certificate
from labelcert.errors import InvalidInput

Cast = tuple[Int, Int]
"""Votes, by their positions in the record, and the classes that they are for then."""


@dataclass(frozen=True, eq=False)
class Crowd:
    """Votes as a certificate records them, sorted by item.

    ``who`` is the annotator of each vote, by position, -1 for nobody; ``prices`` are 0 for those who are trusted.
    """

    item: Int
    who: Int
    says: Int
    weights: Int
    rank: Int
    prices: Int
    total: int
    wrong_votes: int | None

    @classmethod
    def of(cls, cert: Certificate, classes: Values, codes: Int) -> Crowd | None:
        """From a certificate's record; None where budgets count labels."""
        threat, names = cert.run.threat, [str(c) for c in classes.tolist()]
        votes = threat.get("votes")
        if votes is None and threat.get("annotators") is None:
            return None
        if votes is None:
            rows = [(i, who, names[c]) for i, (who, c) in enumerate(zip(threat["annotators"], codes, strict=True))]
            weights, ties = dict[str, float](), "first"
        else:
            rows, weights, ties = votes["votes"], votes["weights"] or {}, votes["ties"]
            if votes["aggregate"]:
                raise InvalidInput("verify does not know functions that make labels of votes, which no file holds")
        crowd = sorted({who for _, who, _ in rows if who is not None})
        prices = whole([(threat.get("prices") or {}).get(who, 1) for who in crowd])
        total, trusted = int(prices.sum()), threat.get("trusted_annotators") or []
        return cls(
            item=np.array([i for i, _, _ in rows], dtype=np.int64),
            who=np.array([-1 if who is None else crowd.index(who) for _, who, _ in rows], dtype=np.int64),
            says=np.array([names.index(label) for _, _, label in rows], dtype=np.int64),
            weights=whole([weights.get(who, 1) for who in crowd]),
            rank=np.arange(len(names)) if ties == "first" else np.array([ties.index(name) for name in names]),
            prices=np.where([who in trusted for who in crowd], 0, prices).astype(np.int64),
            total=total,
            wrong_votes=threat.get("wrong_votes"),
        )

    def digest(self) -> bytes:
        """What the hash of a problem takes in of it."""
        arrays = (self.item, self.who, self.says, self.weights, self.rank)
        limit = -1 if self.wrong_votes is None else self.wrong_votes
        ballots = b"|".join(np.ascontiguousarray(array, dtype="<i8").tobytes() for array in arrays)
        return self.prices.astype("<i8").tobytes() + ballots + str(limit).encode()

    def touches(self, i: int) -> bool:
        """Whether somebody who may lie votes on an item."""
        own = self.who[(self.item == i) & (self.who >= 0)]
        return bool((self.prices[own] > 0).any())

    def label(self, i: int, says: Int) -> int:
        """The class of an item by such votes."""
        totals: dict[int, int] = dict.fromkeys(range(self.rank.size), 0)
        for vote in np.flatnonzero(self.item == i).tolist():
            totals[int(says[vote])] += 1 if self.who[vote] < 0 else int(self.weights[self.who[vote]])
        return max(totals, key=lambda c: (totals[c], -int(self.rank[c])))

    def price(self, labels: Int, targets: Int, votes: Int, says: Int) -> int | None:
        """What votes cost that make a relabelling; None where they do not make it, or may not be cast."""
        owners = self.who[votes]
        if np.unique(votes).size != votes.size or np.any(owners < 0) or np.any(self.prices[owners] == 0):
            return None
        if np.any(says == self.says[votes]):
            return None
        if self.wrong_votes is not None and votes.size and np.bincount(owners).max() > self.wrong_votes:
            return None
        after = self.says.copy()
        after[votes] = says
        if set(self.item[votes].tolist()) != set(labels.tolist()):
            return None
        if any(self.label(i, after) != c for i, c in zip(labels.tolist(), targets.tolist(), strict=True)):
            return None
        return int(self.prices[np.unique(owners)].sum())


def whole(values: list[float]) -> Int:
    """Decimal numbers as multiples of the largest unit that divides one and all of them."""
    exact = [Fraction(str(float(value))) for value in values]
    unit = lcm(*(value.denominator for value in exact)) if exact else 1
    return np.array([int(value * unit) for value in exact], dtype=np.int64)
