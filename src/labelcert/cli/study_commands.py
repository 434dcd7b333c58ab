"""The commands of ``labelcert study``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from labelcert.cli.exits import EXIT_FAILED, EXIT_INTERRUPTED
from labelcert.cli.inputs import noted, shows_progress
from labelcert.cli.options import GroupOfCommands, OptionGroup, option
from labelcert.cli.printing import print_table, say
from labelcert.errors import InvalidInput
from labelcert.jobs.cells import JobBatch
from labelcert.models.base import VARIANTS
from labelcert.report import tables
from labelcert.studies import Graphs, RunOutcome, Store, Study, StudyPlan, expand, run_plan
from labelcert.studies.report import StudyReport, make_report
from labelcert.studies.schema import HYPERPARAMETERS
from labelcert.studies.study_files import find_study
from labelcert.studies.tidy_tables import has_parquet

PARQUET_HINT = "No Parquet files were written; for these: pip install 'labelcert[parquet]'"

_FOLDER = click.Path(path_type=Path, file_okay=False)


STUDY_OPTIONS = OptionGroup(
    "Study",
    option("--seeds", "LIST", "Comma-separated seeds, instead of the study's own."),
    option("--variant", VARIANTS, "Use exact kernels, or those of the published code."),
    option("--hyperparameters", HYPERPARAMETERS, "Use the paper's values, or cross-validate each split."),
    option("--data-dir", _FOLDER, "Folder with local copies of the datasets [LABELCERT_DATA_DIR]."),
    option("--keep-old", bool, "Keep results of engines whose numbers may differ."),
)
OUT_OPTION = option(
    "--out", _FOLDER, "Folder for results. Studies can share it.", Path("labelcert-studies"), metavar="FOLDER"
)
RUN_OPTIONS = OptionGroup(
    "Running",
    option("--workers", int, "Number of local processes; 1 runs everything in this process. [default: one per core]"),
    option("--scheduler", "ADDRESS", "Run on the Dask cluster with this scheduler."),
    option("--retry-failed", bool, "Try failed cells again."),
    option("--pictures/--no-pictures", bool, default=True),
    option("--report page", bool, "Write report.html, too: one page to click through."),
    option("--quiet -q", bool, "Show results only, no progress."),
)


TIME_REMARKS: list[Callable[[Study], str]] = []
"""What is said behind the time that a study took; extensions add to it."""


@click.group("study", cls=GroupOfCommands)
def study_group() -> None:
    """Check, run and export studies: datasets x models x seeds x certificates from one TOML file.

    FILE is a study file, the name of a study of the paper, or of one of ours (losses).
    """


@study_group.command("check")
@click.argument("file")
@STUDY_OPTIONS
def check_command(file: str, **given: Any) -> None:
    """Check a study file and list what it would compute."""
    plan = plan_study(find_study(file), given)
    study = plan.study
    rows = [
        ("datasets", ", ".join(d.label for d in study.datasets)),
        ("models", ", ".join(m.label for m in study.models)),
        ("certificates", ", ".join(c.label for c in study.certificates)),
        ("seeds", ", ".join(map(str, study.seeds))),
        ("budgets", ", ".join(f"{e:g}" for e in study.budgets) or f"flips {', '.join(map(str, study.flips))}"),
        ("hyperparameters", study.hyperparameters),
        ("kernels", study.variant),
        ("places in tables", str(len(plan.places))),
        ("certificates to compute", str(len(plan.keys))),
        ("kernels to compute", str(len(plan.jobs))),
        ("not available here", str(len(plan.unavailable))),
    ]
    print_table(tables.listing(f"{study.name}: {study.title}", ("", ""), rows))
    for note in (*plan.notes, *dict.fromkeys(reason for _, reason in plan.unavailable.values())):
        say(note)


@study_group.command("run")
@click.argument("file")
@OUT_OPTION
@STUDY_OPTIONS
@RUN_OPTIONS
def run_command(file: str, out: Path, **given: Any) -> None:
    """Compute what is missing, then write tables, data and a picture.

    Each result is saved as it finishes. After a crash or Ctrl-C, run the same command again to continue.
    """
    ran = run_study(plan_study(find_study(file), given), out, given)
    show_study(ran)
    if has_failed(ran):
        sys.exit(EXIT_FAILED)


@study_group.command("status")
@click.argument("file")
@OUT_OPTION
@STUDY_OPTIONS
def status_command(file: str, out: Path, **given: Any) -> None:
    """Show how much of a study is done, and why certificates failed."""
    plan, store = plan_study(find_study(file), given), Store(out, keep_old=given["keep_old"])
    done = sum(store.done(key) for key in plan.keys)
    failed = [store.records[key] for key in plan.keys if store.failed(key)]
    left = len(plan.keys) - done - len(failed)
    say(f"{plan.study.name}: {done} of {len(plan.keys)} certificates done, {len(failed)} failed, {left} to do")
    _say_what_is_ignored(store, "computed again when the study runs")
    for reason in dict.fromkeys(record["reason"] for record in failed):
        say(f"failed: {reason}")


@study_group.command("export")
@click.argument("file")
@OUT_OPTION
@STUDY_OPTIONS
@RUN_OPTIONS.some("pictures", "page")
def export_command(file: str, out: Path, pictures: bool, page: bool, **given: Any) -> None:
    """Write tables, tidy data (CSV and Parquet) and a picture of the results so far."""
    plan, store = plan_study(find_study(file), given), Store(out, keep_old=given["keep_old"])
    _say_what_is_ignored(store, "computed again when the study runs")
    if store.old and not any(key in store.records for key in plan.keys):
        raise InvalidInput(
            f"{out} holds no result of this engine; run the study, or export old results with --keep-old"
        )
    _print_report(plan, make_report(plan, store, out / plan.study.name, pictures=pictures, page=page))


def _say_what_is_ignored(store: Store, then: str) -> None:
    if store.dropped:
        say(f"{store.dropped} damaged records in {store.folder} are ignored, and {then}", error=True)
    if store.old:
        say(
            f"{store.old} results in {store.folder} are of another engine, whose numbers may differ: they are {then}. "
            "Keep them with --keep-old",
            error=True,
        )


@dataclass(frozen=True)
class RanStudy:
    """A study that was run, and its report."""

    plan: StudyPlan
    outcome: RunOutcome
    report: StudyReport


def plan_study(study: Study, given: dict[str, Any], graphs: Graphs | None = None) -> StudyPlan:
    """The study with what the command line overrides, and all its cells."""
    own = {word: given[word] for word in ("variant", "hyperparameters")}
    with noted(given):
        return expand(
            study.changed(seeds=seeds_named(given["seeds"]), **own), graphs=graphs or Graphs(given["data_dir"])
        )


def run_study(plan: StudyPlan, out: Path, given: dict[str, Any], *, imitated: StudyReport | None = None) -> RanStudy:
    """Compute what is missing, and write the report; Ctrl-C ends the program, with all results kept."""
    with Store(out, write=True, keep_old=given["keep_old"]) as store:
        outcome = run_batch(plan, store, given)
        shown = {"pictures": given["pictures"], "page": given["page"], "imitated": imitated}
        report = make_report(plan, store, out / plan.study.name, **shown)
    return RanStudy(plan, outcome, report)


def run_batch(batch: JobBatch, store: Store, given: dict[str, Any]) -> RunOutcome:
    """Compute what is missing; Ctrl-C ends the program, with all results kept."""
    how = {word: given[word] for word in ("workers", "scheduler", "retry_failed")}
    if not given["quiet"]:
        _say_what_is_ignored(store, "computed again")
    try:
        return run_plan(batch, store, **how, progress=shows_progress(given))
    except KeyboardInterrupt:
        done = sum(store.done(key) for key in batch.keys)
        say(
            f"interrupted: {done} of {len(batch.keys)} certificates of {batch.name} are saved in {store.folder}; "
            "run the same command again to continue",
            error=True,
        )
        sys.exit(EXIT_INTERRUPTED)


def show_study(ran: RanStudy) -> None:
    """Print the report, and the time that it took."""
    _print_report(ran.plan, ran.report)
    outcome = ran.outcome
    remarks = "".join(remark(ran.plan.study) for remark in TIME_REMARKS)
    say(
        f"time: {outcome.seconds:.1f} s for {outcome.computed} certificates, each for all budgets at once "
        f"({outcome.reused} more were reused; all together took {outcome.certificate_seconds:.1f} s of work){remarks}\n"
    )


def _print_report(plan: StudyPlan, report: StudyReport) -> None:
    where = f" ({plan.study.where} of the paper)" if plan.study.where else ""
    say(f"{plan.study.name}: {plan.study.title}{where}, {plan.study.variant} kernels")
    for sheet in report.sheets:
        print_table(tables.listing(sheet.title, sheet.headings, sheet.rows))
    if plan.study.where:
        say(f"compared with the paper: {report.counts}")
    for note in report.notes:
        say(f"note: {note}")
    if not has_parquet():
        say(PARQUET_HINT)
    if report.files:
        say(f"written to {report.files[0].parent}")


def has_failed(ran: RanStudy) -> bool:
    """Whether a certificate failed for another reason than that its data is not here."""
    return any(not reason.startswith("not available offline") for reason in ran.outcome.reasons)


def seeds_named(text: str | None) -> tuple[int, ...] | None:
    """The seeds that a command line names; None where it names none."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdigit() for part in parts) or len(set(parts)) < len(parts):
        raise InvalidInput(f"--seeds must be distinct whole numbers separated by commas, such as 0,1,2, got {text!r}")
    return tuple(int(part) for part in parts)
