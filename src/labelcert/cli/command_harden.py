"""``labelcert harden``: which model to train."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from labelcert.certificate import Stop
from labelcert.certificate.run_record import command_line
from labelcert.cli import inputs
from labelcert.cli.exits import EXIT_INTERRUPTED
from labelcert.cli.option_groups import DEFAULT_FOLDER, GRAPH_OPTIONS, HARDEN_WORK_OPTIONS, NODE_OPTIONS, THREAT_OPTIONS
from labelcert.cli.options import FILE, OptionGroup, grouped, option
from labelcert.cli.printing import print_json, print_table, say, say_prose, say_written
from labelcert.cli.reporting import REPORT_OPTION, check_report, deliver_report
from labelcert.errors import InvalidInput
from labelcert.files import write_csv
from labelcert.hardening import Hardened, harden
from labelcert.hardening.candidates import LOSSES
from labelcert.hardening.hardened import CAVEAT
from labelcert.hardening.showing import ranking
from labelcert.losses import loss_names

EXAMPLES = """\b
Examples:
  labelcert harden karate --flips 1
      The model that certifies the most against one wrong label.
  labelcert harden cora-ml-b --flips 3 --out search --time-limit 600
      Ten minutes, then the best so far. Stopped? The same command goes on from there.
  labelcert harden --edges edges.csv --labels labels.csv --flips 1 --model gcn --model sgc --floor 0.9
      Your own graph, two architectures, at least 90 % cross-validated accuracy."""

_OPTIONS = OptionGroup(
    "What to search",
    option("--flips --max-annotators flips", int, "How many wrong labels, or annotators, to survive.", required=True),
    option(
        "--model -m names",
        str,
        "Architectures to try; repeatable. [default: seven, in 19 settings; of a plain table linear, rbf and mlp]",
        multiple=True,
    ),
    option("--loss losses", tuple(loss_names()), f"[default: {', '.join(LOSSES)}]", multiple=True),
    option("--parts", int, "Ensembles on this many parts of the labels; repeatable.", multiple=True),
    option(
        "--floor",
        float,
        "Least cross-validated accuracy. [default: one standard error below the best]",
        metavar="ACCURACY",
    ),
    option(
        "--model-time-limit",
        float,
        "For each certificate; what it leaves open counts as lost.",
        20.0,
        metavar="SECONDS",
    ),
    option("--out", FILE, "Keep results as they come, to resume; and files.", metavar="FOLDER"),
    option("--rows", int, "Show at most this many models.", 12),
    option("--json as_json", bool, "Print one JSON object instead of a table."),
    REPORT_OPTION,
    click.option(
        "--pictures/--no-pictures",
        default=None,
        help=f"Draw pictures, into ./{DEFAULT_FOLDER} without --out. [default: with --out alone]",
    ),
    option("--quiet -q", bool, "No progress, only results."),
)


@grouped("harden", EXAMPLES, GRAPH_OPTIONS, _OPTIONS, HARDEN_WORK_OPTIONS, NODE_OPTIONS, THREAT_OPTIONS)
def harden_command(**given: Any) -> None:
    """Which model to train: the most certified one at a budget, among those that are accurate enough.

    Accuracy is cross-validated over the labelled nodes. Labels of test nodes are never looked at. The best models so
    far are shown from the first minute on; after --time-limit or Ctrl-C, they are the answer.
    """
    check_report(given["report"])
    asked = inputs.read_request(given)
    out: Path | None = given["out"]
    if out is not None and out.exists() and not out.is_dir():
        raise InvalidInput(f"--out must be a folder, but {out} is a file")
    labeled, tested = asked.split.labeled, asked.targets[0].nodes
    how = {name: given[name] for name in ("flips", "floor", "seed", "inductive", "model_time_limit", "out")}
    how |= {**HARDEN_WORK_OPTIONS.chosen(given), "threat": asked.threat, "progress": not given["quiet"]}
    how |= {"models": given["names"] or None, "losses": given["losses"] or LOSSES, "parts": given["parts"] or None}
    try:
        found = harden(asked.graph, labeled, tested, **how)
    except KeyboardInterrupt:
        say(f"stopped before any certificate was finished; {_going_on(out)}", error=True)
        raise
    named = [word for group in (GRAPH_OPTIONS, NODE_OPTIONS, THREAT_OPTIONS) for word in group.words(given)]
    seed = f" --seed {found.seed}" if found.chosen.parts is not None and found.seed else ""
    command = " ".join(["labelcert certify", *named, found.command.removesuffix(seed)])
    if given["as_json"]:
        print_json({**_plain(found), "command": command})
    else:
        print_table(ranking(found, limit=given["rows"]))
        say_prose(found.summary())
        say(f"certify it:  {command}")
        if found.chosen.parts is None:
            what = f"--{'audit' if asked.threat.owns_annotators else 'confirm'} 3"
            words = " ".join(["labelcert recheck", *named, found.chosen.command, f"--flips {found.flips}", what])
            say(f"make it safer:  {words}")
        say(CAVEAT)
    if not found.complete:
        say(_going_on(out), error=True)
    if found.stopped is Stop.INTERRUPTED:
        sys.exit(EXIT_INTERRUPTED)
    drawn = out is not None if given["pictures"] is None else given["pictures"]
    written = _write(found, out, pictures=drawn)
    if given["report"] is not None:
        recipe = found.default
        certifier = recipe.certifier(asked.graph, labeled, [tested], inductive=given["inductive"])
        how = {"threat": asked.threat, "max_flips": given["flips"], "time_limit": given["model_time_limit"]}
        default = recipe.certify(certifier, tested, **how)
        both = {f"train: {found.chosen.full_label}": found.certificate, f"default: {recipe.full_label}": default}
        deliver_report(both, given["report"], title=f"{asked.graph.name}: model to train", quiet=given["quiet"])
    say_written(written, given["quiet"])
    if not found.complete and found.stopped is Stop.FINISHED:  # Ctrl-C during the last certificate
        sys.exit(EXIT_INTERRUPTED)


def _going_on(out: Path | None) -> str:
    """How a search that was stopped goes on."""
    if out is None:
        return "nothing was kept; with --out FOLDER, the same command goes on where it stopped"
    return f"what was found out is in {out}; to go on, run it again:  {command_line.get()}"


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
        about = {name: getattr(which, name) for name in ("options", "C", "loss", "parts")}
        shares = {"cross_validated_accuracy": which.accuracy, "certified_lower": low, "certified_upper": high}
        return {"model": which.name, **about, **shares}

    return {
        "flips": found.flips,
        "complete": found.complete,
        "threshold": found.threshold,
        "candidates": len(found.candidates),
        "default": described(found.default),
        "chosen": described(found.chosen),
        "pareto": [described(candidate) for candidate in found.pareto],
    }
