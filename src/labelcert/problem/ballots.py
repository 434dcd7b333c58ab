"""Votes on labels: whose they are, how they make labels, and what labels some annotators can make.

:class:`Votes` is what a user writes down; :class:`Ballots` is the same, resolved against the classes of the labels.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import floor, lcm, log10
from typing import Any

import numpy as np
import scipy.sparse

from labelcert.arrays import Bool, Float, Int, Values
from labelcert.checking import as_labels, in_short, is_missing, real_number, whole_number
from labelcert.errors import InvalidInput

LONG = ("item", "annotator", "label")
"""Columns of a long table of votes. Every other table is a wide one: rows are items, columns annotators."""

MOST_ANSWERS = 50_000
"""Ways to vote on one item up to which a callable is asked about all of them."""

SUBSETS_OF = 12
"""Votes on one item up to which all sets of its voters are looked at."""

LARGEST_SUM = 2**44
"""Weights and prices stay below this as whole numbers, so that sums and products of them are exact."""


@dataclass(frozen=True, eq=False)
class Votes:
    """Several votes for each label, and the rule that makes labels of them.

    Parameters
    ----------
    table : DataFrame, or sequence of (item, annotator, label)
        A long table with the columns ``item``, ``annotator`` and ``label``; or a wide one, with a row for each item and
        a column for each annotator, missing where nobody voted.
    ties : "first" or sequence of labels
        Which of several labels with as many votes an item gets: the first in sorted order, or in the given order.
    weights : mapping, optional
        What the vote of each annotator counts; 1 for those without an entry.
    aggregate : callable, optional
        Takes ``{annotator: label}`` of one item and returns its label, instead of the majority. It must be a function
        of these votes alone. It is asked about all votes that annotators could give, so it need not be monotone.
    items : sequence, optional
        The items in the order of the labelled points; by default in ascending order (of a wide table: of its rows).

    Examples
    --------
    >>> from labelcert import Votes
    >>> votes = Votes([(0, "ann", "jazz"), (0, "bob", "rock"), (0, "cy", "rock"), (1, "ann", "jazz")])
    >>> votes.labels.tolist()
    ['rock', 'jazz']
    """

    table: Any
    ties: str | Sequence[Any] = "first"
    weights: Mapping[Any, float] | None = None
    aggregate: Callable[[dict[Any, Any]], Any] | None = None
    items: Sequence[Hashable] | None = None

    @cached_property
    def rows(self) -> list[tuple[int, Any, Any]]:
        """Position of the item, annotator and label of each vote, by item."""
        found = _rows(self.table, wide_items=self.items is None)
        order = list(self.items) if self.items is not None else _in_order({item for item, _, _ in found}, "items")
        position = {_plain(item): i for i, item in enumerate(order)}
        unknown = [item for item, _, _ in found if item not in position]
        if unknown:
            raise InvalidInput(f"votes are about the item {in_short(unknown[0])}, which is not among items")
        rows = sorted(((position[item], who, label) for item, who, label in found), key=lambda row: row[0])
        counts = Counter((i, who) for i, who, _ in rows)
        if counts and counts.most_common(1)[0][1] > 1:
            i, who = counts.most_common(1)[0][0]
            raise InvalidInput(
                f"annotator {in_short(who)} votes twice on item {in_short(order[i])}; keep one vote of each annotator"
            )
        missing = sorted(set(range(len(order))) - {i for i, _, _ in rows})
        if missing:
            raise InvalidInput(f"item {in_short(order[missing[0]])} has no vote; leave it out, or give its votes")
        return rows

    @classmethod
    def of(cls, votes: Any) -> Votes:
        """Votes with their rule; a table alone goes by the majority."""
        return votes if isinstance(votes, cls) else cls(votes)

    @classmethod
    def planned(cls, labels: Values, *, each: int, most: int, right: float = 1.0, seed: int = 0) -> Votes:
        """Votes as a plan would give them: what it would buy can be certified before anybody is paid.

        Parameters
        ----------
        labels : (m,) array
            What counts as right.
        each : int
            Votes for each item.
        most : int
            No annotator gives more votes than this. As many annotators share the work as that takes.
        right : float
            How often a vote is right; all other labels are equally probable.
        seed : int

        Examples
        --------
        >>> from labelcert import Votes
        >>> votes = Votes.planned(["jazz", "rock"] * 10, each=3, most=6, right=0.8)
        >>> len(votes.rows), len(votes.annotators), len(votes.labels)
        (60, 10, 20)
        """
        array = as_labels(labels)
        classes, codes = np.unique(array, return_inverse=True)
        m, each, most = array.size, whole_number("each", each, 1), whole_number("most", most, 1)
        annotators, chance = -(-m * each // most), real_number(right)
        if annotators < each:
            raise InvalidInput(
                f"{each} votes for each item need {each} annotators, and {annotators} give all of them with up to "
                f"{most} votes each; give a smaller most"
            )
        if chance is None or not 0.0 <= chance <= 1.0:
            raise InvalidInput(f"right must be a rate between 0 and 1, got {in_short(right)}")
        rng = np.random.default_rng(whole_number("seed", seed))
        order = rng.permutation(m)
        seats = np.arange(m * each) % annotators  # of one item, nobody has two
        off = rng.integers(1, max(2, classes.size), (m, each))
        says = np.where(
            rng.random((m, each)) < chance, codes[order][:, None], (codes[order][:, None] + off) % classes.size
        )
        rows = zip(np.repeat(order, each).tolist(), seats.tolist(), classes[says.ravel()].tolist(), strict=True)
        return cls(list(rows))

    def describe(self) -> dict[str, Any]:
        """In plain JSON values, as certificates record it; of a callable, that there is one."""
        return {
            "votes": [[i, str(who), str(label)] for i, who, label in self.rows],
            "ties": self.ties if isinstance(self.ties, str) else [str(label) for label in self.ties],
            "weights": None if self.weights is None else {str(who): float(w) for who, w in self.weights.items()},
            "aggregate": self.aggregate is not None,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], named: Mapping[str, Any]) -> Votes:
        """From what :meth:`describe` returned, with the labels that its words stand for."""
        if plain["aggregate"]:
            raise InvalidInput("the votes are put together by a function, which no file holds; give the threat again")
        ties = plain["ties"]
        return cls(
            [(i, who, named[label]) for i, who, label in plain["votes"]],
            ties if isinstance(ties, str) else [named[label] for label in ties],
            plain["weights"],
        )

    @cached_property
    def annotators(self) -> list[Any]:
        """Their names, in the order of their texts."""
        return _by_text({who for _, who, _ in self.rows})

    @cached_property
    def labels(self) -> Values:
        """The label of each item."""
        ballots = self.ballots(np.unique(as_labels([label for _, _, label in self.rows])))
        return np.asarray(ballots.classes[ballots.labels])

    def ballots(self, classes: Values) -> Ballots:
        """The same with positions for items, annotators and classes."""
        code = {value: k for k, value in enumerate(classes.tolist())}
        strange = [label for _, _, label in self.rows if _plain(label) not in code]
        if strange:
            raise InvalidInput(
                f"{strange.count(strange[0])} votes are for {in_short(strange[0])}, which is the label of no item, so "
                "no model knows that class; leave these votes out"
            )
        known = {who: k for k, who in enumerate(self.annotators)}
        weights = dict.fromkeys(self.annotators, 1.0) | dict(self.weights or {})
        for who in weights:
            if who not in known:
                raise InvalidInput(f"weights name the annotator {in_short(who)}, who votes on nothing")
        counts, _ = whole_multiples("weights", [weights[who] for who in self.annotators])
        return Ballots(
            classes=classes,
            annotators=tuple(self.annotators),
            item=np.array([i for i, _, _ in self.rows], dtype=np.int64),
            who=np.array([known[who] for _, who, _ in self.rows], dtype=np.int64),
            says=np.array([code[_plain(label)] for _, _, label in self.rows], dtype=np.int64),
            weights=counts,
            rank=_ranks(self.ties, code),
            aggregate=self.aggregate,
        )


@dataclass(frozen=True, eq=False)
class Ballots:
    """V votes of A annotators on m items in K classes, sorted by item."""

    classes: Values
    annotators: tuple[Any, ...]
    item: Int
    who: Int
    """(V,) the annotator of each vote; -1 for one that has none."""
    says: Int
    """(V,) the class that each vote is for."""
    weights: Int
    """(A,) what the votes of each annotator count."""
    rank: Int
    """(K,) of classes with as many votes, the one with the lowest rank wins."""
    aggregate: Callable[[dict[Any, Any]], Any] | None = None

    @classmethod
    def one_each(cls, annotators: Sequence[Any], codes: Int, classes: Values) -> Ballots:
        """One vote for each label, of the annotator who gave it; None: of nobody who could lie."""
        plain = [None if is_missing(who) else _plain(who) for who in annotators]
        names = _by_text({who for who in plain if who is not None})
        known = {who: k for k, who in enumerate(names)}
        return cls(
            classes=classes,
            annotators=tuple(names),
            item=np.arange(codes.size),
            who=np.array([-1 if who is None else known[who] for who in plain], dtype=np.int64),
            says=codes.astype(np.int64),
            weights=np.ones(len(names), dtype=np.int64),
            rank=np.arange(classes.size),
        )

    def __post_init__(self) -> None:
        if self.aggregate is not None:
            votes = int(np.bincount(self.item).max())
            if float(self.classes.size) ** votes > MOST_ANSWERS:
                raise InvalidInput(
                    f"aggregate would be asked about {self.classes.size}^{votes} ways to vote on one item, and at most "
                    f"{MOST_ANSWERS} are; leave it out (majority), or use weights"
                )

    @property
    def m(self) -> int:
        """Number of items."""
        return int(self.item[-1]) + 1

    @property
    def lone(self) -> bool:
        """Whether no item has more than one vote."""
        return bool(self.item.size == self.m)

    @cached_property
    def labels(self) -> Int:
        """(m,) the class of each item."""
        return self.outcome(self.says)

    @cached_property
    def _starts(self) -> Int:
        return np.searchsorted(self.item, np.arange(self.m + 1)).astype(np.int64)

    @cached_property
    def _counts(self) -> Int:
        """(V,) what each vote counts; a vote of nobody counts 1."""
        return np.where(self.who < 0, 1, self.weights[self.who]) if self.weights.size else np.ones_like(self.who)

    def outcome(self, says: Int) -> Int:
        """(m,) the class of each item, if the votes were for other classes."""
        if self.aggregate is not None:
            return np.array([self._asked(i, says[self._votes(i)]) for i in range(self.m)], dtype=np.int64)
        totals = np.zeros((self.m, self.classes.size), dtype=np.int64)
        np.add.at(totals, (self.item, says), self._counts)
        return np.asarray(self._standing(totals).argmax(axis=1))

    def _votes(self, i: int) -> slice:
        return slice(self._starts[i], self._starts[i + 1])

    def _standing(self, totals: Int) -> Int:
        """Totals of classes, so that ties are broken."""
        return totals * self.classes.size - self.rank

    def _asked(self, i: int, says: Int) -> int:
        """What the callable makes of votes on item ``i``."""
        assert self.aggregate is not None
        names = (None if who < 0 else self.annotators[who] for who in self.who[self._votes(i)])
        found = self.aggregate(dict(zip(names, self.classes[says].tolist(), strict=True)))
        at = np.flatnonzero(self.classes == found)
        if at.size != 1:
            raise InvalidInput(
                f"aggregate must return one of the labels {self.classes.tolist()}, got {in_short(found)} for item {i}"
            )
        return int(at[0])

    def digest(self) -> bytes:
        """Everything about the votes that decides an answer; a callable by its answers."""
        arrays = [self.item, self.who, self.says, self.weights, self.rank]
        if self.aggregate is not None:
            arrays += [self.labels, np.where(np.isinf(self.fewest), 0, self.fewest)]
        return b"|".join(np.ascontiguousarray(array, dtype="<i8").tobytes() for array in arrays)

    def owned_by(self, owners: Bool) -> Bool:
        """(V,) which votes some of the (A,) annotators cast."""
        return np.append(owners, False)[self.who]

    def attainable(self, owners: Bool) -> Bool:
        """(s, m, K) which class each item can be given by each of s sets of annotators, (s, A); its own at least."""
        if self.aggregate is not None:
            return np.stack([self._by_asking(one) for one in owners])
        s, K = owners.shape[0], self.classes.size
        totals = np.zeros((self.m, K), dtype=np.int64)
        np.add.at(totals, (self.item, self.says), self._counts)
        theirs = np.asarray(owners.astype(np.int64) @ self._cast).reshape(s, self.m, K)
        rest = totals - theirs
        with_all = self._standing(rest + theirs.sum(axis=2, keepdims=True))
        top = np.partition(self._standing(rest), K - 2, axis=2)[:, :, K - 2 :]
        standing = self._standing(rest)
        rival = np.where(standing == top[:, :, 1:], top[:, :, :1], top[:, :, 1:])
        return np.asarray(with_all > rival)

    @cached_property
    def _cast(self) -> scipy.sparse.csr_array:
        """(A, m·K) what each annotator adds to the total of each class of each item."""
        own = self.who >= 0
        cells = self.item[own] * self.classes.size + self.says[own]
        shape = (len(self.annotators), self.m * self.classes.size)
        return scipy.sparse.csr_array((self._counts[own], (self.who[own], cells)), shape=shape)

    def _by_asking(self, owners: Bool) -> Bool:
        may = np.zeros((self.m, self.classes.size), dtype=bool)
        for i in range(self.m):
            may[i, list(self._outcomes(i, tuple(np.flatnonzero(self.owned_by(owners)[self._votes(i)]).tolist())))] = (
                True
            )
        return may

    @cached_property
    def _known(self) -> dict[tuple[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
        return {}

    def _outcomes(self, i: int, seats: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
        """Each class that the votes at some seats of item ``i`` can give it, and votes that do."""
        key = (i, seats)
        if key not in self._known:
            found: dict[int, tuple[int, ...]] = {}
            for answer in itertools.product(range(self.classes.size), repeat=len(seats)):
                says = self.says[self._votes(i)].copy()
                says[list(seats)] = answer
                found.setdefault(self._asked(i, says), answer)
            self._known[key] = found
        return self._known[key]

    def ways(self, i: int, c: int, owners: Bool) -> Iterator[tuple[Int, Int]]:
        """Votes on item ``i`` that these annotators change, and to what, so that it becomes ``c``: the fewest first."""
        votes = np.arange(self._starts[i], self._starts[i + 1])
        own = np.flatnonzero(self.owned_by(owners)[votes])
        sizes: Iterable[int] = range(1, own.size + 1) if own.size <= SUBSETS_OF else (own.size,)
        for size in sizes:
            for seats in itertools.combinations(own.tolist(), size):
                answer: Any = c
                if self.aggregate is not None:
                    outcomes = self._outcomes(i, seats)
                    if c not in outcomes:
                        continue
                    answer = outcomes[c]
                says = self.says[votes].copy()
                says[list(seats)] = answer
                if self._one(i, says) == c:
                    chosen = votes[list(seats)]
                    different = says[list(seats)] != self.says[chosen]
                    yield chosen[different], says[list(seats)][different]

    def _one(self, i: int, says: Int) -> int:
        if self.aggregate is not None:
            return self._asked(i, says)
        counts = self._counts[self._votes(i)]
        totals = np.bincount(says, weights=counts, minlength=self.classes.size).astype(np.int64)
        return int(self._standing(totals).argmax())

    @cached_property
    def fewest(self) -> Float:
        """(V, K) the fewest votes on an item, this one among them, that can give it each class: at least so many.

        Infinite where no votes can.
        """
        V, K = self.item.size, self.classes.size
        fewest = np.ones((V, K))
        if self.lone and self.aggregate is None:
            return fewest
        for i in range(self.m):
            votes = np.arange(self._starts[i], self._starts[i + 1])
            if votes.size <= SUBSETS_OF:
                fewest[votes] = self._fewest_of(i, votes)
        return fewest

    def _fewest_of(self, i: int, votes: Int) -> Float:
        K, size = self.classes.size, votes.size
        chosen = (np.arange(2**size)[:, None] >> np.arange(size)) & 1
        if self.aggregate is not None:
            may = np.zeros((2**size, K), dtype=bool)
            for k, one in enumerate(chosen):
                may[k, list(self._outcomes(i, tuple(np.flatnonzero(one).tolist())))] = True
        else:
            seats = replace(
                self,
                annotators=tuple(range(size)),
                item=np.zeros(size, dtype=np.int64),
                who=np.arange(size),
                says=self.says[votes],
                weights=self._counts[votes],
            )
            may = seats.attainable(chosen.astype(bool))[:, 0]
        need = np.where(may, chosen.sum(axis=1)[:, None], np.inf)
        return np.stack([need[chosen[:, v] == 1].min(axis=0) for v in range(size)])


def whole_multiples(name: str, values: Sequence[Any], largest: int = LARGEST_SUM) -> tuple[Int, Fraction]:
    """Positive numbers as whole multiples of one unit, which is 1 where they are whole, and the unit.

    Refused where they add up to more than ``largest`` units.

    Examples
    --------
    >>> whole_multiples("prices", [0.5, 2])
    (array([1, 4]), Fraction(1, 2))
    """
    numbers = [real_number(value) for value in values]
    for value, number in zip(values, numbers, strict=True):
        if number is None or not number > 0:
            raise InvalidInput(f"{name} must be positive numbers, got {in_short(value)}")
    exact = [Fraction(str(number)) for number in numbers]
    unit = Fraction(1, lcm(*(number.denominator for number in exact)) if exact else 1)
    whole = [int(number / unit) for number in exact]
    if sum(whole) > largest:
        digits = floor(log10(largest / sum(exact)))
        advice = f"round them: numpy.maximum(numpy.round({name}, {digits}), {10.0**-digits:g})"
        raise InvalidInput(
            f"{name} add up to {sum(whole)} units{of_unit(unit)}, more than {largest}; "
            + (advice if digits >= 0 else "divide them by a common unit")
        )
    return np.array(whole, dtype=np.int64), unit


def of_unit(unit: Fraction) -> str:
    """A unit behind the word "units", unless it is 1.

    Examples
    --------
    >>> of_unit(Fraction(1, 2))
    ' of 0.5'
    """
    return "" if unit == 1 else f" of {float(unit):g}"


def _rows(table: Any, *, wide_items: bool) -> list[tuple[Any, Any, Any]]:
    """Item, annotator and label of each vote of a table of any form, in plain values."""
    triples: Iterable[Any]
    if hasattr(table, "columns"):
        if set(LONG) <= {str(column) for column in table.columns}:
            triples = zip(*(table[column] for column in LONG), strict=True)
        else:
            index = range(len(table)) if wide_items else list(table.index)
            triples = (
                (item, who, label)
                for who in table.columns
                for item, label in zip(index, table[who], strict=True)
                if not is_missing(label)
            )
    else:
        triples = _triples(table)
    rows = [(_plain(item), _plain(who), _plain(label)) for item, who, label in triples]
    if not rows:
        raise InvalidInput("votes is empty: give at least one vote for each label")
    for row in rows:
        for what, value in zip(LONG, row, strict=True):
            if is_missing(value) or not isinstance(value, Hashable):
                raise InvalidInput(f"votes must have a name or a number for each {what}, got {in_short(value)}")
    return rows


def _triples(table: Any) -> list[Any]:
    try:
        rows = [] if isinstance(table, str | Mapping) else [tuple(row) for row in table if not isinstance(row, str)]
    except TypeError:
        rows = []
    if not rows or any(len(row) != len(LONG) for row in rows):
        raise InvalidInput(
            "votes must be a table with the columns item, annotator and label, a table with a row for each item and a "
            f"column for each annotator, or a list of (item, annotator, label), got {in_short(table)}"
        )
    return rows


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _in_order(values: set[Any], what: str) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        raise InvalidInput(f"{what} must be all words or all numbers, got {in_short(list(values)[:3])}") from None


def _by_text(annotators: set[Any]) -> list[Any]:
    """Sorted by the texts with which certificates name them."""
    if len({str(who) for who in annotators}) < len(annotators):
        raise InvalidInput("annotators must have different names, also as words: 1 and '1' are alike; rename them")
    return sorted(annotators, key=str)


def _ranks(ties: str | Sequence[Any], code: dict[Any, int]) -> Int:
    if isinstance(ties, str):
        if ties != "first":
            raise InvalidInput(f"ties must be 'first' or the labels in the order that breaks ties, got {ties!r}")
        return np.arange(len(code))
    order = [_plain(label) for label in ties]
    if sorted(map(str, order)) != sorted(map(str, code)):
        raise InvalidInput(f"ties must list each label once, {list(code)}, got {in_short(order)}")
    ranks = np.empty(len(code), dtype=np.int64)
    ranks[[code[label] for label in order]] = np.arange(len(code))
    return ranks
