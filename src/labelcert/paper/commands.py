"""The command ``labelcert reproduce``."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
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
    run_study,
    show_study,
)
from labelcert.files import write_text
from labelcert.paper.paper_studies import BEYOND, ORDER, paper_study
from labelcert.paper.published import HOURS_PER_COLLECTIVE_CERTIFICATE
from labelcert.report import tables
from labelcert.studies import Graphs, Study
from labelcert.studies.report import Sheet
from labelcert.studies.schema import Kind

EXAMPLES = """\b
Examples:
  labelcert reproduce --list
  labelcert reproduce cora-ml-b --out results
      The paper's Cora-MLb table, with our numbers beside the published ones.
  labelcert reproduce all --out results
      All studies. Results in the folder are reused.
  labelcert reproduce csbm --variant published
      Use the kernels of the published code, for comparison."""


@click.command("reproduce", epilog=EXAMPLES)
@click.argument("name", required=False, metavar="[NAME or all]")
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
    names = [known for known in ORDER if known not in BEYOND] if name == "all" else [name]
    studies = [paper_study(known) for known in names]
    graphs, started, finished = Graphs(given["data_dir"]), time.perf_counter(), list[RanStudy]()
    for study in studies:
        ran = run_study(plan_study(study, given, graphs), out, given)
        show_study(ran)
        finished.append(ran)
    if len(finished) > 1:
        _overview(finished, out, time.perf_counter() - started)
    if any(has_failed(ran) for ran in finished):
        sys.exit(EXIT_FAILED)


def _overview(finished: Sequence[RanStudy], out: Path, seconds: float) -> None:
    headings = ("study", "certificates", "failed", "seconds", "seconds of work", "compared with the paper")
    rows = []
    for ran in finished:
        took = f"{ran.outcome.seconds:.1f}", f"{ran.outcome.certificate_seconds:.1f}"
        done = str(len(ran.plan.keys)), str(ran.outcome.failed)
        rows.append((ran.plan.study.name, *done, *took, ran.report.counts))
    sheet = Sheet(f"All studies, {seconds:.0f} s", headings, tuple(rows))
    print_table(tables.listing(sheet.title, sheet.headings, sheet.rows))
    write_text(out / "overview.md", sheet.markdown())


def _papers_time(study: Study) -> str:
    if not study.where or all(certificate.kind is not Kind.COLLECTIVE for certificate in study.certificates):
        return ""
    hours = HOURS_PER_COLLECTIVE_CERTIFICATE
    return f"; the paper reports {hours} hours for one collective certificate at one budget"


cli.add_command(reproduce_command)
TIME_REMARKS.append(_papers_time)
