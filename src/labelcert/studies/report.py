"""Writes what a study found: tidy data, tables, pictures, and our numbers beside the published ones.

Reports only read stored records. They never train or certify.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labelcert.files import write_text
from labelcert.report.page import render, study_page
from labelcert.studies import published
from labelcert.studies.cells import Cell, Job, Place, Plan
from labelcert.studies.compare import (
    RANGES,
    Compared,
    Verdict,
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
from labelcert.studies.schema import LOSS_MARK, Kind
from labelcert.studies.store import Store
from labelcert.studies.transfer import TRANSFER_COLUMNS, transfer_counts, transfer_panels, transfer_rows
from labelcert.text import printable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from labelcert.report.pictures import GraphPanel

KIND_TITLES: Mapping[str, str] = {
    Kind.COLLECTIVE: "collective certified ratio",
    Kind.ACCURACY: "sample-wise certified accuracy",
    Kind.RATIO: "sample-wise certified ratio",
}
STEPS = ((0.05, 0.1), (0.2, 0.25), (0.1, 0.3), (0.3, 0.5))
"""Pairs of budgets whose difference the paper discusses."""

BLANK = "–"


@dataclass(frozen=True)
class Sheet:
    """A table of text under a title."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Format the table as Markdown.

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
class StudyReport:
    """A study's results, ready to show.

    Attributes
    ----------
    sheets : tuple of Sheet
    comparison : tuple of Compared
    counts : str
        How many numbers equal the published ones, in one line.
    notes : tuple of str
    files : tuple of Path
    """

    sheets: tuple[Sheet, ...]
    comparison: tuple[Compared, ...]
    counts: str
    notes: tuple[str, ...]
    files: tuple[Path, ...] = ()


@dataclass(frozen=True)
class _Parts:
    """What each kind of report makes; figures by the stem of their files."""

    sheets: Sequence[Sheet]
    comparison: Sequence[Compared] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    notes: Sequence[str] = ()


def make_report(
    plan: Plan, store: Store, folder: Path | None = None, *, pictures: bool = True, page: bool = False
) -> StudyReport:
    """Make tables and the comparison from what is in the store, and write them to a folder if one is given.

    Files: ``results`` (one row per seed and budget) and ``means`` as CSV and Parquet, ``table.md``, ``comparison.csv``
    if the paper prints numbers, ``picture`` as PNG and SVG and, with ``page``, ``report.html``.
    """
    study, frame = plan.study, tidy(plan, store)
    summary = means(frame)
    parts = _REPORTS[study.report](plan, store, summary, pictures and folder is not None)
    reasons = dict.fromkeys(reason for reason in frame["reason"][frame["lower"].isna()] if reason)
    notes = [study.note] if study.note else []
    notes += [*plan.notes, *parts.notes, *(f"left out: {reason}" for reason in reasons)]
    counts = count_text(parts.comparison, unit="rank" if study.report == "ranks" else "node")
    files: list[Path] = []
    if folder is not None:
        files += [*write_frame(frame, folder / "results"), *write_frame(summary, folder / "means")]
        files += _write(plan, parts, counts, notes, folder)
        files += [_write_page(plan, parts, summary, notes, folder)] if page else []
    return StudyReport(tuple(parts.sheets), tuple(parts.comparison), counts, tuple(notes), tuple(files))


def _write(plan: Plan, parts: _Parts, counts: str, notes: Sequence[str], folder: Path) -> list[Path]:
    import pandas as pd

    from labelcert.report.pictures import save_figure

    written = []
    if parts.comparison:
        written += write_frame(pd.DataFrame([asdict(number) for number in parts.comparison]), folder / "comparison")
    lines = [f"# {plan.study.title}", "", *([f"{plan.study.where}.", ""] if plan.study.where else [])]
    lines += [sheet.markdown() for sheet in parts.sheets]
    lines += [f"Compared with the paper: {counts}.", ""] if plan.study.where else []
    lines += [*(f"- {note}" for note in notes), ""]
    written.append(folder / "table.md")
    write_text(written[-1], "\n".join(lines))
    for stem, figure in parts.figures.items():
        written += save_figure(figure, folder / stem)
    return written


