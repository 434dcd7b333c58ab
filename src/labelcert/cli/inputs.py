"""What users write on the command line, turned into nodes, threats and graphs; every refusal in plain words."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from labelcert.arrays import Bool, Float, Int
from labelcert.certificate.metric import Metric
from labelcert.certificate.run_record import command_line
from labelcert.cli.printing import say
from labelcert.errors import DataUnavailable, InvalidInput
from labelcert.graphs import Graph, Split, graph_from_files, load_dataset
from labelcert.graphs.checks import reason
from labelcert.graphs.datasets import OWN_FILE, dataset_info
from labelcert.graphs.problems import Problems
from labelcert.models import Recipe, models
from labelcert.models.poisoned import FeatureBall
from labelcert.pipeline import Targets, choose_model, choose_split, choose_targets, model_options
from labelcert.poisoning.asking import EVERYBODY, FeaturePoison
from labelcert.problem import Threat
from labelcert.progress import progress_report
from labelcert.reading import UNREADABLE, read_text

COLUMNS = ("source", "target", "weight", "node", "label")
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
    graph = read_graph(given)
    labeled_text, test_text, seed = given["labeled"], given["test"], given["seed"]
    labeled = None if labeled_text is None else parse_nodes(graph, labeled_text, "--labeled")
    split = choose_split(graph, seed=seed, per_class=given["per_class"], labeled=labeled)
    own = test_text not in (None, "all", "collective", "multi-class")
    test = _test_nodes(graph, split.labeled, test_text) if own else test_text
    if command_line.get() and "--seed" not in command_line.get():
        command_line.set(f"{command_line.get()} --seed {seed}")  # defaults may change
    readers = _THREAT if "trusted" in given else {}  # a command without an adversary has none of its options
    threat = Threat(**{keyword: read(graph, split.labeled, given) for keyword, read in readers.items()})
    return GraphRequest(graph, split, choose_targets(graph, split, test=test, seed=seed), threat)


def read_metrics(given: Mapping[str, Any]) -> list[Metric]:
    """The metrics whose worst values are wanted."""
    names, positive = given["metrics"], given["positive"]
    if positive is not None and not set(names) - {"accuracy"}:
        raise InvalidInput("--positive is about recall, precision and rates: name one as --metric")
    return [Metric(name, positive=None if name == "accuracy" else positive) for name in dict.fromkeys(names)]


def with_true_labels(asked: GraphRequest, path: Path | None) -> Graph:
    """The graph with the classes of test nodes that a table names."""
    graph = asked.graph
    if path is None:
        return graph
    code = {name: k for k, name in enumerate(graph.class_names)}
    labels, tested = graph.labels.copy(), {int(node) for targets in asked.targets for node in targets.nodes}
    for node, name in _table(graph, path, "label"):
        if name not in code:
            raise InvalidInput(f"{path} has the label {name!r}, which is none of the classes {_some(list(code))}")
        if node in tested:
            labels[node] = code[name]
    return replace(graph, labels=labels)


def read_poison(given: Mapping[str, Any], graph: Graph) -> FeaturePoison | None:
    """Whose features may change, and by how much."""
    text = given["poison_features"]
    if text is None:
        return None
    ball = FeatureBall(given["radius"], given["norm"])
    if text in EVERYBODY:
        return FeaturePoison(text, ball)
    if text.endswith("%"):
        try:
            share = float(text[:-1]) / 100
        except ValueError:
            share = -1.0
        if not 0.0 < share <= 1.0:
            raise InvalidInput(f"--poison-features takes a share between 0% and 100%, got {text!r}")
        return FeaturePoison("all" if share == 1.0 else share, ball, given["seed"])
    return FeaturePoison(parse_nodes(graph, text, "--poison-features"), ball)


def shows_progress(given: Mapping[str, Any]) -> bool:
    """Whether nobody asked for quiet."""
    return not given["quiet"]


def own_options(names: Sequence[str], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """For each of several models by name, those given options that it takes."""
    known = [option for info in models() for option in info.options if option != "C"]
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


def per_label(graph: Graph, labeled: Int, path: Path | None) -> Int | Float | None:
    """(m,) the cost of each label, 1 where the table has none; None without a table."""
    if path is None:
        return None
    numbers = {node: float(text) for node, text in _table(graph, path, "cost", number=True)}
    costs = np.array([numbers.get(int(node), 1.0) for node in labeled])
    return costs.astype(np.int64) if np.all(costs == np.floor(costs)) else costs


def wrong_rates(graph: Graph, labeled: Int, text: str) -> float | Float:
    """One rate of wrong labels; or (m,) the rates of a table, 0 where it has none."""
    path = Path(text)
    if not _is_file(path):
        try:
            return float(text)
        except ValueError:
            raise InvalidInput(
                f"--wrong must be a rate such as 0.05, or a CSV with the columns node, wrong, got {text!r}"
            ) from None
    rates = dict(_table(graph, path, "wrong"))
    try:
        return np.array([float(rates.get(int(node), "0")) for node in labeled])
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
                "expected an edge list or a feature table beside the labels; name one as --edges or --features"
            )
        how = {key: given[key] for key in ("edges", "features", "labels", "directed", "fix", *COLUMNS)}
        with warnings.catch_warnings(record=True) as mended:
            warnings.simplefilter("always")
            graph = graph_from_files(**how)
        for note in mended:
            say(f"labelcert: {note.message}", error=True)
        return graph
    if name is None:
        raise InvalidInput(
            "expected the name of a dataset (see `labelcert datasets`), an .npz file, or tables as --edges, "
            "--features and --labels"
        )
    if Path(name).is_file() and not name.endswith(OWN_FILE):
        raise InvalidInput(
            f"expected the name of a dataset or an {OWN_FILE} file, got the file {name}; name tables of your own as "
            "--edges, --features and --labels"
        )
    if data_dir is not None and dataset_info(name).source == "download" and not data_dir.is_dir():
        # Not created on the fly: a mistyped folder would start a download into it.
        raise DataUnavailable(
            f"there is no folder {data_dir}; name the one with the datasets as --data-dir, or create it"
        )
    return load_dataset(name, data_dir=data_dir, seed=given["seed"], **dict(map(_parameter, given["parameters"])))


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
    group = dict(_table(graph, path, given["group_column"] or "group", option="group_column"))
    return [group.get(int(node)) or None for node in labeled]


def _annotators(graph: Graph, labeled: Int, given: Mapping[str, Any]) -> list[str | None] | None:
    """Who gave each label, where there is one annotator for each."""
    column = given["annotator_column"]
    if column is None or given["votes"] is not None:
        return None
    if given["labels"] is None:
        raise InvalidInput("--annotator-column is about a table of votes, or your label table: name one as --votes")
    who = dict(_table(graph, given["labels"], column, option="annotator_column"))
    return [who.get(int(node)) or None for node in labeled]


def _votes(graph: Graph, labeled: Int, given: Mapping[str, Any]) -> list[tuple[int, str, str]] | None:
    """Position of the labelled node, annotator and label of each vote; votes on other nodes do not matter."""
    path, column = given["votes"], given["annotator_column"] or "annotator"
    if path is None:
        return None
    who = _table(graph, path, column, option="annotator_column", once=False)
    position = {int(node): i for i, node in enumerate(labeled)}
    labels = _table(graph, path, given["label"] or "label", once=False)
    votes = [(position[n], a, label) for (n, a), (_, label) in zip(who, labels, strict=True) if n in position]
    without = sorted(set(position.values()) - {i for i, _, _ in votes})
    if without:
        raise InvalidInput(
            f"the labelled node {graph.names(labeled)[without[0]]!r} has no vote in {path} ({len(without)} such); "
            "add one, or name the labelled nodes as --labeled"
        )
    return votes


def _table(
    graph: Graph, path: Path, column: str, *, option: str | None = None, number: bool = False, once: bool = True
) -> list[tuple[int, str]]:
    """Rows (node, value) of a CSV table with the columns ``node`` and ``column``, ``once`` for each node."""
    position = graph.positions()
    if not path.exists():
        raise InvalidInput(f"expected a table with the columns node and {column}, but there is no file {path}")
    rows: list[tuple[int, str]] = []
    seen: set[str] = set()
    try:
        reader = csv.DictReader(io.StringIO(read_text(path), newline=""))
        found = list(reader.fieldnames or [])
        lines = [(reader.line_num, line) for line in reader]
    except UNREADABLE as error:
        raise InvalidInput(f"{path} cannot be read as a table ({reason(error)}); correct the file") from None
    if "node" not in found or column not in found:
        advice = f"; say which one it is as {option}=NAME" if option is not None else ""
        raise InvalidInput(
            f"expected the columns node and {column} in {path}, got {', '.join(found) or 'an empty file'}{advice}"
        )
    problems, some = Problems(fix=False), _some(list(position))
    for at, line in lines:
        name, value = (line["node"] or "").strip(), (line[column] or "").strip()
        where = f"line {at} of {path}"
        if name not in position:
            problems.add(
                f"{where} names the node {name!r}, but {graph.name!r} has no such node; its nodes are called {some}"
            )
        elif once and name in seen:
            problems.add(f"{where} names the node {name!r} a second time")
        elif number and not re.fullmatch(r"[+-]?(\d{1,9}(\.\d*)?|\.\d+)", value):
            problems.add(f"{where}: a {column} must be a positive number, got {value!r}")
        else:
            rows.append((position[name], value))
        seen.add(name)
    problems.refuse()
    return rows


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
    "costs": lambda graph, labeled, given: per_label(graph, labeled, given["costs"]),
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
