"""Expands a study into cells. A cell is one certificate, named by a hash of everything that decides its answer.

A certificate answers all budgets at once, and often both the sample-wise and the collective question. Several places
of a study, or of several studies, may therefore read the same cell. Cells that share a kernel form a job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from labelcert.arrays import Int
from labelcert.certification import support
from labelcert.errors import DataUnavailable, InvalidInput
from labelcert.finite.transfer import SETTINGS
from labelcert.graphs import UNLABELED, Graph, Split, graph_from_files, load_dataset
from labelcert.graphs.datasets import MULTI_CLASS, dataset_info
from labelcert.losses.cross_validation import C_GRID, FOLDS
from labelcert.models import model_from_name
from labelcert.pipeline import choose_split, choose_targets
from labelcert.pipeline.paper_settings import paper_rule, paper_setting
from labelcert.problem.budget import flips_for_fraction
from labelcert.studies.schema import CROSS_VALIDATE, CertificateSpec, DatasetSpec, Kind, ModelSpec, Study
from labelcert.studies.store import canonical
from labelcert.studies.using import CERTIFY

VALIDATION = 20
"""Nodes with true labels, beside the labelled ones, that tell practitioners when to stop."""

Budgets = tuple[tuple[float | None, int], ...]
"""Pairs of a fraction ε (None where flips are given) and its number of flips."""

RESULT_SCHEMA = 1
"""Part of every content hash. Raise it when the meaning of a stored result changes."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One certificate to compute.

    Attributes
    ----------
    key : str
        Content hash.
    C : float or None
        None if cross-validation chooses it by `rule`.
    test : (n,) array of node indices
    about : mapping
        Description in plain values, for the record.
    parts : mapping or None
        Options of `labelcert.certify_partition`, if the model is trained as an ensemble on parts of the labels.
    verify : mapping or None
        How many labels are verified before, and how they are chosen.
    search : bool
        Whether the most certified model is looked for.
    using : mapping or None
        The name of what certifies it instead of `labelcert.certify`, its options, and a seed.
    collective : bool
        Whether the collective curve is asked for.
    """

    key: str
    C: float | None
    rule: str
    test: Int
    max_flips: int
    engine: str
    time_limit: float | None
    about: Mapping[str, Any]
    parts: Mapping[str, Any] | None = None
    loss: str = "hinge"
    verify: Mapping[str, Any] | None = None
    search: bool = False
    finite: Mapping[str, Any] | None = None
    using: Mapping[str, Any] | None = None
    collective: bool = True


@dataclass(frozen=True, eq=False)
class Job:
    """Cells that share the graph, the labelled nodes and the kernel."""

    graph: Graph
    labeled: Int
    seed: int
    model: str
    options: Mapping[str, Any]
    inductive: bool
    cells: tuple[Cell, ...] = ()

    def only(self, wanted: set[str]) -> Job | None:
        """The job with the wanted cells, or None if there are none."""
        cells = tuple(cell for cell in self.cells if cell.key in wanted)
        return replace(self, cells=cells) if cells else None


@dataclass(frozen=True)
class Place:
    """Where in a study a cell's answer belongs.

    Attributes
    ----------
    dataset, model, certificate : str
        Labels.
    dataset_name, model_name : str
        Names, as in published tables.
    cell : str
        Content hash.
    """

    dataset: str
    dataset_name: str
    model: str
    model_name: str
    certificate: str
    kind: Kind
    seed: int
    cell: str
    budgets: Budgets


@dataclass(frozen=True)
class Plan:
    """A study with all its cells.

    Attributes
    ----------
    unavailable : mapping
        For the hash of each cell that cannot be computed here: its description, and the reason.
    notes : tuple of str
        What a reader of the results should know.
    """

    study: Study
    places: tuple[Place, ...]
    jobs: tuple[Job, ...]
    unavailable: Mapping[str, tuple[Mapping[str, Any], str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Hashes of all cells, each once, in the order of the study."""
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
        files = {**spec.files, **spec.columns, "directed": spec.directed}
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
        """The graph's checksum."""
        if id(graph) not in self._fingerprints:
            self._fingerprints[id(graph)] = graph.fingerprint()
        return self._fingerprints[id(graph)]

    def _load(self, spec: DatasetSpec, seed: int | None, parameters: Mapping[str, Any]) -> Graph:
        if spec.name is not None:
            return load_dataset(spec.name, data_dir=self._data_dir, seed=seed, **parameters)
        main = spec.files.get("edges", spec.files.get("features"))
        tables: dict[str, Any] = {**spec.files, **spec.columns}
        edges = tables.pop("edges", None)
        return graph_from_files(edges, directed=bool(spec.directed), name=Path(str(main)).name, **tables)


