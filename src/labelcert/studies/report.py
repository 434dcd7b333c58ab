"""Writes what a study found: tidy data, tables, pictures, and our numbers beside the published ones.

Reports only read stored records. They never train or certify.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labelcert.extensions import load_extensions
from labelcert.files import write_text
from labelcert.jobs.store import Store
from labelcert.report.page import render
from labelcert.studies.expansion import StudyPlan
from labelcert.studies.finite_widths import TRANSFER_COLUMNS, transfer_counts, transfer_panels, transfer_rows
from labelcert.studies.printed_numbers import COMPARISONS, Agreement, Compared, count_text
from labelcert.studies.schema import LOSS_MARK, Kind, Study
from labelcert.studies.tidy_tables import MISSING, each_row, means, tidy, write_frame
from labelcert.text import between, printable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

KIND_TITLES: Mapping[str, str] = {
    Kind.COLLECTIVE: "collective certified ratio",
    Kind.ACCURACY: "sample-wise certified accuracy",
    Kind.RATIO: "sample-wise certified ratio",
}
Y_LABELS: Mapping[str, str] = {
    Kind.COLLECTIVE: "predictions that survive (%)",
    Kind.ACCURACY: "right predictions that survive (%)",
    Kind.RATIO: "predictions that survive (%)",
}
BLANK = "–"
PRINTED = " / "
"""Between a number of ours and a printed one."""

EXACT_DIFFER = (
    "agreement is counted for the kernels of the published code, which have errors; exact kernels follow the paper's "
    "formulas, and with them it is: {} (docs/differences.md says where and why)"
)


@dataclass(frozen=True)
class Sheet:
    """A table of text under a title."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [f"### {self.title}", "", _line(self.headings), "|" + "---|" * len(self.headings)]
        return "\n".join([*lines, *map(_line, self.rows), ""])


@dataclass(frozen=True)
class StudyReport:
    """A study's results, ready to show and to write; figures by the stem of their files."""

    sheets: Sequence[Sheet]
    comparison: Sequence[Compared] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    counts: str = ""
    """How many numbers equal the published ones."""
    notes: Sequence[str] = ()
    files: Sequence[Path] = ()


def make_report(
    plan: StudyPlan,
    store: Store,
    folder: Path | None = None,
    *,
    pictures: bool = True,
    page: bool = False,
    imitated: StudyReport | None = None,
) -> StudyReport:
    """Make tables and the comparison from what is in the store, and write them to a folder if one is given.

    Files: ``results`` (one row per seed and budget) and ``means`` as CSV and Parquet, ``table.md``, ``comparison.csv``
    if the paper prints numbers, ``picture`` as PNG and SVG and, with ``page``, ``report.html``. With ``imitated``, the
    report of the same study with the kernels of the published code, tables have its numbers, too, and agreement is
    counted for those.
    """
    load_extensions()
    study, frame = plan.study, tidy(plan, store)
    summary = means(frame)
    report = REPORTS[study.report](plan, store, summary, pictures and folder is not None)
    reasons = dict.fromkeys(reason for reason in frame["reason"][frame["lower"].isna()] if reason)
    notes = [
        *([study.note] if study.note else []),
        *plan.notes,
        *report.notes,
        *(f"left out: {reason}" for reason in reasons),
    ]
    unit = "rank" if study.report == "ranks" else "node"
    counts = count_text(report.comparison, unit=unit)
    if imitated is not None and any(number.verdict != Agreement.NONE for number in imitated.comparison):
        notes.append(EXACT_DIFFER.format(counts))
        sheets = [_with_imitated(*both) for both in zip(report.sheets, imitated.sheets, strict=True)]
        report, counts = replace(report, sheets=sheets), count_text(imitated.comparison, unit=unit)
    report = replace(report, counts=counts, notes=notes)
    if folder is None:
        return report
    files = [*write_frame(frame, folder / "results"), *write_frame(summary, folder / "means")]
    files += _write(study, report, folder)
    return replace(report, files=[*files, *([_write_page(study, report, summary, folder)] if page else [])])


