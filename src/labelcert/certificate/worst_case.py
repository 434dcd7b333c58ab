"""The worst value that wrong labels can give a metric, for every budget: what is stored, and what radii say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labelcert.arrays import Bool, Float, Int, Text
from labelcert.certificate.metric import CountedMetric
from labelcert.text import between, four_digits

if TYPE_CHECKING:
    import pandas as pd

    from labelcert.certificate.certificate import Certificate, RelabellingList


@dataclass(frozen=True, eq=False)
class AskedMetrics:
    """Q metrics that were asked for together with a certificate, and their worst values for budgets 0..B.

    Attributes
    ----------
    names : (Q,) array of str
    positive, truth, groups : (Q,), (Q, n) and (Q, n) arrays
        As in :class:`~labelcert.certificate.metric.CountedMetric`.
    lower, upper : (Q, B + 1) arrays
        Between these lies the worst value.
    attack_of : (Q, B + 1) array
        Which of the certificate's ``metric_attacks`` comes to the end that an attack proves.
    """

    names: Text
    positive: Int
    truth: Int
    groups: Int
    lower: Float
    upper: Float
    attack_of: Int

    def fits(self, n: int, K: int, budgets: int, attacks: int) -> bool:
        """Whether it is well formed, and speaks of n test nodes, K classes, so many budgets, and so many attacks."""
        count = self.names.size
        whole = (self.positive, self.truth, self.groups, self.attack_of)
        named = np.array([not str(name).endswith("()") for name in self.names.ravel().tolist()], dtype=bool)
        return bool(
            self.names.dtype.kind == "U"
            and self.names.shape == self.positive.shape == (count,)
            and self.truth.shape == self.groups.shape == (count, n)
            and self.lower.shape == self.upper.shape == self.attack_of.shape == (count, budgets)
            and all(a.dtype.kind in "iu" for a in whole)
            and self.lower.dtype.kind == self.upper.dtype.kind == "f"
            and np.all((self.positive >= -1) & (self.positive < K))
            and np.all((self.truth >= -1) & (self.truth <= K))
            and np.all((self.groups >= -1) & (self.groups < max(n, 1)))
            and np.all((self.attack_of >= 0) & (self.attack_of < attacks))
            and np.all(self.lower <= self.upper)
            and np.isfinite([*self.lower[named], *self.upper[named]]).all()
        )

    def called(self, name: str, K: int) -> list[CountedMetric]:
        """Those of a name, in numbers; what a function of the user's own computes is not stored."""
        return [one for one in self.asked(K) if one.name == name]

    def asked(self, K: int) -> list[CountedMetric]:
        """All of them in numbers."""
        return [self._asked(q, K) for q in range(self.names.size)]

    def _asked(self, q: int, K: int) -> CountedMetric:
        name, positive = str(self.names[q]), int(self.positive[q])
        return CountedMetric(name, name, positive, self.truth[q], self.groups[q], K)

    def find(self, asked: CountedMetric) -> int | None:
        """Which of them is the same question; None where none is."""
        for q, name in enumerate(self.names.tolist()):
            same = name == asked.name and self.positive[q] == asked.positive
            if same and np.array_equal(self.truth[q], asked.truth) and np.array_equal(self.groups[q], asked.groups):
                return q
        return None