def expand(study: Study, *, graphs: Graphs | None = None) -> Plan:
    r"""Find all cells of a study. Only choices that need a kernel are left open.

    Examples
    --------
    >>> from labelcert.studies.reading import parse_study
    >>> text = 'flips = [1]\nseeds = [0]\n[[datasets]]\nname = "karate"\n[[models]]\nname = "gcn"\nC = 0.1'
    >>> plan = expand(parse_study(text, name="mine"))
    >>> len(plan.places), len(plan.jobs), plan.jobs[0].cells[0].max_flips
    (1, 1, 1)
    """
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
        self._places: list[Place] = []
        self._jobs: dict[str, tuple[Job, dict[str, Cell]]] = {}
        self._unavailable: dict[str, tuple[Mapping[str, Any], str]] = {}
        self._notes: dict[str, None] = {}

    def plan(self) -> Plan:
        jobs = tuple(replace(job, cells=tuple(cells.values())) for job, cells in self._jobs.values())
        return Plan(self._study, tuple(self._places), jobs, self._unavailable, tuple(self._notes))

    def add(self, dataset: DatasetSpec, seed: int) -> None:
        """Add all models and certificates on one graph."""
        models = [own for model in self._study.models if not (own := model.on(dataset)).skip]
        spots = [
            _Spot(dataset, seed, model, certificate) for model in models for certificate in self._study.certificates
        ]
        at = f"study {self._study.name!r}, dataset {dataset.label!r}"
        try:
            graph = self._load(dataset, seed)
            split = self._split(dataset, graph, seed)
            tests = {c: self._test(c, dataset, graph, split, seed) for c in self._study.certificates}
        except DataUnavailable as error:
            for spot in spots:
                self._miss(spot, f"not available offline: {error}")
            return
        except InvalidInput as error:
            raise InvalidInput(f"{at}, seed {seed}: {error}") from None
        for spot in spots:
            try:
                self._one(spot, graph, split.labeled, tests[spot.certificate])
            except InvalidInput as error:
                raise InvalidInput(f"{at}, model {spot.model.label!r}: {error}") from None

    def _load(self, dataset: DatasetSpec, seed: int) -> Graph:
        parameters = dict(dataset.parameters)
        if self._study.variant == "published" and dataset.name is not None:
            if dataset_info(dataset.name).source == "random":
                parameters["order"] = "published"
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

    def _split(self, dataset: DatasetSpec, graph: Graph, seed: int) -> Split:
        labeled = None if dataset.labeled is None else _nodes(graph, dataset.labeled, "labeled")
        return choose_split(graph, seed=seed, per_class=dataset.per_class, labeled=labeled)

    def _test(self, spec: CertificateSpec, dataset: DatasetSpec, graph: Graph, split: Split, seed: int) -> Int:
        info = None if dataset.name is None else dataset_info(dataset.name)
        test: Any = spec.test
        if dataset.test is not None:
            test = _nodes(graph, dataset.test, "test")
        elif test == "auto":
            test = "all"
            if info is not None and info.source in ("download", "random"):
                test = info.test if info.test == MULTI_CLASS or spec.kind is Kind.COLLECTIVE else "all"
        [targets] = choose_targets(graph, split, test=test, seed=seed)
        nodes = targets.nodes
        if spec.kind is Kind.ACCURACY and np.any(graph.labels[nodes] == UNLABELED):
            raise InvalidInput(
                "certified accuracy needs the true label of every test node, but some have none; ask for 'ratio' "
                "instead, or choose test nodes with labels"
            )
        return nodes

    def _one(self, spot: _Spot, graph: Graph, labeled: Int, test: Int) -> None:
        _, seed, spec, certificate = spot
        study = self._study
        options, C, source = self._resolve(spec, graph.name)
        rule = study.rule if study.rule is not None else paper_rule(graph.name)
        m = len(labeled)
        wanted = max(flips_for_fraction(study.up_to or 0.0, m), *(flips for _, flips in self._budgets(m)))
        max_flips = min(m, wanted, m if spec.max_flips is None else spec.max_flips)
        kernel = {
            "schema": RESULT_SCHEMA,
            "graph": self._graphs.fingerprint(graph),
            "labeled": _digest(labeled),
            "model": spec.name,
            "options": options,
            "inductive": study.inductive,
        }
        choice = {"rule": rule, "folds": FOLDS, "grid": list(C_GRID), "seed": seed} if C is None else C
        decides = {
            **kernel,
            "C": choice,
            "test": _digest(test),
            "max_flips": max_flips,
            "engine": certificate.engine,
            "time_limit": study.time_limit,
        }
        if not study.collective:
            decides["collective"] = False
        parts = None
        using = None
        if spec.using != CERTIFY:
            using = decides["using"] = _using(spec, certificate, study, m, seed)
        elif spec.parts is not None:
            parts = _parts(spec, certificate, m, seed)
            decides["parts"] = parts
        if spec.loss != "hinge":
            if study.variant == "published":
                raise InvalidInput(
                    f"the published code has the hinge loss alone, not {spec.loss!r}; use variant = 'exact'"
                )
            decides["loss"] = spec.loss
        verify = None
        if spec.verify:
            verify = _verified(spec, m)
            decides["verify"] = {**verify, **({"seed": seed} if spec.choose == "random" else {})}
        if spec.search:
            if spec.parts is not None or spec.verify or study.variant == "published":
                raise InvalidInput("a search chooses among single models alone; leave out parts, verify and variant")
            decides["search"] = seed
        finite = None
        if spec.width is not None:
            finite = _finite(spec, certificate, study, graph, labeled, seed)
            decides["finite"] = {**finite, "validation": _digest(finite["validation"])}
        key = content_hash(decides)
        about = {**decides, "dataset": graph.name, "seed": seed, "C_from": source, "labels": m, "n_test": len(test)}
        cell = Cell(
            key,
            C,
            rule,
            test,
            max_flips,
            certificate.engine,
            study.time_limit,
            about,
            parts,
            spec.loss,
            verify,
            spec.search,
            finite,
            using,
            study.collective,
        )
        # The seed shuffles the folds of cross-validation, so the cells of a job share it.
        job = Job(graph, labeled, seed, spec.name, options, study.inductive)
        self._jobs.setdefault(content_hash({**kernel, "seed": seed}), (job, {}))[1].setdefault(key, cell)
        self._place(spot, key, m)

    def _resolve(self, spec: ModelSpec, dataset: str) -> tuple[dict[str, Any], float | None, str]:
        """All options but C, then C (None for cross-validation), and where C comes from."""
        given = dict(spec.options)
        if any(f.name == "variant" for f in fields(model_from_name(spec.name))):
            given["variant"] = self._study.variant
        setting = paper_setting(dataset, spec.name, given)
        if setting is not None:
            given = {**setting.options, **given}
        model = model_from_name(spec.name, **given)
        options = {f.name: getattr(model, f.name) for f in fields(model) if f.name != "C"}
        if isinstance(spec.C, int | float):
            return options, float(spec.C), "given"
        own = spec.C == CROSS_VALIDATE or self._study.hyperparameters == CROSS_VALIDATE or setting is None
        if own or spec.loss != "hinge":
            return options, None, "cross-validation"
        assert setting is not None
        return options, setting.C, setting.source

    def _budgets(self, m: int) -> Budgets:
        if self._study.flips:
            return tuple((None, flips) for flips in self._study.flips)
        return tuple((epsilon, flips_for_fraction(epsilon, m)) for epsilon in self._study.budgets)

    def _place(self, spot: _Spot, cell: str, m: int) -> None:
        dataset, seed, model, certificate = spot
        name = dataset.name or dataset.label
        labels = (dataset.label, name, model.label, model.name, certificate.label)
        self._places.append(Place(*labels, certificate.kind, seed, cell, self._budgets(m)))

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


