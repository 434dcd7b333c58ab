"""Pictures of certificates: certified ratio over budget, histogram of radii, takeovers, and the attacked graph.

Every function returns a matplotlib figure of its own, without pyplot's global state, so that it works without a
display and in threads. Colours are Okabe and Ito's, which colour-blind readers can tell apart; shapes and line
styles say the same a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labelcert.arrays import Float, Int, Values
from labelcert.certificate import Certificate
from labelcert.certificate.display import draw_ratio
from labelcert.errors import InvalidInput
from labelcert.files import replacing
from labelcert.report.layout import layout
from labelcert.text import drawable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from labelcert.graphs import Graph

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", ":")
ERRORBARS: dict[str, Any] = {"markersize": 4.5, "linewidth": 1.4, "elinewidth": 0.6, "capsize": 1.5, "zorder": 3}

LABELED, UNLABELED, FLIPPED, CHANGED = "labelled", "unlabelled", "label flipped", "prediction changed"
NODE_STYLE: dict[str, dict[str, Any]] = {
    UNLABELED: {"marker": "o", "s": 70, "facecolor": "#FFFFFF", "edgecolor": "#555555", "linewidth": 1.2},
    LABELED: {"marker": "s", "s": 95, "facecolor": "#56B4E9", "edgecolor": "#1F3B4D", "linewidth": 1.2},
    CHANGED: {"marker": "^", "s": 105, "facecolor": "#D55E00", "edgecolor": "#5A2700", "linewidth": 1.0},
    FLIPPED: {"marker": "X", "s": 190, "facecolor": "#000000", "edgecolor": "#FFFFFF", "linewidth": 1.0},
}
LARGEST_DRAWN_GRAPH = 400
"""A drawing of more nodes than this shows nothing, and takes long to lay out."""

LARGEST_NAMED_GRAPH = 40
"""Up to here there is room for the nodes' names."""


def ratio_figure(certificates: Sequence[tuple[str, Certificate]], *, title: str | None = None) -> Figure:
    """Certified ratio over budget, each node alone and all at once; a band spans what is proved and what is not."""
    _need(certificates)
    figure = new_figure(9.0, 3.8)
    panels: Sequence[Axes] = figure.subplots(1, 2, sharey=True)
    for axes, collective, heading in zip(panels, (False, True), ("Each node alone", "All nodes at once"), strict=True):
        for k, (name, cert) in enumerate(certificates):
            draw_ratio(
                axes,
                cert,
                collective=collective,
                color=PALETTE[k % len(PALETTE)],
                marker=MARKERS[k % len(MARKERS)],
                markersize=max(4.0, 7.0 - 1.5 * k),  # equal curves stay visible below each other
                label=_legend(name, cert),
            )
        axes.set_title(heading, fontsize=11)
        axes.set(xlabel=_budget_label(certificates), ylim=(-3, 103))
        _tidy(axes)
    panels[0].set_ylabel("predictions that survive (%)")
    panels[-1].legend(frameon=False)
    if title:
        figure.suptitle(drawable(title), fontsize=12)
    return figure


@dataclass(frozen=True, eq=False)
class Curve:
    """A line of a study: means over seeds, as proved intervals, and their deviation; all in percent."""

    name: str
    x: Float
    lower: Float
    upper: Float
    deviation: Float


@dataclass(frozen=True)
class CurvePanel:
    """Curves under one heading."""

    heading: str
    curves: tuple[Curve, ...]