def _with_imitated(sheet: Sheet, other: Sheet) -> Sheet:
    """A table with three numbers wherever there are printed ones: ours, that of the published kernels, the paper's."""
    rows = tuple(
        tuple(
            f"{cell.partition(PRINTED)[0]} ({beside})" if PRINTED in beside else cell
            for cell, beside in zip(own, imitated, strict=True)
        )
        for own, imitated in zip(sheet.rows, other.rows, strict=True)
    )
    three = rows != sheet.rows
    title = f"{sheet.title.partition(PRINTED)[0]}: exact kernels (published kernels / paper)" if three else sheet.title
    return replace(sheet, title=title, rows=rows)


def _write(study: Study, report: StudyReport, folder: Path) -> list[Path]:
    import pandas as pd

    from labelcert.report.pictures import save_figure

    written = []
    if report.comparison:
        written += write_frame(pd.DataFrame([asdict(number) for number in report.comparison]), folder / "comparison")
    lines = [f"# {study.title}", "", *([f"{study.where}.", ""] if study.where else [])]
    lines += [sheet.markdown() for sheet in report.sheets]
    lines += [f"Compared with the paper: {report.counts}.", ""] if study.where else []
    lines += [*(f"- {note}" for note in report.notes), ""]
    written.append(folder / "table.md")
    write_text(written[-1], "\n".join(lines))
    for stem, figure in report.figures.items():
        written += save_figure(figure, folder / stem)
    return written


def _write_page(study: Study, report: StudyReport, summary: pd.DataFrame, folder: Path) -> Path:
    """The study as one page to click through."""
    panels = []
    fractions = not summary["epsilon"].isna().all()
    known = summary[summary["mean_lower"].notna()]
    for (dataset, certificate), part in known.groupby(["dataset", "certificate"], sort=False):
        lines = [
            {
                "name": printable(str(model)),
                "x": (100 * own["epsilon"] if fractions else own["flips"]).tolist(),
                "low": own["mean_lower"].tolist(),
                "high": own["mean_upper"].tolist(),
            }
            for model, own in part.groupby("model", sort=False)
        ]
        y_label = Y_LABELS.get(part["kind"].iloc[0], f"{certificate} (%)")
        if len({x for line in lines for x in line["x"]}) < 2:
            continue  # one budget makes no curve; the tables have it
        panels.append({"heading": printable(f"{dataset}: {certificate}"), "yLabel": y_label, "curves": lines})
    about = {"title": study.title, "where": study.where, "notes": list(report.notes)}
    x_label = "wrong labels (% of all)" if fractions else "wrong labels"
    sheets = [asdict(sheet) for sheet in report.sheets]
    data = {"models": [], "study": {**about, "xLabel": x_label, "panels": panels, "sheets": sheets}}
    path = folder / "report.html"
    text = "\n".join(sheet.markdown() for sheet in report.sheets)
    write_text(path, render(data, title=study.title, summary=text))
    return path


def _certified(plan: StudyPlan, store: Store, summary: pd.DataFrame, draw: bool) -> StudyReport:
    comparison = [number for compare in COMPARISONS for number in compare(plan.study, summary)]
    sheets = certified_sheets(summary, comparison)
    limits = [number for number in comparison if number.certificate == "threshold"]
    if limits:
        rows = tuple((c.dataset, c.model, with_printed(f"{c.ours_lower:g}", c, "{:g}")) for c in limits)
        title = "Smallest budget ε at which no prediction is certified on its own / paper"
        sheets.append(Sheet(title, ("dataset", "models", "ε"), rows))
    if plan.study.times:
        sheets.append(_seconds_sheet(plan, store))
    return StudyReport(sheets, comparison, curves(plan, summary, draw))


def _seconds_sheet(plan: StudyPlan, store: Store) -> Sheet:
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


def certified_sheets(summary: pd.DataFrame, comparison: Sequence[Compared]) -> list[Sheet]:
    """One table for each dataset and certificate: what survives each budget, beside the printed numbers."""
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
        what = f"{str(certificate).partition(kind)[0]}{KIND_TITLES[kind]}" if kind in KIND_TITLES else certificate
        title = f"{dataset}: {what} in %"
        title += f", mean ± deviation over {seeds} seeds" if seeds > 1 else ""
        title += " / paper" if any(number(row) for row in each_row(part)) else ""
        sheets.append(Sheet(title, ("model", *at), tuple(rows)))
    return sheets