def _parts(spec: ModelSpec, certificate: CertificateSpec, m: int, seed: int) -> dict[str, Any]:
    """Options of an ensemble."""
    assert spec.parts is not None
    support.require(support.Request(predictor=support.MEAN, loss=spec.loss, engine=certificate.engine))
    if spec.parts > m:
        raise InvalidInput(f"parts must be at most the number of labels, {m}, got {spec.parts}")
    return {"parts": spec.parts, "combine": spec.combine, "seed": seed}


def _using(spec: ModelSpec, certificate: CertificateSpec, study: Study, m: int, seed: int) -> dict[str, Any]:
    """What certifies a model instead of `labelcert.certify`, with its options."""
    if certificate.engine != "auto":
        raise InvalidInput(f"using = {spec.using!r} has no engines; leave out engine = {certificate.engine!r}")
    if spec.verify or spec.search or study.variant == "published":
        raise InvalidInput(f"using = {spec.using!r} goes without verify, search and variant; leave them out")
    options = dict(spec.using_options)
    if spec.parts is not None:
        options["parts"] = _parts(spec, certificate, m, seed)["parts"]
    return {"name": spec.using, "options": options, "seed": seed}


def _verified(spec: ModelSpec, m: int) -> dict[str, Any]:
    """How many labels are verified, and by whose choice."""
    if spec.parts is not None:
        raise InvalidInput("labels can be verified for single models alone; leave out parts or verify")
    if spec.verify > m:
        raise InvalidInput(f"verify must be at most the number of labels, {m}, got {spec.verify}")
    return {"labels": spec.verify, "choose": spec.choose}


def _finite(
    spec: ModelSpec, certificate: CertificateSpec, study: Study, graph: Graph, labeled: Int, seed: int
) -> dict[str, Any]:
    """Which networks of finite width are tried."""
    other = spec.parts is not None or spec.verify or spec.search or spec.loss != "hinge" or spec.using != CERTIFY
    if other or study.variant == "published":
        raise InvalidInput(
            "networks of finite width belong to single models with the hinge loss; leave out parts, verify, search, "
            "using, loss and variant"
        )
    if certificate.engine != "auto" or certificate.kind is Kind.COLLECTIVE:
        raise InvalidInput("certificates for networks of finite width are 'ratio' or 'accuracy', without an engine")
    if not model_from_name(spec.name, **spec.options).has_network:
        raise InvalidInput(f"the model {spec.name!r} is a plain kernel, which belongs to no network")
    known = np.setdiff1d(np.flatnonzero(graph.labels != UNLABELED), labeled)
    count = min(VALIDATION, known.size)
    validation = np.sort(np.random.default_rng(seed).choice(known, count, replace=False))
    return {**SETTINGS, "width": spec.width, "seed": seed, "validation": validation}


def content_hash(value: Any) -> str:
    """Name a value by 32 hex digits.

    Examples
    --------
    >>> content_hash({"a": 1, "b": 2}) == content_hash({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:32]


def _digest(nodes: Int) -> str:
    return hashlib.sha256(np.ascontiguousarray(nodes, dtype="<i8").tobytes()).hexdigest()[:32]


def _nodes(graph: Graph, names: Sequence[str | int], what: str) -> Int:
    position = graph.positions()
    for name in map(str, names):
        if name not in position:
            raise InvalidInput(f"{what} names the node {name!r}, which {graph.name!r} does not have")
    return np.array([position[str(name)] for name in names], dtype=np.int64)
