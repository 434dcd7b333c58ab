"""``labelcert certify``: a graph and models in; tables, files and pictures out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from labelcert.certificate import Stop
from labelcert.certification import support
from labelcert.cli import inputs
from labelcert.cli import option_groups as groups
from labelcert.cli.delivery import deliver
from labelcert.cli.exits import EXIT_INTERRUPTED
from labelcert.cli.options import grouped
from labelcert.cli.printing import say
from labelcert.cli.reporting import check_report
from labelcert.errors import InvalidInput
from labelcert.graphs import Graph
from labelcert.pipeline import CertifiedTargets, certify_targets, known_options, model_options

BESIDE = {"karate": {"gcn": "sgc"}}
"""Models that stand beside the one asked for, as in the paper's Figure 1."""

EXAMPLES = """\b
Examples:
  labelcert certify karate --model gcn
      Zachary's karate club, 8 labels; the GCN beside the SGC.
  labelcert certify cora-ml-b --model gcn --model sgc --seed 0 --out results
      Two models on the paper's split; files and pictures in results/.
  labelcert certify citeseer --model gcn --max-flips 2
      Six classes: which labels would have to become which others.
  labelcert certify --edges edges.csv --labels labels.csv --max-flips 3
      Your own graph: nodes without a label are tested.
  labelcert certify customers.csv --label fraud
      A plain table without a graph: rows without a label are predicted.
  labelcert certify karate --trusted 2,15 --allow "Officer->Mr. Hi" --json
      An adversary that cannot touch two labels, and recruits for Mr. Hi only.
  labelcert certify --edges edges.csv --labels labels.csv --votes votes.csv --max-annotators 2
      Several votes for each label: predictions that two dishonest annotators change.
  labelcert certify karate --poison-features labeled --radius 0.01 --max-flips 2
      The features of labelled nodes may change a little, and two labels besides (also: --backdoor).
  labelcert certify cora-ml-b --per-class 150 --test collective --parts 30
      600 labels in 30 parts, each with a model of its own: mean scores decide."""


@grouped(
    "certify",
    EXAMPLES,
    *(groups.GRAPH_OPTIONS, groups.COMPARISON_OPTIONS, groups.MODEL_OPTIONS, groups.ENSEMBLE_OPTIONS),
    *(groups.NODE_OPTIONS, groups.BUDGET_OPTIONS, groups.THREAT_OPTIONS, groups.POISON_OPTIONS),
    groups.METRIC_OPTIONS,
    *(groups.WORK_OPTIONS, groups.OUTPUT_OPTIONS),
)
def certify_command(**given: Any) -> None:
    """Certify the predictions of models on a graph against changed labels, for all budgets at once.

    NAME is a dataset (see `labelcert datasets`). Each test node gets its radius, the fewest changed labels that
    change its prediction, with the labels that do it; each budget the share of predictions that survive.
    """
    if given["max_flips"] is not None and given["max_fraction"] is not None:
        raise InvalidInput("give the largest budget as --max-flips or as --max-fraction, not both")
    _check_annotators(given)
    _check_parts(given)
    _check_poison(given)
    check_report(given["report"])
    if given["attack"] < 0:
        raise InvalidInput("--attack must not be negative")
    options = inputs.own_options(
        list(dict.fromkeys(map(str.lower, given["names"]))) or [inputs.default_model(given)], given
    )
    asked = inputs.read_request(given)
    asked = replace(asked, graph=inputs.with_true_labels(asked, given))
    metrics = inputs.read_metrics(given)
    _add_beside(options, given, asked.graph)
    if given["out"] is not None:
        # Found out now rather than after minutes of work.
        given["out"].mkdir(parents=True, exist_ok=True)
    how = {**groups.BUDGET_OPTIONS.chosen(given), **groups.WORK_OPTIONS.chosen(given)}
    how |= {"max_flips": how.pop("max_annotators")} if "max_annotators" in how else {}
    how |= {"inductive": given["inductive"], "threat": asked.threat, "progress": inputs.shows_progress(given)}
    how |= {"metrics": metrics, "poison": inputs.read_poison(given, asked.graph)}
    how |= {} if given["part_flips"] is None else {"part_flips": given["part_flips"]}
    results: list[CertifiedTargets] = []
    for name, own in options.items():
        recipe = inputs.chosen_model(given, asked, name, own, validate=True)
        if given["parts"] is not None:
            recipe = replace(recipe, parts=given["parts"], combine=given["combine"], seed=given["seed"])
        results += certify_targets(recipe, asked.graph, asked.split.labeled, asked.targets, **how)
        if _interrupted(results):
            break
    deliver(results, given)
    if _interrupted(results):
        say("interrupted: what was proved until then is shown", error=True)
        sys.exit(EXIT_INTERRUPTED)


def _check_annotators(given: dict[str, Any]) -> None:
    """Refuse budgets of annotators where budgets do not count them."""
    if given["max_annotators"] is None:
        return
    if given["votes"] is None and given["annotator_column"] is None:
        raise InvalidInput("--max-annotators needs annotators: give --votes, or --annotator-column of your label table")
    if given["max_flips"] is not None or given["max_fraction"] is not None:
        raise InvalidInput("give the largest budget once: as --max-annotators, --max-flips or --max-fraction")


def _check_parts(given: dict[str, Any]) -> None:
    """Refuse options that say nothing with, or without, parts."""
    if given["parts"] is None and given["part_flips"] is not None:
        raise InvalidInput("--part-flips is about parts: give their number as --parts")
    if given["parts"] is not None and given["width"] is not None:
        raise InvalidInput("--width is about single models; leave out --parts")
    if given["width"] is not None and (given["margin"] or given["loss"] != "hinge"):
        raise InvalidInput("--width measures the margin itself, for the hinge loss; leave out --margin and --loss")
    if given["parts"] is not None:
        support.require(support.Request(predictor=support.MEAN, engine=given["engine"]))


def _check_poison(given: dict[str, Any]) -> None:
    """Refuse what says nothing about poisoned features, or cannot be answered with them."""
    poisoned = given["poison_features"] is not None or given["backdoor"]
    if poisoned != (given["radius"] is not None):
        raise InvalidInput(
            "--poison-features (or --backdoor) and --radius belong together: who may change features, and by how much"
        )
    if poisoned:
        if given["width"] is not None:
            raise InvalidInput(
                "--width measures networks on the given features; leave out --poison-features and --backdoor"
            )
        predictor = support.MACHINE if given["parts"] is None else support.MEAN
        support.require(
            support.Request(predictor=predictor, loss=given["loss"], engine=given["engine"], uncertain=True)
        )


def _add_beside(options: dict[str, dict[str, Any]], given: dict[str, Any], graph: Graph) -> None:
    """One more model to compare with; by default only where the paper does, and not in answers to scripts."""
    beside, first = given["beside"], next(iter(options))
    if beside is None and not given["as_json"] and len(options) == 1:
        beside = BESIDE.get(graph.name, {}).get(first)
    if beside is None or beside == "none" or beside in options:
        return
    model_options([beside], {})
    takes = known_options()[beside]
    options[beside] = {name: value for name, value in options[first].items() if name in takes}


def _interrupted(results: Sequence[CertifiedTargets]) -> bool:
    return any(result.certificate.run.stopped is Stop.INTERRUPTED for result in results)
