"""``labelcert recheck``: which labels to confirm."""

from __future__ import annotations

from typing import Any

from labelcert.cli import inputs
from labelcert.cli.option_groups import GRAPH_OPTIONS, MODEL_OPTIONS, NODE_OPTIONS, RECHECK_WORK_OPTIONS, THREAT_OPTIONS
from labelcert.cli.options import FILE, OptionGroup, grouped, option
from labelcert.cli.printing import print_json, print_table, say_prose
from labelcert.cli.reporting import REPORT_OPTION, check_report, deliver_report
from labelcert.errors import InvalidInput
from labelcert.files import write_csv
from labelcert.rechecking import Recheck, recheck
from labelcert.rechecking.advice import OBJECTIVES
from labelcert.report import tables
from labelcert.text import per_cent

EXAMPLES = """\b
Examples:
  labelcert recheck karate --flips 1 --confirm 2
      The two labels to confirm, so that most predictions survive one wrong one.
  labelcert recheck cora-ml-b --flips 2 --until 0.9
      As few labels as it takes until 90 % of the predictions survive two.
  labelcert recheck --edges edges.csv --labels labels.csv --flips 1 --confirm 3 --confirm-costs effort.csv
      Your own graph; some labels take longer to confirm than others.
  labelcert recheck --edges edges.csv --labels labels.csv --votes votes.csv --max-annotators 1 --audit 3
      Whom to audit, so that most predictions survive any other annotator; with --confirm 3, what to annotate again."""

_OPTIONS = OptionGroup(
    "What to confirm",
    option("--model -m name_of_model", str, "See `labelcert models`. [default: gcn; of a plain table: logistic]"),
    option("--flips --max-annotators flips", int, "How many wrong labels, or annotators, to survive.", required=True),
    option("--confirm --verify confirm", int, "How many labels people can confirm, or what it may cost."),
    option("--audit", int, "Instead, where budgets count annotators: name this many to audit."),
    option("--until", float, "Confirm as few as it takes until this share survives.", metavar="SHARE"),
    option(
        "--objective",
        OBJECTIVES,
        "Each prediction faces its own worst attack, or one attack faces all of them.",
        OBJECTIVES[0],
    ),
    option(
        "--confirm-costs --verify-costs confirm_costs",
        FILE,
        "CSV with the columns node, cost: what confirming a label costs (1 where absent).",
    ),
    option("--json as_json", bool, "Print one JSON object instead of a table."),
    option("--out", FILE, "Write the table into a file.", metavar="FILE.csv"),
    REPORT_OPTION,
    option("--quiet -q", bool, "No progress, only results."),
)


_WORDS = {"confirm": ("labels", "confirmed"), "audit": ("annotators", "audited")}
"""What is to be confirmed or audited, and that it was."""


@grouped(
    "recheck", EXAMPLES, *(GRAPH_OPTIONS, _OPTIONS, RECHECK_WORK_OPTIONS, MODEL_OPTIONS, NODE_OPTIONS, THREAT_OPTIONS)
)
def recheck_command(**given: Any) -> None:
    """Which labels to confirm, so that as many predictions as possible survive the wrong ones among the others.

    A label that a person confirmed cannot be wrong any more, so every attack that needs it is gone. This ranks labels
    by what depends on them, not by how likely they are wrong: give scores of their quality as --confirm-costs.
    """
    if given["out"] is not None and given["out"].suffix != ".csv":
        raise InvalidInput(f"--out must name a file that ends in .csv, got {given['out']}")
    check_report(given["report"])
    asked = inputs.read_request(given)
    graph, labeled = asked.graph, asked.split.labeled
    [(name, own)] = inputs.own_options([(given["name_of_model"] or inputs.default_model(given)).lower()], given).items()
    recipe = inputs.chosen_model(given, asked, name, own, validate=False)
    targets = asked.targets[0]
    certifier = recipe.certifier(graph, labeled, [targets.nodes], inductive=given["inductive"])
    how = {"threat": asked.threat, **RECHECK_WORK_OPTIONS.chosen(given)}
    advice: Recheck = recipe.certify(
        certifier,
        targets.nodes,
        using=recheck,
        **{word: given[word] for word in ("flips", "confirm", "audit", "until", "objective")},
        confirm_costs=inputs.per_label(graph, labeled, given["confirm_costs"], node=given["node"]),
        progress=inputs.shows_progress(given),
        **how,
    )
    if given["out"] is not None:
        write_csv(advice.to_frame(), given["out"], index=True)
    if given["report"] is not None:
        now = recipe.certify(certifier, targets.nodes, max_flips=given["flips"], **how)
        count, (what, done) = len(advice.names), _WORDS[advice.verb]
        then = f"{recipe.label} with {count} {what if count != 1 else what[:-1]} {done}"
        both = {recipe.label: now, **({then: advice.certificate} if advice.names else {})}
        shown = {"budget": min(advice.flips, now.last_flips, advice.certificate.last_flips), "opens": list(both)[-1]}
        title = f"{graph.name}: {what} to {advice.verb}"
        deliver_report(both, given["report"], title=title, quiet=given["quiet"], **shown)
    if given["as_json"]:
        print_json(_plain(advice))
        return
    what, _ = _WORDS[advice.verb]
    print_table(tables.recheck_table(advice, title=f"{recipe.label}: {what} to {advice.verb}, {targets.title}"))
    kind = "annotator" if advice.certificate.run.counts_annotators else "wrong label"
    wrong = f"1 {kind}" if advice.flips == 1 else f"{advice.flips} {kind}s"
    n = advice.certificate.n_test
    now = f"{round(advice.before * n)} of {n} predictions ({per_cent(advice.before)} %)"
    say_prose(f"{now} survive {wrong} now; {advice.verdict}")
    asked_for = given["audit"] if advice.annotators is not None else given["confirm"]
    if given["confirm_costs"] is None and asked_for is not None and len(advice.names) < asked_for:
        say_prose(f"{len(advice.names)} of {asked_for} are named: no further one was found to secure more")


def _plain(advice: Recheck) -> dict[str, Any]:
    """In plain JSON values."""
    labels = [{str(k): v for k, v in row.items()} for row in advice.to_frame().astype(object).to_dict("records")]
    words = ("flips", "objective", "before", "best_possible", "optimal")
    return {**{word: getattr(advice, word) for word in words}, "labels": labels}
