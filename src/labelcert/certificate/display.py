"""A certificate at a glance: in plain text, as HTML for notebooks, and as a curve in somebody's axes."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from labelcert.text import between, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from labelcert.arrays import Text
    from labelcert.certificate.certificate import Certificate

WIDTH = 80
"""Columns of the summary."""

NOT_ASKED = "not asked for"
"""What stands for the curve of a certificate without one."""

BUDGETS = 6
"""Budgets that a summary shows."""


def interval(lower: int, upper: int, never: int) -> str:
    """A radius in words: exact, an interval, or open above."""
    if lower == upper:
        return "never" if lower == never else str(lower)
    return f"≥ {lower}" if upper == never else f"{lower} to {upper}"


def budgets_to_show(max_flips: int) -> list[int]:
    """A few budgets, more of them small."""
    if max_flips < BUDGETS:
        return list(range(max_flips + 1))
    return [0, 1, 2, 3, max(4, (2 * max_flips) // 5), max_flips]


def share(cert: Certificate, b: int, collective: bool) -> str:
    """How many per cent of the predictions survive a budget."""
    low, high = (cert.certified_ratio(flips=b, collective=collective, bound=end) for end in ("lower", "upper"))
    return between(low, high) if cert.run.collective or not collective else NOT_ASKED


def rows(cert: Certificate) -> list[tuple[str, str, str]]:
    """For a few budgets: the budget, and the shares of predictions that survive it, each alone and all at once."""
    return [(str(b), share(cert, b, False), share(cert, b, True)) for b in budgets_to_show(cert.last_flips)]


def headline(cert: Certificate) -> str:
    """What the certificate is about, in one line."""
    margin = f", margin {cert.run.margin_text}" if cert.run.margin else ""
    margin += f", {cert.run.error_text}" if cert.run.error_text else ""
    trained = f"{cert.run.loss} loss" if cert.part_votes is None else f"votes of {cert.part_votes.shape[1]} models"
    return f"{cert.n_test} predictions, {cert.labels.size} labels of {cert.n_classes} classes, {trained}{margin}"


def weakest(cert: Certificate) -> str:
    """The prediction that the fewest changes overturn, and how."""
    t = int(cert.radius_upper.argmin())
    if not 0 < cert.radius_upper[t] < cert.never:
        return ""
    change = cert.witness(t) or {}
    some = [f"{_name('label', i, cert.label_names)} → {printable(str(new))}" for i, new in change.items()]
    named, more = ", ".join(some[:3]), ", …" if len(some) > 3 else ""
    node, predicted = _name("node", t, cert.test_names), printable(str(cert.predictions[t]))
    return f"weakest: {node} ({predicted}) changes with {named}{more}"


def _name(kind: str, i: int, names: Text | None) -> str:
    return f"{kind} {i}" if names is None else printable(str(names[i]))


def summary(cert: Certificate) -> str:
    """A few lines of at most 80 columns."""
    lines = [
        headline(cert),
        f"{cert.state}, engine {cert.engine}, {cert.run.seconds:.1f} s{cert.run.compiling_text}",
        "",
        f"{cert.run.unit:>12}  {'each alone, %':>18}  {'all at once, %':>18}",
        *(f"{b:>12}  {one:>18}  {all_:>18}" for b, one, all_ in rows(cert)),
    ]
    last = weakest(cert)
    lines += ["", last] if last else []
    for words in map(printable, [*cert.run.remarks, *cert.run.advice]):
        lines += ["", *textwrap.wrap(words, WIDTH)]
    return "\n".join(line if len(line) <= WIDTH else line[: WIDTH - 1] + "…" for line in lines)


def as_html(cert: Certificate) -> str:
    """The same as a table."""
    body = "".join(f"<tr><td>{b}</td><td>{one}</td><td>{all_}</td></tr>" for b, one, all_ in rows(cert))
    after = [words for words in (weakest(cert), *cert.run.remarks, *cert.run.advice) if words]
    return (
        f"<div><strong>Certificate</strong>: {html.escape(headline(cert))}<br>"
        f"{html.escape(cert.state)}, engine {html.escape(cert.engine)}"
        f"<table><thead><tr><th>{html.escape(cert.run.unit)}</th><th>each alone, %</th><th>all at once, %</th></tr>"
        f"</thead><tbody>{body}</tbody></table>{'<br>'.join(map(html.escape, after))}</div>"
    )


def as_latex(cert: Certificate) -> str:
    """The same for a paper."""
    return tabular([[cert.run.unit, r"each alone (\%)", r"all at once (\%)"]], rows(cert), columns=3)


def tabular(headings: Sequence[Sequence[str]], body: Sequence[Sequence[str]], *, columns: int) -> str:
    """A table for LaTeX, all columns flush right."""
    lines = [[" & ".join(row) + r" \\" for row in part] for part in (headings, body)]
    rule = r"\hline"
    return "\n".join(
        [rf"\begin{{tabular}}{{{'r' * columns}}}", rule, *lines[0], rule, *lines[1], rule, r"\end{tabular}"]
    )


def latex_text(text: str) -> str:
    """A name as text in LaTeX."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in printable(text))


def draw_ratio(axes: Axes, cert: Certificate, *, collective: bool, **style: Any) -> None:
    """A line for what provably survives each budget; a band up to what is not excluded, where that is more.

    Survives one attack on all nodes, or on each node alone. `style` is that of the line, as in ``Axes.plot``.
    """
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    budgets = np.arange(cert.max_flips + 1)
    lower, upper = (
        100.0 * np.array([cert.certified_ratio(flips=int(b), collective=collective, bound=bound) for b in budgets])
        for bound in ("lower", "upper")
    )
    options = {"marker": "o", "markevery": max(1, len(budgets) // 25), "zorder": 3, **style}
    (line,) = axes.plot(budgets, lower, **options)
    if np.any(lower < upper):
        axes.plot(budgets, upper, color=line.get_color(), linestyle="--", linewidth=1.0, zorder=2)
        axes.fill_between(budgets, lower, upper, color=line.get_color(), alpha=0.2, linewidth=0, zorder=1)
