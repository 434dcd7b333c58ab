"""Expands a study into cells, one certificate each.

A certificate answers all budgets at once, and often both the sample-wise and the collective question. Several places
of a study, or of several studies, may therefore read the same cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from labelcert.arrays import Int
from labelcert.certificate.metric import Metric, codes_of
from labelcert.certification import support
from labelcert.errors import DataUnavailable, InvalidInput
from labelcert.extensions import load_extensions
from labelcert.finite.transfer import SETTINGS, transfer
from labelcert.finite.twins import Twins
from labelcert.graphs import UNLABELED, Graph, Split, graph_from_files, load_dataset
from labelcert.graphs.datasets import MULTI_CLASS, dataset_info
from labelcert.graphs.random_models import PUBLISHED_SEEDS
from labelcert.hardening import SearchedCell
from labelcert.jobs.cells import (
    CELLS,
    CERTIFY,
    KERNELS,
    RESULT_SCHEMA,
    Answer,
    Cell,
    Job,
    JobBatch,
    JobList,
    PoisonedCell,
    RecheckedCell,
    UsingCell,
    content_hash,
    digest,
)
from labelcert.jobs.store import canonical
from labelcert.models import Recipe, model_from_name
from labelcert.models.networks.torch_extra import threads
from labelcert.models.poisoned import FeatureBall
from labelcert.pipeline import choose_split, choose_targets
from labelcert.pipeline.settings import known_rule, known_setting
from labelcert.poisoning import FeaturePoison
from labelcert.problem.budget import flips_for_fraction
from labelcert.studies.schema import CROSS_VALIDATE, CertificateSpec, DatasetSpec, Kind, ModelSpec, Study

VALIDATION = 20
"""Nodes with true labels, beside the labelled ones, that tell practitioners when to stop."""

Budgets = tuple[tuple[float | None, int], ...]
"""Pairs of a fraction ε (None where flips are given) and its number of flips."""


@dataclass(frozen=True, eq=False, kw_only=True)
class NetworksCell(Cell):
    """A certificate with the margin of networks of finite width, and what such networks do."""

    finite: Mapping[str, Any]

    def decides(self, job: Job) -> dict[str, Any]:
        """With the networks that are tried."""
        return {**super().decides(job), "finite": {**self.finite, "validation": digest(self.finite["validation"])}}

    def answer(self, job: Job, certifier: Any, workers: int | None) -> Answer:
        """Certify, train networks, and count."""
        model, validation = self.settled(job).model, self.finite["validation"]
        pair = Twins(model, job.graph, job.labeled, self.test, job.inductive, validation=validation)
        how: dict[str, Any] = {"max_flips": max(1, self.max_flips), "time_limit": self.time_limit, "workers": workers}
        with threads(workers):
            found = transfer(pair, self.finite["width"], seed=job.seed, **how)
        return found.certificate, {"transfer": found.plain()}


@dataclass(frozen=True)
class TablePlace:
    """Where in a study a cell's answer belongs: labels, and names as in published tables."""

    dataset: str
    dataset_name: str
    model: str
    model_name: str
    certificate: str
    metric: str
    positive: str
    kind: Kind
    seed: int
    cell: str
    budgets: Budgets