def _write_page(plan: Plan, parts: _Parts, summary: pd.DataFrame, notes: Sequence[str], folder: Path) -> Path:
    """The study as one page to click through."""
    study, panels = plan.study, []
    fractions = not summary["epsilon"].isna().all()
    for (dataset, certificate), part in summary[summary["mean_lower"].notna()].groupby(
        ["dataset", "certificate"], sort=False
    ):
        curves = [
            {
                "name": printable(str(model)),
                "x": [100 * row.epsilon if fractions else row.flips for row in each_row(own)],
                "low": [row.mean_lower for row in each_row(own)],
                "high": [row.mean_upper for row in each_row(own)],
            }
            for model, own in part.groupby("model", sort=False)
        ]
        right = part["kind"].iloc[0] == Kind.ACCURACY
        y_label = "right predictions that survive (%)" if right else "predictions that survive (%)"
        if len({x for curve in curves for x in curve["x"]}) < 2:
            continue  # one budget makes no curve; the tables have it
        panels.append({"heading": printable(f"{dataset}: {certificate}"), "yLabel": y_label, "curves": curves})
    data = study_page(
        title=study.title,
        where=study.where,
        x_label="wrong labels (% of all)" if fractions else "wrong labels",
        panels=panels,
        sheets=[asdict(sheet) for sheet in parts.sheets],
        notes=notes,
    )
    path = folder / "report.html"
    text = "\n".join(sheet.markdown() for sheet in parts.sheets)
    write_text(path, render(data, title=study.title, summary=text))
    return path


def _certified(plan: Plan, store: Store, summary: pd.DataFrame, draw: bool) -> _Parts:
    comparison = compare_certified(plan.study, summary)
    sheets = _certified_sheets(summary, comparison)
    limits = compare_thresholds(summary) if "thresholds" in plan.study.compare else []
    if limits:
        rows = tuple((c.dataset, c.model, _with_paper(f"{c.ours_lower:g}", c, "{:g}")) for c in limits)
        title = "Smallest budget ε at which no prediction is certified on its own / paper"
        sheets.append(Sheet(title, ("dataset", "models", "ε"), rows))
    if plan.study.times:
        sheets.append(_seconds_sheet(plan, store))
    return _Parts(sheets, comparison + limits, _curves(plan, summary, draw))


def _seconds_sheet(plan: Plan, store: Store) -> Sheet:
    """Mean seconds of each model's certificates on each dataset, as they were recorded."""
    datasets = tuple(dict.fromkeys(place.dataset for place in plan.places))
    taken: dict[tuple[str, str], list[float]] = {}
    for place in plan.places:
        record = store.records.get(place.cell, {})
        if record.get("result"):
            taken.setdefault((place.model, place.dataset), []).append(record["run"]["seconds"])
    rows = [
        (model, *(f"{np.mean(taken[model, d]):.1f}" if (model, d) in taken else BLANK for d in datasets))
        for model in dict.fromkeys(place.model for place in plan.places)
    ]
    title = "Seconds per certificate, with its share of the kernel and the choice of C, mean over seeds"
    return Sheet(title, ("model", *datasets), tuple(rows))


def _certified_sheets(summary: pd.DataFrame, comparison: Sequence[Compared]) -> list[Sheet]:
    beside = {(c.dataset, c.model, c.certificate, c.at): c for c in comparison}

    def number(row: Any) -> Compared | None:
        return beside.get((row.dataset_name, row.model_name, row.certificate, _at(row).removeprefix("ε = ")))

    sheets = []
    for (dataset, certificate), part in summary.groupby(["dataset", "certificate"], sort=False):
        kind = part["kind"].iloc[0]
        at = list(dict.fromkeys(_at(row) for row in each_row(part)))
        rows = []
        for model, own in part.groupby("model", sort=False):
            cells = {_at(row): _cell(row, number(row)) for row in each_row(own)}
            rows.append((str(model), *(cells.get(a, BLANK) for a in at)))
        seeds = int(part["seeds"].max())
        title = f"{dataset}: {str(certificate).partition(kind)[0]}{KIND_TITLES[kind]} in %"
        title += f", mean ± deviation over {seeds} seeds" if seeds > 1 else ""
        title += " / paper" if any(number(row) for row in each_row(part)) else ""
        sheets.append(Sheet(title, ("model", *at), tuple(rows)))
    return sheets


def _ranks(plan: Plan, store: Store, summary: pd.DataFrame, draw: bool) -> _Parts:
    ranks = average_ranks(summary)
    comparison = compare_ranks(ranks)
    beside = {(c.dataset, c.model, c.at): c for c in comparison}

    def cell(row: Any) -> str:
        text = BLANK if math.isnan(row.rank) else f"{row.rank:.2f}"
        return _with_paper(text, beside.get((row.dataset_name, row.model_name, row.epsilons)), "{:.2f}")

    headings = tuple(epsilons if epsilons == "total" else f"ε in {epsilons}" for epsilons in RANGES)
    sheets = _sheets(ranks, "average rank by the collective certified ratio / paper", headings, cell)
    return _Parts(sheets, comparison, _curves(plan, summary, draw))


