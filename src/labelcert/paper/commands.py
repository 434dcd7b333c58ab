"""The command ``labelcert reproduce``."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from labelcert.cli import cli
from labelcert.cli.exits import EXIT_FAILED
from labelcert.cli.printing import print_table
from labelcert.cli.study_commands import (
    OUT_OPTION,
    RUN_OPTIONS,
    STUDY_OPTIONS,
    TIME_REMARKS,
    RanStudy,
    has_failed,
    plan_study,
    run_batch,
    run_study,
    seeds_named,
    show_study,
)
from labelcert.files import write_text
from labelcert.jobs.cells import Job, JobBatch
from labelcert.paper.claims import NEEDED, Found, claims_sheet
from labelcert.paper.collapse_report import collapsed_curves
from labelcert.paper.hyperparameters import hyperparameter_sheets
from labelcert.paper.moving import moved_labels
from labelcert.paper.paper_studies import BEYOND, ORDER, paper_study
from labelcert.paper.published import HOURS_PER_COLLECTIVE_CERTIFICATE
from labelcert.report import tables
from labelcert.report.page import render
from labelcert.studies import Graphs, Store, Study, StudyPlan
from labelcert.studies.report import Sheet
from labelcert.studies.schema import Kind
from labelcert.studies.tidy_tables import means, tidy

CLAIMED, CROSS_VALIDATED = "claims", "hyperparameters"
"""What stands for a verdict on each claim of the text, and for the paper's protocol of choosing C."""

WHY_THEY_DIFFER = (
    "Each cell: our number with exact kernels, which follow the paper's formulas; in brackets, the same with the "
    "kernels of the published code, and what the paper prints. '=' marks those that agree up to rounding. Exact "
    "kernels differ where the published ones have errors: docs/differences.md."
)

EXAMPLES = """\b
Examples:
  labelcert reproduce --list
  labelcert reproduce cora-ml-b --out results
      The paper's Cora-MLb table, with our numbers beside the published ones.
  labelcert reproduce all --out results
      All studies. Results in the folder are reused.
  labelcert reproduce claims --out results
      Which claims of the text hold.
  labelcert reproduce hyperparameters --out results
      Whether cross-validation returns the paper's C.
  labelcert reproduce csbm --variant published
      Use the kernels of the published code, for comparison."""


@click.command("reproduce", epilog=EXAMPLES)
@click.argument("name", required=False, metavar="[NAME, all, claims or hyperparameters]")
@click.option("--list", "listed", is_flag=True, help="List the studies of the paper.")
@OUT_OPTION
@STUDY_OPTIONS
@RUN_OPTIONS
def reproduce_command(name: str | None, listed: bool, out: Path, **given: Any) -> None:
    """Recompute an experiment of the paper and compare our numbers with the published ones."""
    if listed or name is None:
        rows = [(known, paper_study(known).title, paper_study(known).where) for known in ORDER]
        print_table(tables.listing("Studies of the paper", ("name", "what it shows", "where in the paper"), rows))
        return
    if name == CROSS_VALIDATED:
        _show_hyperparameters(out, given)
        return
    several = {"all": [known for known in ORDER if known not in BEYOND], CLAIMED: NEEDED}
    names = several.get(name, (name,))
    studies = [paper_study(known) for known in names]
    started, finished = time.perf_counter(), list[RanStudy]()
    plans = _planned(studies, given, imitate=given["variant"] is None and name != CLAIMED)
    if len(plans) > 1:
        _compute(name, plans, out, given)
        given = {**given, "retry_failed": False}  # which was done
    for plan, other in plans:
        plain = {**given, "pictures": False, "page": False}
        imitated = None if other is None else run_study(other, out, plain).report
        finished.append(run_study(plan, out, given, imitated=imitated))
        show_study(finished[-1])
    if len(finished) > 1:
        _overview(finished, out, time.perf_counter() - started)
    if name == CLAIMED:
        _judge(finished, out, keep_old=given["keep_old"])
    if any(has_failed(ran) for ran in finished):
        sys.exit(EXIT_FAILED)


