"""``labelcert harden``: which model to train."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from labelcert.cli import inputs
from labelcert.cli.exits import EXIT_INTERRUPTED
from labelcert.cli.option_groups import DEFAULT_FOLDER, GRAPH_OPTIONS, NODE_OPTIONS, GroupedCommand, options
from labelcert.cli.printing import print_json, print_table, say
from labelcert.cli.reporting import REPORT_OPTION, check_report, deliver_report
from labelcert.errors import InvalidInput
from labelcert.files import write_csv
from labelcert.hardening import Hardened
from labelcert.hardening.candidates import LOSSES
from labelcert.hardening.result import CAVEAT
from labelcert.losses import loss_names
from labelcert.report import tables
from labelcert.studies.harden import harden

EXAMPLES = """\b
Examples:
  labelcert harden karate --flips 1
      The model that certifies the most against one wrong label.
  labelcert harden cora-ml-b --flips 3 --out search
      Interrupted? The same command goes on where it stopped.
  labelcert harden --edges edges.csv --labels labels.csv --flips 1 --model gcn --model sgc --floor 0.9
      Your own graph, two architectures, at least 90 % cross-validated accuracy."""

_OPTIONS = options(
    "What to search",
    click.option("--flips", type=int, required=True, help="How many wrong labels to survive."),
    click.option(
        "--model",
        "-m",
        "names",
        multiple=True,
        help="Architectures to try; repeatable. [default: some twenty settings]",
    ),
    click.option(
        "--loss", "losses", multiple=True, type=click.Choice(loss_names()), help=f"[default: {', '.join(LOSSES)}]"
    ),
    click.option("--parts", multiple=True, type=int, help="Ensembles on so many parts of the labels; repeatable."),
    click.option(
        "--floor",
        type=float,
        metavar="ACCURACY",
        help="Least cross-validated accuracy. [default: one standard error below the best]",
    ),
    click.option(
        "--time-limit", type=float, default=20.0, show_default=True, metavar="SECONDS", help="For each certificate."
    ),
    click.option("--workers", type=int, help="Local processes. [default: one per core]"),
    click.option("--scheduler", metavar="ADDRESS", help="Run on the Dask cluster with this scheduler."),
    click.option(
        "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Keep results, to resume; and files."
    ),
    click.option("--rows", default=12, show_default=True, help="Show that many models at the most."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table."),
    REPORT_OPTION,
    click.option("--pictures/--no-pictures", default=True, show_default=True),
    click.option("--quiet", "-q", is_flag=True, help="No progress, only results."),
)


@click.command("harden", cls=GroupedCommand, epilog=EXAMPLES, context_settings={"max_content_width": 110})
@GRAPH_OPTIONS
@_OPTIONS
@NODE_OPTIONS
def harden_command(**given: Any) -> None:
    """Which model to train: the most certified one at a budget, among those that are accurate enough.

    Accuracy is cross-validated over the labelled nodes. Labels of test nodes are never looked at.
    """
    untouched = dict.fromkeys(("trusted", "costs", "groups", "group_column"))
    check_report(given["report"])
    asked = inputs.read_request({**given, **untouched, "allow": (), "group_budgets": ()})
    out: Path | None = given["out"]
    if out is not None and out.exists() and not out.is_dir():
        raise InvalidInput(f"--out must be a folder, but {out} is a file")
    found = harden(
        asked.graph,
        asked.split.labeled,
        asked.targets[0].nodes,
        flips=given["flips"],
        models=given["names"] or None,
        losses=given["losses"] or LOSSES,
        parts=given["parts"] or None,
        floor=given["floor"],
        seed=given["seed"],
        inductive=given["inductive"],
        time_limit=given["time_limit"],
        workers=given["workers"],
        scheduler=given["scheduler"],
        out=out,
        progress=sys.stderr.isatty() and not given["quiet"],
    )
    command = f"labelcert certify {_graph_words(given)} {found.command}"
    written = _write(found, out, pictures=given["pictures"] and not (given["as_json"] and out is None))
    if given["report"] is not None:
        default = found.default.trained(found.seed).certify(
            asked.graph,
            asked.split.labeled,
            asked.targets[0].nodes,
            inductive=given["inductive"],
            max_flips=given["flips"],
            loss=found.default.loss,
            time_limit=given["time_limit"],
        )
        both = {f"train: {found.chosen.label}": found.certificate, f"default: {found.default.label}": default}
        deliver_report(both, given["report"], title=f"{asked.graph.name}: model to train", quiet=given["quiet"])
    if given["as_json"]:
        print_json({**_plain(found), "command": command})
    else:
        print_table(tables.hardened_table(found, limit=given["rows"]))
        say(found.summary())
        say(f"certify it:  {command}")
        say(CAVEAT)
    if written and not given["quiet"]:
        say(f"wrote {', '.join(path.name for path in written)} into {written[0].parent}", error=True)
    if not found.complete:
        sys.exit(EXIT_INTERRUPTED)


def _graph_words(given: dict[str, Any]) -> str:
    """How the user named the graph and its nodes."""
    words = [] if given["name"] is None else [given["name"]]
    keys = ("edges", "features", "labels", "data_dir", "labeled", "per_class", "test")
    words += [f"--{key.replace('_', '-')} {given[key]}" for key in keys if given[key] is not None]
    words += [f"-p {parameter}" for parameter in given["parameters"]]
    words += ["--inductive"] if given["inductive"] else []
    return " ".join([*words, *([f"--seed {given['seed']}"] if given["seed"] else [])])


def _write(found: Hardened, out: Path | None, *, pictures: bool) -> list[Path]:
    from labelcert.report.pictures import new_figure, save_figure

    folder, written = out or DEFAULT_FOLDER, []
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_csv(found.table, out / "models.csv")
        found.certificate.save(out / "hardened.cert", problem=True)
        written += [out / "models.csv", out / "hardened.cert"]
    if pictures:
        folder.mkdir(parents=True, exist_ok=True)
        figure = new_figure(7.0, 4.6)
        found.plot(figure.subplots())
        written += save_figure(figure, folder / "hardened")
    return written


def _plain(found: Hardened) -> dict[str, Any]:
    """In plain JSON values."""

    def described(which: Any) -> dict[str, Any]:
        low, high = found.certified[which]
        return {
            "model": which.name,
            "options": which.options,
            "C": which.model.C,
            "loss": which.loss,
            "parts": which.parts,
            "cross_validated_accuracy": which.accuracy,
            "certified_lower": low,
            "certified_upper": high,
        }

    return {
        "flips": found.flips,
        "complete": found.complete,
        "threshold": found.threshold,
        "candidates": len(found.candidates),
        "default": described(found.default),
        "chosen": described(found.chosen),
        "pareto": [described(candidate) for candidate in found.pareto],
    }
