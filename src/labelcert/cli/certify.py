"""``labelcert certify``: a graph and models in; tables, files and pictures out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from labelcert._version import __version__
from labelcert.certificate import Stop
from labelcert.cli import inputs
from labelcert.cli.exits import EXIT_INTERRUPTED
from labelcert.cli.printing import few, print_json, print_table
from labelcert.engines.registry import engine_names
from labelcert.engines.search.solvers import SOLVERS
from labelcert.errors import InvalidInput
from labelcert.graphs import Graph
from labelcert.models import models
from labelcert.models.base import ACTIVATIONS, VARIANTS
from labelcert.models.propagation import NORMALIZATIONS
from labelcert.models.selection import RULES
from labelcert.pipeline import (
    COLLECTIVE,
    Certified,
    Choice,
    Targets,
    certify_targets,
    choose_model,
    choose_split,
    choose_targets,
    model_options,
    save_results,
)
from labelcert.prediction import USUAL_CLASS_FLIPS, usual_budget
from labelcert.problem import LOSSES, Threat
from labelcert.problem.budget import flips_for_fraction
from labelcert.progress import progress_report
from labelcert.report import tables

DEFAULT_FOLDER = Path("labelcert-out")

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
      An adversary that cannot touch two labels, and recruits for Mr. Hi only."""


def _options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator, in the order in which the help shows them."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_FILE = click.Path(path_type=Path)
_MODEL_OPTIONS = tuple(dict.fromkeys(option for info in models() for option in info.options if option != "C"))

_graph_options = _options(
    click.argument("name", required=False, metavar="[NAME or FILE.npz]"),
    click.option(
        "--edges", type=_FILE, help="Your edge list: CSV or Parquet with the columns source, target[, weight]."
    ),
    click.option("--features", type=_FILE, help="Your feature table: node, then numbers [and label]."),
    click.option("--labels", type=_FILE, help="Your label table: node, label; empty or left out is unlabelled."),
    *(
        click.option(
            f"--{column}-column", column, default=column, show_default=True, help=f"Name of the column {column}."
        )
        for column in ("source", "target", "weight", "node", "label")
    ),
    click.option("--directed", is_flag=True, help="Edges of your tables have a direction."),
    click.option("--data-dir", type=_FILE, help="Folder with local copies of the datasets [LABELCERT_DATA_DIR]."),
    click.option(
        "--parameter",
        "-p",
        "parameters",
        multiple=True,
        metavar="NAME=VALUE",
        help="Parameter of the dataset, such as weighted=true or density=2.",
    ),
)

_model_options = _options(
    click.option(
        "--model",
        "-m",
        "names",
        multiple=True,
        metavar="MODEL",
        help="See `labelcert models`; repeat to compare. [default: gcn]",
    ),
    click.option(
        "--beside", metavar="MODEL", help="One more model to compare with, or none. [default: sgc beside gcn on karate]"
    ),
    click.option(
        "--C",
        "C",
        metavar="NUMBER|cv",
        help="Regularisation, or cv: cross-validation. [default: the paper's value, else cv]",
    ),
    click.option(
        "--rule", type=click.Choice(RULES), help="How cross-validation chooses among similar C. [default: the paper's]"
    ),
    click.option("--depth", type=int, help="Hidden layers."),
    click.option("--normalization", type=click.Choice(NORMALIZATIONS), help="Of the graph convolution."),
    click.option("--activation", type=click.Choice(ACTIVATIONS)),
    click.option("--alpha", type=float, help="Teleport probability of APPNP and PPNP."),
    click.option("--skip-alpha", type=float, help="Share of the input in GCN Skip-alpha."),
    click.option("--iterations", type=int, help="Propagation steps of APPNP."),
    click.option("--gamma", type=float, help="Inverse width of the Gaussian kernel."),
    click.option("--bias", is_flag=True, default=None, help="Add a constant to the linear kernel."),
    click.option("--edge-weight", type=float, help="Weight of all edges before self-loops are added."),
    click.option("--variant", type=click.Choice(VARIANTS), help="Exact kernels, or those of the published code."),
)

