"""``labelcert certify``: a graph and models in; tables, files and pictures out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from labelcert.certificate import Stop
from labelcert.certification import support
from labelcert.cli import inputs
from labelcert.cli.delivery import deliver
from labelcert.cli.exits import EXIT_INTERRUPTED
from labelcert.cli.option_groups import (
    BUDGET_OPTIONS,
    COMPARISON_OPTIONS,
    ENSEMBLE_OPTIONS,
    GRAPH_OPTIONS,
    MODEL_OPTION_NAMES,
    MODEL_OPTIONS,
    NODE_OPTIONS,
    OUTPUT_OPTIONS,
    THREAT_OPTIONS,
    WORK_OPTIONS,
    GroupedCommand,
)
from labelcert.cli.printing import say
from labelcert.cli.reporting import check_report
from labelcert.errors import InvalidInput
from labelcert.graphs import Graph
from labelcert.models import models
from labelcert.pipeline import CertifiedTargets, certify_targets, model_options

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
  labelcert certify karate --trusted 2,15 --allow "Officer->Mr. Hi" --json
      An adversary that cannot touch two labels, and recruits for Mr. Hi only.
  labelcert certify cora-ml-b --per-class 150 --test collective --parts 30
      600 labels in 30 parts, each with a model of its own: mean scores decide."""


@click.command("certify", cls=GroupedCommand, epilog=EXAMPLES, context_settings={"max_content_width": 110})
@GRAPH_OPTIONS
@COMPARISON_OPTIONS
@MODEL_OPTIONS
@ENSEMBLE_OPTIONS
@NODE_OPTIONS
@BUDGET_OPTIONS
@THREAT_OPTIONS
@WORK_OPTIONS
@OUTPUT_OPTIONS
def certify_command(**given: Any) -> None:
    """Certify the predictions of models on a graph against changed labels, for all budgets at once.

    NAME is a dataset (see `labelcert datasets`). Each test node gets its radius, the fewest changed labels that
    change its prediction, with the labels that do it; each budget the share of predictions that survive.
    """
    if given["max_flips"] is not None and given["max_fraction"] is not None:
        raise InvalidInput("give the largest budget as --max-flips or as --max-fraction, not both")
    _check_parts(given)
    check_report(given["report"])
    if given["limit"] < 0 or given["attack"] < 0:
        raise InvalidInput("--nodes and --attack must not be negative")
    quiet = given["quiet"]
    names, options = _models(given)
    asked = inputs.read_request(given)
    graph, split, targets, threat = asked.graph, asked.split, asked.targets, asked.threat
    _add_beside(names, options, given, graph)
    if given["out"] is not None:
        # Found out now rather than after minutes of work.
        given["out"].mkdir(parents=True, exist_ok=True)
    progress = sys.stderr.isatty() and not quiet
    how = {**BUDGET_OPTIONS.chosen(given), **WORK_OPTIONS.chosen(given)}
    how |= {} if given["part_flips"] is None else {"part_flips": given["part_flips"]}
    results: list[CertifiedTargets] = []
    for name, own in zip(names, options, strict=True):
        recipe = inputs.chosen_model(given, asked, name, own, progress=progress, validate=True)
        if given["parts"] is not None:
            recipe = replace(recipe, parts=given["parts"], combine=given["combine"], seed=given["seed"])
        results += certify_targets(
            recipe, graph, split.labeled, targets, inductive=given["inductive"], threat=threat, progress=progress, **how
        )
        if _interrupted(results):
            break
    deliver(results, given)
    if _interrupted(results):
        say("interrupted: what was proved until then is shown", error=True)
        sys.exit(EXIT_INTERRUPTED)


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


def _models(given: dict[str, Any]) -> tuple[list[str], list[dict[str, Any]]]:
    """Names of the models, and the options that each one takes."""
    names = list(dict.fromkeys(name.lower() for name in given["names"])) or ["gcn"]
    fixed = {option: given[option] for option in MODEL_OPTION_NAMES if given[option] is not None}
    return names, model_options(names, fixed)


def _add_beside(names: list[str], options: list[dict[str, Any]], given: dict[str, Any], graph: Graph) -> None:
    """One more model to compare with; by default only where the paper does, and not in answers to scripts."""
    beside = given["beside"]
    if beside is None and not given["as_json"] and len(names) == 1:
        beside = BESIDE.get(graph.name, {}).get(names[0])
    if beside is None or beside == "none" or beside in names:
        return
    model_options([beside], {})
    takes = next(info.options for info in models() if info.name == beside)
    options.append({name: value for name, value in options[0].items() if name in takes})
    names.append(beside)


def _interrupted(results: Sequence[CertifiedTargets]) -> bool:
    return any(result.certificate.run.stopped is Stop.INTERRUPTED for result in results)
