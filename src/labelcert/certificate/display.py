"""A certificate at a glance: in plain text, as HTML for notebooks, and as a curve in somebody's axes."""

from __future__ import annotations

import html
import itertools
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from labelcert.certificate.answer import answer
from labelcert.text import between, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


def telling_budgets(cert: Certificate, most: int | None = None) -> list[int]:
    """Budgets at which anything changes, 0 and 1; of more than ``most``, small ones, some others and the last."""
    count = cert.last_flips + 1
    radii = [cert.radius_lower, cert.radius_upper, cert.radius_claimed]
    alone = [np.cumsum(np.bincount(np.minimum(ends, count), minlength=count + 1))[:count] for ends in radii]
    all_at_once = [ends[:count] for ends in (cert.collective_lower, cert.collective_upper, cert.collective_claimed)]
    moved = np.any([np.diff(ends, prepend=-1) != 0 for ends in (*alone, *all_at_once)], axis=0)
    for worst in cert.worst_cases:
        texts = [worst.text(b) for b in range(count)]
        moved[1:] |= [one != other for one, other in itertools.pairwise(texts)]
    moved[:2] = True
    found: list[int] = np.flatnonzero(moved).tolist()
    if most is None or len(found) <= most:
        return found
    small = most // 2
    return found[:small] + [found[i] for i in np.linspace(small, len(found) - 1, most - small).astype(int)]


def share(cert: Certificate, b: int, collective: bool) -> str:
    """How many per cent of the predictions survive a budget."""
    low, high = (cert.certified_ratio(flips=b, collective=collective, bound=end) for end in ("lower", "upper"))
    return between(low, high) if cert.run.collective or not collective else NOT_ASKED


def rows(cert: Certificate) -> list[tuple[str, str, str]]:
    """For a few budgets: the budget, and the shares of predictions that survive it, each alone and all at once."""
    return [(str(b), share(cert, b, False), share(cert, b, True)) for b in telling_budgets(cert, BUDGETS)]


def headline(cert: Certificate) -> str:
    """What the certificate is about, in one line."""
    margin = f", margin {cert.run.margin_text}" if cert.run.margin else ""
    margin += f", {cert.run.error_text}" if cert.run.error_text else ""
    trained = f"{cert.run.loss} loss" if cert.part_votes is None else f"votes of {cert.part_votes.shape[1]} models"
    return f"{cert.n_test} predictions, {cert.labels.size} labels of {cert.n_classes} classes, {trained}{margin}"


def summary(cert: Certificate) -> str:
    """A few lines of at most 80 columns: the answer in three sentences, then what is behind it."""
    lines = [line for sentence in answer(cert).sentences for line in textwrap.wrap(sentence, WIDTH)]
    lines += [
        "",
        f"{cert.run.unit:>12}  {'each alone, %':>18}  {'all at once, %':>18}",
        *(f"{b:>12}  {one:>18}  {all_:>18}" for b, one, all_ in rows(cert)),
        "",
        headline(cert),
        f"{cert.state}, engine {cert.engine}, {cert.run.seconds:.1f} s{cert.run.compiling_text}",
    ]
    for words in map(printable, [*cert.run.remarks, *cert.run.advice]):
        lines += ["", *textwrap.wrap(words, WIDTH)]
    return "\n".join(line if len(line) <= WIDTH else line[: WIDTH - 1] + "…" for line in lines)


def as_html(cert: Certificate) -> str:
    """The same as a table."""
    first, *others = map(html.escape, answer(cert).sentences)
    body = "".join(f"<tr><td>{b}</td><td>{one}</td><td>{all_}</td></tr>" for b, one, all_ in rows(cert))
    after = [headline(cert), f"{cert.state}, engine {cert.engine}", *map(printable, cert.run.remarks + cert.run.advice)]
    return (
        f"<div><strong>{first}</strong><br>{'<br>'.join(others)}"
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
