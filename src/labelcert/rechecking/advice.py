"""The answer to the question which labels to confirm."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labelcert.arrays import Float, Int
from labelcert.certificate import Certificate
from labelcert.text import between, per_cent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

EACH, COLLECTIVE = "each", "collective"
OBJECTIVES = (EACH, COLLECTIVE)


@dataclass(frozen=True, eq=False)
class Recheck:
    """Labels to confirm, in order, and what that is worth.

    It ranks labels by what depends on them, not by how likely they are wrong.

    Attributes
    ----------
    labels : list of int
        Indices of the labels to confirm, best first.
    before : float
        Share of predictions that provably survive now.
    after : list of float
        The same after each confirmed label, as if the label proved right: proved lower ends.
    after_upper : list of float
        What is not excluded; equal to ``after`` where all attacks are known.
    best_possible : float
        No choice of labels at the same price leads to more.
    gains : (m,) array
        What confirming each label alone would add to the share; NaN where that is not known.
    secures : list of arrays
        The test nodes that each confirmed label makes safe (for the objective ``"each"``).
    flips : int
        Budget of the adversary.
    objective : {"each", "collective"}
    certificate : Certificate
        Of the problem in which all of ``labels`` are trusted.
    complete : bool
        Whether all attacks were known when labels were chosen. If not, other labels may be better.
    annotators : list of str or None
        Instead of labels: whom to audit, best first. ``gains`` are theirs then.

    Examples
    --------
    >>> import labelcert
    >>> from labelcert.examples import two_clouds
    >>> data = two_clouds()
    >>> advice = labelcert.recheck(data.K_train, data.labels, data.K_test, C=1.0, flips=2, confirm=2)
    >>> print(advice.summary())
    predictions that survive 2 flips, each alone: 50.0 % now
       1. confirm 13: 66.6 %
       2. confirm 3: 83.3 %
    no other choice of labels at this price secures more
    """

    labels: list[int]
    before: float
    after: list[float]
    after_upper: list[float]
    best_possible: float
    gains: Float
    secures: list[Int]
    flips: int
    objective: str
    certificate: Certificate
    complete: bool = True
    annotators: list[str] | None = None

    @property
    def optimal(self) -> bool:
        """Whether it is proved that no other choice at the same price leads to more."""
        return not self.best_possible > (self.after[-1] if self.after else self.before) + 1e-9

    @property
    def names(self) -> list[Any]:
        """What the labels to confirm are called; their indices where they have no names. Or whom to audit."""
        if self.annotators is not None:
            return list(self.annotators)
        known = self.certificate.label_names
        return list(self.labels) if known is None else known[self.labels].tolist()

    def to_frame(self) -> pd.DataFrame:
        """One row per label, or annotator: who or what it is, the share after it, the nodes that it secures."""
        import pandas as pd

        cert = self.certificate
        secured = [
            nodes.tolist() if cert.test_names is None else cert.test_names[nodes].tolist() for nodes in self.secures
        ]
        if self.annotators is None:
            what = {"confirm": self.names, "labelled": cert.labels[self.labels]}
        else:
            what = {"audit": self.names, "votes": cert.annotators().votes[self.names].to_numpy()}
        return pd.DataFrame(
            {
                **what,
                "after": self.after,
                "after_upper": self.after_upper,
                "gain_alone": self.gains if self.annotators is not None else self.gains[self.labels],
                "secures": secured if secured else [[] for _ in self.names],
            },
            index=pd.RangeIndex(1, len(self.names) + 1, name="step"),
        )

    @property
    def verb(self) -> str:
        """What is to be done with labels, or annotators."""
        return "confirm" if self.annotators is None else "audit"

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Draw the share that survives after each confirmed label; returns the axes.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default, the current axes of pyplot.
        **style
            Of the line, as in ``Axes.plot``.
        """
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.gca()
        shares = [100 * share for share in (self.before, *self.after)]
        ax.plot(range(len(shares)), shares, **{"marker": "o", **style})
        ax.set_xticks(range(len(shares)), ["now", *map(str, self.names)])
        ax.set_xlabel("confirmed, one after the other")
        ax.set_ylabel(f"predictions that survive {self.certificate.run.amount(self.flips)} (%)")
        return ax

    def summary(self) -> str:
        """A few lines of at most 80 columns."""
        kind = "each alone" if self.objective == EACH else "all at once"
        wrong = self.certificate.run.amount(self.flips)
        lines = [f"predictions that survive {wrong}, {kind}: {per_cent(self.before)} % now"]
        for k, (name, low, high) in enumerate(zip(self.names, self.after, self.after_upper, strict=True)):
            share = between(low, high, " %")
            lines.append(f"{k + 1:>4}. {self.verb} {str(name)[:40]}: {share}")
        lines.append(self.verdict)
        return "\n".join(lines)

    @property
    def verdict(self) -> str:
        """How good the choice is."""
        what = "labels" if self.annotators is None else "annotators"
        if not self.complete:
            return f"not all attacks were listed in time: other {what} may be better"
        if self.optimal:
            return f"no other choice of {what} at this price secures more"
        return f"no choice at this price secures more than {per_cent(self.best_possible, up=True)} %"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{k + 1}</td><td>{html.escape(str(name))}</td><td>{per_cent(after)}</td></tr>"
            for k, (name, after) in enumerate(zip(self.names, self.after, strict=True))
        )
        return (
            f"<div><strong>Recheck</strong>: {per_cent(self.before)} % survive "
            f"{html.escape(self.certificate.run.amount(self.flips))} now<table><thead><tr><th></th><th>{self.verb}</th>"
            f"<th>survive then, %</th></tr></thead><tbody>{rows}</tbody></table>{html.escape(self.verdict)}</div>"
        )

    def __repr__(self) -> str:
        last = self.after[-1] if self.after else self.before
        wrong = self.certificate.run.amount(self.flips)
        return f"Recheck({self.verb} {self.names}: {per_cent(self.before)} % -> {per_cent(last)} % survive {wrong})"
