"""Metrics of predictions, and how good or bad they can be where some predictions are open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Float, Int, Text, Values
from labelcert.checking import as_labels, in_short, is_missing
from labelcert.errors import InvalidInput

Measure = Callable[[Int, Int, Int, Int], Any]
"""From numbers of true and false positives, false and true negatives, as arrays of one shape, to a value for each."""

NAMED = ("accuracy", "recall", "precision", "false_positive_rate")

MOST_PAIRS = 4_000_000
"""Pairs of numbers of true and false positives that a measure of the user's own is evaluated for, at most."""


@dataclass(frozen=True, eq=False)
class Metric:
    """A metric whose worst value is asked for: ``certify(..., metrics=[Metric("recall", ...)])``.

    The worst value is the lowest one, but the highest false positive rate, and the largest gap between groups.

    Attributes
    ----------
    measure : {"accuracy", "recall", "precision", "false_positive_rate"} or callable
        A callable takes the numbers of true positives, false positives, false negatives and true negatives, as arrays,
        and returns an array of values, of which the lowest is the worst. Precision is 0 where nothing is predicted
        positive.
    true_labels : (n,) array, optional
        Of the test nodes, in the labels' own values; by default those of the graph. Nodes without one do not count.
    positive : object
        The class that recall, precision and rates are about; by default, the second of two classes.
    groups : (n,) array, optional
        What group each test node belongs to (None: none). The metric is then the largest difference between the values
        of two groups.

    Examples
    --------
    >>> import labelcert
    >>> recall = labelcert.Metric("recall", ["cat", "dog"], positive="dog")
    >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0, metrics=[recall])
    >>> cert.worst_case("recall", positive="dog").lower.tolist()
    [1.0, 0.0, 0.0]
    """

    measure: str | Measure = "accuracy"
    true_labels: npt.ArrayLike | None = None
    _: KW_ONLY
    positive: Any = None
    groups: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        if not callable(self.measure) and self.measure not in NAMED:
            raise InvalidInput(
                f"a metric is {', '.join(map(repr, NAMED))} or a function of true and false positives, false and true "
                f"negatives, got {in_short(self.measure)}"
            )
        if self.positive is not None and self.measure == "accuracy":
            raise InvalidInput("accuracy has no positive class; leave positive out")

    @classmethod
    def of(cls, given: Metric | str | Measure) -> Metric:
        """A metric, or the one that a name or a function stands for."""
        return given if isinstance(given, Metric) else cls(given)

    @property
    def name(self) -> str:
        """What it is called."""
        return self.measure if isinstance(self.measure, str) else f"{getattr(self.measure, '__name__', 'measure')}()"

    def counted(self, truth: Int, classes: Values) -> CountedMetric:
        """The same in numbers, for true classes as positions among the classes.

        Other classes are K and more, and negative numbers mean that nobody knows.
        """
        n, K = truth.size, classes.size
        positive = -1 if self.measure == "accuracy" else self._position(classes)
        groups = np.zeros(n, dtype=np.int64) if self.groups is None else self._groups(n)
        return CountedMetric(self.measure, self.name, positive, np.minimum(np.maximum(truth, -1), K), groups, K)

    def _groups(self, n: int) -> Int:
        given = np.asarray(self.groups, dtype=object)
        if given.shape != (n,):
            raise InvalidInput(f"groups must have one entry per test node, shape ({n},), got {given.shape}")
        known = np.array([not is_missing(group) for group in given.tolist()], dtype=bool)
        names, codes = np.unique(given[known].astype(np.str_), return_inverse=True)
        if names.size < 2:
            raise InvalidInput(f"groups must name two groups of test nodes or more, got {names.tolist()}")
        groups = np.full(n, -1, dtype=np.int64)
        groups[known] = codes
        return groups

    def _position(self, classes: Values) -> int:
        if self.positive is None:
            if classes.size == 2:
                return 1
            raise InvalidInput(f"say which class is positive: positive=, one of {in_short(classes.tolist())}")
        found = [k for k, name in enumerate(classes.tolist()) if name == self.positive or str(name) == self.positive]
        if len(found) != 1:
            raise InvalidInput(
                f"positive must be one of the classes {in_short(classes.tolist())}, got {in_short(self.positive)}"
            )
        return found[0]