_node_options = _options(
    click.option("--seed", default=0, show_default=True, help="Of random graphs, splits and cross-validation."),
    click.option(
        "--per-class", type=int, help="Training nodes per class of the paper's split (as many for validation)."
    ),
    click.option("--labeled", metavar="FILE|LIST", help="Your labelled nodes: one per line, or with commas."),
    click.option(
        "--test",
        metavar="all|collective|multi-class|FILE|LIST",
        help="Test nodes; collective and multi-class are the paper's 50. [default: all unlabelled nodes; for "
        "graphs of the paper also collective, or multi-class alone with more than two classes]",
    ),
    click.option("--inductive", is_flag=True, help="Test nodes join the graph after training."),
)

_threat_options = _options(
    click.option(
        "--max-flips",
        type=int,
        help=f"Largest budget. [default: all labels; {USUAL_CLASS_FLIPS} with more than two classes]",
    ),
    click.option("--max-fraction", type=float, help="Largest budget as a fraction of the labels."),
    click.option("--trusted", metavar="FILE|LIST", help="Labelled nodes whose labels cannot be changed."),
    click.option(
        "--costs", type=_FILE, help="CSV with the columns node, cost: price of changing a label (1 where absent)."
    ),
    click.option("--allow", multiple=True, metavar='"A->B"', help="Only labels A may be changed, into B; repeatable."),
    click.option("--groups", type=_FILE, help="CSV with the columns node, group: where each label comes from."),
    click.option(
        "--group-budget",
        "group_budgets",
        multiple=True,
        metavar="N|GROUP=N",
        help="Most that may be spent in each group, or in one; repeatable.",
    ),
)

_work_options = _options(
    click.option(
        "--engine",
        default="auto",
        show_default=True,
        type=click.Choice(engine_names()),
        help="How to compute certificates.",
    ),
    click.option(
        "--solver",
        type=click.Choice(SOLVERS),
        default="highs",
        show_default=True,
        help="Who solves mixed-integer programs; SCIP and Gurobi are extras.",
    ),
    click.option(
        "--node-time-limit",
        type=float,
        metavar="SECONDS",
        help="Longest that a mixed-integer program may take for one node, or for one budget of the curve.",
    ),
    click.option(
        "--collective/--no-collective", default=True, show_default=True, help="Whether the collective curve is wanted."
    ),
    click.option(
        "--loss",
        type=click.Choice(LOSSES),
        default="hinge",
        show_default=True,
        help="hinge: SVM; square: kernel ridge regression.",
    ),
    click.option(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="For each certificate; what is open then comes as intervals.",
    ),
    click.option("--workers", type=int, help="Threads. [default: all cores]"),
)

_output_options = _options(
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables."),
    click.option(
        "--out", type=_FILE, metavar="FOLDER", help="Write certificates, tables and pictures into this folder."
    ),
    click.option(
        "--pictures/--no-pictures",
        default=True,
        show_default=True,
        help=f"Draw pictures, into ./{DEFAULT_FOLDER} without --out.",
    ),
    click.option(
        "--attack",
        default=1,
        show_default=True,
        metavar="FLIPS",
        help="Budget of the attack in the picture of the graph.",
    ),
    click.option("--nodes", "limit", default=20, show_default=True, help="Show that many nodes at the most."),
    click.option("--quiet", "-q", is_flag=True, help="No progress and no notes, only results."),
)


