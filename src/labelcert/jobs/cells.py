"""A cell is one certificate, named by a hash of everything that decides its answer.

Cells that share a graph, labelled nodes and a kernel form a job. What is special about a cell is a class of its own,
which says what else decides its answer and how that comes about.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from labelcert._version import NUMERICS
from labelcert.arrays import Int
from labelcert.attacks import ATTACKS, attack
from labelcert.baselines import BASELINES, certify_baseline, certify_sanitized
from labelcert.certificate import Certificate
from labelcert.certificate.metric import Metric
from labelcert.certification import GraphCertifier
from labelcert.graphs import Graph
from labelcert.jobs.kept_kernels import KeptKernel
from labelcert.jobs.store import canonical
from labelcert.losses.cross_validation import C_GRID, FOLDS
from labelcert.models import Model, Recipe, name_of
from labelcert.pipeline import choose_model
from labelcert.poisoning import FeaturePoison
from labelcert.problem import Threat
from labelcert.rechecking import recheck

RESULT_SCHEMA = 1
"""Part of every content hash. Raise it when the meaning of a stored result changes."""

CERTIFY = "certify"
"""What stands for `labelcert.certify` itself."""

ATTACK = "attack:"
"""What the names of attacks start with."""

USING: dict[str, Callable[..., Certificate]] = {
    **{name: partial(certify_baseline, using=name) for name in BASELINES},
    **{f"{ATTACK}{name}": partial(attack, using=name) for name in ATTACKS},
    "sanitized": certify_sanitized,
}
"""What a model of a study may be certified with, instead of `labelcert.certify`; a further registry is one more line.