def _show_hyperparameters(out: Path, given: dict[str, Any]) -> None:
    """Print and write what cross-validation returns."""
    sheets = hyperparameter_sheets(Graphs(given["data_dir"]), seeds_named(given["seeds"]))
    for sheet in sheets:
        print_table(tables.listing(sheet.title, sheet.headings, sheet.rows))
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / "hyperparameters.md", "\n".join(sheet.markdown() for sheet in sheets))


def _planned(
    studies: Sequence[Study], given: dict[str, Any], *, imitate: bool
) -> list[tuple[StudyPlan, StudyPlan | None]]:
    """Each study, and where the paper prints numbers the same one with the kernels of the published code."""
    graphs, found = Graphs(given["data_dir"]), list[tuple[StudyPlan, StudyPlan | None]]()
    for study in studies:
        own = {**given, "variant": None} if study.name in BEYOND else given
        other = None
        if study.compare and imitate:
            other = plan_study(study.changed(name=f"{study.name}-published"), {**given, "variant": "published"}, graphs)
        found.append((plan_study(study, own, graphs), other))
    return found


def _compute(name: str, plans: Sequence[tuple[StudyPlan, StudyPlan | None]], out: Path, given: dict[str, Any]) -> None:
    """All certificates of several studies, each once: processes start once, and none waits for a study to end."""
    jobs, known = list[Job](), set[str]()
    for plan in (plan for pair in plans for plan in pair if plan is not None):
        jobs += [part for job in plan.jobs if (part := job.only(set(plan.keys) - known)) is not None]
        known.update(plan.keys)
    with Store(out, write=True, keep_old=given["keep_old"]) as store:
        run_batch(JobBatch(name, tuple(jobs)), store, given)


def _overview(finished: Sequence[RanStudy], out: Path, seconds: float) -> None:
    headings = ("study", "certificates", "failed", "seconds of work", "compared with the paper")
    rows = []
    for ran in finished:
        numbers = str(len(ran.plan.keys)), str(ran.outcome.failed), f"{ran.outcome.certificate_seconds:.1f}"
        rows.append((ran.plan.study.name, *numbers, ran.report.counts))
    sheet = Sheet(f"All studies, {seconds:.0f} s", headings, tuple(rows))
    print_table(tables.listing(sheet.title, sheet.headings, sheet.rows))
    sheets = [sheet, *(each for ran in finished for each in ran.report.sheets if "paper" in each.title)]
    text = "\n".join(each.markdown() for each in sheets)
    write_text(out / "overview.md", text)
    about = {"title": "The paper, recomputed", "where": "", "xLabel": "", "panels": [], "notes": [WHY_THEY_DIFFER]}
    data = {"models": [], "study": {**about, "sheets": [asdict(each) for each in sheets]}}
    write_text(out / "overview.html", render(data, title=str(about["title"]), summary=text))


def _judge(finished: Sequence[RanStudy], out: Path, *, keep_old: bool) -> None:
    """Print and write the verdict on each claim of the text."""
    plans, store = [ran.plan for ran in finished], Store(out, keep_old=keep_old)
    summaries = {plan.study.name: means(tidy(plan, store)) for plan in plans}
    curves = [curve for plan in plans if plan.study.report == "collapse" for curve in collapsed_curves(plan, store)]
    moved = [moved_labels(plan, store) for plan in plans if plan.study.report == "moves"]
    sheet = claims_sheet(Found.of(summaries, curves, moved[0] if moved else {}))
    print_table(tables.listing(sheet.title, sheet.headings, sheet.rows))
    write_text(out / "claims.md", sheet.markdown())


def _papers_time(study: Study) -> str:
    if not study.where or all(certificate.kind is not Kind.COLLECTIVE for certificate in study.certificates):
        return ""
    hours = HOURS_PER_COLLECTIVE_CERTIFICATE
    return f"; the paper reports {hours} hours for one collective certificate at one budget"


cli.add_command(reproduce_command)
TIME_REMARKS.append(_papers_time)
