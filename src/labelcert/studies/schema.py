"""What a study file may say: the types below are the schema.

A study crosses datasets, models, seeds and certificates, and reads the answers at some budgets. `reading`
reads files and checks what types cannot say.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct
from msgspec.structs import replace

from labelcert.jobs.cells import CERTIFY
from labelcert.models.base import Variant
from labelcert.models.recipe import Combination
from labelcert.models.selection import Rule

CROSS_VALIDATE: Literal["cross-validate"] = "cross-validate"
PAPER_BUDGETS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5, 1.0)

Hyperparameters = Literal["paper", "cross-validate"]
HYPERPARAMETERS: tuple[str, ...] = get_args(Hyperparameters)
MetricName = Literal["accuracy", "recall", "precision", "false_positive_rate"]
Test = Literal["auto", "all", "collective", "multi-class"]
Norm = Literal["inf", "2", "1", "0"]
ReportKind = Literal["certified", "attack", "ranks", "plateau", "transfer", "gaps", "collapse", "moves"]

Whole = Annotated[int, Meta(ge=0, description="a whole number of at least 0")]
Positive = Annotated[int, Meta(ge=1, description="a whole number of at least 1")]
Fraction = Annotated[float, Meta(ge=0, le=1, description="a fraction between 0 and 1")]
Seconds = Annotated[float, Meta(gt=0, le=sys.float_info.max, description="a positive number of seconds")]
Regularization = Annotated[float, Meta(description="a positive number")]
LossName = Annotated[str, Meta(description="the name of a loss")]
EngineName = Annotated[str, Meta(description="the name of an engine")]
ModelName = Annotated[str, Meta(description="the name of a model (`labelcert models` lists them)")]
UsingName = Annotated[str, Meta(description="the name of a certificate")]
Overrides = Annotated[dict[str, dict[str, Any]], Meta(description="a table of options for each model")]
Column = Annotated[str | int, Meta(description="the name of a column")]
Published = Annotated[str, Meta(min_length=1, description="the name of a published table")]
Node = Annotated[str | int, Meta(description="the name of a node")]
Nodes = Annotated[tuple[Node, ...], Meta(min_length=1)]

LOSS_MARK = " · "
"""Between the label of a model and its loss."""

FILES = ("edges", "features", "labels")
COLUMNS = ("source", "target", "weight", "node", "label_column")


class Kind(StrEnum):
    """What is read from a certificate: what survives one attack on all nodes or on each alone, or a metric."""

    COLLECTIVE = "collective"
    ACCURACY = "accuracy"
    RATIO = "ratio"
    LOWEST = "lowest"
    HIGHEST = "highest"


class DatasetSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """One graph of a study."""

    label: str = ""
    """Heading in tables."""
    name: str | None = None
    parameters: dict[str, Any] = {}
    """With the name, as in `load_dataset`; None stands for the user's own tables."""
    edges: str | None = None
    features: str | None = None
    labels: str | None = None
    source: Column | None = None
    target: Column | None = None
    weight: Column | None = None
    node: Column | None = None
    label_column: Column | None = None
    """From `edges` on: paths of the user's own tables, and names of their columns."""
    directed: bool | None = None
    raw: bool | None = None
    """As in `graph_from_files`: whether numbers are taken as they are."""
    per_class: Positive | None = None
    """Training nodes per class of the paper's split."""
    labeled: Nodes | None = None
    test: Nodes | None = None
    models: Overrides = {}
    """Options for this dataset only, by the name or label of a model."""

    @property
    def files(self) -> dict[str, str]:
        """Paths of the user's own tables, as `graph_from_files` names them."""
        return {key: path for key in FILES if (path := getattr(self, key)) is not None}

    @property
    def columns(self) -> dict[str, str]:
        """Names of columns, as `graph_from_files` names them."""
        given = {key.removesuffix("_column"): getattr(self, key) for key in COLUMNS}
        return {key: str(column) for key, column in given.items() if column is not None}


class ModelSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """One model of a study: its name, its heading in tables, fixed options, C, and the largest budget to certify.

    With ``parts``, an ensemble is trained on that many parts of the labels, and ``combine`` says how these decide.
    With ``verify``, that many labels are confirmed before, chosen by ``labelcert.recheck`` or at random.
    With ``width``, the certificate has the margin of networks of that width, and such networks are tried.
    With ``search``, the most certified model at the largest budget stands in its place: ``labelcert.harden``'s choice.
    With ``radius``, features may change (``norm``): of ``poisoned`` nodes that the seed draws among those, and with
    ``backdoor`` of each test node, one at a time.
    With ``using``, a baseline or an attack takes the place of ``labelcert.certify``: see `USING`. ``parts`` and
    ``using_options`` are then passed on to that.
    """

    name: ModelName
    label: str = ""
    options: dict[str, Any] = {}
    C: Regularization | Literal["cross-validate"] | None = None
    max_flips: Whole | None = None
    skip: bool = False
    loss: LossName = "hinge"
    parts: Positive | None = None
    combine: Combination = "mean"
    verify: Whole = 0
    choose: Literal["recheck", "random"] = "recheck"
    search: bool = False
    width: Positive | None = None
    radius: Annotated[float, Meta(ge=0, le=sys.float_info.max, description="a number of at least 0")] | None = None
    norm: Norm = "inf"
    poisoned: Whole = 0
    among: Literal["labeled", "unlabeled", "all"] = "labeled"
    backdoor: bool = False
    using: UsingName = CERTIFY
    using_options: dict[str, Any] = {}

    def on(self, dataset: DatasetSpec) -> ModelSpec:
        """The model with the dataset's options for it."""
        own = {**dataset.models.get(self.name, {}), **dataset.models.get(self.label, {})}
        fields = {key: own.pop(key) for key in ("C", "max_flips", "skip", "parts") if key in own}
        return replace(self, options={**self.options, **own}, **fields)


class MetricSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """A metric of a study, whose worst value is read from certificates."""

    name: MetricName
    positive: str = ""
    """The class that it is about; by default the second of two."""

    @property
    def kind(self) -> Kind:
        """Which value is the worst."""
        return Kind.HIGHEST if self.name == "false_positive_rate" else Kind.LOWEST

    @property
    def label(self) -> str:
        """Heading in tables, such as "lowest recall (spam)"."""
        about = f" ({self.positive})" if self.positive else ""
        return f"{self.kind} {self.name.replace('_', ' ')}{about}"


class CertificateSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """One certificate of a study: what is read from it, the engine that proves it, and the test nodes."""

    kind: Kind
    engine: EngineName = "auto"
    test: Test = "auto"
    metric: MetricSpec | None = None
    """What a study's ``metrics`` ask for; no key of its own."""

    @property
    def label(self) -> str:
        """Heading in tables, distinct within a study, such as "relaxed accuracy"."""
        engine = "" if self.engine == "auto" else f"{self.engine} "
        nodes = "" if self.test == "auto" else f" ({self.test})"
        return f"{engine}{self.kind if self.metric is None else self.metric.label}{nodes}"


class Study(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole study."""

    name: str
    title: str
    datasets: Annotated[tuple[DatasetSpec, ...], Meta(min_length=1, description="at least one table [[datasets]]")]
    models: Annotated[tuple[ModelSpec, ...], Meta(min_length=1, description="at least one table [[models]]")]
    certificates: Annotated[tuple[CertificateSpec, ...], Meta(min_length=1)] = (CertificateSpec(kind=Kind.COLLECTIVE),)
    metrics: Annotated[tuple[MetricSpec, ...], Meta(min_length=1)] = ()
    """Their worst values are read from a certificate of the engine ``"auto"``, too."""
    losses: Annotated[tuple[LossName, ...], Meta(min_length=1)] = ()
    """Every model is trained with each of these, instead of its own one."""
    seeds: Annotated[tuple[Whole, ...], Meta(min_length=1)] = (0, 1, 2, 3, 4)
    budgets: Annotated[tuple[Fraction, ...], Meta(min_length=1)] = ()
    flips: Annotated[tuple[Whole, ...], Meta(min_length=1)] = ()
    """Fractions ε of the labels or numbers of flips, ascending. One of them is empty."""
    up_to: Fraction | None = None
    """Certify up to this fraction even if the budgets are smaller. Studies with the same value share certificates."""
    hyperparameters: Hyperparameters = "paper"
    rule: Rule | None = None
    """How cross-validation chooses; None for the paper's rule."""
    variant: Variant = "exact"
    """Kernels, and the node order of random graphs."""
    inductive: bool = False
    time_limit: Seconds | None = None
    """Seconds for each certificate. Answers that are still open then are intervals."""
    collective: bool = True
    """Whether certificates are asked for collective curves. Without, those that do not show one are faster."""
    report: ReportKind = "certified"
    times: bool = False
    """Whether the report has the seconds of each certificate."""
    compare: Annotated[tuple[Published, ...], Meta(min_length=1)] = ()
    where: str = ""
    """The place in the paper."""
    note: str = ""

    def changed(self, **given: Any) -> Study:
        """The study with what the command line overrides; None leaves a field as it is."""
        return replace(self, **{key: value for key, value in given.items() if value is not None})
