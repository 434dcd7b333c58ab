"""``labelcert harden``: which model to train."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rich.table import Table

from labelcert.cli import inputs
from labelcert.cli.exits import EXIT_INTERRUPTED
from labelcert.cli.option_groups import DEFAULT_FOLDER, GRAPH_OPTIONS, HARDEN_WORK_OPTIONS, NODE_OPTIONS, THREAT_OPTIONS
from labelcert.cli.options import FILE, OptionGroup, grouped, option
from labelcert.cli.printing import print_json, print_table, say, say_written
from labelcert.cli.reporting import REPORT_OPTION, check_report, deliver_report
from labelcert.errors import InvalidInput
from labelcert.files import write_csv
from labelcert.hardening import Hardened, harden
from labelcert.hardening.candidates import LOSSES
from labelcert.hardening.hardened import CAVEAT, accuracy
from labelcert.losses import loss_names
from labelcert.text import between, per_cent

EXAMPLES = """\b
Examples:
  labelcert harden karate --flips 1
      The model that certifies the most against one wrong label.
  labelcert harden cora-ml-b --flips 3 --out search
      Interrupted? The same command goes on where it stopped.
  labelcert harden --edges edges.csv --labels labels.csv --flips 1 --model gcn --model sgc --floor 0.9
      Your own graph, two architectures, at least 90 % cross-validated accuracy."""

_OPTIONS = OptionGroup(
    "What to search",
    option("--flips", int, "How many wrong labels to survive.", required=True),
    option("--model -m names", str, "Architectures to try; repeatable. [default: some twenty settings]", multiple=True),
    option("--loss losses", tuple(loss_names()), f"[default: {', '.join(LOSSES)}]", multiple=True),
    option("--parts", int, "Ensembles on this many parts of the labels; repeatable.", multiple=True),
    option(
        "--floor",
        float,
        "Least cross-validated accuracy. [default: one standard error below the best]",
        metavar="ACCURACY",
    ),
    option("--out", FILE, "Keep results, to resume; and files.", metavar="FOLDER"),
    option("--rows", int, "Show at most this many models.", 12),
    option("--json as_json", bool, "Print one JSON object instead of a table."),
    REPORT_OPTION,
    option("--pictures/--no-pictures", bool, default=True),
    option("--quiet -q", bool, "No progress, only results."),
)


@grouped("harden", EXAMPLES, GRAPH_OPTIONS, _OPTIONS, HARDEN_WORK_OPTIONS, NODE_OPTIONS, THREAT_OPTIONS)
def harden_command(**given: Any) -> None:
    """Which model to train: the most certified one at a budget, among those that are accurate enough.

    Accuracy is cross-validated over the labelled nodes. Labels of test nodes are never looked at.
    """
    check_report(given["report"])
    asked = inputs.read_request(given)
    out: Path | None = given["out"]
    if out is not None and out.exists() and not out.is_dir():
        raise InvalidInput(f"--out must be a folder, but {out} is a file")
    labeled, tested = asked.split.labeled, asked.targets[0].nodes
    how = {name: given[name] for name in ("flips", "floor", "seed", "inductive", "time_limit", "out")}
    how |= {**HARDEN_WORK_OPTIONS.chosen(given), "threat": asked.threat, "progress": inputs.shows_progress(given)}
    how |= {"models": given["names"] or None, "losses": given["losses"] or LOSSES, "parts": given["parts"] or None}
    found = harden(asked.graph, labeled, tested, **how)
    named = [word for group in (GRAPH_OPTIONS, NODE_OPTIONS, THREAT_OPTIONS) for word in group.words(given)]
    seed = f" --seed {found.seed}" if found.chosen.parts is not None and found.seed else ""
    command = " ".join(["labelcert certify", *named, found.command.removesuffix(seed)])
    written = _write(found, out, pictures=given["pictures"] and not (given["as_json"] and out is None))
    if given["report"] is not None:
        recipe = found.default
        certifier = recipe.certifier(asked.graph, labeled, [tested], inductive=given["inductive"])
        how = {"threat": asked.threat, "max_flips": given["flips"], "time_limit": given["time_limit"]}
        default = recipe.certify(certifier, tested, **how)
        both = {f"train: {found.chosen.full_label}": found.certificate, f"default: {recipe.full_label}": default}
        deliver_report(both, given["report"], title=f"{asked.graph.name}: model to train", quiet=given["quiet"])
    if given["as_json"]:
        print_json({**_plain(found), "command": command})
    else:
        print_table(_table(found, limit=given["rows"]))
        say(found.summary())
        say(f"certify it:  {command}")
        say(CAVEAT)
    say_written(written, given["quiet"])
    if not found.complete:
        sys.exit(EXIT_INTERRUPTED)


def _table(found: Hardened, *, limit: int) -> Table:
    """The most certified models that are accurate enough, and the default one."""
    title = f"Models by what survives {found.flips} wrong label{'' if found.flips == 1 else 's'}"
    table = Table(title=title, title_justify="left")
    for heading in ("model", "survive, each alone", "cross-validated", ""):
        table.add_column(heading, justify="left" if heading in ("model", "") else "right")
    enough = [c for c in found.certified if accuracy(c) >= found.threshold]
    ranked = sorted(enough, key=lambda c: (c != found.chosen, -found.certified[c][0], -accuracy(c)))
    shown = ranked[:limit]
    for candidate in [*shown, *([] if found.default in shown else [found.default])]:
        low, high = found.certified[candidate]
        marks = [
            word for word, which in (("train this", found.chosen), ("default", found.default)) if candidate == which
        ]
        share = between(low, high, "%")
        table.add_row(
            candidate.full_label,
            share,
            f"{per_cent(accuracy(candidate))}% ± {per_cent(candidate.deviation or 0.0, up=True)}%",
            ", ".join(marks),
        )
    if len(ranked) > limit:
        table.caption = f"the {limit} best of {len(ranked)} that are accurate enough and not dropped early"
    return table


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