Each function takes the arrays as `labelcert.certify` does, with the keywords ``max_flips``, ``loss``, ``seed``,
``time_limit``, ``workers``, ``names`` and the model's ``using_options``.
"""

KERNELS: dict[str, Callable[..., Certificate]] = {}
"""What certifies kernels of a variant, instead of `labelcert.certify`; extensions fill it."""

Answer = tuple[Certificate | None, dict[str, Any]]
"""A certificate, and what else its result keeps; without one, what the record keeps in its place."""


@dataclass(frozen=True, eq=False)
class Job:
    """Cells that share the graph, the labelled nodes and the kernel; each has a C of its own."""

    graph: Graph
    labeled: Int
    seed: int
    model: Model
    inductive: bool
    cells: tuple[Cell, ...] = ()
    kernels: Path | None = None
    """Folder that keeps kernels."""

    def only(self, wanted: set[str]) -> Job | None:
        """The job with the wanted cells, or None if there are none."""
        cells = tuple(cell for cell in self.cells if cell.key in wanted)
        return replace(self, cells=cells) if cells else None

    def certifier(self, tests: Sequence[Int]) -> GraphCertifier:
        """What certifies all that has its kernel, for these sets of test nodes."""
        model: Any = self.model
        if self.kernels is not None:
            nodes = [digest(test) for test in tests]
            name = content_hash({**self.kernel(self.graph.fingerprint()), "tests": nodes, "numerics": NUMERICS})
            model = KeptKernel(model, self.kernels / f"kernel-{name}.npz")
        return GraphCertifier(model, self.graph, self.labeled, tests, inductive=self.inductive)

    def kernel(self, fingerprint: str) -> dict[str, Any]:
        """What decides its kernel, in plain values."""
        return {
            "schema": RESULT_SCHEMA,
            "graph": fingerprint,
            "labeled": digest(self.labeled),
            "model": name_of(self.model),
            "options": {f.name: getattr(self.model, f.name) for f in fields(self.model) if f.name != "C"},
            "inductive": self.inductive,
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Cell:
    """One certificate to compute."""

    recipe: Recipe
    """Its C counts unless there is a rule."""
    test: Int
    max_flips: int
    rule: str | None = None
    """How cross-validation over the labels chooses C."""
    engine: str = "auto"
    time_limit: float | None = None
    collective: bool = True
    threat: Threat | None = None
    metrics: tuple[tuple[str, str], ...] = ()
    """Names of metrics whose worst values are wanted, each with its positive class (empty: the second of two)."""
    device: str = "cpu"
    """Of several attacks that are equally strong, a GPU may find another one than the CPU."""
    using: Callable[..., Certificate] | None = None
    """What certifies the arrays instead of `labelcert.certify`, with options of its own."""
    key: str = ""
    """Content hash."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Description in plain values, for the record."""

    def named(self, job: Job, kernel: Mapping[str, Any]) -> Cell:
        """The cell with its hash and its description."""
        decides = {**kernel, **self.decides(job)}
        where = {"dataset": job.graph.name, "seed": job.seed, "C_from": self.recipe.source}
        about = {**decides, **where, "labels": len(job.labeled), "n_test": len(self.test)}
        return replace(self, key=content_hash(decides), about=about)

    def decides(self, job: Job) -> dict[str, Any]:
        """What decides its answer beside the kernel, in plain values; defaults of newer options are left out."""
        recipe = self.recipe
        folds = {"rule": self.rule, "folds": FOLDS, "grid": list(C_GRID), "seed": job.seed}
        folds |= {"joining": True} if job.inductive else {}
        found: dict[str, Any] = {
            "C": float(recipe.C) if self.rule is None else folds,
            "test": digest(self.test),
            "max_flips": self.max_flips,
            "engine": self.engine,
            "time_limit": self.time_limit,
        }
        threat = {} if self.threat is None else self.threat.describe()
        newer = {
            "collective": None if self.collective else False,
            "parts": recipe.parts and {"parts": recipe.parts, "combine": recipe.combine, "seed": recipe.seed},
            "loss": None if recipe.loss == "hinge" else recipe.loss,
            "learner": recipe.extra,
            "metrics": [list(metric) for metric in self.metrics] or None,
            "threat": {key: value for key, value in threat.items() if value is not None} or None,
        }
        return found | {key: value for key, value in newer.items() if value is not None}

    def answer(self, job: Job, certifier: GraphCertifier, workers: int | None) -> Answer:
        """Certify it, with a certifier of the job's kernel."""
        return self.certified(self.settled(job), certifier, workers, threat=self.threat), {}

    def settled(self, job: Job) -> Recipe:
        """The recipe with its C."""
        recipe = self.recipe
        if self.rule is None:
            return recipe
        how: dict[str, Any] = {"C": "cv", "rule": self.rule, "seed": job.seed, "loss": recipe.loss, **recipe.options}
        how |= {"joining": self.test} if job.inductive else {}
        return replace(recipe, model=choose_model(recipe.name, job.graph, job.labeled, **how).model)

    def certified(
        self, recipe: Recipe, certifier: GraphCertifier, workers: int | None, *, threat: Threat | None
    ) -> Certificate:
        """The certificate of a recipe, as this cell wants it."""
        how: dict[str, Any] = {"max_flips": self.max_flips, "time_limit": self.time_limit, "workers": workers}
        if self.using is not None:
            how |= {"using": self.using, "engine": self.engine, **({} if threat is None else {"threat": threat})}
        else:
            how |= {"device": self.device, "collective": self.collective, "threat": threat}
            how |= {"metrics": [Metric(name, positive=positive or None) for name, positive in self.metrics]}
            how |= {"engine": self.engine} if recipe.parts is None else {}
        certificate: Certificate = recipe.certify(certifier, self.test, **how)
        return certificate

    @property
    def parts_enumerated(self) -> int | None:
        """The number of parts whose labellings an enumeration visits; None if it visits none."""
        return self.recipe.parts or 1


