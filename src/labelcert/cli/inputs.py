"""What users write on the command line, turned into nodes, threats and graphs; every refusal in plain words."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.certificate.metric import Metric
from labelcert.certificate.run_record import command_line
from labelcert.cli.options import in_options
from labelcert.cli.printing import say
from labelcert.errors import DataUnavailable, InvalidInput
from labelcert.graphs import Graph, Split, graph_from_files, load_dataset, own_split
from labelcert.graphs.checks import reason
from labelcert.graphs.csv_and_parquet import NodeTable
from labelcert.graphs.datasets import OWN_FILE, dataset_info
from labelcert.graphs.plain_tables import PlainTable
from labelcert.graphs.problems import Problems
from labelcert.graphs.table_files import is_table
from labelcert.models import Recipe
from labelcert.models.poisoned import FeatureBall
from labelcert.pipeline import ROWS, Targets, choose_model, choose_split, choose_targets, known_options, model_options
from labelcert.poisoning.asking import EVERYBODY, FeaturePoison
from labelcert.problem import Threat
from labelcert.problem.ballots import Votes
from labelcert.progress import progress_report
from labelcert.reading import UNREADABLE, read_text

COLUMNS = ("source", "target", "weight", "type", "node", "label")
"""Columns of tables that may have other names."""


@dataclass(frozen=True, eq=False)
class GraphRequest:
    """What a command is about: a graph, its labelled and tested nodes, and the adversary."""

    graph: Graph
    split: Split
    targets: list[Targets]
    threat: Threat


def read_request(given: Mapping[str, Any]) -> GraphRequest:
    """From the options that all commands on graphs have."""
    if is_plain(given):
        return _read_plain(given)
    graph = read_graph(given)
    labeled_text, test_text, seed = given["labeled"], given["test"], given["seed"]
    labeled = None if labeled_text is None else parse_nodes(graph, labeled_text, "--labeled")
    split = choose_split(graph, seed=seed, per_class=given["per_class"], labeled=labeled)
    own = test_text not in (None, "all", "collective", "multi-class")
    test = _test_nodes(graph, split.labeled, test_text) if own else test_text
    targets = choose_targets(graph, split, test=test, seed=seed)
    return GraphRequest(graph, split, targets, _read_threat(graph, split.labeled, given))


def _read_threat(graph: Graph, labeled: Int, given: Mapping[str, Any]) -> Threat:
    """The adversary; the seed is written down."""
    if command_line.get() and "--seed" not in command_line.get():
        command_line.set(f"{command_line.get()} --seed {given['seed']}")  # defaults may change
    readers = _THREAT if "trusted" in given else {}  # a command without an adversary has none of its options
    return Threat(**{keyword: read(graph, labeled, given) for keyword, read in readers.items()})


def is_plain(given: Mapping[str, Any]) -> bool:
    """Whether the data are a table without a graph."""
    return given["name"] is not None and is_table(Path(given["name"]))


def default_model(given: Mapping[str, Any]) -> str:
    """What is certified where nobody names a model."""
    return "logistic" if is_plain(given) else "gcn"


def _read_plain(given: Mapping[str, Any]) -> GraphRequest:
    """A table whose rows are predicted, as a graph without edges."""
    path, test = Path(given["name"]), given["test"]
    if any(given[key] is not None for key in ("edges", "features", "labels", "per_class")):
        raise InvalidInput(
            f"{path.name} is a table of its own: leave out --edges, --features, --labels and --per-class, or give it "
            "as one of them"
        )
    other = Path(test) if test is not None and is_table(Path(test)) else None
    column, equals, value = (part.strip() for part in (test or "").partition("="))
    where = (column, value) if equals and other is None else None
    with noted(given):
        how = {**about_tables(given), **{key: given[key] for key in ("label", "node", "seed")}}
        table = PlainTable.read(path, other, where=where, **how)
    graph, labeled, tested = table.graph, table.labeled, table.test
    if given["labeled"] is not None:
        labeled = parse_nodes(graph, given["labeled"], "--labeled")
        tested = np.setdiff1d(tested, labeled)
    if test not in (None, "all") and other is None and where is None:
        tested = parse_nodes(graph, test, "--test")
        labeled = np.setdiff1d(labeled, tested) if given["labeled"] is None else labeled
    split = own_split(graph, train=labeled, test=tested)
    if given.get("votes") is not None:
        graph = _with_majorities(graph, split.labeled, given)
    return GraphRequest(graph, split, [Targets(ROWS, split.test)], _read_threat(graph, split.labeled, given))


def read_metrics(given: Mapping[str, Any]) -> list[Metric]:
    """The metrics whose worst values are wanted."""
    names, positive = given["metrics"], given["positive"]
    if positive is not None and not set(names) - {"accuracy"}:
        raise InvalidInput("--positive is about recall, precision and rates: name one as --metric")
    return [Metric(name, positive=None if name == "accuracy" else positive) for name in dict.fromkeys(names)]


def with_true_labels(asked: GraphRequest, given: Mapping[str, Any]) -> Graph:
    """The graph with the classes of test nodes that a table names."""
    graph, path = asked.graph, given["true_labels"]
    if path is None:
        return graph
    code = {name: k for k, name in enumerate(graph.class_names)}
    labels, tested = graph.labels.copy(), {int(node) for targets in asked.targets for node in targets.nodes}
    for node, name in _table(graph, path, given["label"], option="label", node=given["node"]):
        if name not in code:
            raise InvalidInput(f"{path} has the label {name!r}, which is none of the classes {_some(list(code))}")
        if node in tested:
            labels[node] = code[name]
    return replace(graph, labels=labels)


def read_poison(given: Mapping[str, Any], graph: Graph) -> FeaturePoison | None:
    """Whose features may change, and by how much."""
    text = given["poison_features"]
    if given["radius"] is None:
        return None
    return FeaturePoison(
        _poisoned(text, graph), FeatureBall(given["radius"], given["norm"]), given["seed"], given["backdoor"]
    )


def _poisoned(text: str | None, graph: Graph) -> Any:
    """A word, a share, or nodes; nobody, where only backdoors are asked for."""
    if text is None:
        return []
    if text in EVERYBODY:
        return text
    if not text.endswith("%"):
        return parse_nodes(graph, text, "--poison-features")
    try:
        share = float(text[:-1]) / 100
    except ValueError:
        share = -1.0
    if not 0.0 < share <= 1.0:
        raise InvalidInput(f"--poison-features takes a share between 0% and 100%, got {text!r}")
    return "all" if share == 1.0 else share


def shows_progress(given: Mapping[str, Any]) -> bool:
    """Whether nobody asked for quiet."""
    return not given["quiet"]


def own_options(names: Sequence[str], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """For each of several models by name, those given options that it takes."""
    known = [option for options in known_options().values() for option in options if option != "C"]
    fixed = {option: given[option] for option in known if given[option] is not None}
    return dict(zip(names, model_options(names, fixed), strict=True))


def _regularization(text: str | None) -> float | str | None:
    """C as it is written on the command line."""
    if text is None or text == "cv":
        return text
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"--C must be a positive number or cv, got {text!r}") from None


def chosen_model(
    given: Mapping[str, Any], request: GraphRequest, name: str, own: Mapping[str, Any], *, validate: bool
) -> Recipe:
    """A model with its C, from the options that all commands on models have."""
    how = {"C": _regularization(given["C"]), **{word: given[word] for word in ("rule", "seed", "loss")}, **own}
    if given.get("inductive"):
        how["joining"] = np.unique(np.concatenate([targets.nodes for targets in request.targets]))
    with progress_report(f"{name}: choosing C", shows_progress(given)) as show:
        return choose_model(name, request.graph, request.split.labeled, validate=validate, report=show.report, **how)


def per_label(graph: Graph, labeled: Int, path: Path | None, *, node: str = "node") -> Int | Float | None:
    """(m,) the cost of each label, 1 where the table has none; None without a table."""
    if path is None:
        return None
    numbers = {place: float(text) for place, text in _table(graph, path, "cost", node=node, number=True)}
    costs = np.array([numbers.get(int(place), 1.0) for place in labeled])
    return costs.astype(np.int64) if np.all(costs == np.floor(costs)) else costs


def wrong_rates(graph: Graph, labeled: Int, text: str, *, node: str = "node") -> float | Float:
    """One rate of wrong labels; or (m,) the rates of a table, 0 where it has none."""
    path = Path(text)
    if not _is_file(path):
        try:
            return float(text)
        except ValueError:
            raise InvalidInput(
                f"--wrong must be a rate such as 0.05, or a CSV with the columns node, wrong, got {text!r}"
            ) from None
    rates = dict(_table(graph, path, "wrong", node=node))
    try:
        return np.array([float(rates.get(int(place), "0")) for place in labeled])
    except ValueError as error:
        raise InvalidInput(f"rates in {path} must be numbers between 0 and 1 ({error})") from None


def read_graph(given: Mapping[str, Any]) -> Graph:
    """The graph by name, from an npz, or from tables."""
    name, data_dir = given["name"], given["data_dir"]
    own = any(given[key] is not None for key in ("edges", "features", "labels"))
    if own and name is not None:
        raise InvalidInput(
            f"expected the name of a dataset or tables of your own, got {name!r} and tables; leave one out"
        )
    if own:
        if given["edges"] is None and given["features"] is None:
            raise InvalidInput(
                "expected an edge list or a feature table beside the labels; name one as --edges or --features, or a "
                "plain table with labels in it as `labelcert certify data.csv --label NAME`"
            )
        how = {key: given[key] for key in ("edges", "features", "labels", "directed", *COLUMNS)}
        with noted(given):
            return graph_from_files(**how, **about_tables(given), edge_types=_listed(given["edge_types"]))
    if name is None:
        raise InvalidInput(
            "expected the name of a dataset (see `labelcert datasets`), an .npz file, a table (`data.csv --label "
            "NAME`), or the tables of a graph as --edges, --features and --labels"
        )
    if Path(name).is_file() and not name.endswith(OWN_FILE):
        raise InvalidInput(
            f"expected the name of a dataset, an {OWN_FILE} file or a table (.csv, .tsv, .txt, .parquet), got the file "
            f"{name}; save it as CSV"
        )
    if data_dir is not None and dataset_info(name).source == "download" and not data_dir.is_dir():
        # Not created on the fly: a mistyped folder would start a download into it.
        raise DataUnavailable(
            f"there is no folder {data_dir}; name the one with the datasets as --data-dir, or create it"
        )
    return load_dataset(name, data_dir=data_dir, seed=given["seed"], **dict(map(_parameter, given["parameters"])))


@contextmanager
def noted(given: Mapping[str, Any]) -> Iterator[None]:
    """Whatever was decided about tables is said, in one line each, in the words of the command line."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        yield
    for note in notes:
        if not given.get("quiet"):
            params = click.get_current_context().command.params
            say(f"labelcert: {in_options(str(note.message), params)}", error=True)