def curves_figure(
    panels: Sequence[CurvePanel],
    *,
    xlabel: str,
    ylabel: str,
    title: str | None = None,
    columns: int = 3,
    log: bool = False,
) -> Figure:
    """One panel per dataset and certificate; bars show the deviation over seeds, bands what is not decided."""
    _need(panels)
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    names = {tuple(curve.name for curve in panel.curves) for panel in panels}
    shared = columns > 3 and len(names) == 1
    figure = new_figure((4.2 if shared else 5.2) * columns, (3.4 if shared else 3.8) * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        for k, curve in enumerate(panel.curves):
            colour, turn = PALETTE[k % len(PALETTE)], k // len(PALETTE)
            exact = np.isclose(curve.lower, curve.upper, rtol=0, atol=1e-9)
            style = {"color": colour, "marker": MARKERS[(k + turn) % len(MARKERS)], "linestyle": DASHES[turn % 3]}
            axes.errorbar(
                curve.x,
                np.where(exact, curve.lower, np.nan),  # a line through bounds would look like an answer
                yerr=curve.deviation,
                label=_legend(curve.name),
                **{**ERRORBARS, **style},
            )
            if not exact.all():
                axes.fill_between(curve.x, curve.lower, curve.upper, color=colour, alpha=0.12, linewidth=0, zorder=1)
                axes.plot(curve.x, np.where(exact, np.nan, curve.upper), color=colour, linestyle=":", linewidth=1.0)
        if log:
            ticks = sorted({x for curve in panel.curves for x in curve.x.tolist()})
            axes.set_xscale("log", base=2)
            axes.set(xlim=(ticks[0] / 1.3, ticks[-1] * 1.3), xticks=ticks)
            axes.xaxis.set_major_formatter("{x:,.0f}")
        elif all(np.all(curve.x == np.round(curve.x)) for curve in panel.curves):
            _whole(axes.xaxis)
        axes.set_title(drawable(panel.heading), fontsize=10)
        axes.set(xlabel=xlabel, ylim=(-3, 103))
        _tidy(axes)
        if not shared:
            axes.legend(frameon=False, fontsize=7)
    if shared:
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)), frameon=False)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_axis_off()
    for axes in grid[:, 0]:
        axes.set_ylabel(ylabel)
    if title:
        figure.suptitle(drawable(title), fontsize=12)
    return figure


def radius_figure(certificates: Sequence[tuple[str, Certificate]], *, title: str | None = None) -> Figure:
    """How many nodes need how many flips: a bar per radius and model, hatched where no more than "≥ 3" is proved."""
    _need(certificates)
    figure = new_figure(7.0, 3.8)
    axes = figure.subplots()
    bars = [
        Counter(zip(cert.radius_lower.tolist(), (cert.radius_lower < cert.radius_upper).tolist(), strict=True))
        for _, cert in certificates
    ]
    places = sorted({place for counts in bars for place in counts})
    width = 0.8 / len(certificates)
    for k, ((name, cert), counts) in enumerate(zip(certificates, bars, strict=True)):
        at = np.arange(len(places)) + (k - (len(certificates) - 1) / 2) * width
        colour = PALETTE[k % len(PALETTE)]
        style: dict[str, Any] = {"color": colour, "edgecolor": "white", "linewidth": 0.5, "label": _legend(name, cert)}
        drawn = axes.bar(at, [counts[place] for place in places], width, **style)
        for bar, (_, open_) in zip(drawn, places, strict=True):
            if open_:
                bar.set(facecolor="white", edgecolor=colour, hatch="///", linewidth=0.8)
    never = {cert.never for _, cert in certificates}
    words = [f"≥ {radius}" if open_ else "never" if never == {radius} else str(radius) for radius, open_ in places]
    axes.set_xticks(np.arange(len(places)), words)
    axes.set(xlabel=f"radius: fewest {_budget_label(certificates)} that change the prediction", ylabel="nodes")
    _whole(axes.yaxis)
    _tidy(axes)
    axes.legend(frameon=False)
    if title:
        axes.set_title(drawable(title), fontsize=12)
    return figure


def takeover_figure(cert: Certificate, *, flips: int | None = None, title: str | None = None) -> Figure:
    """Which class is taken over by which, as a map of counts: predicted class down, what it becomes across."""
    b = cert.max_flips if flips is None else flips
    counts = cert.takeovers(flips=b)
    values = counts.to_numpy()
    K = len(values)
    figure = new_figure(2.6 + 0.6 * K, 2.0 + 0.6 * K)
    axes = figure.subplots()
    axes.imshow(np.where(values > 0, values, np.nan), cmap="Blues", vmin=0, vmax=max(1, int(values.max())))
    axes.set_facecolor("#F4F4F4")
    for i in range(K):
        for j in range(K):
            if i == j:
                axes.text(j, i, "–", ha="center", va="center", color="#999999")
            elif values[i, j]:
                dark = values[i, j] > 0.6 * values.max()
                axes.text(j, i, str(values[i, j]), ha="center", va="center", color="white" if dark else "#222222")
    names = [drawable(str(name)) for name in counts.index]
    of = [int(np.sum(cert.predictions == name)) for name in counts.index]
    long = max(len(name) for name in names) > 6
    axes.set_xticks(range(K), names, rotation=45 if long else 0, ha="right" if long else "center")
    axes.set_yticks(range(K), [f"{name} ({count})" for name, count in zip(names, of, strict=True)])
    axes.set(xlabel="becomes", ylabel="predicted (nodes)")
    axes.set_title(title or f"Nodes changed by at most {b} {_budget_label([('', cert)])}", fontsize=11)
    axes.spines[:].set_visible(False)
    return figure