@dataclass(frozen=True, kw_only=True)
class StudyPlan(JobBatch):
    """A study with all its cells, and notes for readers of its results."""

    study: Study
    places: tuple[TablePlace, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Hashes of all cells, each once, in the order of the study; those that are not available are among them."""
        return tuple(dict.fromkeys(place.cell for place in self.places))


class Graphs:
    """Loads each graph once, however many seeds and studies use it."""

    def __init__(self, data_dir: Path | None = None) -> None:
        self._data_dir = data_dir
        self._known: dict[str, Graph | DataUnavailable] = {}
        self._fingerprints: dict[int, str] = {}

    def load(self, spec: DatasetSpec, seed: int, parameters: Mapping[str, Any]) -> Graph:
        """The graph of one seed. A dataset that was unavailable before is so again."""
        random = spec.name is not None and dataset_info(spec.name).source == "random"
        files = {**spec.files, **spec.columns, "directed": spec.directed, "raw": spec.raw}
        key = canonical([spec.name, files, dict(parameters), seed if random else None])
        if key not in self._known:
            try:
                self._known[key] = self._load(spec, seed if random else None, parameters)
            except DataUnavailable as error:
                self._known[key] = error
        if isinstance(found := self._known[key], DataUnavailable):
            raise found
        return found

    def fingerprint(self, graph: Graph) -> str:
        """The graph's fingerprint, computed once for each graph."""
        if id(graph) not in self._fingerprints:
            self._fingerprints[id(graph)] = graph.fingerprint()
        return self._fingerprints[id(graph)]

    def _load(self, spec: DatasetSpec, seed: int | None, parameters: Mapping[str, Any]) -> Graph:
        if spec.name is not None:
            return load_dataset(spec.name, data_dir=self._data_dir, seed=seed, **parameters)
        main = spec.files.get("edges", spec.files.get("features"))
        tables: dict[str, Any] = {**spec.files, **spec.columns}
        edges = tables.pop("edges", None)
        how: dict[str, Any] = {"directed": bool(spec.directed), "raw": spec.raw, "name": Path(str(main)).name}
        return graph_from_files(edges, **how, **tables)


def expand(study: Study, *, graphs: Graphs | None = None) -> StudyPlan:
    """Find all cells of a study. Only choices that need a kernel are left open."""
    load_extensions()
    builder = _Builder(study, Graphs() if graphs is None else graphs)
    for dataset in study.datasets:
        for seed in study.seeds:
            builder.add(dataset, seed)
    return builder.plan()


class _Spot(NamedTuple):
    """One combination of a study."""

    dataset: DatasetSpec
    seed: int
    model: ModelSpec
    certificate: CertificateSpec


class _Builder:
    def __init__(self, study: Study, graphs: Graphs) -> None:
        self._study = study
        self._graphs = graphs
        self._places: list[TablePlace] = []
        self._jobs = JobList()
        self._unavailable: dict[str, tuple[Mapping[str, Any], str]] = {}
        self._notes: dict[str, None] = {}

    def plan(self) -> StudyPlan:
        return StudyPlan(
            name=self._study.name,
            jobs=self._jobs.jobs(),
            unavailable=self._unavailable,
            study=self._study,
            places=tuple(self._places),
            notes=tuple(self._notes),
        )

    def add(self, dataset: DatasetSpec, seed: int) -> None:
        """Add all models and certificates on one graph."""
        models = [own for model in self._study.models if not (own := model.on(dataset)).skip]
        spots = [
            _Spot(dataset, seed, model, certificate) for model in models for certificate in self._study.certificates
        ]
        at = f"study {self._study.name!r}, dataset {dataset.label!r}"
        try:
            graph = self._load(dataset, seed)
            labeled = None if dataset.labeled is None else _nodes(graph, dataset.labeled, "labeled")
            split = choose_split(graph, seed=seed, per_class=dataset.per_class, labeled=labeled)
            tests = {c: self._test(c, dataset, graph, split, seed) for c in self._study.certificates}
        except DataUnavailable as error:
            for spot in spots:
                self._miss(spot, f"not available offline: {error}")
            return
        except InvalidInput as error:
            raise InvalidInput(f"{at}, seed {seed}: {error}") from None
        for spot in spots:
            try:
                self._one(spot, graph, split.labeled, tests)
            except InvalidInput as error:
                raise InvalidInput(f"{at}, model {spot.model.label!r}: {error}") from None

    def _load(self, dataset: DatasetSpec, seed: int) -> Graph:
        parameters = dict(dataset.parameters)
        if self._study.variant == "published" and dataset.name is not None:
            if dataset_info(dataset.name).source == "random":
                parameters["order"] = "published"
        elif parameters.get("order") == "published" and seed not in PUBLISHED_SEEDS:
            parameters["order"] = "stable"
        elif parameters.get("order") == "published":
            try:
                return self._graphs.load(dataset, seed, parameters)
            except DataUnavailable:
                # The node order only decides the splits, so the study can go on with other ones.
                self._notes.setdefault(
                    f"{dataset.label}: the paper's node order is missing (random_graph_orders.npz in the data "
                    "folder), so the splits differ from the paper's"
                )
                parameters["order"] = "stable"
        return self._graphs.load(dataset, seed, parameters)

    def _test(self, spec: CertificateSpec, dataset: DatasetSpec, graph: Graph, split: Split, seed: int) -> Int:
        info = None if dataset.name is None else dataset_info(dataset.name)
        test: Any = spec.test
        if dataset.test is not None:
            test = _nodes(graph, dataset.test, "test")
        elif test == "auto":
            test = "all"
            if info is not None and info.source in ("download", "random"):
                together = spec.kind not in (Kind.ACCURACY, Kind.RATIO)
                test = info.test if info.test == MULTI_CLASS or together else "all"
        [targets] = choose_targets(graph, split, test=test, seed=seed)
        nodes = targets.nodes
        if spec.kind is Kind.ACCURACY and np.any(graph.labels[nodes] == UNLABELED):
            raise InvalidInput(
                "certified accuracy needs the true label of every test node, but some have none; ask for 'ratio' "
                "instead, or choose test nodes with labels"
            )
        if spec.metric is not None:  # refuses what cannot be counted
            truth, classes = graph.named_labels(nodes), np.unique(graph.named_labels(split.labeled))
            metric = Metric(spec.metric.name, positive=spec.metric.positive or None)
            metric.counted(codes_of(truth, classes), classes)
        return nodes

    def _one(self, spot: _Spot, graph: Graph, labeled: Int, tests: Mapping[CertificateSpec, Int]) -> None:
        _, seed, spec, certificate = spot
        test = tests[certificate]
        # Certificates that are about the same otherwise are one.
        metrics = [
            (c.metric.name, c.metric.positive)
            for c, nodes in tests.items()
            if c.metric is not None and c.engine == certificate.engine and np.array_equal(nodes, test)
        ]
        study, m = self._study, len(labeled)
        recipe, rule = self._resolve(spec, graph.name, seed)
        wanted = max(flips_for_fraction(study.up_to or 0.0, m), *(flips for _, flips in self._budgets(m)))
        _check(spec, certificate, study, m)
        kind: Callable[..., Cell] = CELLS.get(study.report, Cell)
        own: dict[str, Any] = {}
        if spec.using != CERTIFY:
            parts = {} if spec.parts is None else {"parts": spec.parts}
            kind, own = UsingCell, {"name": spec.using, "options": {**spec.using_options, **parts}}
        elif spec.verify:
            kind, own = RecheckedCell, {"count": spec.verify, "choose": spec.choose}
        elif spec.search:
            kind = SearchedCell
        elif spec.radius is not None:
            kind, own = PoisonedCell, {"poison": _poison(spec, len(graph.labels), labeled, seed)}
        elif spec.width is not None:
            kind, own = NetworksCell, {"finite": {**SETTINGS, "width": spec.width, **_seeded(graph, labeled, seed)}}
        cell = kind(
            recipe=recipe,
            rule=rule,
            test=test,
            max_flips=min(m, wanted, m if spec.max_flips is None else spec.max_flips),
            engine=certificate.engine,
            time_limit=study.time_limit,
            collective=study.collective,
            metrics=tuple(metrics),
            using=KERNELS.get(getattr(recipe.model, "variant", "")),
            **own,
        )
        job = Job(graph, labeled, seed, recipe.model, study.inductive)
        self._place(spot, self._jobs.add(job, cell, self._graphs.fingerprint(graph)).key, m)

    def _resolve(self, spec: ModelSpec, dataset: str, seed: int) -> tuple[Recipe, str | None]:
        """The recipe and, where cross-validation chooses C, the rule for that."""
        given = dict(spec.options)
        if any(f.name == "variant" for f in fields(model_from_name(spec.name))):
            given["variant"] = self._study.variant
        setting = known_setting(dataset, spec.name, given)
        if setting is not None:
            given = {**setting.options, **given}
        model = model_from_name(spec.name, **given)
        parts = spec.parts if spec.using == CERTIFY else None
        recipe = Recipe(model, spec.loss, parts, seed if parts is not None else 0, spec.combine)
        if isinstance(spec.C, int | float):
            return replace(recipe, model=replace(model, C=float(spec.C))), None
        own = spec.C == CROSS_VALIDATE or self._study.hyperparameters == CROSS_VALIDATE
        if own or setting is None or spec.loss != "hinge":
            rule = self._study.rule if self._study.rule is not None else known_rule(dataset)
            return replace(recipe, source="cross-validation"), rule
        return replace(recipe, model=replace(model, C=setting.C), source=setting.source), None

    def _budgets(self, m: int) -> Budgets:
        if self._study.flips:
            return tuple((None, flips) for flips in self._study.flips)
        return tuple((epsilon, flips_for_fraction(epsilon, m)) for epsilon in self._study.budgets)

    def _place(self, spot: _Spot, cell: str, m: int) -> None:
        dataset, seed, model, certificate = spot
        name = dataset.name or dataset.label
        metric = ("", "") if certificate.metric is None else (certificate.metric.name, certificate.metric.positive)
        labels = (dataset.label, name, model.label, model.name, certificate.label, *metric)
        self._places.append(TablePlace(*labels, certificate.kind, seed, cell, self._budgets(m)))

    def _miss(self, spot: _Spot, reason: str) -> None:
        about = {
            "schema": RESULT_SCHEMA,
            "dataset": spot.dataset.name,
            "parameters": spot.dataset.parameters,
            "model": spot.model.name,
            "options": spot.model.options,
            "certificate": spot.certificate.label,
            "seed": spot.seed,
            "variant": self._study.variant,
        }
        key = content_hash(about)
        self._unavailable[key] = (about, reason)
        self._place(spot, key, 0)


def _check(spec: ModelSpec, certificate: CertificateSpec, study: Study, m: int) -> None:
    """Refuse what does not go together."""
    published, parts = study.variant == "published", spec.parts is not None
    other, own_engine = spec.using != CERTIFY, certificate.engine != "auto"
    if published and spec.loss != "hinge":
        raise InvalidInput(f"the published code has the hinge loss alone, not {spec.loss!r}; use variant = 'exact'")
    if parts and not other:
        support.require(support.Request(predictor=support.MEAN, loss=spec.loss, engine=certificate.engine))
    for word, count in (("parts", spec.parts or 0), ("verify", spec.verify)):
        if count > m:
            raise InvalidInput(f"{word} must be at most the number of labels, {m}, got {count}")
    if other and own_engine:
        raise InvalidInput(f"using = {spec.using!r} has no engines; leave out engine = {certificate.engine!r}")
    if other and (spec.verify or spec.search or published):
        raise InvalidInput(f"using = {spec.using!r} goes without verify, search and variant; leave them out")
    if study.report in CELLS and (other or parts or published or spec.verify or spec.search or spec.width is not None):
        raise InvalidInput(
            f"report = {study.report!r} is about single models with exact kernels; leave out parts, verify, "
            "search, width, using and variant"
        )
    if spec.verify and parts:
        raise InvalidInput("labels can be verified for single models alone; leave out parts or verify")
    if spec.search and (parts or spec.verify or published):
        raise InvalidInput("a search chooses among single models alone; leave out parts, verify and variant")
    single = not (parts or spec.verify or spec.search or published or other)
    if spec.radius is not None:
        _check_poison(spec, certificate, study, single=single)
    if spec.width is not None:
        _check_networks(spec, certificate, study, single=single)


def _poison(spec: ModelSpec, n: int, labeled: Int, seed: int) -> FeaturePoison:
    """Whose features may change: drawn by the seed."""
    pool = {"labeled": labeled, "unlabeled": np.setdiff1d(np.arange(n), labeled), "all": np.arange(n)}[spec.among]
    if spec.poisoned > pool.size:
        raise InvalidInput(f"poisoned must be at most {pool.size}, the {spec.among} nodes, got {spec.poisoned}")
    drawn = np.sort(np.random.default_rng(seed).permutation(pool)[: spec.poisoned])
    return FeaturePoison(drawn, FeatureBall(spec.radius or 0.0, spec.norm), backdoor=spec.backdoor)


def _check_poison(spec: ModelSpec, certificate: CertificateSpec, study: Study, *, single: bool) -> None:
    """Refuse poisoned features where nothing is known about them."""
    if not single or spec.width is not None or study.metrics:
        raise InvalidInput(
            "poisoned features belong to single models with exact kernels; leave out parts, verify, search, using, "
            "width, metrics and variant"
        )
    support.require(support.Request(loss=spec.loss, engine=certificate.engine, uncertain=True))


def _check_networks(spec: ModelSpec, certificate: CertificateSpec, study: Study, *, single: bool) -> None:
    """Refuse networks of finite width where there are none."""
    if study.metrics:
        raise InvalidInput("metrics are about predictions, and networks of finite width have margins; leave out one")
    if not single or spec.loss != "hinge":
        raise InvalidInput(
            "networks of finite width belong to single models with the hinge loss; leave out parts, verify, search, "
            "using, loss and variant"
        )
    if certificate.engine != "auto" or certificate.kind is Kind.COLLECTIVE:
        raise InvalidInput("certificates for networks of finite width are 'ratio' or 'accuracy', without an engine")
    if not model_from_name(spec.name, **spec.options).has_network:
        raise InvalidInput(f"the model {spec.name!r} is a plain kernel, which belongs to no network")


def _seeded(graph: Graph, labeled: Int, seed: int) -> dict[str, Any]:
    """A seed, and nodes that tell practitioners when to stop."""
    known = np.setdiff1d(np.flatnonzero(graph.labels != UNLABELED), labeled)
    count = min(VALIDATION, known.size)
    return {"seed": seed, "validation": np.sort(np.random.default_rng(seed).choice(known, count, replace=False))}


def _nodes(graph: Graph, names: Sequence[str | int], what: str) -> Int:
    position = graph.positions()
    for name in map(str, names):
        if name not in position:
            raise InvalidInput(f"{what} names the node {name!r}, which {graph.name!r} does not have")
    return np.array([position[str(name)] for name in names], dtype=np.int64)
