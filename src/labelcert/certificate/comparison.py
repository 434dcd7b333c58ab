"""Certificates of several models side by side."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labelcert.certificate import display
from labelcert.certificate.certificate import Certificate
from labelcert.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

KINDS = (("each alone", False), ("all at once", True))


def compare(certificates: Mapping[str, Certificate]) -> Comparison:
    """Put certificates of several models, by name and of the same test nodes, side by side.

    Examples
    --------
    >>> import labelcert
    >>> K, rows = [[2, 0], [0, 2]], [[1, 0], [1, 2]]
    >>> certs = {f"C = {C}": labelcert.certify(K, ["cat", "dog"], rows, C=C) for C in (0.1, 1.0)}
    >>> print(labelcert.compare(certs))
           each alone, %      all at once, %
    flips  C = 0.1 C = 1.0  C = 0.1 C = 1.0
        0    100.0   100.0    100.0   100.0
        1      0.0     0.0     50.0    50.0
        2      0.0     0.0      0.0     0.0
    """
    return Comparison(tuple(certificates.items()))


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Several models side by side: what provably survives each budget that all of them cover.

    Examples
    --------
    >>> import labelcert
    >>> K, rows = [[2, 0], [0, 2]], [[1, 0], [1, 2]]
    >>> both = labelcert.compare({f"C = {C}": labelcert.certify(K, [0, 1], rows, C=C) for C in (0.1, 1.0)})
    >>> both.last_flips, both.to_frame().loc[1, ("all at once", "C = 1.0")].item()
    (2, 50.0)
    """

    certificates: tuple[tuple[str, Certificate], ...]

    def __post_init__(self) -> None:
        if not self.certificates:
            raise InvalidInput("expected at least one certificate to compare, got none")
        counts = {cert.n_test for _, cert in self.certificates}
        if len(counts) > 1:
            raise InvalidInput(
                f"certificates must be of the same test nodes, got {', '.join(map(str, sorted(counts)))} nodes"
            )

    @property
    def last_flips(self) -> int:
        """The largest budget that all of them cover and can be spent."""
        return min(cert.last_flips for _, cert in self.certificates)

    def rows(self, budgets: Sequence[int] | None = None) -> list[list[str]]:
        """For each budget: the budget, then the shares of all models, each node alone, and all at once."""
        wanted = range(self.last_flips + 1) if budgets is None else [b for b in budgets if b <= self.last_flips]
        return [
            [str(b), *(display.share(cert, b, collective) for _, collective in KINDS for _, cert in self.certificates)]
            for b in wanted
        ]

    def to_frame(self) -> pd.DataFrame:
        """One row per budget, one column per model and kind: lower ends, in per cent."""
        import pandas as pd

        columns = pd.MultiIndex.from_product([[kind for kind, _ in KINDS], [name for name, _ in self.certificates]])
        index = pd.RangeIndex(self.last_flips + 1, name="flips")
        shown = [(cert, collective) for _, collective in KINDS for _, cert in self.certificates]
        values = [[100 * cert.certified_ratio(flips=b, collective=all_) for cert, all_ in shown] for b in index]
        return pd.DataFrame(values, columns=columns, index=index)

    def to_latex(self, budgets: Sequence[int] | None = None) -> str:
        r"""The table for LaTeX.

        Examples
        --------
        >>> import labelcert
        >>> cert = labelcert.certify([[2, 0], [0, 2]], [0, 1], [[1, 0], [1, 2]], C=1.0)
        >>> print(labelcert.compare({"a_b": cert}).to_latex([1]))
        \begin{tabular}{rrr}
        \hline
         & each alone (\%) & all at once (\%) \\
        flips & a\_b & a\_b \\
        \hline
        1 & 0.0 & 50.0 \\
        \hline
        \end{tabular}
        """
        k = len(self.certificates)
        spans = [rf"\multicolumn{{{k}}}{{c}}{{{kind} (\%)}}" if k > 1 else rf"{kind} (\%)" for kind, _ in KINDS]
        names = [display.latex_text(name) for name, _ in self.certificates]
        return display.tabular(
            [["", *spans], [self.certificates[0][1].run.unit, *names, *names]], self.rows(budgets), columns=1 + 2 * k
        )

    def plot(self, ax: Axes | None = None, *, collective: bool = True, **style: Any) -> Axes:
        """Draw all of them over the budget; returns the axes. As in :meth:`Certificate.plot`."""
        (name, first), *others = self.certificates
        axes = first.plot(ax, collective=collective, label=name, **style)
        for name, cert in others:
            display.draw_ratio(axes, cert, collective=collective, label=name, **style)
        axes.legend(frameon=False)
        return axes

    def __repr__(self) -> str:
        names = [name for name, _ in self.certificates]
        width = [max(len(name), 5, *(len(row[1 + i]) for row in self.rows())) for i, name in enumerate(names)]
        block = sum(width) + len(width) - 1
        unit = self.certificates[0][1].run.unit

        def cells(texts: Sequence[str]) -> str:
            return " ".join(f"{text:>{w}}" for text, w in zip(texts, width, strict=True))

        k = len(names)
        lines = [
            f"{'':>{len(unit)}}  {'each alone, %':<{block}}   {'all at once, %':<{block}}".rstrip(),
            f"{unit}  {cells(names)}  {cells(names)}",
            *(f"{row[0]:>{len(unit)}}  {cells(row[1 : 1 + k])}  {cells(row[1 + k :])}" for row in self.rows()),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        names = "".join(f"<th>{html.escape(name)}</th>" for name, _ in self.certificates)
        heads = "".join(f'<th colspan="{len(self.certificates)}">{kind}, %</th>' for kind, _ in KINDS)
        body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in self.rows())
        unit = html.escape(self.certificates[0][1].run.unit)
        return (
            f"<table><thead><tr><th></th>{heads}</tr><tr><th>{unit}</th>{names}{names}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )
