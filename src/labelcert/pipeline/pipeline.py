"""From a graph, a model and a choice of nodes to certificates that know the nodes' names.

The command line and studies share this layer: which nodes are labelled, which are tested, which C, and what a
certificate's indices mean in the graph.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from labelcert.multiclass.panel import Panel
from labelcert.svm.scoring import HingeScorer, LinearScorer, Scorer
from labelcert.threat import Threat
from labelcert.validation import check_labels

from labelcert.certificate import Certificate
from labelcert.certification import certify
from labelcert.errors import InvalidInput
from labelcert.graphs import (
    UNLABELED,
    Graph,
    Split,
    collective_targets,
    multiclass_targets,
    own_split,
    published_split,
)
from labelcert.graphs.datasets import datasets
from labelcert.models import Model, model_from_name, models, select
from labelcert.models.selection import RULES, Rule
from labelcert.paper_settings import paper_rule, paper_setting
from labelcert.problem import Problem
from labelcert.progress import Report

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

ALL, COLLECTIVE, MULTICLASS, OWN = "all", "collective", "multiclass", "own"
COLLECTIVE_COUNT = 50
"""Nodes of the paper's collective test on real graphs, and of its test with more than two classes."""

FOLDS = 4


@dataclass(frozen=True, eq=False)
class Targets:
    """Test nodes under a name: "all" unlabelled ones, one of the paper's tests, or the user's "own".

    The paper's are "collective" and, for more than two classes, "multiclass".
    """

    name: str
    nodes: IntArray

    @property
    def title(self) -> str:
        """For headings."""
        count = len(self.nodes)
        if self.name == ALL:
            return f"all {count} unlabelled nodes"
        if self.name == COLLECTIVE:
            return f"the {count} nodes of the paper's collective test"
        if self.name == MULTICLASS:
            return f"the {count} nodes of the paper's multi-class test"
        return f"{count} chosen nodes"


@dataclass(frozen=True)
class Choice:
    """A model with its C, and where that came from.

    Attributes
    ----------
    name : str
        As in `models`.
    model : Model
    source : str
        "given", "paper", "default" (of this package for the dataset) or "cross-validation".
    """

    name: str
    model: Model
    source: str

    @property
    def label(self) -> str:
        """Short and distinct from other choices, for headings and legends.

        Examples
        --------
        >>> Choice("gcn", model_from_name("gcn", depth=2), "given").label
        'gcn depth=2'
        """
        defaults = type(self.model)()
        changed = [
            f"{name}={value}"
            for name, value in asdict(self.model).items()
            if name != "C" and value != getattr(defaults, name)
        ]
        return " ".join([self.name, *changed])

    @property
    def slug(self) -> str:
        """The label as part of a file name."""
        return re.sub(r"[^a-z0-9.]+", "-", self.label.lower())


@dataclass(frozen=True, eq=False)
class Certified:
    """A certificate, and what its indices mean in the graph.

    Attributes
    ----------
    graph : Graph
    choice : Choice
    labeled : (m,) array
        Labelled nodes, in the certificate's order.
    targets : Targets
        Test nodes, in the certificate's order.
    inductive : bool
    threat : Threat
    certificate : Certificate
        In the names of the classes.
    K_train, K_test : (m, m) and (n, m) arrays
    """

    graph: Graph
    choice: Choice
    labeled: IntArray
    targets: Targets
    inductive: bool
    threat: Threat
    certificate: Certificate
    K_train: FloatArray
    K_test: FloatArray

    @cached_property
    def test_names(self) -> list[str]:
        """Names of the test nodes."""
        return node_names(self.graph, self.targets.nodes)

    @cached_property
    def label_names(self) -> list[str]:
        """Names of the labelled nodes."""
        return node_names(self.graph, self.labeled)

    @cached_property
    def correct(self) -> npt.NDArray[np.bool_] | None:
        """Which clean predictions are right, or None where the truth is not known for all test nodes."""
        truth = self.graph.labels[self.targets.nodes]
        if np.any(truth == UNLABELED):
            return None
        names = np.array(self.graph.class_names)[truth]
        return np.asarray((names == self.certificate.predictions) & (self.certificate.radius_upper > 0))

    def flipped(self, b: int) -> IntArray:
        """Labelled nodes that the strongest known attack of at most ``b`` flips on all test nodes changes."""
        return self.labeled[list(self.certificate.collective_witness(b))]

    def changed(self, b: int) -> npt.NDArray[np.bool_]:
        """(n,) which predictions that attack provably changes."""
        if self.certificate.n_classes > 2:
            return self._changed_classes(b)
        flips = np.array(list(self.certificate.collective_witness(b)), dtype=np.int64)
        y = self._scorer.problem.y.copy()
        y[flips] *= -1.0
        return self._scorer.changed(y)[0]

    def accuracy_after(self, b: int) -> float | None:
        """Share of nodes that are predicted correctly and keep their prediction under that attack."""
        if self.correct is None:
            return None
        return float(np.mean(self.correct & ~self.changed(b)))

    def _changed_classes(self, b: int) -> npt.NDArray[np.bool_]:
        cert, panel = self.certificate, self._panel
        codes = panel.problem.codes
        for i, label in cert.collective_witness(b).items():
            codes[i] = np.searchsorted(cert.classes, label)
        changed: npt.NDArray[np.bool_] = np.asarray(cert.radius_upper == 0)
        decided = np.flatnonzero(panel.predicted >= 0)
        changed[decided] = panel.changed(codes, decided)[0]
        return changed

    @cached_property
    def _panel(self) -> Panel:
        cert = self.certificate
        problem = Problem.build(self.K_train, cert.labels, self.K_test, self.choice.model.C, loss=cert.settings["loss"])
        return Panel(problem, linear=problem.loss == "square")

    @cached_property
    def _scorer(self) -> Scorer:
        cert = self.certificate
        problem = Problem.build(self.K_train, cert.labels, self.K_test, self.choice.model.C, loss=cert.settings["loss"])
        return HingeScorer(problem) if problem.loss == "hinge" else LinearScorer(problem)

    def node_rows(self) -> list[dict[str, Any]]:
        """One row per test node in plain values: names, prediction, radius, flips that change it."""
        cert = self.certificate
        truth = self.graph.labels[self.targets.nodes]
        several = cert.n_classes > 2
        scores, second = cert.top_scores, cert.runners_up()
        return [
            {
                "node": self.test_names[t],
                "index": int(node),
                "true_label": None if truth[t] == UNLABELED else self.graph.class_names[truth[t]],
                "prediction": cert.predictions[t].item(),
                "decision_value": float(scores[t]),
                **({"runner_up": second[t].item(), "becomes": self._becomes(t)} if several else {}),
                "radius_lower": int(cert.radius_lower[t]),
                "radius_upper": int(cert.radius_upper[t]),
                "exact": bool(cert.radius_lower[t] == cert.radius_upper[t]),
                "flips": self._named(cert.witness(t)),
            }
            for t, node in enumerate(self.targets.nodes)
        ]

    def budget_rows(self) -> list[dict[str, Any]]:
        """One row per budget in plain values: certified ratios, accuracy, and the collective attack."""
        cert = self.certificate
        rows = []
        for b in range(cert.max_flips + 1):
            row: dict[str, Any] = {
                "flips": b,
                "ratio_lower": cert.certified_ratio(flips=b),
                "ratio_upper": cert.certified_ratio(flips=b, bound="upper"),
                "collective_ratio_lower": cert.certified_ratio(flips=b, collective=True),
                "collective_ratio_upper": cert.certified_ratio(flips=b, collective=True, bound="upper"),
                "changed_lower": int(cert.collective_lower[b]),
                "changed_upper": int(cert.collective_upper[b]),
            }
            if self.correct is not None:
                row["accuracy_lower"] = float(np.mean(self.correct & (cert.radius_lower > b)))
                row["accuracy_upper"] = float(np.mean(self.correct & (cert.radius_upper > b)))
            rows.append({**row, "attack": self._named(cert.collective_witness(b))})
        return rows

    def describe(self) -> dict[str, Any]:
        """Everything in plain JSON values."""
        cert = self.certificate
        return {
            "test": self.targets.name,
            "n_test": cert.n_test,
            "n_labels": int(cert.labels.size),
            "max_flips": cert.max_flips,
            "never": cert.never,
            "exact": cert.exact,
            "stopped": cert.settings["stopped"],
            **(
                {"positive_class": cert.classes[1].item()}
                if cert.n_classes == 2
                else {"classes": cert.classes.tolist(), "takeovers": self._takeovers()}
            ),
            "settings": cert.settings,
            "nodes": self.node_rows(),
            "budgets": self.budget_rows(),
        }

    def _becomes(self, t: int) -> Any:
        """The class that the node's witness turns it into; None without one."""
        new = -1 if self.certificate.new_classes is None else int(self.certificate.new_classes[t])
        return None if new < 0 else self.certificate.classes[new].item()

    def _takeovers(self) -> list[dict[str, Any]]:
        """Counts at the largest budget, without zeros."""
        counts = self.certificate.takeovers(flips=self.certificate.max_flips)
        return [
            {"prediction": old, "becomes": new, "nodes": int(counts.loc[old, new])}
            for old in counts.index
            for new in counts.columns
            if counts.loc[old, new]
        ]

    def _named(self, witness: dict[int, Any] | None) -> dict[str, Any] | None:
        return None if witness is None else {self.label_names[i]: label for i, label in witness.items()}


def node_names(graph: Graph, nodes: npt.ArrayLike) -> list[str]:
    """Names of nodes; their indices where the graph has no names.

    Examples
    --------
    >>> from labelcert.graphs import karate
    >>> node_names(karate(), [0, 33])
    ['0', '33']
    """
    index = np.asarray(nodes).tolist()
    return [str(i) for i in index] if graph.node_names is None else [graph.node_names[i] for i in index]


def choose_split(
    graph: Graph, *, seed: int = 0, per_class: int | None = None, labeled: npt.ArrayLike | None = None
) -> Split:
    """Which nodes are labelled.

    The user's own choice; else, for a graph in which some nodes have no label, all those that have one; else the
    paper's split.

    Parameters
    ----------
    graph : Graph
    seed, per_class : int
        Of the paper's split (asking for ``per_class`` asks for that split).
    labeled : indices or mask, optional
        The user's own choice.

    Examples
    --------
    >>> from labelcert.graphs import karate
    >>> len(choose_split(karate()).labeled), choose_split(karate(), labeled=[0, 33]).labeled.tolist()
    (8, [0, 33])
    """
    if labeled is not None:
        if per_class is not None:
            raise InvalidInput("name the labelled nodes, or say how many per class, but not both")
        return own_split(graph, train=labeled, test=[])
    known = np.flatnonzero(graph.labels != UNLABELED)
    if per_class is None and graph.name not in _DATASETS and 0 < known.size < graph.n_nodes:
        return own_split(graph, train=known, test=[])
    return published_split(graph, seed=seed, per_class=per_class)


def choose_targets(
    graph: Graph, split: Split, *, test: str | npt.ArrayLike | None = None, seed: int = 0
) -> list[Targets]:
    """Which nodes are tested.

    Parameters
    ----------
    test : "all", "collective", "multiclass", or indices or a mask, optional
        By default all nodes that are not labelled and, for a graph of the paper on which that is a smaller set,
        the nodes of its collective test as a second set. For a graph of the paper with more than two classes, the
        nodes of its multi-class test.

    Examples
    --------
    >>> from labelcert.graphs import karate
    >>> graph = karate()
    >>> [targets.title for targets in choose_targets(graph, choose_split(graph))]
    ['all 26 unlabelled nodes']
    """
    if isinstance(test, str) and test not in (ALL, COLLECTIVE, MULTICLASS):
        raise InvalidInput(f"test must be 'all', 'collective', 'multiclass' or a list of nodes, got {test!r}")
    everything = Targets(ALL, split.pool)
    if test is not None and not isinstance(test, str):
        nodes = own_split(graph, train=split.labeled, test=test).test
        if nodes.size == 0:
            raise InvalidInput("expected at least one test node, got none")
        return [Targets(OWN, nodes)]
    if everything.nodes.size == 0:
        raise InvalidInput(
            f"all {graph.n_nodes} nodes of {graph.name!r} are labelled, so none is left to test; "
            "name fewer labelled nodes"
        )
    info = _DATASETS.get(graph.name)
    several = test is None and graph.n_classes > 2 and info is not None and info.source == "download"
    if several or test == MULTICLASS:
        return [Targets(MULTICLASS, multiclass_targets(graph, split, count=COLLECTIVE_COUNT, seed=seed))]
    # On random graphs the paper's collective test takes every node.
    count = len(split.pool) if info is not None and info.source == "random" else COLLECTIVE_COUNT
    some = Targets(COLLECTIVE, collective_targets(split, count=count, seed=seed))
    if test is not None:
        return [everything if test == ALL else some]
    published = info is not None and info.source == "download" and len(some.nodes) < len(everything.nodes)
    return [everything, some] if published else [everything]


def choose_model(
    name: str,
    graph: Graph,
    labeled: npt.ArrayLike,
    *,
    C: float | str | None = None,
    rule: str | None = None,
    seed: int = 0,
    report: Report | None = None,
    **options: Any,
) -> Choice:
    """A model by name, with the paper's options and C where it has them, else with C by cross-validation.

    Parameters
    ----------
    name : str
        As in `models`.
    graph, labeled
        What the model is for.
    C : float or "cv", optional
        A number, or cross-validation even where the paper has a value.
    rule : {"best", "smallest"}, optional
        Of the cross-validation; the paper's for the dataset by default.
    seed : int
        Of the cross-validation's folds.
    **options
        Options of the model that are fixed.

    Examples
    --------
    >>> from labelcert.graphs import karate
    >>> choose_model("gcn", karate(), [0, 1, 32, 33], C=0.5, depth=2).model.depth
    2
    """
    known = model_from_name(name, **options)
    setting = paper_setting(graph.name, name, options)
    extra = {} if setting is None else dict(setting.options)
    model = replace(known, **extra)
    if C is None and setting is not None:
        return Choice(name, replace(model, C=setting.C), setting.source)
    if C is None or C == "cv":
        labels = graph.labels[np.asarray(labeled)]
        check_labels(labels)
        smallest = int(np.unique(labels, return_counts=True)[1].min())
        if smallest < 2:
            raise InvalidInput(
                "cross-validation needs at least two labelled nodes of each class to choose C, but one class has "
                "a single one; give C as a number"
            )
        chosen = _rule(rule, graph.name)
        found = select(model, graph, labeled, seed=seed, rule=chosen, folds=min(FOLDS, smallest), progress=report)
        return Choice(name, found.model, "cross-validation")
    if isinstance(C, str):
        raise InvalidInput(f"C must be a positive number or 'cv', got {C!r}")
    return Choice(name, replace(model, C=float(C)), "given")


def certify_targets(
    choice: Choice,
    graph: Graph,
    labeled: IntArray,
    targets: Sequence[Targets],
    *,
    inductive: bool = False,
    threat: Threat | None = None,
    **options: Any,
) -> list[Certified]:
    """One certificate for each set of test nodes, from one kernel; stops early when interrupted.

    Parameters
    ----------
    choice : Choice
    graph : Graph
    labeled : (m,) array of node indices
    targets : sequence of Targets
    inductive : bool
        Whether test nodes join after training, each set on its own.
    threat : Threat, optional
    **options
        Of `labelcert.certify`.

    Examples
    --------
    >>> from labelcert.graphs import karate
    >>> graph = karate()
    >>> split = choose_split(graph)
    >>> choice = choose_model("gcn", graph, split.labeled)
    >>> [certified] = certify_targets(choice, graph, split.labeled, choose_targets(graph, split))
    >>> certified.certificate.collective_lower.tolist()[:3], certified.flipped(1)
    ([0, 14, 14], array([15]))
    """
    without = labeled[graph.labels[labeled] == UNLABELED]
    if without.size:
        raise InvalidInput(f"every labelled node needs a label, but node {node_names(graph, without)[0]} has none")
    labels = np.array(graph.class_names)[graph.labels[labeled]]
    check_labels(labels)
    threat = Threat() if threat is None else threat
    results: list[Certified] = []
    row_of: Mapping[int, int] = {}
    for wanted in targets:
        if inductive or not all(node in row_of for node in wanted.nodes.tolist()):
            K_train, all_rows = choice.model.kernel_blocks(graph, labeled, wanted.nodes, inductive=inductive)
            row_of = {node: row for row, node in enumerate(wanted.nodes.tolist())}
        K_test = all_rows[[row_of[node] for node in wanted.nodes.tolist()]]
        certificate = certify(K_train, labels, K_test, choice.model.C, threat=threat, **options)
        results.append(Certified(graph, choice, labeled, wanted, inductive, threat, certificate, K_train, K_test))
        if certificate.settings["stopped"] == "interrupted":
            break
    return results


def save_results(results: Sequence[Certified], folder: Path) -> list[Path]:
    """Write certificates and their tables: ``*.cert``, ``*-nodes.csv`` and ``*-budgets.csv``.

    Returns
    -------
    list of Path
        The files, in the order of the results.
    """
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for result in results:
        stem = f"{result.choice.slug}-{result.targets.name}"
        path = folder / f"{stem}.cert"
        result.certificate.save(path)
        written.append(path)
        for kind, rows, column in (
            ("nodes", result.node_rows(), "flips"),
            ("budgets", result.budget_rows(), "attack"),
        ):
            frame = pd.DataFrame(rows)
            frame[column] = [_flat(row[column]) for row in rows]
            path = folder / f"{stem}-{kind}.csv"
            frame.to_csv(path, index=False)
            written.append(path)
    return written


def model_options(names: Sequence[str], given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The options for each of several models: each takes those that it has; an option that none has is refused.

    Examples
    --------
    >>> model_options(["gcn", "appnp"], {"alpha": 0.2, "depth": 1})
    [{'depth': 1}, {'alpha': 0.2, 'depth': 1}]
    """
    infos = {info.name: info for info in models()}
    takes = []
    for name in names:
        if name not in infos:
            model_from_name(name)
        takes.append(set(infos[name].options))
    for option in given:
        if not any(option in options for options in takes):
            listed = "; ".join(f"{name} has {', '.join(infos[name].options)}" for name in names)
            raise InvalidInput(f"no model that was asked for has the option {option!r}: {listed}")
    return [{k: v for k, v in given.items() if k in options} for options in takes]


def _rule(rule: str | None, dataset: str) -> Rule:
    if rule is None:
        return paper_rule(dataset)
    for known in RULES:
        if rule == known:
            return known  # type: ignore[return-value]
    raise InvalidInput(f"rule must be one of {', '.join(RULES)}, got {rule!r}")


def _flat(witness: Mapping[str, Any] | None) -> str:
    return "" if witness is None else "; ".join(f"{node} -> {label}" for node, label in witness.items())


_DATASETS = {info.name: info for info in datasets()}