@click.command("certify", epilog=EXAMPLES, context_settings={"max_content_width": 110})
@_graph_options
@_model_options
@_node_options
@_threat_options
@_work_options
@_output_options
def certify_command(**given: Any) -> None:
    """Certify the predictions of models on a graph against changed labels, for all budgets at once.

    NAME is a dataset (see `labelcert datasets`). Each test node gets its radius, the fewest changed labels that
    change its prediction, with the labels that do it; each budget the share of predictions that survive.
    """
    if given["max_flips"] is not None and given["max_fraction"] is not None:
        raise InvalidInput("give the largest budget as --max-flips or as --max-fraction, not both")
    if given["limit"] < 0 or given["attack"] < 0:
        raise InvalidInput("--nodes and --attack must not be negative")
    quiet = given["quiet"]
    names, options = _models(given)
    graph = inputs.read_graph(
        given["name"],
        edges=given["edges"],
        features=given["features"],
        labels=given["labels"],
        columns={column: given[column] for column in ("source", "target", "weight", "node", "label")},
        directed=given["directed"],
        data_dir=given["data_dir"],
        parameters=given["parameters"],
        seed=given["seed"],
    )
    labeled_text, test_text = given["labeled"], given["test"]
    split = choose_split(
        graph,
        seed=given["seed"],
        per_class=given["per_class"],
        labeled=None if labeled_text is None else inputs.parse_nodes(graph, labeled_text, "--labeled"),
    )
    own_test = test_text not in (None, "all", "collective", "multi-class")
    targets = choose_targets(
        graph,
        split,
        test=_test_nodes(graph, split.labeled, test_text) if own_test else test_text,
        seed=given["seed"],
    )
    threat = inputs.build_threat(
        graph,
        split.labeled,
        trusted=given["trusted"],
        costs=given["costs"],
        allow=given["allow"],
        groups=given["groups"],
        group_budgets=given["group_budgets"],
    )
    max_flips = _largest_budget(given, graph, threat, split.labeled)
    _add_beside(names, options, given, graph)
    if given["out"] is not None:
        # Found out now rather than after minutes of work.
        given["out"].mkdir(parents=True, exist_ok=True)
    progress = sys.stderr.isatty() and not quiet
    results: list[Certified] = []
    for name, own in zip(names, options, strict=True):
        with progress_report(f"{name}: choosing C", progress) as show:
            choice = choose_model(
                name,
                graph,
                split.labeled,
                C=_regularization(given["C"]),
                rule=given["rule"],
                seed=given["seed"],
                report=show.report,
                **own,
            )
        results += certify_targets(
            choice,
            graph,
            split.labeled,
            targets,
            inductive=given["inductive"],
            threat=threat,
            max_flips=max_flips,
            engine=given["engine"],
            time_limit=given["time_limit"],
            node_time_limit=given["node_time_limit"],
            solver=given["solver"],
            collective=given["collective"],
            workers=given["workers"],
            loss=given["loss"],
            progress=progress,
        )
        if _interrupted(results):
            break
    _deliver(results, given)
    if _interrupted(results):
        click.echo("interrupted: what was proved until then is shown", err=True)
        sys.exit(EXIT_INTERRUPTED)


def _models(given: dict[str, Any]) -> tuple[list[str], list[dict[str, Any]]]:
    """Names of the models, and the options that each one takes."""
    names = list(dict.fromkeys(name.lower() for name in given["names"])) or ["gcn"]
    fixed = {option: given[option] for option in _MODEL_OPTIONS if given[option] is not None}
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


def _regularization(text: str | None) -> float | str | None:
    if text is None or text == "cv":
        return text
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"--C must be a positive number or cv, got {text!r}") from None


def _test_nodes(graph: Graph, labeled: Any, text: str) -> Any:
    nodes = inputs.parse_nodes(graph, text, "--test")
    both = sorted(set(nodes.tolist()) & set(labeled.tolist()))
    if both:
        raise InvalidInput(
            f"test nodes must not be labelled ones, but {len(both)} of {len(nodes)} are, the first is "
            f"{graph.names(both[:1])[0]!r}; leave them out of --test or choose other labelled nodes with --labeled"
        )
    return nodes


def _largest_budget(given: dict[str, Any], graph: Graph, threat: Threat, labeled: Any) -> int | None:
    total = len(labeled) if threat.costs is None else sum(threat.costs)  # type: ignore[arg-type]
    if given["max_fraction"] is not None:
        return flips_for_fraction(given["max_fraction"], int(total))
    usual = usual_budget(len(set(graph.labels[labeled].tolist())), int(total))
    if given["max_flips"] is not None or usual is None:
        return given["max_flips"]  # type: ignore[no-any-return]
    if not given["quiet"]:
        click.echo(f"note: more than two classes, so budgets up to {usual}; more with --max-flips", err=True)
    return usual


def _interrupted(results: Sequence[Certified]) -> bool:
    return any(result.certificate.run.stopped is Stop.INTERRUPTED for result in results)


def _deliver(results: list[Certified], given: dict[str, Any]) -> None:
    # Files come first: what is printed may have no reader.
    out: Path | None = given["out"]
    written = [] if out is None else save_results(results, out)
    if given["pictures"] and not (given["as_json"] and out is None):
        written += draw(results, out or DEFAULT_FOLDER, attack=given["attack"])
    if given["as_json"]:
        print_json(_as_json(results, given))
    else:
        _print(results, given["limit"])
    if written and not given["quiet"]:
        click.echo(f"wrote {', '.join(path.name for path in written)} into {written[0].parent}", err=True)


