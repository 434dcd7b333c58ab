"""What a study leaves in its folder: tidy data, tables, a picture, and ours beside the published numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labelcert.studies import published
from labelcert.studies.cells import Plan
from labelcert.studies.compare import (
    CLOSE,
    EQUAL,
    OFF,
    OPEN,
    RANGES,
    Compared,
    average_ranks,
    compare_certified,
    compare_drops,
    compare_ranks,
    compare_thresholds,
    compared,
    count_text,
    drops,
)
from labelcert.studies.results import MISSING, each_row, means, tidy, write_frame
from labelcert.studies.store import Store

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MARKS = {EQUAL: "=", OPEN: "?"}
KIND_TITLES = {
    "collective": "collective certified ratio",
    "accuracy": "sample-wise certified accuracy",
    "ratio": "sample-wise certified ratio",
}
STEPS = ((0.05, 0.1), (0.2, 0.25), (0.1, 0.3), (0.3, 0.5))
"""Pairs of budgets whose difference the paper speaks of."""

DPI = 150


@dataclass(frozen=True)
class Sheet:
    """A table of text under a title."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """As Markdown.

        Examples
        --------
        >>> print(Sheet("T", ("a", "b"), (("1", "2"),)).markdown())
        ### T
        <BLANKLINE>
        | a | b |
        |---|---|
        | 1 | 2 |
        <BLANKLINE>
        """
        lines = [f"### {self.title}", "", _line(self.headings), "|" + "---|" * len(self.headings)]
        return "\n".join([*lines, *map(_line, self.rows), ""])


@dataclass(frozen=True)
class Report:
    """A study's results, ready to show.

    Attributes
    ----------
    sheets : tuple of Sheet
    comparison : tuple of Compared
    counts : str
        How many cells are equal to the published ones, in one line.
    notes : tuple of str
    files : tuple of Path
    """

    sheets: tuple[Sheet, ...]
    comparison: tuple[Compared, ...]
    counts: str
    notes: tuple[str, ...]
    files: tuple[Path, ...] = ()


def make_report(plan: Plan, store: Store, folder: Path | None = None, *, pictures: bool = True) -> Report:
    """Tables and comparison of what is in the store; with a folder, written into it.

    Files: ``results`` (one row per seed and budget) and ``means`` as CSV and Parquet, ``table.md``, ``comparison.csv``
    where the paper prints numbers, and ``picture`` as PNG and SVG.
    """
    frame = tidy(plan, store)
    summary = means(frame)
    sheets, comparison, figures = _REPORTS[plan.study.report](plan, store, summary, pictures and folder is not None)
    notes = [*([plan.study.note] if plan.study.note else []), *plan.notes]
    reasons = dict.fromkeys(reason for reason in frame["reason"][frame["lower"].isna()] if reason)
    notes += [f"left out: {reason}" for reason in reasons]
    if folder is None:
        return Report(sheets, comparison, _counts(plan, comparison), tuple(notes))
    written = [*write_frame(frame, folder / "results"), *write_frame(summary, folder / "means")]
    if comparison:
        import pandas as pd

        written += write_frame(pd.DataFrame([asdict(c) for c in comparison]), folder / "comparison")
    text = "\n".join(
        [f"# {plan.study.title}", "", *([f"{plan.study.where}.", ""] if plan.study.where else [])]
        + [sheet.markdown() for sheet in sheets]
        + ([f"Beside the paper: {_counts(plan, comparison)}.", ""] if plan.study.where else [])
        + [*(f"- {note}" for note in notes), ""]
    )
    (folder / "table.md").write_text(text, encoding="utf-8")
    written.append(folder / "table.md")
    for stem, figure in figures.items():
        for suffix in (".png", ".svg"):
            path = folder / f"{stem}{suffix}"
            figure.savefig(path, dpi=DPI)
            written.append(path)
    return Report(sheets, comparison, _counts(plan, comparison), tuple(notes), tuple(written))


Parts = tuple[tuple[Sheet, ...], tuple[Compared, ...], dict[str, "Figure"]]


def _certified(plan: Plan, store: Store, summary: pd.DataFrame, draw: bool) -> Parts:
    comparison = compare_certified(plan.study, summary)
    sheets = _certified_sheets(plan, summary, comparison)
    if "thresholds" in plan.study.compare:
        limits = compare_thresholds(summary)
        comparison += limits
        rows = tuple((c.dataset, c.model, _with_paper(f"{c.ours_lower:g}", c, "{:g}")) for c in limits)
        title = "Smallest budget ε at which no prediction is certified on its own / paper"
        sheets += (Sheet(title, ("dataset", "models", "ε"), rows),) if limits else ()
    figures = {"picture": _curves(plan, summary)} if draw and summary["mean_lower"].notna().any() else {}
    return sheets, tuple(comparison), figures


def _certified_sheets(plan: Plan, summary: pd.DataFrame, comparison: Sequence[Compared]) -> tuple[Sheet, ...]:
    beside = {(c.dataset, c.model, c.certificate, c.at): c for c in comparison}
    sheets = []
    for (dataset, certificate), part in summary.groupby(["dataset", "certificate"], sort=False):
        kind = part["kind"].iloc[0]
        prefix = str(certificate).partition(kind)[0]
        paper = any(_number(beside, row) is not None for row in each_row(part))
        at = list(dict.fromkeys(_at(row) for row in each_row(part)))
        rows = []
        for model, own in part.groupby("model", sort=False):
            cells = {_at(row): _cell(row, _number(beside, row)) for row in each_row(own)}
            rows.append((str(model), *(cells.get(a, "–") for a in at)))
        seeds = int(part["seeds"].max())
        title = f"{dataset}: {prefix}{KIND_TITLES[kind]} in %"
        title += f", mean ± deviation over {seeds} seeds" if seeds > 1 else ""
        sheets.append(Sheet(title + (" / paper" if paper else ""), ("model", *at), tuple(rows)))
    return tuple(sheets)


def _ranks(plan: Plan, store: Store, summary: pd.DataFrame, draw: bool) -> Parts:
    ranks = average_ranks(summary)
    comparison = compare_ranks(ranks)
    beside = {(c.dataset, c.model, c.at): c for c in comparison}
    sheets = []
    for dataset, part in ranks.groupby("dataset", sort=False):
        rows = []
        for model, own in part.groupby("model", sort=False):
            cells = []
            for row in each_row(own):
                text = "–" if math.isnan(row.rank) else f"{row.rank:.2f}"
                cells.append(_with_paper(text, beside.get((row.dataset_name, row.model_name, row.epsilons)), "{:.2f}"))
            rows.append((str(model), *cells))
        title = f"{dataset}: average rank by the collective certified ratio / paper"
        sheets.append(Sheet(title, ("model", *(f"ε in {r}" if r != "total" else r for r in RANGES)), tuple(rows)))
    return tuple(sheets), tuple(comparison), {"picture": _curves(plan, summary)} if draw else {}


def _plateau(plan: Plan, store: Store, summary: pd.DataFrame, draw: bool) -> Parts:
    found = drops(summary, STEPS)
    comparison = compare_drops(found)
    beside = {(c.dataset, c.model, c.at): c for c in comparison}
    sheets = []
    for dataset, part in found.groupby("dataset", sort=False):
        rows = []
        for model, own in part.groupby("model", sort=False):
            cells = []
            for row in each_row(own):
                at = f"{row.from_epsilon:g} to {row.to_epsilon:g}"
                text = _interval(row.drop_lower, row.drop_upper)
                cells.append(_with_paper(text, beside.get((row.dataset_name, row.model_name, at)), "{:.1f}"))
            rows.append((str(model), *cells))
        headings = ("model", *(f"ε {first:g} → {last:g}" for first, last in STEPS))
        sheets.append(Sheet(f"{dataset}: fall of the mean collective ratio in points / paper", headings, tuple(rows)))
    return tuple(sheets), tuple(comparison), {"picture": _curves(plan, summary)} if draw else {}


def _attack(plan: Plan, store: Store, summary: pd.DataFrame, draw: bool) -> Parts:
    """What the worst single flip does, seed by seed; small graphs alone, so that it is computed on the spot."""
    from labelcert.pictures import graph_figure
    from labelcert.workflow import ALL, Certified, Targets, certify_targets, choose_model

    results: list[tuple[int, Certified]] = []
    for job in plan.jobs:
        [cell] = job.cells
        C = "cv" if cell.C is None else cell.C
        choice = choose_model(job.model, job.graph, job.labeled, C=C, seed=job.seed, **job.options)
        results += [
            (job.seed, result)
            for result in certify_targets(
                choice, job.graph, job.labeled, [Targets(ALL, cell.test)], max_flips=cell.max_flips
            )
        ]
    rows, comparison = [], []
    for seed, result in results:
        before, after = 100 * (result.accuracy_after(0) or 0.0), 100 * (result.accuracy_after(1) or 0.0)
        n = result.certificate.n_test
        changed = f"{int(result.changed(1).sum())} of {n}"
        rows.append((result.choice.name, str(seed), f"{before:.1f}", f"{after:.1f}", f"{before - after:.1f}", changed))
        if result.choice.name == "gcn" and seed == 0:
            number = compared(
                "text",
                result.graph.name,
                "gcn",
                "accuracy lost",
                "1 flip",
                ours=(before - after, before - after),
                printed=published.KARATE_GCN_DROP,
                rounding=0.5,
                one_node=100 / n,
            )
            comparison.append(number)
    headings = ("model", "seed", "accuracy", "after the worst flip", "points lost", "predictions changed")
    sheets = (Sheet("One flipped label (paper: it costs the GCN 50 points)", headings, tuple(rows)),)
    figures = {"picture": _curves(plan, summary)} if draw else {}
    if draw:
        figures["graph"] = graph_figure([result for seed, result in results if seed == results[0][0]])
    return sheets + _certified_sheets(plan, summary, []), tuple(comparison), figures


_REPORTS: dict[str, Callable[[Plan, Store, Any, bool], Parts]] = {
    "certified": _certified,
    "ranks": _ranks,
    "plateau": _plateau,
    "attack": _attack,
}


def _curves(plan: Plan, summary: pd.DataFrame) -> Figure:
    from labelcert.pictures import Curve, Panel, curves_figure

    panels = []
    share = bool(plan.study.budgets) and not plan.study.flips
    for (dataset, certificate), part in summary.groupby(["dataset", "certificate"], sort=False):
        curves = []
        for model, own in part.groupby("model", sort=False):
            known = own[own["mean_lower"].notna()]
            if len(known):
                x = known["epsilon"] if share else known["flips"]
                curves.append(
                    Curve(
                        str(model),
                        *(c.to_numpy(dtype=float) for c in (x, known["mean_lower"], known["mean_upper"], known["std"])),
                    )
                )
        if curves:
            panels.append(Panel(f"{dataset}, {certificate}", tuple(curves)))
    xlabel = "budget ε (share of the labels)" if share else "flips"
    return curves_figure(panels, xlabel=xlabel, ylabel="certified (%)", title=plan.study.title)


def _counts(plan: Plan, comparison: Sequence[Compared]) -> str:
    return count_text(comparison, unit="rank" if plan.study.report == "ranks" else "node")


def _number(beside: dict[tuple[str, str, str, str], Compared], row: Any) -> Compared | None:
    return beside.get((row.dataset_name, row.model_name, row.certificate, _at(row).removeprefix("ε = ")))


def _cell(row: Any, number: Compared | None) -> str:
    if math.isnan(row.mean_lower):
        text = "not available" if row.reason.startswith("not available") else "failed"
        text = "–" if row.reason == MISSING else text
        return _with_paper(text, number, "{:.1f}")
    text = _interval(row.mean_lower, row.mean_upper)
    if row.seeds > 1 and row.mean_upper - row.mean_lower < 1e-9:
        text += f" ± {row.std:.1f}"
    if row.seeds_missing:
        text += f" ({row.seeds} of {row.seeds + row.seeds_missing} seeds)"
    return _with_paper(text, number, "{:.1f}")


def _with_paper(text: str, number: Compared | None, form: str) -> str:
    if number is None:
        return text
    mark = MARKS.get(number.verdict, "")
    if number.verdict in (CLOSE, OFF):
        digits = 2 if number.certificate in ("rank", "threshold") else 1
        mark = f"({number.difference:+.{digits}f})"
    return f"{text} / {form.format(number.published)} {mark}".rstrip()


def _interval(lower: float, upper: float) -> str:
    lower, upper = lower + 0.0, upper + 0.0
    return f"{lower:.1f}" if upper - lower < 1e-9 else f"{lower:.1f} to {upper:.1f}"


def _at(row: Any) -> str:
    if not math.isnan(row.epsilon):
        return f"ε = {row.epsilon:g}"
    return "1 flip" if row.flips == 1 else f"{row.flips} flips"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