@dataclass(frozen=True, eq=False)
class GraphPanel:
    """One attack on a graph: labelled nodes, those whose label is flipped, test nodes whose prediction changes."""

    title: str
    graph: Graph
    labeled: Int
    flipped: Int
    changed: Int


def graph_figure(attacks: Sequence[GraphPanel]) -> Figure:
    """The graph before the attack, and beside it what each attack on the same labelled nodes does."""
    _need(attacks)
    graph, labeled = attacks[0].graph, attacks[0].labeled
    if graph.n_nodes > LARGEST_DRAWN_GRAPH:
        raise InvalidInput(
            f"a picture of {graph.n_nodes} nodes would show nothing; graphs of up to {LARGEST_DRAWN_GRAPH} are drawn"
        )
    positions = layout(graph.n_nodes, graph.edges)
    figure = new_figure(4.1 * (len(attacks) + 1), 4.6)
    panels: Sequence[Axes] = figure.subplots(1, len(attacks) + 1)
    clean = np.full(graph.n_nodes, UNLABELED, dtype=object)
    clean[labeled] = LABELED
    _draw(panels[0], graph, positions, clean, f"{graph.name}: {len(labeled)} of {graph.n_nodes} nodes labelled")
    for axes, attack in zip(panels[1:], attacks, strict=True):
        kinds = clean.copy()
        kinds[attack.changed] = CHANGED
        kinds[attack.flipped] = FLIPPED
        _draw(axes, graph, positions, kinds, attack.title)
    handles = [panels[-1].scatter([], [], label=kind, **style) for kind, style in NODE_STYLE.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and as SVG, and return both paths."""
    import matplotlib as mpl

    paths = [stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")]
    with replacing(paths[0]) as partial:
        figure.savefig(partial, dpi=150, format="png")
    # A fixed salt and no date: the same certificate gives the same file.
    with mpl.rc_context({"svg.hashsalt": "labelcert"}), replacing(paths[1]) as partial:
        figure.savefig(partial, format="svg", metadata={"Date": None})
    return paths


def new_figure(width: float, height: float) -> Figure:
    """An empty figure that needs no window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.7)
    axes.set_axisbelow(True)


def _whole(axis: Axis) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))


def _budget_label(certificates: Sequence[tuple[str, Certificate]]) -> str:
    units = {cert.run.unit for _, cert in certificates}
    named = {"flips": "flipped labels", "labels": "flipped or removed labels", "removals": "removed labels"}
    return named.get(units.pop(), "cost units") if len(units) == 1 else "cost units"


def _legend(name: str, cert: Certificate | None = None) -> str:
    shown = drawable(name)
    if shown.startswith("_"):
        shown = f" {shown}"  # or matplotlib would leave it out
    return f"{shown} (trusting the solver)" if cert is not None and cert.trusts_solver else shown


def _need(drawn: Sequence[object]) -> None:
    if not drawn:
        raise InvalidInput("there is nothing to draw: give at least one result")


def _draw(axes: Axes, graph: Graph, positions: Float, kinds: Values, title: str) -> None:
    from matplotlib.collections import LineCollection

    segments = positions[graph.edges]
    # Marks shrink as graphs grow, so that nodes do not cover each other.
    scale = min(1.0, 60.0 / graph.n_nodes) ** 0.8
    axes.add_collection(LineCollection(list(segments), colors="#BBBBBB", linewidths=0.8 * scale**0.5, zorder=1))
    for layer, (kind, style) in enumerate(NODE_STYLE.items()):
        at = positions[kinds == kind]
        if len(at):
            axes.scatter(at[:, 0], at[:, 1], zorder=2 + layer, **{**style, "s": style["s"] * scale})
    if graph.n_nodes <= LARGEST_NAMED_GRAPH:
        style = {"xytext": (5.5, 5.5), "textcoords": "offset points", "fontsize": 7, "color": "#333333", "zorder": 9}
        for (x, y), name in zip(positions.tolist(), graph.names(range(graph.n_nodes)), strict=True):
            axes.annotate(drawable(name), (x, y), **style)
    axes.margins(0.06)
    axes.set_axis_off()
    axes.set_title(drawable(title), fontsize=11)