def _print(results: list[Certified], limit: int) -> None:
    first = results[0]
    graph = first.graph
    click.echo(f"{graph}; {len(first.labeled)} labelled nodes: {tables.class_counts(first.certificate.labels)}")
    for choice, of_choice in _by_choice(results):
        click.echo()
        click.echo(f"{choice.label}: {_model_text(choice)}")
        for result in of_choice:
            cert, where = result.certificate, result.targets.title
            # The nodes of the collective test are among all nodes: their radii have been shown.
            if result.targets.name != COLLECTIVE or len(of_choice) == 1:
                print_table(
                    tables.node_table(
                        cert,
                        limit=limit,
                        title=f"{choice.label}: fewest flipped labels that change each prediction, {where}",
                    )
                )
            print_table(
                tables.budget_table(
                    cert,
                    budgets=few(cert.max_flips),
                    title=f"{choice.label}: predictions that provably survive, {where}",
                )
            )
            if cert.run.finds_attacks:
                title = f"{choice.label}: what predictions become within {cert.max_flips} flips, {where}"
                print_table(tables.takeover_table(cert, title=title))
            accuracy = "" if result.correct is None else f"; clean accuracy {result.correct.mean():.1%}"
            click.echo(f"{tables.summary(cert)}{accuracy}")
    for group in _by_targets(results):
        if len(group) > 1:
            click.echo()
            pairs = [(result.choice.label, result.certificate) for result in group]
            budgets = few(min(cert.max_flips for _, cert in pairs))
            table = tables.comparison_table(pairs, budgets=budgets)
            table.title = f"Compared: predictions that provably survive, {group[0].targets.title}"
            print_table(table)


def draw(results: Sequence[Certified], folder: Path, *, attack: int) -> list[Path]:
    """All pictures of a run as files; returns them."""
    from labelcert.report import pictures

    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for group in _by_targets(results):
        pairs = [(result.choice.label, result.certificate) for result in group]
        title = f"{group[0].graph.name}, {group[0].targets.title}"
        where = group[0].targets.name
        written += pictures.save_figure(pictures.ratio_figure(pairs, title=title), folder / f"ratio-{where}")
        written += pictures.save_figure(pictures.radius_figure(pairs, title=title), folder / f"radius-{where}")
        for result in group:
            if result.certificate.run.finds_attacks:
                figure = pictures.takeover_figure(result.certificate)
                written += pictures.save_figure(figure, folder / f"takeovers-{result.choice.slug}-{where}")
        if group[0].graph.n_nodes <= pictures.LARGEST_DRAWN_GRAPH:
            written += pictures.save_figure(
                pictures.graph_figure([result.attack_panel(attack) for result in group]), folder / f"graph-{where}"
            )
    return written


def _as_json(results: Sequence[Certified], given: dict[str, Any]) -> dict[str, Any]:
    first = results[0]
    graph = first.graph
    return {
        "labelcert": __version__,
        "graph": {
            "name": graph.name,
            "nodes": graph.n_nodes,
            "edges": graph.n_edges,
            "features": graph.n_features,
            "classes": list(graph.class_names),
            "fingerprint": graph.fingerprint(),
        },
        "seed": given["seed"],
        "inductive": first.inductive,
        "labeled": [
            {"node": name, "index": int(node), "label": label.item()}
            for name, node, label in zip(
                graph.names(first.labeled), first.labeled, first.certificate.labels, strict=True
            )
        ],
        "results": [
            {
                "model": choice.name,
                "options": asdict(choice.model),
                "C_from": choice.source,
                "certificates": [result.describe() for result in of_choice],
            }
            for choice, of_choice in _by_choice(results)
        ],
    }


def _model_text(choice: Choice) -> str:
    sources = {
        "given": "as given",
        "paper": "the paper's",
        "default": "the default for this graph",
        "cross-validation": "from cross-validation",
    }
    options = [f"{name} {value}" for name, value in asdict(choice.model).items() if name != "C"]
    return ", ".join([f"C = {choice.model.C:g} ({sources[choice.source]})", *options])


def _by_choice(results: Sequence[Certified]) -> list[tuple[Choice, list[Certified]]]:
    choices = dict.fromkeys(result.choice for result in results)
    return [(choice, [r for r in results if r.choice == choice]) for choice in choices]


def _by_targets(results: Sequence[Certified]) -> list[list[Certified]]:
    sets: dict[int, tuple[Targets, list[Certified]]] = {}
    for result in results:
        sets.setdefault(id(result.targets), (result.targets, []))[1].append(result)
    return [group for _, group in sets.values()]