@dataclass(frozen=True, eq=False)
class WorstCase:
    """The worst value of a metric over all changes of labels within each budget.

    Attributes
    ----------
    metric : str
    highest : bool
        Whether the highest value is the worst: then ``upper`` is what is proved never to be exceeded, and ``lower``
        what an attack comes to. Otherwise it is the other way round.
    lower, upper : (B + 1,) arrays
        The worst value lies between these, index b = 0..max_flips; infinite where nothing is known.
    attacks : tuple of dict
        For each budget, the change of labels that comes to the end that is not proved.
    about : str
        The positive class, or that it is a gap between groups.

    Examples
    --------
    >>> import labelcert
    >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
    >>> cert.worst_case("recall", ["cat", "dog"], positive="dog")
    WorstCase(lowest recall (dog): 0.0 % at budget 2)
    """

    metric: str
    highest: bool
    lower: Float
    upper: Float
    attacks: tuple[dict[Any, Any], ...]
    about: str = ""

    @property
    def title(self) -> str:
        """Which value it is, in words."""
        words = self.metric.replace("_", " ")
        return f"{'highest' if self.highest else 'lowest'} {words}{f' ({self.about})' if self.about else ''}"

    def text(self, b: int) -> str:
        """The value at a budget, rounded to the worse side: a share in per cent, or what a function of yours says."""
        low, high = float(self.lower[b]), float(self.upper[b])
        if not self.metric.endswith("()"):
            return between(low, high, " %", up=self.highest)
        one = four_digits(low, up=self.highest and low == high)
        return one if low == high else f"{one} to {four_digits(high, up=True)}"

    @property
    def exact(self) -> bool:
        """Whether both ends are the same at every budget."""
        return bool(np.array_equal(self.lower, self.upper))

    def witness(self, b: int) -> dict[Any, Any]:
        """The change of labels within budget ``b`` that comes to the end that is not proved."""
        return self.attacks[b]

    def to_frame(self) -> pd.DataFrame:
        """One row per budget: both ends, and the attack.

        Examples
        --------
        >>> import labelcert
        >>> cert = labelcert.certify([[2, 0], [0, 2]], ["cat", "dog"], [[1, 0], [1, 2]], C=1.0)
        >>> cert.worst_case("accuracy", ["cat", "dog"]).to_frame()["upper"].tolist()
        [1.0, 0.5, 0.0]
        """
        import pandas as pd

        index = pd.RangeIndex(self.lower.size, name="flips")
        return pd.DataFrame({"lower": self.lower, "upper": self.upper, "witness": list(self.attacks)}, index=index)

    def __repr__(self) -> str:
        last = self.lower.size - 1
        return f"WorstCase({self.title}: {self.text(last)} at budget {last})"


@dataclass(frozen=True, eq=False)
class WorstValues:
    """Worst values by budget, good to bad, and the attacks that come to the end that is not proved.

    - ``proved``, ``reached`` (B + 1,): no attack is worse than ``proved``, and some attack is at least as bad as
      ``reached``.
    - ``attack_of`` (B + 1,): which attack that is.
    """

    proved: Float
    reached: Float
    attack_of: Int

    def ends(self, asked: CountedMetric) -> tuple[Float, Float]:
        """(B + 1,) lower and upper ends."""
        return (self.reached, self.proved) if asked.highest else (self.proved, self.reached)


def box(
    asked: CountedMetric, predicted: Int, changed: Bool, open_: Bool, free: Bool, most: int | None = None
) -> tuple[Int, Int]:
    """(1, 2 G) lowest and highest numbers of hits where some predictions change, and others may.

    - ``predicted`` (n,): clean predictions, as positions among the classes.
    - ``changed``, ``open_`` (n,): predictions that are another one, and predictions that may be.
    - ``free`` (n,): nodes that have no prediction, and count as the adversary likes.
    - ``most``: how many of the open ones can be another one at once.
    """
    hit, target = predicted == asked.target, asked.target
    can = (target >= 0) & (target < asked.n_classes)
    two = asked.n_classes == 2
    low, high = np.zeros((1, 2 * asked.n_groups), dtype=np.int64), np.zeros((1, 2 * asked.n_groups), dtype=np.int64)
    most = int(open_.sum()) if most is None else most
    for cell in range(low.size):
        own = asked.cell == cell
        sure = own & hit & ~changed & ~free
        gained = own & ~hit & changed & can & ~free
        losing, gaining = int((sure & open_).sum()), int((own & ~hit & open_ & can & ~free).sum())
        floating = int((own & free & can).sum())
        low[0, cell] = sure.sum() - min(losing, most) + (gained.sum() if two else 0)
        high[0, cell] = sure.sum() + gained.sum() + min(gaining, most) + floating
    return low, high