def about_tables(given: Mapping[str, Any]) -> dict[str, Any]:
    """How tables are read, in the words of `graph_from_files`."""
    how = {key: given[key] for key in ("fix", "raw")}
    missing = list(given["missing"]) if given["missing"] else None
    return {**how, "columns": _listed(given["columns"]), "drop": _listed(given["drop"]) or (), "missing": missing}


def _listed(text: str | None) -> list[str] | None:
    """Names with commas between them."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _is_file(path: Path) -> bool:
    """Whether there is a file, or a pipe; a long list of nodes is no path at all."""
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):
        return False


def parse_nodes(graph: Graph, text: str, what: str) -> Int:
    """Nodes from a file with one name per line, or from a list with commas."""
    path = Path(text)
    if _is_file(path):
        try:
            lines = [line.strip() for line in read_text(path).splitlines()]
        except UNREADABLE as error:
            raise InvalidInput(f"{path} cannot be read as a list of nodes ({reason(error)})") from None
        wanted = [line for line in lines if line and not line.startswith("#")]
        place = f"in {path}"
    else:
        wanted = [part.strip() for part in text.split(",") if part.strip()]
        place = "(which is no file either)"
    if not wanted:
        raise InvalidInput(f"expected at least one node for {what}, got none in {text!r}")
    position = graph.positions()
    for name in wanted:
        if name not in position:
            raise InvalidInput(
                f"{what} names the node {name!r} {place}, but {graph.name!r} has no such node; its nodes are "
                f"called {_some(list(position))}"
            )
    return np.array([position[name] for name in wanted], dtype=np.int64)


def _trusted(graph: Graph, labeled: Int, given: Mapping[str, Any]) -> Bool | None:
    """(m,) which labels cannot be changed."""
    if given["trusted"] is None:
        return None
    trusted = parse_nodes(graph, given["trusted"], "--trusted")
    for node in trusted[~np.isin(trusted, labeled)].tolist():
        raise InvalidInput(
            f"--trusted names the node {graph.names([node])[0]!r}, which is not labelled; the labelled "
            f"nodes are {_some(graph.names(labeled), 12)}"
        )
    return np.isin(labeled, trusted)


def _groups(graph: Graph, labeled: Int, given: Mapping[str, Any]) -> list[str | None] | None:
    """Where each label comes from."""
    path = given["groups"] or (given["labels"] if given["group_column"] else None)
    if path is None:
        return None
    group = dict(_table(graph, path, given["group_column"] or "group", option="group_column", node=given["node"]))
    return [group.get(int(place)) or None for place in labeled]


def _annotators(graph: Graph, labeled: Int, given: Mapping[str, Any]) -> list[str | None] | None:
    """Who gave each label, where there is one annotator for each."""
    column = given["annotator_column"]
    if column is None or given["votes"] is not None:
        return None
    if given["labels"] is None:
        raise InvalidInput("--annotator-column is about a table of votes, or your label table: name one as --votes")
    who = dict(_table(graph, given["labels"], column, option="annotator_column", node=given["node"]))
    return [who.get(int(place)) or None for place in labeled]


def _votes(graph: Graph, labeled: Int, given: Mapping[str, Any]) -> list[tuple[int, str, str]] | None:
    """Position of the labelled node, annotator and label of each vote; votes on other nodes do not matter."""
    path, column = given["votes"], given["annotator_column"] or "annotator"
    if path is None:
        return None
    who = _table(graph, path, column, option="annotator_column", node=given["node"], once=False)
    position = {int(place): i for i, place in enumerate(labeled)}
    labels = _table(graph, path, given["label"], option="label", node=given["node"], once=False)
    votes = [(position[n], a, label) for (n, a), (_, label) in zip(who, labels, strict=True) if n in position]
    without = sorted(set(position.values()) - {i for i, _, _ in votes})
    if without:
        raise InvalidInput(
            f"the labelled node {graph.names(labeled)[without[0]]!r} has no vote in {path} ({len(without)} such); "
            "add one, or name the labelled nodes as --labeled"
        )
    return votes


def _with_majorities(graph: Graph, labeled: Int, given: Mapping[str, Any]) -> Graph:
    """The graph whose labelled rows have the labels that most votes give them."""
    majority = list(map(str, Votes(_votes(graph, labeled, given)).labels.tolist()))
    differs = int(np.sum(graph.named_labels(labeled) != np.array(majority)))
    if differs:
        say(f"labelcert: {differs} labels of {graph.name} differ from the majority of votes, which counts", error=True)
    classes = (
        tuple(sorted({*graph.class_names, *majority})) if {*majority} - {*graph.class_names} else graph.class_names
    )
    code = {name: k for k, name in enumerate(classes)}
    labels = np.array([code.get(name, -1) for name in graph.named_labels(np.arange(graph.n_nodes)).tolist()])
    labels[labeled] = [code[name] for name in majority]
    return replace(graph, labels=labels, class_names=classes)


def _table(
    graph: Graph,
    path: Path,
    column: str,
    *,
    option: str = "",
    node: str = "node",
    number: bool = False,
    once: bool = True,
) -> list[tuple[int, str]]:
    """Rows (node, value) of a table with the columns ``node`` and ``column``, ``once`` for each node.

    The columns of nodes and labels may have the names that they have in the graph's own tables, or the usual ones.
    """
    problems = Problems(fix=False)
    table = NodeTable(
        path, problems, columns={node: "node", "node": "node", "label": "label", column: option}, any_name=True
    )
    names = [str(name) for name in table.frame.columns]
    node = "node" if node not in names and "node" in names else node
    column = "label" if option == "label" and column not in names and "label" in names else column
    absent = [name for name in (node, column) if name not in names]
    if absent:
        raise InvalidInput(table.without(*absent))
    position = graph.positions()
    if once:
        table.distinct_ids(node)
    nodes = table.positions(node, position, f"the nodes of {graph.name!r} are called {_some([*position])}")
    values = ["" if value != value or value is None else str(value).strip() for value in table.frame[column].tolist()]
    if number:
        values = [value.replace(",", ".") if table.decimal_comma else value for value in values]
        bad = [i for i, value in enumerate(values) if not re.fullmatch(r"[+-]?(\d{1,9}(\.\d*)?|\.\d+)", value)]
        problems.add_each(
            np.array(bad, dtype=np.int64),
            lambda i: f"{table.row(i)}: a {column} must be a positive number, got {values[i]!r}",
        )
    problems.refuse_now()
    return list(zip(nodes.tolist(), values, strict=True))


def _test_nodes(graph: Graph, labeled: Int, text: str) -> Int:
    nodes = parse_nodes(graph, text, "--test")
    both = sorted(set(nodes.tolist()) & set(labeled.tolist()))
    if both:
        raise InvalidInput(
            f"test nodes must not be labelled ones, but {len(both)} of {len(nodes)} are, the first is "
            f"{graph.names(both[:1])[0]!r}; leave them out of --test or choose other labelled nodes with --labeled"
        )
    return nodes


def _allowed(_: Graph, __: Int, given: Mapping[str, Any]) -> dict[str, list[str]] | None:
    """Which labels may become which others."""
    allowed: dict[str, list[str]] = {}
    for rule in given["allow"]:
        source, arrow, target = (part.strip() for part in rule.partition("->"))
        if not (source and arrow and target):
            raise InvalidInput(f'--allow must be written as "label->label it may become", got {rule!r}')
        allowed.setdefault(source, []).append(target)
    return allowed or None


def _group_budgets(_: Graph, __: Int, given: Mapping[str, Any]) -> int | dict[str, int] | None:
    """Most that may be spent in each group."""
    texts = given["group_budgets"]
    if not texts:
        return None
    if len(texts) == 1 and texts[0].isdigit():
        return int(texts[0])
    budgets: dict[str, int] = {}
    for text in texts:
        group, equals, number = (part.strip() for part in text.rpartition("="))
        if not (group and equals and number.isdigit()):
            raise InvalidInput(
                f"--group-budget must be one whole number for all groups, or GROUP=NUMBER for each, got {text!r}"
            )
        budgets[group] = int(number)
    return budgets


def _removable(graph: Graph, labeled: Int, given: Mapping[str, Any]) -> bool | Bool | None:
    """(m,) which labels may be removed; True for all."""
    text = given["removable"]
    if text is None:
        return True if given["removal_only"] else None
    if text == "all":
        return True
    chosen = parse_nodes(graph, text, "--removable")
    for node in chosen[~np.isin(chosen, labeled)].tolist():
        raise InvalidInput(
            f"--removable names the node {graph.names([node])[0]!r}, which is not labelled; the labelled "
            f"nodes are {_some(graph.names(labeled), 12)}"
        )
    return np.isin(labeled, chosen)


_THREAT: dict[str, Callable[[Graph, Int, Mapping[str, Any]], Any]] = {
    "trusted": _trusted,
    "costs": lambda graph, labeled, given: per_label(graph, labeled, given["costs"], node=given["node"]),
    "allowed_flips": _allowed,
    "groups": _groups,
    "group_budgets": _group_budgets,
    "annotators": _annotators,
    "votes": _votes,
    "removable": _removable,
    "changes": lambda graph, labeled, given: not given["removal_only"],
}
"""How each keyword of `Threat` is read from the options of the group THREAT_OPTIONS."""


def _parameter(text: str) -> tuple[str, Any]:
    key, equals, value = (part.strip() for part in text.partition("="))
    if not (key and equals and value):
        raise InvalidInput(f"--parameter must be written as NAME=VALUE, got {text!r}")
    if value.lower() in ("true", "false"):
        return key, value.lower() == "true"
    for kind in (int, float):
        try:
            return key, kind(value)
        except ValueError:
            continue
    return key, value


def _some(names: Sequence[str], count: int = 3) -> str:
    return ", ".join(names[:count]) + (", ..." if len(names) > count else "")
