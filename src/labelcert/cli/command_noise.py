"""``labelcert noise``: how probable it is that predictions change."""

from __future__ import annotations

from typing import Any

from labelcert.cli import inputs
from labelcert.cli.option_groups import GRAPH_OPTIONS, MODEL_OPTIONS, NODE_OPTIONS, RECHECK_WORK_OPTIONS
from labelcert.cli.options import FILE, OptionGroup, grouped, option
from labelcert.cli.printing import print_json, print_table, say
from labelcert.errors import InvalidInput
from labelcert.files import write_csv
from labelcert.labelnoise import Noise, noise
from labelcert.report import tables

EXAMPLES = """\b
Examples:
  labelcert noise karate --wrong 0.05
      The probability that each prediction changes, where each label is wrong with probability 5 %.
  labelcert noise cora-ml-b --wrong 0.05 --confirm 3 --out noise.csv
      The same, with the labels to confirm first, and all probabilities as a table.
  labelcert noise --edges edges.csv --labels labels.csv --wrong rates.csv
      Your own graph, and a rate for each label."""

_OPTIONS = OptionGroup(
    "Noise",
    option("--model -m name_of_model", str, "See `labelcert models`. [default: gcn; of a plain table: logistic]"),
    option("--wrong", "RATE|FILE", "Probability that a label is wrong, or a CSV with the columns node, wrong."),
    option("--confirm", int, "Name this many labels to confirm."),
    option("--interval", float, "Sampled intervals are to be no wider.", 0.02, metavar="WIDTH"),
    option("--confidence", float, "Of each sampled interval.", 0.95),
    option("--nodes limit", int, "Show at most this many nodes.", 20),
    option(
        "--keep", FILE, "Keep what is sampled in this file, and go on from it if it is there.", metavar="FILE.noise"
    ),
    option("--json as_json", bool, "Print one JSON object instead of tables."),
    option("--out", FILE, "Write the table into a file.", metavar="FILE.csv"),
    option("--quiet -q", bool, "No progress, only results."),
)


@grouped("noise", EXAMPLES, *(GRAPH_OPTIONS, _OPTIONS, RECHECK_WORK_OPTIONS, MODEL_OPTIONS, NODE_OPTIONS))
def noise_command(**given: Any) -> None:
    """How probable it is that each prediction changes, where each label is wrong by chance.

    The answer is proved where all labellings can be walked, and where scores are linear in the labels; elsewhere it has
    a stated confidence.
    """
    if given["wrong"] is None:
        raise InvalidInput("say how often labels are wrong: --wrong 0.05, or a CSV with the columns node, wrong")
    if given["out"] is not None and given["out"].suffix != ".csv":
        raise InvalidInput(f"--out must name a file that ends in .csv, got {given['out']}")
    asked = inputs.read_request(given)
    graph, labeled, targets = asked.graph, asked.split.labeled, asked.targets[0]
    [(name, own)] = inputs.own_options([(given["name_of_model"] or inputs.default_model(given)).lower()], given).items()
    recipe = inputs.chosen_model(given, asked, name, own, validate=False)
    certifier = recipe.certifier(graph, labeled, [targets.nodes], inductive=given["inductive"])
    found: Noise = recipe.certify(
        certifier,
        targets.nodes,
        using=noise,
        wrong=inputs.wrong_rates(graph, labeled, given["wrong"], node=given["node"]),
        width=given["interval"],
        confidence=given["confidence"],
        seed=given["seed"],
        keep=given["keep"],
        progress=inputs.shows_progress(given),
        **RECHECK_WORK_OPTIONS.chosen(given),
    )
    frame = found.to_frame()
    if given["out"] is not None:
        write_csv(frame, given["out"], index=True)
    advice = found.recheck(given["confirm"]) if given["confirm"] else None
    if given["as_json"]:
        nodes = frame.reset_index().astype(object).to_dict("records")
        chosen = [] if advice is None else advice.astype(object).to_dict("records")
        words = ("proved", "confidence", "method", "expected_changes", "expected_interval", "stopped")
        print_json({**{word: getattr(found, word) for word in words}, "nodes": nodes, "confirm": chosen})
        return
    shown = frame.sort_values("probability", ascending=False, kind="stable").head(given["limit"])
    title = f"{recipe.label}: predictions that change most often, {targets.title}"
    print_table(
        tables.listing(
            title,
            ("node", "prediction", "changes with probability", "between"),
            [(str(node), str(row[0]), f"{row[1]:.4f}", f"{row[2]:.4f} and {row[3]:.4f}")
             for node, row in zip(shown.index, shown.itertuples(index=False), strict=True)],
        )
    )  # fmt: skip
    for k, row in enumerate(() if advice is None else advice.itertuples(index=False), 1):
        say(f"{k:>4}. confirm {row[0]} ({row[1]}): {row[2]:.4g} expected changes")
    say(found.summary())
