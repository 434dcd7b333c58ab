"""What the adversary may do to the labels.

:class:`Threat` is what a user writes down; :class:`Adversary` is the same, resolved against one set of labels,
as engines read it.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Bool, Float, Int, Values
from labelcert.checking import flag, in_short, is_flat, is_missing, unmasked, whole_number
from labelcert.errors import InvalidInput
from labelcert.problem.ballots import Votes, of_unit, whole_multiples
from labelcert.problem.relabelling import REMOVED, Relabelling

MAX_TOTAL_COST = 100_000


@dataclass(frozen=True, eq=False)
class Threat:
    """Which labels the adversary may change, at what price, and within which limits.

    The default is the paper's adversary: any label, one unit each.

    Parameters
    ----------
    trusted : (m,) boolean array, optional
        True where a label is verified and cannot be changed.
    costs : (m,) array, optional
        Price of changing each label, any positive numbers. Budgets and radii are then in these units; where some are
        not whole, in the largest unit of which all of them are multiples.
    allowed_flips : mapping, optional
        ``{label: labels it may become}``; a label that is not a key cannot be changed. ``{"spam": ["ham"]}`` lets
        the adversary hide spam but not invent it.
    allowed_targets : sequence of m entries, optional
        The labels that each single label may become: a list for each, or None where nothing restricts it. Together
        with ``allowed_flips``, both must allow a change.
    groups : sequence of m hashable values, optional
        Where each label comes from (its annotator, say). None: from nowhere in particular.
    group_budgets : int or mapping from group to int, optional
        Most that may be spent inside each group, in the same units; groups without an entry have no limit of
        their own.
    annotators : sequence of m hashable values, optional
        Who gave each label; None: nobody who could lie. The adversary then owns annotators, and budgets and radii count
        them: whoever is owned may say anything.
    votes : DataFrame or Votes, optional
        The same where several annotators vote on each label: a table as :class:`labelcert.Votes` takes it, whose
        majority is the label; or a :class:`labelcert.Votes` with another rule.
    prices : mapping, optional
        With annotators: what it costs to own each; 1 for those without an entry. Any positive numbers, as ``costs``.
    trusted_annotators : collection, optional
        With annotators: those who are known to be honest.
    wrong_votes : int, optional
        With annotators: the most votes of one annotator that are changed. By default all may be.
    removable : bool or (m,) boolean array, optional
        Labels that may be removed, besides being changed; True: all but the trusted ones. It costs as much as a change.
        The model is then trained on the other labels alone, with the same ``C``; in a graph, the node stays.
    changes : bool
        Whether labels may be changed; False, with ``removable``: they may be removed, and nothing else.
    samples : bool
        Whether whole samples are at stake, with their features: budgets and radii then count samples that come or go,
        or whose label changes, into a known class; one whose features change counts twice. Only
        :func:`labelcert.certify_votes` and :class:`labelcert.CertifiedEnsemble` are certified against that.

    Examples
    --------
    >>> from labelcert import Threat
    >>> Threat(trusted=[True, False, False], costs=[1, 2, 2])
    Threat(trusted=1 of 3, costs=1..2)
    """

    trusted: npt.ArrayLike | None = None
    costs: npt.ArrayLike | None = None
    allowed_flips: Mapping[Any, Collection[Any]] | None = None
    groups: Sequence[Hashable] | None = None
    group_budgets: int | Mapping[Any, int] | None = None
    allowed_targets: Sequence[Collection[Any] | None] | None = None
    annotators: Sequence[Any] | None = None
    votes: Any = None
    prices: Mapping[Any, float] | None = None
    trusted_annotators: Collection[Any] | None = None
    wrong_votes: int | None = None
    removable: bool | npt.ArrayLike | None = None
    changes: bool = True
    samples: bool = False

    def __post_init__(self) -> None:
        if flag("samples", self.samples) and any(
            getattr(self, one.name) is not one.default for one in fields(self)[:-1]
        ):
            raise InvalidInput(
                "samples=True lets the adversary bring samples of their own, whatever is known about those that are "
                "there: leave out everything else"
            )

    @property
    def removes(self) -> bool:
        """Whether labels may be removed."""
        return self.removable is not None and self.removable is not False

    @property
    def owns_annotators(self) -> bool:
        """Whether budgets count annotators."""
        return self.annotators is not None or self.votes is not None

    def __repr__(self) -> str:
        parts = []
        if self.trusted is not None:
            mask = np.asarray(self.trusted)
            parts.append(f"trusted={int(np.count_nonzero(mask))} of {mask.size}")
        if self.costs is not None:
            costs = np.asarray(self.costs)
            parts.append(f"costs={costs.min()}..{costs.max()}" if costs.size else "costs=[]")
        if self.allowed_flips is not None:
            parts.append(f"allowed_flips={dict(self.allowed_flips)!r}")
        if self.groups is not None:
            parts.append(f"groups={len(set(self.groups))}")
        if self.group_budgets is not None:
            parts.append(f"group_budgets={self.group_budgets!r}")
        if self.allowed_targets is not None:
            parts.append(f"allowed_targets={sum(t is not None for t in self.allowed_targets)} lists")
        if self.annotators is not None:
            parts.append(f"annotators={len(set(_plain(self.annotators)) - {None})}")
        if self.votes is not None:
            voted = Votes.of(self.votes)
            parts.append(f"votes={len(voted.rows)} of {len(voted.annotators)} annotators")
        if self.removes:
            parts.append("removable=" + ("True" if self.removable is True else _some(self.removable)))
        if not self.changes:
            parts.append("changes=False")
        own = ("prices", "trusted_annotators", "wrong_votes")
        parts += [f"{name}={getattr(self, name)!r}" for name in own if getattr(self, name) is not None]
        parts += ["samples=True"] * self.samples
        return f"Threat({', '.join(parts)})"

    def in_words(self) -> list[str]:
        """What the adversary may do, a sentence for each limit.

        Examples
        --------
        >>> from labelcert import Threat
        >>> Threat(trusted=[True, False, False]).in_words()
        ['1 of 3 labels is trusted: it cannot be changed.']
        >>> Threat().in_words()
        ['Any label can be changed, into any other class, at a cost of 1.']
        """
        words = []
        if self.trusted is not None:
            mask = np.asarray(self.trusted)
            count = int(np.count_nonzero(mask))
            is_, it = ("is", "it") if count == 1 else ("are", "they")
            words.append(f"{count} of {mask.size} labels {is_} trusted: {it} cannot be changed.")
        if self.costs is not None:
            costs, unit = whole_multiples("costs", np.asarray(self.costs).tolist())
            words.append(
                f"Changing a label costs {costs.min(initial=1)} to {costs.max(initial=1)} units{of_unit(unit)}."
            )
        for source, targets in (self.allowed_flips or {}).items():
            words.append(f"Labels {source} may become {', '.join(map(str, _listed(targets)))}.")
        if self.allowed_flips is not None:
            words.append("No other label can be changed.")
        if self.allowed_targets is not None:
            count = sum(targets is not None for targets in self.allowed_targets)
            words.append(f"{count} labels have a list of their own of what they may become.")
        if self.groups is not None:
            words.append(f"Labels come from {len(set(_plain(self.groups)) - {None})} groups.")
        if isinstance(self.group_budgets, Mapping):
            words += [
                f"At most {budget} may be spent in group {group}." for group, budget in self.group_budgets.items()
            ]
        elif self.group_budgets is not None:
            words.append(f"At most {self.group_budgets} may be spent in each group.")
        words += [*self._annotators_in_words(), *self._removal_in_words()]
        if self.samples:
            words.append(
                "Samples can be inserted, removed and relabelled at a cost of 1 each; one whose features change counts "
                "twice."
            )
        return words or ["Any label can be changed, into any other class, at a cost of 1."]

    def _removal_in_words(self) -> list[str]:
        if not self.removes:
            return []
        which = "Any label" if self.removable is True else f"{_some(self.removable)} labels"
        also, alone = ("also ", "") if self.changes else ("", " No label can be changed.")
        return [f"{which} can {also}be removed: the model is then trained on the others.{alone}"]

    def _annotators_in_words(self) -> list[str]:
        words = []
        if self.owns_annotators:
            words.append(
                "Budgets count annotators, whose votes can be anything; "
                + ("a label is what its votes make it." if self.votes is not None else "each label has one annotator.")
            )
        if self.prices is not None:
            _, unit = whole_multiples("prices", [1, *self.prices.values()])
            prices = ", ".join(f"{who}: {price}" for who, price in self.prices.items())
            words.append(f"Annotators cost {prices}{', in units' + of_unit(unit) if unit != 1 else ''}.")
        if self.trusted_annotators is not None:
            words.append(f"Honest annotators: {', '.join(map(str, self.trusted_annotators))}.")
        if self.wrong_votes is not None:
            words.append(f"At most {self.wrong_votes} votes of each annotator are changed.")
        return words

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in self.in_words())
        return f"<div><strong>Threat</strong><ul>{lines}</ul></div>"

    def resolve(self, labels: Values, classes: Values) -> Adversary:
        """Check everything against (m,) labels and turn it into arrays; the (K,) classes are their distinct values.

        Budgets that count annotators are left to :func:`labelcert.problem.owners.resolved`.
        """
        m = labels.size
        targets = self._targets(labels, classes)
        if not self.changes and not self.removes:
            raise InvalidInput("changes=False leaves nothing to do for the adversary; give removable=True, too")
        if self.removes:
            targets = np.column_stack([targets, self._removable(labels, classes)])
        flippable = ~_mask("trusted", self.trusted, m) & targets.any(axis=1)
        costs = _costs(self.costs, m)
        if self.groups is None and self.group_budgets is not None:
            raise InvalidInput("group_budgets needs groups: give the group of each label as groups=[...]")
        group_of, names = _groups(self.groups, m)
        caps = _caps(self.group_budgets, names)
        limited = np.array([g for g, cap in enumerate(caps) if cap is not None], dtype=np.int64)
        renumber = np.full(len(names) + 1, -1, dtype=np.int64)
        renumber[limited] = np.arange(limited.size)
        index = np.flatnonzero(flippable)
        for name in ("prices", "trusted_annotators", "wrong_votes"):
            if getattr(self, name) is not None:
                raise InvalidInput(f"{name} is about annotators: give annotators or votes, too")
        groups = renumber[group_of[index]]
        return Adversary(
            m=m,
            labels=index,
            costs=costs[index],
            groups=groups,
            group_caps=np.array([min(caps[g] or 0, MAX_TOTAL_COST) for g in limited], dtype=np.int64),
            never=int(costs.sum()) + 1,
            targets=targets[index],
            removes=self.removes,
        )

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], labels: Values, classes: Values) -> Threat:
        """From what :meth:`describe` returned, for labels whose classes are written as there."""
        named = {str(value): value for value in classes}

        def classes_of(texts: Iterable[str]) -> list[Any]:
            return [named[text] for text in texts]

        trusted = None
        if plain["trusted"] is not None:
            trusted = np.zeros(labels.size, dtype=bool)
            trusted[plain["trusted"]] = True
        flips, targets = plain["allowed_flips"], plain["allowed_targets"]
        return cls(
            trusted=trusted,
            costs=plain["costs"],
            allowed_flips=None if flips is None else {named[a]: classes_of(bs) for a, bs in flips},
            groups=plain["groups"],
            group_budgets=plain["group_budgets"],
            allowed_targets=None if targets is None else [None if t is None else classes_of(t) for t in targets],
            annotators=plain.get("annotators"),
            votes=None if (votes := plain.get("votes")) is None else Votes.from_plain(votes, named),
            prices=plain.get("prices"),
            trusted_annotators=plain.get("trusted_annotators"),
            wrong_votes=plain.get("wrong_votes"),
            removable=_from_indices(plain.get("removable"), labels.size),
            changes=plain.get("changes", True),
            samples=plain.get("samples", False),
        )

    def describe(self) -> dict[str, Any]:
        """The threat in plain JSON values, as certificates record it."""

        def texts(labels: Any) -> list[str]:
            return [str(label) for label in _listed(labels)]

        written: dict[str, Callable[[Any], Any]] = {
            "trusted": lambda mask: np.flatnonzero(np.asarray(mask)).tolist(),
            "costs": lambda costs: np.asarray(costs).tolist(),
            "allowed_flips": lambda flips: [[str(a), texts(bs)] for a, bs in flips.items()],
            "allowed_targets": lambda lists: [None if targets is None else texts(targets) for targets in lists],
            "groups": lambda groups: [None if g is None else str(g) for g in _plain(groups)],
            "group_budgets": lambda caps: (
                {str(g): int(b) for g, b in caps.items()} if isinstance(caps, Mapping) else int(caps)
            ),
        }
        plain = {
            name: None if (given := getattr(self, name)) is None else write(given) for name, write in written.items()
        }
        if self.removes:
            plain["removable"] = True if self.removable is True else np.flatnonzero(np.asarray(self.removable)).tolist()
            plain["changes"] = bool(self.changes)
        return plain | self._annotators_described() | ({"samples": True} if self.samples else {})

    def _annotators_described(self) -> dict[str, Any]:
        """What is only written down where budgets count annotators."""
        plain: dict[str, Any] = {}
        if self.annotators is not None:
            plain["annotators"] = [None if who is None else str(who) for who in _plain(self.annotators)]
        if self.votes is not None:
            plain["votes"] = Votes.of(self.votes).describe()
        if self.prices is not None:
            plain["prices"] = {str(who): float(price) for who, price in self.prices.items()}
        if self.trusted_annotators is not None:
            plain["trusted_annotators"] = [str(who) for who in _listed(self.trusted_annotators)]
        if self.wrong_votes is not None:
            plain["wrong_votes"] = int(self.wrong_votes)
        return plain

    def _targets(self, labels: Values, classes: Values) -> Bool:
        """(m, K) which classes each label may become."""
        may: Bool = (labels[:, None] != classes[None, :]) & flag("changes", self.changes)
        if self.allowed_flips is not None:
            may &= self._by_label(labels, classes)
        if self.allowed_targets is not None:
            may &= self._by_index(labels.size, classes)
        return may

    def _removable(self, labels: Values, classes: Values) -> Bool:
        """(m,) which labels may be removed."""
        if str(REMOVED) in map(str, classes.tolist()):
            raise InvalidInput(
                f"a class is called {str(REMOVED)!r}, which is what removed labels are called; rename it"
            )
        given = None if self.removable is True else self.removable
        return np.ones(labels.size, dtype=bool) if given is None else _mask("removable", given, labels.size)

    def _by_label(self, labels: Values, classes: Values) -> Bool:
        if not isinstance(self.allowed_flips, Mapping):
            raise InvalidInput(
                "allowed_flips must be a mapping {label: [labels it may become]}, "
                f"got {type(self.allowed_flips).__name__}"
            )
        may = np.zeros((labels.size, classes.size), dtype=bool)
        for source, targets in self.allowed_flips.items():
            columns = _classes_of("allowed_flips", [source, *_listed(targets)], classes)
            may[np.ix_(labels == classes[columns[0]], columns[1:])] = True
        return may

    def _by_index(self, m: int, classes: Values) -> Bool:
        lists = self.allowed_targets
        assert lists is not None
        if isinstance(lists, str | Mapping) or _length(lists) != m:
            raise InvalidInput(
                f"allowed_targets must have one entry per label ({m}): a list of labels that it may become, or None; "
                f"got {type(lists).__name__ if isinstance(lists, str | Mapping) else f'{_length(lists)} entries'}"
            )
        may = np.zeros((m, classes.size), dtype=bool)
        for i, targets in enumerate(lists):
            if targets is None:
                may[i] = True
            else:
                may[i, _classes_of("allowed_targets", _listed(targets), classes)] = True
        return may


@dataclass(frozen=True, eq=False)
class Adversary:
    """A threat resolved against m labels."""

    m: int
    labels: Int
    """(ν,) indices of the labels that may be flipped, ascending."""
    costs: Int
    groups: Int
    """(ν,) the limited group of each, -1 for none."""
    group_caps: Int
    """(G,) budgets of the limited groups."""
    never: int
    """The radius that means "no admissible change of labels does it": total cost of all m labels, plus one."""
    targets: Bool
    """(ν, K) which classes each of these labels may become; one more column where labels may be removed."""
    removes: bool = field(default=False, kw_only=True)
    """Whether there is that column."""

    def toggling(self, codes: Int, c: int) -> Adversary:
        """The same adversary on the labels that can enter or leave class ``c``, of labels with (m,) classes."""
        part = self.only(np.flatnonzero((codes[self.labels] == c) | self.targets[:, c]).astype(np.int64))
        return replace(part, targets=np.ones((part.labels.size, 2), dtype=bool))

    def only(self, positions: Int) -> Adversary:
        """The adversary who leaves all other labels alone."""
        return replace(
            self,
            labels=self.labels[positions],
            costs=self.costs[positions],
            groups=self.groups[positions],
            targets=self.targets[positions],
        )

    def among(self, index: Int) -> Adversary:
        """The same adversary on some labels alone, which are numbered anew in their order."""
        kept = self.only(np.flatnonzero(np.isin(self.labels, index)).astype(np.int64))
        return replace(kept, m=int(index.size), labels=np.searchsorted(index, kept.labels).astype(np.int64))

    def digested(self) -> bytes:
        """What beside labels, costs, groups and targets decides an answer."""
        return b"removable" if self.removes else b""

    def least_cost(self, positions: Int) -> int:
        """The least budget that may pay for changing some labels, budgets of groups aside."""
        return int(self.costs[positions].sum())

    @property
    def full_budget(self) -> int:
        """The largest budget worth asking for: the total cost of all labels."""
        return self.never - 1

    @property
    def spendable(self) -> int:
        """The most that can be spent, with the budgets of groups: a larger budget buys nothing more."""
        free = int(self.costs[self.groups < 0].sum())
        return free + int(np.minimum(self.group_totals, self.group_caps).sum())

    @property
    def group_totals(self) -> Int:
        """(G,) cost of flipping all of each limited group."""
        return self.spent(np.arange(self.labels.size))

    def spent(self, positions: Int) -> Int:
        """(G,) what changing some labels (by their positions) costs in each limited group."""
        totals = np.zeros(self.group_caps.size, dtype=np.int64)
        own = positions[self.groups[positions] >= 0]
        np.add.at(totals, self.groups[own], self.costs[own])
        return totals

    def cost(self, change: Relabelling) -> int:
        """What a relabelling costs."""
        return int(self.costs[change.positions].sum())

    def admits(self, change: Relabelling, budget: int) -> bool:
        """Whether the threat allows a relabelling within a budget: each label once, its target, and every price."""
        p, new = change.positions, change.targets
        if p.size and not (p.min() >= 0 and p.max() < self.labels.size):
            return False
        if p.size and not (new.min() >= 0 and new.max() < self.targets.shape[1]):
            return False
        if len(set(p.tolist())) != p.size or not self.targets[p, new].all():
            return False
        return self.affords(p, budget)

    def affords(self, positions: Int, budget: int) -> bool:
        """Whether a budget, and those of the groups, pay for changing some labels (by their positions)."""
        return bool(self.costs[positions].sum() <= budget and np.all(self.spent(positions) <= self.group_caps))

    def affordable(self, left: int, changed: Int | None = None) -> Bool:
        """(ν,) which labels can be changed with so much of the budget left, one at a time.

        Labels that are ``changed`` already use up the budgets of their groups, and cannot be changed again.
        """
        changed = np.zeros(0, dtype=np.int64) if changed is None else changed
        caps, grouped = self.group_caps - self.spent(changed), self.groups >= 0
        may = self.costs <= left
        may[grouped] &= self.costs[grouped] <= caps[self.groups[grouped]]
        may[changed] = False
        return may

    def children(self, positions: Int, budget: int) -> Int:
        """(c, 2) each later label that the budgets still pay for, and each class that it may become."""
        may = self.affordable(budget - int(self.costs[positions].sum()), positions)
        may[: positions[-1] + 1 if positions.size else 0] = False
        return np.argwhere(self.targets & may[:, None]).astype(np.int64)

    def sets(self, size: int, budget: int) -> Iterator[Int]:
        """All admissible sets of a given number of labels, as ascending positions, one after the other."""

        def extended(positions: Int, more: int) -> Iterator[Int]:
            if more == 0:
                yield positions
                return
            later = np.unique(self.children(positions, budget)[:, 0])
            for position in later[: later.size - more + 1]:
                yield from extended(np.append(positions, position), more - 1)

        return extended(np.zeros(0, dtype=np.int64), size)

    def changes(self, positions: Int) -> Iterator[Relabelling]:
        """All ways to change some labels, each of them."""
        options = [np.flatnonzero(self.targets[position]) for position in positions]
        for targets in itertools.product(*options):
            yield Relabelling(positions, np.array(targets, dtype=np.int64))

    def relabellings(self, size: int, budget: int) -> Iterator[Relabelling]:
        """All admissible relabellings of a given number of labels, one after the other."""
        for positions in self.sets(size, budget):
            yield from self.changes(positions)

    def flipped(self, positions: Int) -> Relabelling:
        """Some labels, each changed to the first class that it may become: the other one, where there are two."""
        return Relabelling(positions, self.targets[positions].argmax(axis=1).astype(np.int64))

    def payable(self, budget: int) -> Bool:
        """(B + 1,) whether some labels cost exactly so much together; no attack becomes possible at other budgets."""
        sums = np.zeros(budget + 1, dtype=bool)
        sums[0] = True
        for cost in self.costs.tolist():
            if cost <= budget:
                sums[cost:] |= sums[: budget + 1 - cost].copy()
        return sums

    def next_payable(self, budget: int) -> Int:
        """(B + 2,) the least cost of some labels that is at least so much; ``budget + 1`` where none is within it."""
        costs = np.append(np.where(self.payable(budget), np.arange(budget + 1), budget + 1), budget + 1)
        return np.minimum.accumulate(costs[::-1])[::-1]

    def most_flips(self, budget: int) -> int:
        """The most labels that a budget can change (group budgets are ignored: an upper bound)."""
        return int(np.searchsorted(np.cumsum(np.sort(self.costs)), budget, side="right"))

    def count_sets(self, budget: int, options: Int | None = None) -> float:
        """Number of admissible sets of flips within ``budget`` (exact up to 2**53).

        With ``options`` (ν,), the number of ways to change each label, the number of relabellings instead.
        """
        return float(self.count_by_budget(budget, options)[-1])

    def count_by_budget(self, budget: int, options: Int | None = None) -> Float:
        """(B + 1,) the same for every budget up to ``budget``."""
        options = np.ones(self.labels.size, dtype=np.int64) if options is None else options
        ways = self._count_group(-1, budget, options)
        for group, cap in enumerate(self.group_caps.tolist()):
            own = self._count_group(group, min(budget, cap), options)
            ways = np.minimum(np.convolve(ways, np.trim_zeros(own, "b"))[: budget + 1], _COUNT_CEILING)
        return np.cumsum(ways)

    def _count_group(self, group: int, cap: int, options: Int) -> Float:
        """(cap + 1,) number of sets inside one group (-1: labels without one) of each cost."""
        ways, last = np.ones(1), cap
        members = self.groups == group
        most = int(options.max(initial=0)) + 1
        kinds, numbers = np.unique(self.costs[members] * most + options[members], return_counts=True)
        for kind, number in zip(kinds.tolist(), numbers.tolist(), strict=True):
            cost, choices = divmod(kind, most)
            ways = np.convolve(ways, _powers(cost, choices, number, last))[: last + 1]
            if ways.max() >= _COUNT_CEILING:
                last = int(np.argmax(ways >= _COUNT_CEILING))
                ways = ways[: last + 1]
        filled = np.full(cap + 1, 0.0 if last == cap else _COUNT_CEILING)
        filled[: ways.size] = np.minimum(ways, _COUNT_CEILING)
        return filled


def _powers(cost: int, choices: int, number: int, last: int) -> Float:
    """Coefficients of (1 + choices · x^cost)^number, up to x^last or to the first that nobody counts."""
    found, way = np.zeros(last + 1), 1
    for flips in range(min(number, last // max(cost, 1)) + 1):
        found[flips * cost] = way
        if way == 0 or way > _COUNT_CEILING:
            break
        way = way * (number - flips) // (flips + 1) * choices
    return found


_COUNT_CEILING = 1e150
"""Beyond this nobody counts; low enough that products and sums stay finite."""


def _listed(targets: Any) -> list[Any]:
    return list(targets) if isinstance(targets, Iterable) and not isinstance(targets, str | bytes) else [targets]


def _length(value: Any) -> int | None:
    """The length of a sequence; None for anything else."""
    try:
        return len(value)
    except TypeError:
        return None


def _classes_of(name: str, values: list[Any], classes: Values) -> list[int]:
    """Positions of some labels among the classes."""
    known = {value: k for k, value in enumerate(classes.tolist())}
    for value in values:
        if not isinstance(value, Hashable) or value not in known:
            raise InvalidInput(f"{name} names the label {in_short(value)}, but the labels are {list(known)}")
    return [known[value] for value in values]


def _some(mask: Any) -> str:
    return f"{int(np.count_nonzero(np.asarray(mask)))} of {np.size(mask)}"


def _from_indices(given: bool | Sequence[int] | None, m: int) -> bool | Bool | None:
    """A mask, as :meth:`Threat.describe` writes it down."""
    if given is None or given is True:
        return given
    mask = np.zeros(m, dtype=bool)
    mask[given] = True
    return mask


def _mask(name: str, mask: npt.ArrayLike | None, m: int) -> Bool:
    if mask is None:
        return np.zeros(m, dtype=bool)
    array = np.asarray(unmasked(name, mask))
    if array.dtype != np.bool_:
        raise InvalidInput(
            f"{name} must be a boolean mask with one entry per label, got dtype {array.dtype}; "
            f"from indices: mask = numpy.zeros({m}, bool); mask[indices] = True"
        )
    if array.shape != (m,):
        raise InvalidInput(f"{name} must have one entry per label, shape ({m},), got shape {array.shape}")
    return array


def _costs(costs: npt.ArrayLike | None, m: int) -> Int:
    if costs is None:
        return np.ones(m, dtype=np.int64)
    array = np.asarray(unmasked("costs", costs))
    if array.shape != (m,):
        raise InvalidInput(f"costs must have one entry per label, shape ({m},), got shape {array.shape}")
    return whole_multiples("costs", array.tolist(), MAX_TOTAL_COST)[0]


def _groups(groups: Sequence[Hashable] | None, m: int) -> tuple[Int, list[Hashable]]:
    """Index of each label's group (last index, one past the names: none) and the groups' names."""
    if groups is None:
        return np.zeros(m, dtype=np.int64), []
    if _length(groups) != m or not is_flat(unmasked("groups", groups)):
        raise InvalidInput(f"groups must have one entry per label ({m}), got {_length(groups) or in_short(groups)}")
    values = _plain(groups)
    names = list(dict.fromkeys(g for g in values if g is not None))
    known = {(g, str(g)) for g in values if g is not None}
    if not len(names) == len(known) == len({text for _, text in known}):  # certificates name them by words
        raise InvalidInput("groups must have different names, also as words: 1, 1.0 and '1' are alike; rename them")
    position = {g: k for k, g in enumerate(names)}
    return np.array([len(names) if g is None else position[g] for g in values], dtype=np.int64), names


def _plain(groups: Sequence[Hashable]) -> list[Hashable]:
    """Groups as plain values; NaN and its like, as tables have them for "none", as None."""
    values = [g.item() if isinstance(g, np.generic) else g for g in groups]
    for g in values:
        if not isinstance(g, Hashable):
            raise InvalidInput(f"groups must be names or numbers, got {in_short(g)}")
    return [None if is_missing(g) else g for g in values]


def _caps(budgets: int | Mapping[Any, int] | None, names: list[Hashable]) -> list[int | None]:
    if budgets is None:
        return [None] * len(names)
    mapping = dict(budgets) if isinstance(budgets, Mapping) else dict.fromkeys(names, budgets)
    for group, cap in mapping.items():
        if group not in names:
            raise InvalidInput(f"group_budgets names the group {group!r}, but the groups are {names}")
        mapping[group] = whole_number(f"the budget of group {group!r}", cap)
    return [mapping.get(g) for g in names]