def sheets_by_model(
    frame: pd.DataFrame, title: str, headings: tuple[str, ...], cell: Callable[[Any], str]
) -> list[Sheet]:
    """One table per dataset and one row per model."""
    sheets = []
    for dataset, part in frame.groupby("dataset", sort=False):
        rows = tuple((str(model), *map(cell, each_row(own))) for model, own in part.groupby("model", sort=False))
        sheets.append(Sheet(f"{dataset}: {title}", ("model", *headings), rows))
    return sheets


def _gaps(plan: StudyPlan, store: Store, summary: pd.DataFrame, draw: bool) -> StudyReport:
    """Show what attacks change, beside the exact worst case."""
    from labelcert.report.pictures import Curve, CurvePanel, curves_figure

    sheets, panels = [], []
    for (dataset, _), part in summary.groupby(["dataset", "certificate"], sort=False):
        what = "one attack on all nodes" if part["kind"].iloc[0] == Kind.COLLECTIVE else "attacks on single nodes"
        at = dict.fromkeys(_at(row) for row in each_row(part))
        rows, curves = [], []
        for model, own in part.groupby("model", sort=False):
            flips, changed = own["flips"].to_numpy(dtype=float), 100.0 - own["mean_upper"].to_numpy(dtype=float)
            rows.append((str(model), *(interval(value, value) for value in changed)))
            curves.append(Curve(str(model), flips, changed, changed, np.zeros_like(changed)))
        sheets.append(Sheet(f"{dataset}: predictions in % that {what} change", ("attack", *at), tuple(rows)))
        panels.append(CurvePanel(f"{dataset}: {what}", tuple(curves)))
    figures: dict[str, Figure] = {}
    if draw and summary["mean_upper"].notna().any():
        how: dict[str, Any] = {"xlabel": "flips", "ylabel": "changed (%)", "columns": 2}
        figures["picture"] = curves_figure(panels, title=plan.study.title, **how)
    return StudyReport(sheets, figures=figures)


def _transfer(plan: StudyPlan, store: Store, summary: pd.DataFrame, draw: bool) -> StudyReport:
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
    return StudyReport(sheets, figures=figures)


_RECIPES = {"theory": "the theory assumes", "practice": "practitioners do"}


REPORTS: dict[str, Callable[[StudyPlan, Store, Any, bool], StudyReport]] = {
    "certified": _certified,
    "transfer": _transfer,
    "gaps": _gaps,
}
"""What a study's report shows, by the study's word for it; extensions add more."""


def curves(plan: StudyPlan, summary: pd.DataFrame, draw: bool) -> dict[str, Figure]:
    """The picture of what survives, one panel for each dataset and certificate."""
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
        return with_printed(BLANK if row.reason == MISSING else text, number, "{:.1f}")
    text = interval(row.mean_lower, row.mean_upper, up=row.kind == Kind.HIGHEST)
    if row.seeds > 1 and row.mean_upper - row.mean_lower < 1e-9:
        text += f" ± {row.std:.1f}"
    if row.seeds_missing:
        text += f" ({row.seeds} of {row.seeds + row.seeds_missing} seeds)"
    return with_printed(text, number, "{:.1f}")


def with_printed(text: str, number: Compared | None, form: str) -> str:
    """A number of ours, and the printed one behind it."""
    if number is None:
        return text
    mark = {Agreement.EQUAL: "=", Agreement.OPEN: "?"}.get(number.verdict, "")
    if number.verdict in (Agreement.CLOSE, Agreement.OFF):
        digits = 2 if number.certificate in ("rank", "threshold") else 1
        mark = f"({number.difference:+.{digits}f})"
    return f"{text}{PRINTED}{form.format(number.published)} {mark}".rstrip()


def interval(lower: float, upper: float, *, up: bool = False) -> str:
    """Two ends in points, or one where they agree; that is rounded ``up`` where lower is better."""
    if math.isnan(lower):
        return BLANK
    return between(lower / 100, upper / 100, up=up)


def _at(row: Any) -> str:
    if not math.isnan(row.epsilon):
        return f"ε = {row.epsilon:g}"
    return "1 flip" if row.flips == 1 else f"{row.flips} flips"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(printable(cell).replace('|', chr(92) + '|') for cell in cells)} |"