def worst_from_radii(cert: Certificate, asked: CountedMetric) -> WorstValues:
    """What follows from radii and the curve: a node changes only where its radius allows it, and not too many do."""
    predicted = np.searchsorted(cert.classes, cert.predictions)
    free = cert.radius_lower == 0
    nobody = np.zeros(cert.n_test, dtype=bool)
    unsure = bool((free & (cert.radius_upper > 0)).any())
    sign = -1.0 if asked.highest else 1.0
    proved = np.empty(cert.max_flips + 1)
    for b in range(proved.size):
        reach = (cert.radius_lower <= b) & ~free
        limits = box(asked, predicted, nobody, reach, free, int(cert.collective_upper[b]))
        proved[b] = asked.ends(*limits)[0][0]
    reached, attack_of = np.full(proved.size, sign * np.inf), np.zeros(proved.size, dtype=np.int64)
    for k in np.unique(cert.curve_attack_of).tolist():
        first = int(np.flatnonzero(cert.curve_attack_of == k)[0])
        changed = cert.curve_changed[k] & ~free
        open_ = ~changed & (cert.radius_lower <= first) & ~free
        spare = max(0, int(cert.collective_upper[first]) - int(cert.curve_changed[k].sum()))
        settled = not unsure and (asked.n_classes == 2 or not _may_gain(asked, predicted, changed, free))
        ends = asked.ends(*box(asked, predicted, changed, open_, free, spare))
        value = ends[0][0] if settled and (spare == 0 or not open_.any()) else ends[1][0]
        better = (np.arange(reached.size) >= first) & (sign * value < sign * reached)
        reached[better], attack_of[better] = value, k
    return WorstValues(proved, reached, attack_of)


def _may_gain(asked: CountedMetric, predicted: Int, changed: Bool, free: Bool) -> bool:
    """Whether a changed prediction of more than two classes may be a hit."""
    return bool((changed & (predicted != asked.target) & (asked.cell >= 0) & ~free).any())


def joined(asked: CountedMetric, known: WorstValues, other: WorstValues) -> WorstValues:
    """The tighter of two, end by end; attacks of the second one are numbered as they are."""
    sign = -1.0 if asked.highest else 1.0
    closer = sign * other.reached < sign * known.reached
    return WorstValues(
        proved=sign * np.maximum(sign * known.proved, sign * other.proved),
        reached=np.where(closer, other.reached, known.reached),
        attack_of=np.where(closer, other.attack_of, known.attack_of),
    )


def shown(cert: Certificate, asked: CountedMetric) -> WorstCase:
    """What was stored about a metric, or what radii and the curve say."""
    q = None if cert.metrics is None else cert.metrics.find(asked)
    if q is not None and cert.metrics is not None and cert.metric_attacks is not None:
        lower, upper = cert.metrics.lower[q], cert.metrics.upper[q]
        attacks, attack_of = cert.metric_attacks, cert.metrics.attack_of[q]
    else:
        found = worst_from_radii(cert, asked)
        (lower, upper), attacks, attack_of = found.ends(asked), cert.curve_attacks, found.attack_of
    about = [str(cert.classes[asked.positive])] if asked.positive >= 0 else []
    about += ["gap between groups"] if asked.n_groups > 1 else []
    named = _named(cert, attacks, attack_of.tolist())
    return WorstCase(asked.name, asked.highest, lower, upper, named, ", ".join(about))


def _named(cert: Certificate, attacks: RelabellingList, chosen: Sequence[int]) -> tuple[dict[Any, Any], ...]:
    distinct = {k: cert.in_labels(attacks, k, names=False) for k in set(chosen)}
    return tuple(distinct[k] for k in chosen)