@dataclass(frozen=True, eq=False, kw_only=True)
class UsingCell(Cell):
    """A certificate by a baseline or an attack: see `USING`."""

    name: str
    options: Mapping[str, Any]

    def decides(self, job: Job) -> dict[str, Any]:
        """With the name and its options."""
        return {**super().decides(job), "using": {"name": self.name, "options": dict(self.options), "seed": job.seed}}

    def answer(self, job: Job, certifier: GraphCertifier, workers: int | None) -> Answer:
        """Have it certified by what the name stands for."""
        how: dict[str, Any] = {"max_flips": self.max_flips, "time_limit": self.time_limit, "workers": workers}
        using = USING[self.name]
        return self.settled(job).certify(certifier, self.test, using=using, seed=job.seed, **how, **self.options), {}

    @property
    def parts_enumerated(self) -> None:
        """No labelling is enumerated."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True)
class RecheckedCell(Cell):
    """A certificate after some labels were verified: ``count``, by the choice of "recheck" or "random"."""

    count: int
    choose: str

    def decides(self, job: Job) -> dict[str, Any]:
        """With the number of labels, and who chooses them."""
        how = {"labels": self.count, "choose": self.choose}
        return {**super().decides(job), "verify": {**how, **({"seed": job.seed} if self.choose == "random" else {})}}

    def answer(self, job: Job, certifier: GraphCertifier, workers: int | None) -> Answer:
        """Choose labels, trust them, and certify."""
        m, recipe = len(job.labeled), self.settled(job)
        if self.choose == "random":
            chosen = np.random.default_rng(job.seed).permutation(m)[: self.count].tolist()
        else:
            how = {"flips": self.max_flips, "confirm": self.count, "time_limit": self.time_limit, "workers": 1}
            chosen = recipe.certify(certifier, self.test, using=recheck, **how).labels
        threat = Threat(trusted=np.isin(np.arange(m), chosen))
        return self.certified(recipe, certifier, workers, threat=threat), {}


@dataclass(frozen=True, eq=False, kw_only=True)
class PoisonedCell(Cell):
    """A certificate of nodes whose features may be poisoned."""

    poison: FeaturePoison

    def decides(self, job: Job) -> dict[str, Any]:
        """With the nodes, and by how much they may change."""
        ball = self.poison.ball
        how = {"radius": ball.radius, "norm": ball.norm, "backdoor": self.poison.backdoor}
        return {**super().decides(job), "poison": {"nodes": digest(self.poison.nodes), **how}}

    def answer(self, job: Job, certifier: GraphCertifier, workers: int | None) -> Answer:
        """Bound the kernel, and certify."""
        recipe = self.settled(job)
        using = self.poison.using(recipe.model, job.graph, job.labeled, self.test, inductive=job.inductive)
        how: dict[str, Any] = {"max_flips": self.max_flips, "time_limit": self.time_limit, "workers": workers}
        how |= {"collective": self.collective, "engine": self.engine}
        return recipe.certify(certifier, self.test, using=using, **how), {}


CELLS: dict[str, Callable[..., Cell]] = {}
"""What a study with such a report computes, instead of plain certificates; extensions fill it."""


@dataclass(frozen=True)
class JobBatch:
    """Jobs to run under one name."""

    name: str
    jobs: tuple[Job, ...]
    unavailable: Mapping[str, tuple[Mapping[str, Any], str]] = field(default_factory=dict)
    """For the hash of each cell that cannot be computed here: its description, and the reason."""

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Hashes of all cells, each once."""
        return tuple(dict.fromkeys(cell.key for job in self.jobs for cell in job.cells))


class JobList:
    """Collects cells into jobs, those with the same kernel into one."""

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[Job, dict[str, Cell]]] = {}

    def add(self, job: Job, cell: Cell, fingerprint: str) -> Cell:
        """Add a cell, and say what it is called; the seed shuffles the folds of cross-validation, so a job has one."""
        kernel = job.kernel(fingerprint)
        cell = cell.named(job, kernel)
        _, cells = self._jobs.setdefault(content_hash({**kernel, "seed": job.seed}), (job, {}))
        cells.setdefault(cell.key, cell)
        return cell

    def jobs(self) -> tuple[Job, ...]:
        """All jobs with their cells."""
        return tuple(replace(job, cells=tuple(cells.values())) for job, cells in self._jobs.values())


def content_hash(value: Any) -> str:
    """Name a value by 32 hex digits."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:32]


def digest(nodes: Int) -> str:
    """Name an array of nodes by 32 hex digits."""
    return hashlib.sha256(np.ascontiguousarray(nodes, dtype="<i8").tobytes()).hexdigest()[:32]
