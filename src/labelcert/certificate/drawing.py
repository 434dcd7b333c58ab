"""Draws the certified ratio over the budget into somebody's axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from labelcert.certificate.certificate import Certificate


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