def _plateau(plan: Plan, store: Store, summary: pd.DataFrame, draw: bool) -> _Parts:
    found = drops(summary, STEPS)
    comparison = compare_drops(found)
    beside = {(c.dataset, c.model, c.at): c for c in comparison}

    def cell(row: Any) -> str:
        at = f"{row.from_epsilon:g} to {row.to_epsilon:g}"
        text = _interval(row.drop_lower, row.drop_upper)
        return _with_paper(text, beside.get((row.dataset_name, row.model_name, at)), "{:.1f}")

    headings = tuple(f"ε {first:g} → {last:g}" for first, last in STEPS)
    sheets = _sheets(found, "drop of the mean collective ratio in points / paper", headings, cell)
    return _Parts(sheets, comparison, _curves(plan, summary, draw))


def _sheets(frame: pd.DataFrame, title: str, headings: tuple[str, ...], cell: Callable[[Any], str]) -> list[Sheet]:
    """One table per dataset and one row per model."""
    sheets = []
    for dataset, part in frame.groupby("dataset", sort=False):
        rows = tuple((str(model), *map(cell, each_row(own))) for model, own in part.groupby("model", sort=False))
        sheets.append(Sheet(f"{dataset}: {title}", ("model", *headings), rows))
    return sheets


def _attack(plan: Plan, store: Store, summary: pd.DataFrame, draw: bool) -> _Parts:
    """Show what the worst single flip does, seed by seed."""
    rows, comparison = [], []
    for place, job, _ in _attacked(plan):
        result: Mapping[str, Any] = store.records.get(place.cell, {}).get("result", {})
        correct, attack, n = result.get("correct_after"), result.get("attack"), result.get("n_test", math.nan)
        before = math.nan if correct is None else 100 * correct[0] / n
        after, changed = math.nan, BLANK
        if correct is not None and attack is not None:
            after, changed = 100 * correct[1] / n, f"{len(attack['changed'])} of {n}"
        points = (_interval(value, value) for value in (before, after, before - after))
        rows.append((place.model, str(place.seed), *points, changed))
        if place.model_name == "gcn" and place.seed == 0:
            lost = (before - after, before - after)
            spot = ("text", job.graph.name, "gcn", "accuracy lost", "1 flip")
            printed = published.KARATE_GCN_DROP
            comparison.append(compared(*spot, ours=lost, printed=printed, rounding=0.5, one_node=100 / n))
    headings = ("model", "seed", "accuracy", "after the worst flip", "points lost", "predictions changed")
    sheets = [Sheet("One flipped label (paper: it costs the GCN 50 points)", headings, tuple(rows))]
    figures = dict(_curves(plan, summary, draw))
    panels = _attack_panels(plan, store)
    if draw and panels:
        from labelcert.report.pictures import graph_figure

        figures["graph"] = graph_figure(panels)
    return _Parts(sheets + _certified_sheets(summary, []), comparison, figures)


def _gaps(plan: Plan, store: Store, summary: pd.DataFrame, draw: bool) -> _Parts:
    """Show what attacks change, beside the exact worst case."""
    from labelcert.report.pictures import Curve, CurvePanel, curves_figure

    sheets, panels = [], []
    for (dataset, _), part in summary.groupby(["dataset", "certificate"], sort=False):
        what = "one attack on all nodes" if part["kind"].iloc[0] == Kind.COLLECTIVE else "attacks on single nodes"
        at = dict.fromkeys(_at(row) for row in each_row(part))
        rows, curves = [], []
        for model, own in part.groupby("model", sort=False):
            flips, changed = own["flips"].to_numpy(dtype=float), 100.0 - own["mean_upper"].to_numpy(dtype=float)
            rows.append((str(model), *(_interval(value, value) for value in changed)))
            curves.append(Curve(str(model), flips, changed, changed, np.zeros_like(changed)))
        sheets.append(Sheet(f"{dataset}: predictions in % that {what} change", ("attack", *at), tuple(rows)))
        panels.append(CurvePanel(f"{dataset}: {what}", tuple(curves)))
    figures: dict[str, Figure] = {}
    if draw and summary["mean_upper"].notna().any():
        how: dict[str, Any] = {"xlabel": "flips", "ylabel": "changed (%)", "columns": 2}
        figures["picture"] = curves_figure(panels, title=plan.study.title, **how)
    return _Parts(sheets, figures=figures)


def _transfer(plan: Plan, store: Store, summary: pd.DataFrame, draw: bool) -> _Parts:
    """Show what networks of finite width do with certified predictions."""
    counts = transfer_counts(plan, store)
    sheets = [
        Sheet(f"{dataset}: networks trained as {_RECIPES[recipe]}", ("model", "width", *TRANSFER_COLUMNS), rows)
        for (dataset, recipe), rows in transfer_rows(counts).items()
    ]
    figures = {}
    if draw and counts:
        from labelcert.report.pictures import curves_figure

        panels = transfer_panels(counts)
        figures["picture"] = curves_figure(
            panels, xlabel="width", ylabel="%", title=plan.study.title, columns=2, log=True
        )
    return _Parts(sheets, figures=figures)