@dataclass(frozen=True, eq=False)
class CountedMetric:
    """A metric of n test nodes as a function of hits: nodes that are predicted as their target.

    The target is the true class for accuracy, and the positive class else. Nodes are counted in cells, two for each of
    G groups: those that should be hits (all, for accuracy), and those that should not.
    """

    measure: str | Measure
    name: str
    positive: int
    """Position of the positive class; -1 for accuracy."""
    truth: Int
    """(n,) true classes: positions among K classes, K: another one, -1: nobody knows."""
    groups: Int
    """(n,) -1: none."""
    n_classes: int

    def __post_init__(self) -> None:
        empty = [side for side in self._needed if (self.sizes[:, side] == 0).any()]
        if empty:
            missing = ("with a known true class", "of another class than the positive one")
            first = missing[0] if self.positive < 0 else "of the positive class"
            where = " of each group" if self.n_groups > 1 else ""
            raise InvalidInput(
                f"{self.name} needs test nodes{where} whose true class is known, {(first, missing[1])[empty[0]]}; "
                "there are none"
            )

    @property
    def _needed(self) -> tuple[int, ...]:
        """Which cells must not be empty: a share of nothing is no number."""
        return {"accuracy": (0,), "recall": (0,), "false_positive_rate": (1,)}.get(self.name, ())

    @property
    def n_groups(self) -> int:
        """Number of groups G; 1 without groups."""
        return int(self.groups.max(initial=0)) + 1

    @property
    def highest(self) -> bool:
        """Whether the highest value is the worst."""
        return self.n_groups > 1 or self.name == "false_positive_rate"

    @property
    def target(self) -> Int:
        """(n,) the class whose prediction is a hit."""
        return self.truth if self.positive < 0 else np.full(self.truth.size, self.positive)

    @property
    def cell(self) -> Int:
        """(n,) ``2 g + 0`` for nodes of group g that should be hits, ``2 g + 1`` for others; -1: not counted."""
        wrong = (self.truth != self.positive) & (self.positive >= 0)
        return np.where((self.truth < 0) | (self.groups < 0), -1, 2 * self.groups + wrong)

    @property
    def sizes(self) -> Int:
        """(G, 2) how many nodes each cell has."""
        cell = self.cell
        return np.bincount(cell[cell >= 0], minlength=2 * self.n_groups).reshape(self.n_groups, 2)

    def ends(self, low: Int, high: Int) -> tuple[Float, Float]:
        """(S,) worst and best values for any (S, 2 G) numbers of hits between these."""
        own = [self._of_group(g, low[:, 2 * g : 2 * g + 2], high[:, 2 * g : 2 * g + 2]) for g in range(self.n_groups)]
        if self.n_groups == 1:
            least, most = own[0]
            return (most, least) if self.highest else (least, most)
        pairs = [(one, other) for one in own for other in own if one is not other]
        largest = np.max([one[1] - other[0] for one, other in pairs], axis=0)
        smallest = np.max([one[0] - other[1] for one, other in pairs], axis=0)
        return largest, np.maximum(smallest, 0.0)

    def _of_group(self, g: int, low: Int, high: Int) -> tuple[Float, Float]:
        """The lowest and the highest value of one group; each named metric is monotone in both of its counts."""
        right, wrong = self.sizes[g].tolist()
        if self.name == "false_positive_rate":
            return low[:, 1] / wrong, high[:, 1] / wrong
        if self.name == "precision":
            return _share(low[:, 0], high[:, 1]), _share(high[:, 0], low[:, 1])
        if isinstance(self.measure, str):
            return low[:, 0] / right, high[:, 0] / right
        least, most = np.full(len(low), -np.inf), np.full(len(low), np.inf)
        same = np.flatnonzero((low == high).all(axis=1))
        least[same] = most[same] = self._measured(low[same, 0], low[same, 1], right, wrong)
        for s in np.flatnonzero((low != high).any(axis=1)).tolist():
            hits, alarms = (np.arange(low[s, k], high[s, k] + 1) for k in (0, 1))
            if hits.size * alarms.size <= MOST_PAIRS:
                found = self._measured(np.repeat(hits, alarms.size), np.tile(alarms, hits.size), right, wrong)
                least[s], most[s] = found.min(), found.max()
        return least, most

    def _measured(self, hits: Int, alarms: Int, right: int, wrong: int) -> Float:
        assert callable(self.measure)
        if hits.size == 0:
            return np.zeros(0)
        found = np.asarray(self.measure(hits, alarms, right - hits, wrong - alarms), dtype=np.float64)
        if found.shape != hits.shape or not np.isfinite(found).all():
            raise InvalidInput(
                f"the metric {self.name} must return a finite number for each of {hits.size} entries of its arrays, "
                f"got an array of shape {found.shape}{'' if np.isfinite(found).all() else ' that is not finite'}"
            )
        return found


def _share(hits: Int, alarms: Int) -> Float:
    """Which share of what is predicted positive is; 0 where nothing is."""
    return np.asarray(hits / np.maximum(hits + alarms, 1))


def codes_of(truth: Values, classes: Values) -> Int:
    """(n,) true classes as positions among the classes; K: another one, -1: nobody knows (no name, or none at all)."""
    known = np.array([not is_missing(value) and value != "" for value in truth.tolist()], dtype=bool)
    code = {name: k for k, name in enumerate(classes.tolist())}
    named = {str(name): k for name, k in code.items()}
    found = [code.get(value, named.get(str(value), classes.size)) for value in truth.tolist()]
    return np.where(known, np.array(found, dtype=np.int64), -1)


def true_values(true_labels: npt.ArrayLike, n: int, classes: Values, class_list: Text | None) -> Values:
    """(n,) true classes in the labels' own values; class codes of a graph become names, or nothing."""
    truth = as_labels(true_labels)
    if truth.shape != (n,):
        raise InvalidInput(f"true_labels must have one entry per test node, shape ({n},), got {truth.shape}")
    if class_list is not None and np.issubdtype(truth.dtype, np.integer):
        if truth.max(initial=0) >= class_list.size:
            raise InvalidInput(
                f"true_labels must be class codes 0 to {class_list.size - 1} (negative: not known) "
                f"or class names, got {truth.max()}"
            )
        return np.where(truth >= 0, class_list[np.maximum(truth, 0)], "")
    if truth.dtype.kind == "U" and not (truth != "").any():
        raise InvalidInput("the true classes of the test nodes are not known; give them as true_labels")
    if not np.isin(truth, classes).any():
        raise InvalidInput(
            f"true_labels must be given in the labels' own values {classes.tolist()}, "
            f"but none of them is: {truth[:3].tolist()}..."
        )
    return truth
