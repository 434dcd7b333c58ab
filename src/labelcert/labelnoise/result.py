"""How probable it is that predictions change under noise: the answer."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from labelcert.arrays import Bool, Float, Int, Text, Values
from labelcert.certificate.plain_archives import load_fields, save_fields
from labelcert.checking import whole_number
from labelcert.errors import InvalidInput
from labelcert.text import per_cent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

WALK, TAILS, SAMPLES = METHODS = ("all labellings", "tails of sums", "retrained samples")

SCHEMA, SCHEMA_VERSION = "labelcert-noise", 1

UNKNOWN = -1
"""Stands for the class of a prediction that is tied or could not be decided."""


@dataclass(frozen=True, eq=False)
class Noise:
    """The probability that each prediction changes, where each label is wrong by chance.

    A prediction changes where its class no longer has the highest score alone. A prediction that is tied without noise
    counts as changed.

    Attributes
    ----------
    lower, upper : (n,) arrays
        Intervals that hold the probabilities.
    probability : (n,) array
        Estimates: the middle of a proved interval, or the share of the sampled labellings.
    proved : bool
        Whether the intervals are proved. If not, each of them, for itself, holds at ``confidence``.
    confidence : float
        1 where they are proved.
    method : {"all labellings", "tails of sums", "retrained samples"}
    expected_changes : float
        How many predictions change on average, with the interval ``expected_interval`` at the same confidence.
    predictions : (n,) array
        Without noise.
    labels, classes : arrays
    odds : (m, K) array
        Probability of each class for each label.
    drawn : (S, n) array
        Predictions after S sampled labellings, as positions in ``classes``; -1 where no class is proved to be ahead.
    wrong_drawn : (S, m) array
        Which labels were wrong in each of them.
    changed_drawn : (S,) array
        How many predictions each of them changes.
    radius : (n,) array
        Fewer wrong labels than this provably change nothing: that many at least, not the radius itself.
    counts : (3, n) array
        Sampled labellings that change each prediction, that may, and all that were looked at.
    confirm_first : (q,) array
        Labels whose confirmation takes most from the expected number of changes, one after the other.
    expected_after : (q,) array
        That number after each.
    seed : int
    stopped : bool
        Whether time was up, or somebody pressed Ctrl-C, before all labellings were sampled or walked.

    Examples
    --------
    >>> import labelcert
    >>> from labelcert.examples import two_clouds
    >>> data = two_clouds()
    >>> found = labelcert.noise(data.K_train, data.labels, data.K_test, C=1.0, wrong=0.05)
    >>> print(found.summary())
    16 labels, wrong with probability 5.0 % on average: all labellings
    expected changes: 0.03865 of 12 predictions (0.03865 to 0.03865)
    predictions that change with more than 50 % probability: 0
    intervals: proved, at most 1e-06 wide
    """

    lower: Float
    upper: Float
    probability: Float
    proved: bool
    confidence: float
    method: str
    expected_changes: float
    expected_interval: tuple[float, float]
    predictions: Values
    labels: Values
    classes: Values
    odds: Float
    drawn: npt.NDArray[np.int16]
    wrong_drawn: Bool
    changed_drawn: Int
    radius: Int
    counts: Int
    confirm_first: Int
    expected_after: Float
    seed: int
    stopped: bool = False
    test_names: Text | None = None
    label_names: Text | None = None
    model: str = ""
    sha256: str = ""
    statistics: dict[str, Any] = field(default_factory=dict)

    @property
    def n_test(self) -> int:
        """Number n of predictions."""
        return int(self.lower.size)

    @property
    def width(self) -> float:
        """The width of the widest interval."""
        return float((self.upper - self.lower).max(initial=0.0))

    def accuracy(self, true_labels: npt.ArrayLike) -> AccuracyUnderNoise:
        """How accuracy against given true labels is distributed, from the sampled labellings.

        A prediction that is not known counts as wrong at the lower end, and as right at the upper one.
        """
        true = np.asarray(true_labels)
        if true.shape != (self.n_test,):
            raise InvalidInput(
                f"true_labels must hold one label for each of the {self.n_test} predictions, got shape {true.shape}"
            )
        if self.drawn.shape[0] == 0:
            raise InvalidInput("no labellings were sampled in time; give noise() a longer time_limit")
        code = np.full(true.size, len(self.classes), dtype=np.int64)  # a class that nobody predicts
        for k, label in enumerate(self.classes.tolist()):
            code[true == label] = k
        right = (self.drawn == code).mean(axis=1)
        maybe = right + (self.drawn == UNKNOWN).mean(axis=1)
        clean = float(np.mean(self.predictions == true))
        confidence = self.confidence if self.confidence < 1 else 0.95
        return AccuracyUnderNoise(np.sort(right), np.sort(maybe), clean, confidence)

    def recheck(self, count: int) -> pd.DataFrame:
        """The labels to confirm first, and how many predictions change on average after each confirmation.

        Each step takes the label whose confirmation takes most from the expected number of changes. From sampled
        labellings, both are estimates.
        """
        import pandas as pd

        whole_number("count", count, 1)
        chosen = self.confirm_first[:count]
        names = chosen if self.label_names is None else self.label_names[chosen]
        return pd.DataFrame(
            {
                "confirm": names,
                "labelled": self.labels[chosen],
                "expected_changes": self.expected_after[:count],
                "drop": -np.diff(np.concatenate([[self.expected_changes], self.expected_after[:count]])),
            },
            index=pd.RangeIndex(1, chosen.size + 1, name="step"),
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per prediction: the prediction, the probability that it changes, and its interval."""
        import pandas as pd

        index = None if self.test_names is None else pd.Index(self.test_names, name="node")
        return pd.DataFrame(
            {"prediction": self.predictions, "probability": self.probability, "lower": self.lower, "upper": self.upper},
            index=index,
        )

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Draw the probabilities of all predictions, the largest first, with their intervals; returns the axes."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.gca()
        order = np.argsort(-self.probability, kind="stable")
        place = np.arange(1, order.size + 1)
        ax.fill_between(place, 100 * self.lower[order], 100 * self.upper[order], alpha=0.3, linewidth=0)
        ax.plot(place, 100 * self.probability[order], **style)
        ax.set_xlabel("predictions, the most probable change first")
        ax.set_ylabel("probability that it changes (%)")
        ax.set_ylim(0, None)
        return ax

    def summary(self) -> str:
        """A few lines of at most 80 columns."""
        low, high = self.expected_interval
        rate = float(1.0 - (self.odds * (self.classes[None] == self.labels[:, None])).sum(axis=1).mean())
        how = "proved" if self.proved else f"each at {per_cent(self.confidence)} % confidence"
        often = int((self.lower > 0.5).sum())
        return "\n".join(
            [
                f"{self.labels.size} labels, wrong with probability {per_cent(rate)} % on average: {self.method}",
                f"expected changes: {self.expected_changes:.4g} of {self.n_test} predictions ({low:.4g} to {high:.4g})",
                f"predictions that change with more than 50 % probability: {often}",
                f"intervals: {how}, at most {max(self.width, 1e-6):.2g} wide"
                + ("; stopped early" if self.stopped else ""),
            ]
        )

    def __repr__(self) -> str:
        kind = "proved" if self.proved else f"{per_cent(self.confidence)} % confidence"
        return (
            f"Noise({self.n_test} predictions, {self.labels.size} labels, {self.expected_changes:.4g} expected "
            f"changes, {self.method}, {kind})"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file: a zip archive of ``.npy`` arrays and ``metadata.json``; :meth:`load` reads it."""
        save_fields(self, path, SCHEMA, SCHEMA_VERSION)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Noise:
        """Read what :meth:`save` wrote."""
        return load_fields(cls, path, SCHEMA, SCHEMA_VERSION, "labelcert.noise", tuples=("expected_interval",))


@dataclass(frozen=True, eq=False)
class AccuracyUnderNoise:
    """Accuracy after training on labels with noise, in S sampled labellings.

    Attributes
    ----------
    lower, upper : (S,) arrays
        Sorted accuracies; they differ where predictions are not known.
    clean : float
        Accuracy without noise.
    confidence : float
        Of :meth:`interval`.

    Examples
    --------
    >>> import labelcert
    >>> from labelcert.examples import two_clouds
    >>> data = two_clouds()
    >>> found = labelcert.noise(data.K_train, data.labels, data.K_test, C=1.0, wrong=0.2)
    >>> found.accuracy(data.truth).clean
    0.9166666666666666
    """

    lower: Float
    upper: Float
    clean: float
    confidence: float

    @property
    def mean(self) -> float:
        """The average."""
        return float((self.lower.mean() + self.upper.mean()) / 2.0)

    def quantile(self, share: float) -> float:
        """The accuracy that is missed with this probability, as estimated."""
        return float(np.quantile(self.lower, share))

    def interval(self, share: float) -> tuple[float, float]:
        """An interval for that quantile; those of all quantiles hold together, at ``confidence``.

        By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart.
        """
        count = self.lower.size
        band = float(np.sqrt(np.log(2.0 / (1.0 - self.confidence)) / (2 * count)))
        first, last = int(np.ceil((share - band) * count)), int(np.ceil((share + band) * count))
        low = float(self.lower[first - 1]) if first > 0 else 0.0
        return low, float(self.upper[last - 1]) if last <= count else 1.0

    def __repr__(self) -> str:
        low, high = self.quantile(0.05), self.quantile(0.95)
        return f"AccuracyUnderNoise({self.clean:.3f} without noise, mean {self.mean:.3f}, 90% in {low:.3f}..{high:.3f})"