_RECIPES = {"theory": "the theory assumes", "practice": "practitioners do"}


def _attacked(plan: Plan) -> list[tuple[Place, Job, Cell]]:
    """Each cell that can be computed here with its job, and the first place that shows it."""
    places = {place.cell: place for place in reversed(plan.places)}
    return [(places[cell.key], job, cell) for job in plan.jobs for cell in job.cells]


def _attack_panels(plan: Plan, store: Store) -> list[GraphPanel]:
    """The worst single flip for each model, on the first graph and seed that has one."""
    from labelcert.report.pictures import GraphPanel

    panels: list[GraphPanel] = []
    for place, job, cell in _attacked(plan):
        attack = store.records.get(cell.key, {}).get("result", {}).get("attack")
        if (
            attack
            and _fits(attack, job.graph.n_nodes)
            and (not panels or (job.graph is panels[0].graph and np.array_equal(job.labeled, panels[0].labeled)))
        ):
            flipped, changed = (np.array(attack[key], dtype=np.int64) for key in ("labels", "changed"))
            title = f"{place.model}\n1 flip: {changed.size} of {cell.test.size} predictions change"
            panels.append(GraphPanel(title, job.graph, job.labeled, flipped, changed))
    return panels


def _fits(attack: Mapping[str, Sequence[int]], n: int) -> bool:
    return all(0 <= node < n for nodes in attack.values() for node in nodes)


_REPORTS: dict[str, Callable[[Plan, Store, Any, bool], _Parts]] = {
    "certified": _certified,
    "ranks": _ranks,
    "plateau": _plateau,
    "attack": _attack,
    "transfer": _transfer,
    "gaps": _gaps,
}


def _curves(plan: Plan, summary: pd.DataFrame, draw: bool) -> dict[str, Figure]:
    from labelcert.report.pictures import Curve, CurvePanel, curves_figure

    known = summary[summary["mean_lower"].notna()]
    if not draw or known.empty:
        return {}
    study = plan.study
    share = not study.flips
    parts = known["model"].str.split(LOSS_MARK)
    if study.losses:  # a panel for each
        known = known.assign(model=parts.str[0])
    panels = []
    for (dataset, certificate), both in known.groupby(["dataset", "certificate"], sort=False):
        for loss, part in both.groupby(parts.str[1]) if study.losses else (("", both),):
            curves = []
            for model, own in part.groupby("model", sort=False):
                columns = ("epsilon" if share else "flips", "mean_lower", "mean_upper", "std")
                curves.append(Curve(str(model), *(own[column].to_numpy(dtype=float) for column in columns)))
            panels.append(CurvePanel(", ".join(filter(None, map(str, (dataset, certificate, loss)))), tuple(curves)))
    xlabel = "budget ε (share of the labels)" if share else "flips"
    most = len(study.losses) or 3
    return {"picture": curves_figure(panels, xlabel=xlabel, ylabel="certified (%)", title=study.title, columns=most)}


def _cell(row: Any, number: Compared | None) -> str:
    if math.isnan(row.mean_lower):
        text = "not available" if row.reason.startswith("not available") else "failed"
        return _with_paper(BLANK if row.reason == MISSING else text, number, "{:.1f}")
    text = _interval(row.mean_lower, row.mean_upper)
    if row.seeds > 1 and row.mean_upper - row.mean_lower < 1e-9:
        text += f" ± {row.std:.1f}"
    if row.seeds_missing:
        text += f" ({row.seeds} of {row.seeds + row.seeds_missing} seeds)"
    return _with_paper(text, number, "{:.1f}")


def _with_paper(text: str, number: Compared | None, form: str) -> str:
    if number is None:
        return text
    mark = {Verdict.EQUAL: "=", Verdict.OPEN: "?"}.get(number.verdict, "")
    if number.verdict in (Verdict.CLOSE, Verdict.OFF):
        digits = 2 if number.certificate in ("rank", "threshold") else 1
        mark = f"({number.difference:+.{digits}f})"
    return f"{text} / {form.format(number.published)} {mark}".rstrip()


def _interval(lower: float, upper: float) -> str:
    if math.isnan(lower):
        return BLANK
    lower, upper = lower + 0.0, upper + 0.0  # no "-0.0"
    return f"{lower:.1f}" if upper - lower < 1e-9 else f"{lower:.1f} to {upper:.1f}"


def _at(row: Any) -> str:
    if not math.isnan(row.epsilon):
        return f"ε = {row.epsilon:g}"
    return "1 flip" if row.flips == 1 else f"{row.flips} flips"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(printable(cell).replace('|', chr(92) + '|') for cell in cells)} |"
